"""`x[:, i]` with a tensor `i` that the program computes.

PyTorch would ask for its value, which is not known while a step is captured.
"""

from collections.abc import Sequence
from typing import Any

import torch

from ._private import is_captured


def has_captured_integer(index: Any) -> bool:
    """Whether an index is, or is a tuple with, a captured integer."""
    return any(map(_is_captured_integer, index if isinstance(index, tuple) else (index,)))


def select(x: torch.Tensor, index: Any) -> torch.Tensor:
    """`x[index]`, where captured integers in `index` count as integers: each takes the axis at which it stands away."""
    entries = list(index) if isinstance(index, tuple) else [index]
    for i, entry in enumerate(entries):
        if _is_captured_integer(entry):
            axis = _axis(entries, i) % x.ndim
            from_start = torch.where(entry < 0, entry + x.shape[axis], entry)
            x = x.index_select(axis, from_start.reshape(1))
            entries[i] = 0
    return x[tuple(entries)]


def _is_captured_integer(entry: Any) -> bool:
    if not isinstance(entry, torch.Tensor) or entry.ndim or entry.is_floating_point() or entry.dtype == torch.bool:
        return False
    return is_captured(entry)


def _axis(entries: Sequence[Any], position: int) -> int:
    """The axis of the indexed tensor at which an entry stands; counted from the end if there is an ellipsis before it."""
    if any(entry is Ellipsis for entry in entries[:position]):
        return -sum(map(_num_axes, entries[position:]))
    return sum(map(_num_axes, entries[:position]))


def _num_axes(entry: Any) -> int:
    """How many axes an entry stands for: a mask for as many as it has, a new axis for none."""
    if entry is None or entry is Ellipsis or isinstance(entry, bool):
        return 0
    return entry.ndim if isinstance(entry, torch.Tensor) and entry.dtype == torch.bool else 1
