"""`keras.ops.cond` whose branches assign variables, which `jax.lax.cond` alone would let escape."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import keras
from jax.core import Tracer

from ..._errors import CaptureError
from . import _private

Branch = Callable[[], Any]


@contextlib.contextmanager
def branches_may_assign(scope: Any) -> Iterator[None]:
    """Inside the block, `cond` hands the variables that either branch assigns through `jax.lax.cond`, and on to `scope`."""

    def cond(pred: Any, true_fn: Branch, false_fn: Branch) -> Any:
        if not isinstance(pred, Tracer):
            return true_fn() if pred else false_fn()
        written = scope.written_by(true_fn) | scope.written_by(false_fn)
        with _explained():
            result, values = jax.lax.cond(pred, _with_values(true_fn, scope, written), _with_values(false_fn, scope, written))
        for variable, value in zip(written.values(), values, strict=True):
            scope.add_update((variable, value))
        return result

    with _private.replaced_cond(cond):
        yield


@contextlib.contextmanager
def branches_taken_in_python() -> Iterator[None]:
    """Inside the block, `cond` on a number runs just the branch it chooses, which may do what it likes."""
    staged = _private.original_cond()

    def cond(pred: Any, true_fn: Branch, false_fn: Branch) -> Any:
        if isinstance(pred, Tracer):
            return staged(pred, true_fn, false_fn)
        return true_fn() if pred else false_fn()

    with _private.replaced_cond(cond):
        yield


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except TypeError as error:
        if "cond branches must have equal output types" not in str(error):
            raise
        raise CaptureError(
            "`keras.ops.cond` in a compiled step needs branches that return tensors of one shape and dtype, in the same nest. "
            f"JAX says: {error}"
        ) from error


def _with_values(branch: Branch, scope: Any, written: dict[int, keras.Variable]) -> Branch:
    """The branch as a function that also returns what it leaves in the variables."""

    def run() -> tuple[Any, list[Any]]:
        with scope.branch():
            result = branch()
            return result, [scope.value_of(variable) for variable in written.values()]

    return run
