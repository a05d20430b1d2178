"""Random draws that a compiled step would freeze."""

import contextlib
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from . import _keras
from ._errors import CaptureError


@contextlib.contextmanager
def refuse_frozen_draws(step_name: str) -> Iterator[None]:
    """Raises `CaptureError` if the block draws from NumPy's or Python's global generator: a compiled step would repeat it."""
    numpy_before, python_before = _numpy_state(), random.getstate()
    with _keras.python_draws_by_keras() as bounds:
        yield
    if _numpy_state() != numpy_before:
        raise CaptureError(_message(step_name, "numpy.random"))
    if random.getstate() != _state_after(python_before, bounds):
        raise CaptureError(_message(step_name, "Python's random module"))


def _numpy_state() -> tuple[Any, ...]:
    state = np.random.get_state(legacy=False)
    return (state["bit_generator"], bytes(state["state"]["key"]), state["state"]["pos"], state["has_gauss"], state["gauss"])


def _state_after(before: tuple[Any, ...], bounds: Sequence[tuple[int, int]]) -> tuple[Any, ...]:
    """Where Python's generator is after Keras alone has drawn from it."""
    replay = random.Random()
    replay.setstate(before)
    for low, high in bounds:
        replay.randint(low, high)
    return replay.getstate()


def _message(step_name: str, generator: str) -> str:
    return (
        f"The step {step_name!r} draws from {generator} while it is captured: "
        "the compiled step would repeat that draw for ever. "
        "Draw with `keras.random` (its `seed` may be left out), or draw outside and pass the array to the step. "
        "No variable has changed."
    )
