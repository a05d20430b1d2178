"""The three backends, behind one contract. Only the active one is ever imported."""

import functools
import importlib

import keras

from .._errors import BackendError
from ._abstract import AbstractBackend as AbstractBackend
from ._abstract import AbstractLoop as AbstractLoop
from ._abstract import AbstractProgram as AbstractProgram
from ._abstract import AbstractRecorder as AbstractRecorder
from ._abstract import Source as Source
from ._abstract import Tensor as Tensor

SUPPORTED = ("jax", "tensorflow", "torch")


@functools.cache
def active() -> AbstractBackend:
    """The backend that Keras runs on in this process (`KERAS_BACKEND`).

    Raises `BackendError` for one that trainstep does not support.
    """
    name = keras.config.backend()
    if name not in SUPPORTED:
        raise BackendError(
            f"trainstep runs on {', '.join(SUPPORTED)}. Keras' active backend is {name!r}. "
            "Set the environment variable KERAS_BACKEND before Keras is imported."
        )
    return importlib.import_module(f"{__name__}.{name}").create()
