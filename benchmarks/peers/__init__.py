"""Who trains it: one file for each peer. A peer does all of the work: same model, weights, optimizer, metrics and shuffling."""

import contextlib
import importlib
from collections.abc import Callable

from ._abstract import Peer as Peer
from ._abstract import Run as Run

_FILES = {
    "jax": ("trainstep_fit", "keras_fit", "jax_plain", "jax_expert"),
    "tensorflow": ("trainstep_fit", "keras_fit", "tensorflow_plain", "tensorflow_expert"),
    "torch": ("trainstep_fit", "keras_fit", "torch_plain", "torch_compiled", "torch_expert", "lightning_fit"),
}

OURS = "trainstep fit"
BASELINE = "Keras fit"


def peers(backend: str) -> tuple[list[Peer], list[str]]:
    """The peers on a backend, ours first, and a note for each that is not installed."""
    found, notes = [], []
    for name in _FILES[backend]:
        try:
            found.append(importlib.import_module(f".{name}", __package__).PEER)
        except ModuleNotFoundError as error:
            notes.append(f"without {name}: {error}")
    return found, notes


def settings_of_one_peer(backend: str) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """`settings()` is a block in which the process is set as the last such block left it, whatever came between."""
    if backend != "torch":
        return contextlib.nullcontext
    from ._torch_settings import Settings

    return Settings().active
