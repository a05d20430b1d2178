"""What autograd keeps for the backward pass, while variables are updated in place.

On the other backends an update makes a new value, and a gradient taken later is still that of the old one. Here the old value has
to be kept.
"""

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any, final

import torch

from ._private import DispatchMode, version, written_arguments
from ._writes import memory_of


class _Thread(threading.local):
    """Whether a whole step runs here, and else the memory of the variables that open tapes have read."""

    def __init__(self) -> None:
        self.is_in_step = False
        self.variables: dict[int, torch.Tensor] = {}


_thread = _Thread()


@contextlib.contextmanager
def mutation_allowed() -> Iterator[None]:
    """Inside the block a saved value is copied just before it is changed. For a whole step, gradients included.

    PyTorch's block cannot be nested, so a step inside a step uses that of the outer one.
    """
    if _thread.is_in_step:
        yield
        return
    _thread.is_in_step = True
    try:
        with torch.autograd.graph.allow_mutation_on_saved_tensors(), _CountedWrites():
            yield
    finally:
        _thread.is_in_step = False


@final
class _CountedWrites(DispatchMode):
    """Counts a change of tensors in a list, which PyTorch leaves out while any `DispatchMode` is at work.

    `allow_mutation_on_saved_tensors` knows a saved value by that count: after an update by an optimizer (`_foreach_add_`) that was
    not counted, the next tape would be given the copy that was kept for the last one.
    """

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for written in written_arguments(func, args, kwargs or {}):
            if isinstance(written, list):
                torch.autograd.graph.increment_version(written)
        return result


@contextlib.contextmanager
def variables_copied() -> Iterator[None]:
    """Inside the block autograd saves copies of the variables in `remember_variable`, in case they are updated afterwards.

    For a tape outside of any step, where nobody knows how long its values are needed. Inside `mutation_allowed` it does nothing.
    """
    if _thread.is_in_step:
        yield
        return
    try:
        with torch.autograd.graph.saved_tensors_hooks(_save, _saved):
            yield
    finally:
        _thread.variables.clear()


def remember_variable(raw: torch.Tensor) -> None:
    """Names a tensor that is the value of a variable."""
    _thread.variables.setdefault(memory_of(raw), raw)


def _save(tensor: torch.Tensor) -> tuple[torch.Tensor, int]:
    kept = tensor.clone() if memory_of(tensor) in _thread.variables else tensor
    return kept, version(kept)


def _saved(kept: tuple[torch.Tensor, int]) -> torch.Tensor:
    """What was saved. Autograd leaves it to hooks like this one to see whether it is still what it was."""
    tensor, saved_version = kept
    if version(tensor) != saved_version:
        raise RuntimeError(f"a tensor of shape {tuple(tensor.shape)} has been modified by an inplace operation")
    return tensor
