"""Python that asks for the value of a tensor while a step is captured: refused, since the answer would be baked in."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, final

import torch
from torch.overrides import TorchFunctionMode

from . import _indexing
from ._private import SCALED_ADDITIONS, is_captured

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
    """Raises `ValueNeeded` when Python asks for the value of a tensor that the program will compute anew at each run."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Passes everything on but questions for a value; a printed tensor says what it is."""
        kwargs = kwargs or {}
        if func in SCALED_ADDITIONS and _is_captured(kwargs.get("alpha")):
            return SCALED_ADDITIONS[func](*args, kwargs["alpha"])
        if func is torch.nn.functional.one_hot and _is_captured(args[0]) and _num_classes(*args[1:], **kwargs) > 0:
            return _one_hot(args[0], _num_classes(*args[1:], **kwargs))
        if func is torch.Tensor.__getitem__ and _indexing.has_captured_integer(args[1]):
            return _indexing.select(*args)
        if (func in _QUESTIONS or func in _PRINTERS) and args and _is_captured(args[0]):
            shape = tuple(args[0].shape)
            if func in _PRINTERS and not any(args[1:]):
                return f"<captured tensor of shape {shape}, {args[0].dtype}>"
            raise ValueNeeded(f"{_QUESTIONS.get(func, 'item')} of a tensor of shape {shape}")
        return func(*args, **kwargs)


def _is_captured(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and is_captured(value)


def _num_classes(num_classes: int = -1) -> int:
    return num_classes


def _one_hot(classes: torch.Tensor, num_classes: int) -> torch.Tensor:
    """PyTorch's own looks at every value to refuse one that is out of range; such a row is zeros here, as on the other backends."""
    return (classes.unsqueeze(-1) == torch.arange(num_classes, device=classes.device)).to(torch.int64)


_PRINTERS = frozenset({torch.Tensor.__repr__, torch.Tensor.__format__})
