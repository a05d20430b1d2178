"""`keras.ops.cond`, `switch` and `while_loop` in a captured step, where Python's `if` cannot look at a tensor."""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import keras
import torch

from ... import _keras
from ..._errors import CaptureError, describe
from . import _private
from ._private import next_sequence_number
from ._reach import Reach
from ._writes import Writes

Branch = Callable[[], Any]


def captured_control_flow() -> contextlib.AbstractContextManager[None]:
    """Inside the block `cond` and `switch` on a captured tensor run every branch, and then select."""
    core = _private.core
    return _keras.patched(
        core,
        cond=functools.partial(_cond, core.cond),
        switch=_switch,
        while_loop=functools.partial(_while_loop, core.while_loop),
    )


def _cond(original: Callable[..., Any], pred: Any, true_fn: Branch, false_fn: Branch) -> Any:
    if _private.draws_symbolically() or isinstance(pred, bool):
        return original(pred, true_fn, false_fn)
    pred = keras.ops.convert_to_tensor(pred)
    if not _private.is_captured(pred):
        return original(pred, true_fn, false_fn)
    pred = pred.detach().bool().reshape(())
    when_true, assigned_when_true = _run_branch(true_fn, pred)
    when_false, assigned_when_false = _run_branch(false_fn, ~pred)
    _select_assigned(pred, assigned_when_true, assigned_when_false)
    return _select(pred, when_true, when_false)


def _switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    index = torch.clamp(_private.core.convert_to_tensor(index, "int32"), 0, len(branches) - 1)
    if not _private.is_captured(index):
        return branches[int(index)](*operands)
    *earlier, last = [functools.partial(branch, *operands) for branch in branches]
    chosen = last
    for number, branch in reversed(list(enumerate(earlier))):
        chosen = functools.partial(keras.ops.cond, index == number, branch, chosen)
    return chosen()


def _while_loop(
    original: Callable[..., Any],
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    maximum_iterations: int | None = None,
) -> Any:
    """Unrolls a loop whose condition is known while it is captured."""

    def known(*values: Any) -> Any:
        answer = cond(*values)
        if isinstance(answer, torch.Tensor) and _private.is_captured(answer):
            raise CaptureError(
                "`keras.ops.while_loop` was given a condition that depends on the values of tensors; a step compiled by PyTorch "
                "must know how often a loop runs. Use `keras.ops.scan` or `keras.ops.fori_loop` with a fixed length (select with "
                "`keras.ops.where` what has stopped changing), or run this step with `@ts.step(compile=False)`."
            )
        return answer

    return original(known, body, loop_vars, maximum_iterations)


# Branches

Assigned = dict[int, tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
"""For each variable that a branch assigned: where its value is kept, the value before, and the value after."""


def _run_branch(branch: Branch, is_taken: torch.Tensor) -> tuple[Any, Assigned]:
    """Runs one branch, takes back what it assigned, and stops gradients at its border unless `is_taken`."""
    before: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def remember(variable: keras.Variable) -> None:
        if id(variable) not in before and _keras.is_initialized(variable):
            raw = _keras.raw_value(variable)
            before[id(variable)] = (raw, _copy(raw))

    first_node = next_sequence_number()
    with Writes() as writes, _keras.on_variable_use(remember):
        result = branch()
    _stop_gradients_unless(is_taken, result, first_node)
    assigned: Assigned = {}
    for key, (raw, value) in before.items():
        if writes.touched(raw):
            assigned[key] = (raw, value, _copy(raw))
            _write(raw, value)
    return result, assigned


def _stop_gradients_unless(is_taken: torch.Tensor, result: Any, first_node: int) -> None:
    """Makes the gradients that leave a branch zero if it is not taken.

    Selecting with `where` gives it zeros already, but zero times an infinite derivative is not a number.
    """
    roots = [(t.grad_fn, t.output_nr) for t in keras.tree.flatten(result) if isinstance(t, torch.Tensor) and t.grad_fn is not None]
    reach = Reach(roots, is_recorded=lambda node: _private.sequence_number(node) >= first_node, watched={})
    inside = set(reach.inside)
    for node in reach.inside:
        if all(following is None or following in inside for following, _ in node.next_functions):
            continue
        node.register_hook(lambda gradients, _: tuple(None if g is None else torch.where(is_taken, g, 0) for g in gradients))


def _select_assigned(pred: torch.Tensor, when_true: Assigned, when_false: Assigned) -> None:
    for key in {**when_true, **when_false}:
        raw, before, _ = when_true.get(key) or when_false[key]
        after_true = when_true[key][2] if key in when_true else before
        after_false = when_false[key][2] if key in when_false else before
        _write(raw, torch.where(pred, after_true, after_false))


def _select(pred: torch.Tensor, when_true: Any, when_false: Any) -> Any:
    try:
        keras.tree.assert_same_structure(when_true, when_false)
    except (TypeError, ValueError) as error:
        raise CaptureError(
            "`keras.ops.cond` in a compiled step needs branches that return the same nest of tensors. "
            f"Got {describe(when_true)} and {describe(when_false)}."
        ) from error
    return keras.tree.map_structure(lambda a, b: _select_leaf(pred, a, b), when_true, when_false)


def _select_leaf(pred: torch.Tensor, when_true: Any, when_false: Any) -> Any:
    if when_true is None and when_false is None:
        return None
    first, second = keras.ops.convert_to_tensor(when_true), keras.ops.convert_to_tensor(when_false)
    if first.shape != second.shape:
        raise CaptureError(
            "`keras.ops.cond` in a compiled step needs branches that return tensors of one shape. "
            f"Got {describe(first)} and {describe(second)}."
        )
    return torch.where(pred, first, second)


def _copy(raw: torch.Tensor) -> torch.Tensor:
    return raw.detach().clone()


def _write(raw: torch.Tensor, value: torch.Tensor) -> None:
    with torch.no_grad():
        raw.copy_(value)
