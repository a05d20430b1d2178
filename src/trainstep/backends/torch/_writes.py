"""Which tensors a piece of code updates in place."""

from collections.abc import Iterable
from typing import Any, final

import torch

from ._private import DispatchMode, written_arguments


def memory_of(tensor: torch.Tensor) -> int:
    """The address of the memory that a tensor, and all views of it, share."""
    return tensor.untyped_storage().data_ptr()


@final
class Writes(DispatchMode):
    """Notes the memory that operations in the block write to.

    Autograd's version counters do not tell: `torch._foreach_` operations leave them alone while they are captured.
    """

    def __init__(self) -> None:
        super().__init__()
        self._written: dict[int, torch.Tensor] = {}

    def touched(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor, or a view of it, was written to."""
        return memory_of(tensor) in self._written

    def __torch_dispatch__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Runs the operation, and notes what its schema says it writes to."""
        for value in written_arguments(func, args, kwargs or {}):
            for tensor in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(tensor, torch.Tensor):
                    self._written[memory_of(tensor)] = tensor  # held, so that the address is not given to another
        return func(*args, **(kwargs or {}))
