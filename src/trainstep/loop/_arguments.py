"""Checks of what was passed to `fit`, `evaluate` and `predict`, before anything runs."""

import inspect
import operator
from collections.abc import Collection
from typing import Any

from .._batch import as_arguments
from .._errors import DataError, describe
from .._step import Step


def positive(name: str, value: Any) -> int:
    """The value as an int. Raises `DataError` unless it is an integer of at least 1."""
    number = _as_int(value)
    if number is None or number < 1:
        raise DataError(f"`{name}` must be an integer of at least 1. Got {value!r}.")
    return number


def positive_or_none(name: str, value: Any) -> int | None:
    """As `positive`; `None`, "not given", is passed through."""
    return None if value is None else positive(name, value)


def not_negative(name: str, value: Any) -> int:
    """The value as an int. Raises `DataError` unless it is an integer of at least 0."""
    number = _as_int(value)
    if number is None or number < 0:
        raise DataError(f"`{name}` must be an integer of at least 0. Got {value!r}.")
    return number


def frequency(value: Any) -> int | Collection[int]:
    """The value of `validation_freq`: a positive integer, or the epochs (counted from 1) to validate after."""
    if isinstance(value, (list, tuple, set, range)):
        return [positive("validation_freq", epoch) for epoch in value]
    return positive("validation_freq", value)


def check_fit(step: Step, batch: Any, *, call: str) -> None:
    """Raises `DataError` if the first batch has more, or fewer, parts than the step has arguments."""
    arguments = as_arguments(batch)
    signature = inspect.signature(step)
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise DataError(
            f"`{call}` runs the step `{step.__name__}{signature}` on batches of {len(arguments)} argument(s), "
            f"{', '.join(map(describe, arguments))}: {error}. "
            "A tuple batch is unpacked into the arguments; `sample_weight` or `class_weight` makes the third."
        ) from error


def num_inputs(step: Step) -> int:
    """How many parts of a tuple batch a prediction step takes: its arguments without a default, at least one."""
    parameters = inspect.signature(step).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return max(1, sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters))


def fraction(value: Any) -> float:
    """The value of `validation_split`. Raises `DataError` unless it lies between 0 and 1; 0 means none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise DataError(f"`validation_split` is the fraction of the rows to validate on, between 0 and 1. Got {value!r}.")
    return float(value)


def _as_int(value: Any) -> int | None:
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None
