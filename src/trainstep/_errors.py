"""The errors and warnings a user can meet, and how a value is described in them."""

from typing import Any

import keras


class TrainStepError(Exception):
    """The base of every error that a user of trainstep can cause."""


class TapeError(TrainStepError):
    """A gradient was asked for that the tape cannot give."""


class StepError(TrainStepError):
    """A training step returned, or did, something a step cannot."""


class CaptureError(StepError):
    """A step cannot be compiled as it is written."""


class DataError(TrainStepError):
    """The data do not fit together, or do not fit the step."""


class BackendError(TrainStepError):
    """The backend is unknown, not installed, or not supported."""


class TrainStepWarning(UserWarning):
    """The step will run, but probably not as it was meant to."""


def describe(value: Any) -> str:
    """Says in a few words what a value is, for an error message.

    >>> describe([1, "a"])
    "a list of 2 (an int, a str)"
    """
    if isinstance(value, keras.Variable):
        shape = tuple(value.shape)
        return f"the variable {value.path!r} ({keras.backend.standardize_dtype(value.dtype)}, shape {shape})"
    if isinstance(value, dict):
        return f"a dict with the keys {sorted(map(str, value))}"
    if isinstance(value, (list, tuple)):
        kinds = ", ".join(describe(v) for v in value[:4]) + (", ..." if len(value) > 4 else "")
        return f"a {type(value).__name__} of {len(value)} ({kinds})" if value else f"an empty {type(value).__name__}"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"a {_dtype_name(dtype)} {_array_kind(value)} of shape {tuple(shape)}"
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _dtype_name(dtype: Any) -> str:
    try:
        return keras.backend.standardize_dtype(dtype)
    except ValueError:
        return str(dtype)


def _array_kind(value: Any) -> str:
    return "NumPy array" if type(value).__module__ == "numpy" else "tensor"
