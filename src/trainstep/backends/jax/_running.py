"""Running a program that takes over the memory of the variables it changes."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import keras

from ... import _keras
from .._abstract import Tensor


def run_and_store(program: Callable[..., Any], variables: Sequence[keras.Variable], *args: Any) -> list[Tensor]:
    """The outputs of a jitted program `(donated values, ...) -> (outputs, new values)`; the variables then hold the new values.

    Also where Ctrl-C interrupts it: their old values are deleted by then, and the new ones would be lost with the answer.
    """
    answers: list[Any] = []
    try:
        # In C from the call to the list. After a call in Python comes the interrupt, and only then the name for its answer.
        answers.extend(itertools.starmap(program, [args]))
        _keras.set_raw_values(variables, answers[0][1])
    except BaseException:
        if answers:
            _keras.set_raw_values(variables, answers[0][1])
        raise
    return answers[0][0]
