"""The only door of this room to names that PyTorch, or Keras' PyTorch part, does not document. Each has its reason."""

import contextlib
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from keras.src.backend.torch import core as core
from keras.src.backend.torch import random as random
from keras.src.backend.torch.optimizers import torch_nadam
from torch.autograd.graph import Node
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ... import _keras
from . import _inductor_process

# `core` and `random` hold the functions that a step replaces while it runs; Keras calls them through these modules only.


def sequence_number(node: Node) -> int:
    """When a node of autograd's graph was recorded, in this thread's count. Nothing public tells the order of nodes."""
    return node._sequence_nr()  # noqa: SLF001


def next_sequence_number() -> int:
    """The number that the next recorded node will get. The public way, to record a node and look, would enter a captured graph."""
    return torch._C._autograd._get_sequence_nr()  # type: ignore[attr-defined]  # noqa: SLF001


def version(tensor: torch.Tensor) -> int:
    """How often a tensor was changed in place. PyTorch documents the counter, but not its name."""
    return tensor._version  # noqa: SLF001


class DispatchMode(TorchDispatchMode):
    """A block that sees every ATen operation. PyTorch's own guide to extending it names this class, in a private module."""


def written_arguments(operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    """The arguments that an operator updates in place, tensors or lists of them; its schema has no public name."""
    written = [(i, a.name) for i, a in enumerate(operator._schema.arguments) if a.alias_info and a.alias_info.is_write]  # noqa: SLF001
    return [args[i] if i < len(args) else kwargs.get(name) for i, name in written]


def capture_graph(function: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> torch.fx.GraphModule:
    """Runs a function on real tensors and records every ATen operation.

    No public tracer sees through gradients and in-place updates.
    """
    return proxy_tensor.make_fx(function)(*inputs)


def outside_capture() -> contextlib.AbstractContextManager[Any]:
    """What runs inside this block is not recorded by any capture in progress."""
    return proxy_tensor.disable_proxy_modes_tracing()


def is_capturing() -> bool:
    """Whether operations are being recorded by `capture_graph`."""
    return proxy_tensor.get_proxy_mode() is not None


def record_as_state(tensor: torch.Tensor) -> None:
    """Makes a tensor known to the capture as something that changes from run to run.

    A tensor that the capture does not know counts as a constant, and so does what is computed from it: `if` would be answered.
    """
    mode = proxy_tensor.get_proxy_mode()
    if mode is not None and proxy_tensor.get_proxy_slot(tensor, mode.tracer, None) is None:
        node = mode.tracer.create_arg(tensor)
        proxy_tensor.track_tensor(tensor, torch.fx.Proxy(node, mode.tracer), constant=None, tracer=mode.tracer)


def optimizers_without_numpy() -> contextlib.AbstractContextManager[None]:
    """Keras' Nadam divides by numbers that it takes from tensors by way of NumPy; inside the block it divides by the tensors."""
    return _keras.patched(torch_nadam, core=types.SimpleNamespace(convert_to_numpy=lambda tensor: tensor))


def is_captured(tensor: torch.Tensor) -> bool:
    """Whether a tensor is the result of a recorded operation (or an input), and not a constant known for good."""
    mode = proxy_tensor.get_proxy_mode()
    if mode is None:
        return False
    slot = proxy_tensor.get_proxy_slot(tensor, mode.tracer, None)
    return slot is not None and slot.constant is None


def draws_symbolically() -> bool:
    """Whether Keras is only working out shapes, on the "meta" device, where nothing is drawn."""
    return str(core.get_device()) == "meta"


def device() -> torch.device:
    """Where Keras puts tensors now; its `device` scope has no public getter on PyTorch."""
    return torch.device(core.get_device())


def torch_dtype(dtype: Any) -> torch.dtype:
    """PyTorch's name of a dtype, as Keras chooses it (uint16 becomes int32, `None` floatx)."""
    return core.to_torch_dtype(dtype)


def draw_seed(seed: Any) -> torch.Tensor:
    """The two numbers that a draw starts from, as a tensor; advances a seed generator. Keras exports only whole draws."""
    return _keras.draw_seed(seed)


def find_cpp_compiler() -> str:
    """The C++ compiler that Inductor will use. Raises where there is none; the search itself has no public name."""
    from torch._inductor.cpp_builder import get_cpp_compiler

    return get_cpp_compiler()


def compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[_inductor_process.Described]) -> Callable[..., Any]:
    """Compiles a captured graph by Inductor itself; PyTorch's parts warn each other of their deprecation."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _inductor_process.compile_graph(graph, inputs)


def _add_scaled_(sums: list[torch.Tensor], terms: Sequence[torch.Tensor], alpha: torch.Tensor) -> None:
    torch._foreach_add_(sums, torch._foreach_mul(terms, alpha))  # type: ignore[attr-defined]  # noqa: SLF001


def _add_scaled(sums: list[torch.Tensor], terms: Sequence[torch.Tensor], alpha: torch.Tensor) -> Any:
    return torch._foreach_add(sums, torch._foreach_mul(terms, alpha))  # type: ignore[attr-defined]  # noqa: SLF001


SCALED_ADDITIONS: Mapping[Callable[..., Any], Callable[..., Any]] = {
    torch._foreach_add_: _add_scaled_,  # type: ignore[attr-defined]
    torch._foreach_add: _add_scaled,  # type: ignore[attr-defined]  # noqa: SLF001
}
"""Operations that take the value of `alpha`, and what does the same with a tensor. Keras' SGD gives them its learning rate."""
