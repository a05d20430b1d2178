"""Python that asks for the value of a tensor while a step is captured: refused, since the answer would be baked in."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

import torch
from torch.overrides import TorchFunctionMode

from ._private import is_captured

_QUESTIONS: Mapping[Callable[..., Any], str] = {
    torch.Tensor.numpy: "numpy",
    torch.Tensor.__array__: "numpy",
    torch.Tensor.tolist: "item",
    torch.Tensor.item: "item",
    torch.Tensor.__bool__: "bool",
    torch.Tensor.__float__: "float()",
    torch.Tensor.__int__: "int()",
    torch.Tensor.__index__: "index",
    torch.Tensor.__complex__: "item",
}
"""The methods that answer with a value, some of them by looking into memory, where no capture can see it."""


class ValueNeeded(Exception):
    """The value of a tensor is needed where there is none. Keras re-raises errors by their class, with one message."""


@final
class ValueGuard(TorchFunctionMode):
    """Raises `ValueNeeded` when Python asks for the value of a tensor that the program will compute anew at each run.

    Args:
        is_state: Whether a tensor is the value of a variable, which no recorded operation need have made.
    """

    def __init__(self, is_state: Callable[[torch.Tensor], bool]):
        super().__init__()
        self._is_state = is_state

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Passes everything on but questions for a value; a printed tensor says what it is."""
        tensor = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if tensor is not None and (func in _QUESTIONS or func in _PRINTERS) and self._varies(tensor):
            if func in _PRINTERS and not any(args[1:]):
                return f"<captured tensor of shape {tuple(tensor.shape)}, {tensor.dtype}>"
            raise ValueNeeded(f"{_QUESTIONS.get(func, 'item')} of a tensor of shape {tuple(tensor.shape)}")
        return func(*args, **(kwargs or {}))

    def _varies(self, tensor: torch.Tensor) -> bool:
        return self._is_state(tensor) or is_captured(tensor)


_PRINTERS = frozenset({torch.Tensor.__repr__, torch.Tensor.__format__})
