"""Random draws that a compiled step would freeze."""

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._errors import CaptureError

_KERAS_SEED_RANGE = (1, int(1e9))
_MAX_KERAS_SEEDS = 10_000


@contextlib.contextmanager
def refuse_frozen_draws(step_name: str) -> Iterator[None]:
    """Raises `CaptureError` if the block draws from NumPy's or Python's global generator: a compiled step would repeat that draw."""
    numpy_before, python_before = _numpy_state(), random.getstate()
    yield
    if _numpy_state() != numpy_before:
        raise CaptureError(_message(step_name, "numpy.random"))
    if random.getstate() != python_before and not _only_keras_drew(python_before):
        raise CaptureError(_message(step_name, "Python's random module"))


def _numpy_state() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state()
    return (kind, bytes(keys), *rest)


def _only_keras_drew(before: tuple[Any, ...]) -> bool:
    """Whether Python's generator moved only as Keras moves it, to seed the layers and initializers that a step builds."""
    replay, now = random.Random(), random.getstate()
    replay.setstate(before)
    for _ in range(_MAX_KERAS_SEEDS):
        replay.randint(*_KERAS_SEED_RANGE)
        if replay.getstate() == now:
            return True
    return False


def _message(step_name: str, generator: str) -> str:
    return (
        f"The step {step_name!r} draws from {generator} while it is captured: the compiled step would repeat that draw for ever. "
        "Draw with `keras.random` (its `seed` may be left out), or draw outside and pass the array to the step. No variable has changed."
    )
