"""The errors and warnings a user can meet, and how a value is described in them."""

import importlib
import os
import re
import sysconfig
import traceback
import types
from typing import Any


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


def _import_keras() -> Any:
    try:
        return importlib.import_module("keras")
    except (ValueError, ImportError) as error:
        chosen = os.environ.get("KERAS_BACKEND", "the one in keras.json")
        raise BackendError(
            f"Keras cannot be imported with its backend, {chosen!r}: {type(error).__name__}: {error}. "
            "trainstep runs on jax, tensorflow and torch: set the environment variable KERAS_BACKEND to one that is installed "
            "(`pip install 'trainstep[jax]'`)."
        ) from error


keras = _import_keras()


def describe(value: Any) -> str:
    """Says in a few words what a value is, for an error message.

    >>> describe([1, "a"])
    'a list of 2 (an int, a str)'
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


def needs_value_message(step_name: str, error: BaseException) -> str:
    """The message of the `CaptureError` for a step whose Python code needed the value of a tensor while it was captured.

    Names the step, what asked for the value, and the user's line: the innermost one outside installed packages and trainstep.
    """
    line = _users_line(error.__traceback__)
    place = f" at {line.filename}:{line.lineno}, `{(line.line or '').strip()}`" if line is not None else ""
    return (
        f"The step {step_name!r} needs the value of a tensor{_asked_by(error)}{place}. While a step is compiled its tensors "
        "have no values yet: the program is captured once and then runs for every batch. Choose between values with "
        "`keras.ops.where`, between computations with `keras.ops.cond`, repeat with `keras.ops.while_loop`; "
        "or run the step operation by operation with `@ts.step(compile=False)`. No variable has been changed."
    )


_VALUE_QUESTIONS = {
    r"iterat": " to iterate over it",
    r"numpy|__array__": " as a NumPy array (an array beside it is handed over as `keras.ops.convert_to_tensor(a)`)",
    r"bool": " as a truth value (`if`, `while`, `and`, `or`, `not`)",
    r"static integers": " as the bound of a slice (take rows with `keras.ops.take(x, start + keras.ops.arange(n), axis=0)`)",
    r"float\(|`float`|\bint\(|`int`|integer|index|item|local_scalar": " as a Python number (`float`, `int`, `range`, `.item()`)",
}
"""What a framework's error says, and which question of Python's it answers to; the first that fits counts."""


def _asked_by(error: BaseException) -> str:
    said = " ".join(f"{type(error).__name__} {error}".splitlines()[:2]).lower()  # JAX names `float` in its second line
    return next((words for pattern, words in _VALUE_QUESTIONS.items() if re.search(pattern, said)), "")


def _users_line(trace: types.TracebackType | None) -> traceback.FrameSummary | None:
    not_theirs = (sysconfig.get_path("stdlib"), os.path.dirname(__file__) + os.sep, "<frozen")
    frames = reversed(traceback.extract_tb(trace))
    return next((f for f in frames if not f.filename.startswith(not_theirs) and "site-packages" not in f.filename), None)
