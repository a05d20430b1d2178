"""A step captured as one graph of ATen operations, that reads and updates the variables' tensors in place."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import final

import keras
import torch

from ... import _keras
from ..._errors import CaptureError, needs_value_message
from .._abstract import AbstractLoop, AbstractProgram, Tensor
from . import _graph, _inductor, _private
from ._control_flow import captured_control_flow
from ._guard import ValueGuard, ValueNeeded
from ._loops import InOrder
from ._random import same_draws
from ._saved import mutation_allowed
from ._writes import Writes, memory_of

Step = Callable[[Sequence[Tensor]], list[Tensor]]


@final
class TorchProgram(AbstractProgram):
    """A captured graph, run by Inductor where there is a C++ compiler.

    Args:
        graph: Takes the values of `variables` and then the batch; updates the former in place; returns the outputs.
        variables: The variables that it reads or assigns.
        name: The step's name, for warnings.
        capture_seconds: How long capturing took.
    """

    def __init__(self, graph: torch.fx.GraphModule, variables: list[keras.Variable], *, name: str, capture_seconds: float):
        self.variables = variables
        self.capture_seconds = capture_seconds
        self._graph = graph
        self._runner = _inductor.Runner(graph, name=name)

    @property
    def kind(self) -> str:  # type: ignore[override]
        """What runs, and why it is not compiled if it is not."""
        return self._runner.kind

    @property
    def is_settled(self) -> bool:  # type: ignore[override]
        """Whether Inductor's program is there, or will never be."""
        return self._runner.is_settled

    def __call__(self, batch: Sequence[Tensor]) -> list[Tensor]:
        """Runs one step. Inside the capture of another step, becomes part of that."""
        if _private.is_capturing():
            for variable in self.variables:
                _keras.notify_read(variable)
            return list(self._graph(*self._values(), *batch))
        with torch.no_grad():
            return self._runner(*self._values(), *[tensor.contiguous() for tensor in batch])

    def fix(self) -> None:
        """Inductor compiles it before it runs for the first time."""
        self._runner.compile_at_once = True

    def loops(self) -> Sequence[AbstractLoop]:
        return [InOrder(self._runner, self._values)]

    def stateless(self, state: Sequence[Tensor], batch: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """`(outputs, new state)`; the given state is copied first, and stays as it is."""
        with torch.no_grad():
            new = [torch.empty_like(raw).copy_(value) for raw, value in zip(self._values(), state, strict=True)]
            outputs = self._runner(*new, *[tensor.contiguous() for tensor in batch])
        return outputs, new

    def _values(self) -> list[torch.Tensor]:
        return [_keras.raw_value(variable) for variable in self.variables]


def capture(step: Step, batch: Sequence[Tensor], *, name: str) -> TorchProgram:
    """Runs `step` once, on real tensors, and returns what it did as a program.

    Raises:
        CaptureError: The step needs the value of a tensor, or has operations whose output shape depends on values.
    """
    start = time.perf_counter()
    with _private.outside_capture(), torch.no_grad():
        inputs = [tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in batch]
        writes = Writes()
        with _Memory() as memory, _explained(name):
            traced = _private.capture_graph(lambda *tensors: _run_captured(step, tensors, memory, writes), inputs)
        variables = memory.variables
        changed = [writes.touched(tensor) for tensor in inputs]
        graph = _graph.lifted(traced, [_keras.raw_value(variable) for variable in variables], changed)
    _graph.check_shapes(graph, name)
    return TorchProgram(graph, variables, name=name, capture_seconds=time.perf_counter() - start)


def run_eagerly(step: Step, batch: Sequence[Tensor]) -> list[Tensor]:
    """Runs `step` operation by operation, in the surroundings that a captured step has."""
    variables: dict[int, keras.Variable] = {}
    with torch.no_grad(), same_draws(), mutation_allowed():
        with _keras.on_variable_use(lambda variable: variables.setdefault(id(variable), variable)):
            outputs = step([tensor.detach() for tensor in batch])
        return _own(outputs, list(variables.values()), batch)


def _run_captured(step: Step, inputs: Sequence[torch.Tensor], memory: "_Memory", writes: Writes) -> list[torch.Tensor]:
    with (
        same_draws(),
        captured_control_flow(),
        _private.optimizers_without_numpy(),
        mutation_allowed(),
        _keras.variables_created_within(_private.outside_capture),
        ValueGuard(),
        writes,
    ):
        return _own(step(inputs), memory.variables, inputs)


def _own(outputs: Sequence[Tensor], variables: Sequence[keras.Variable], batch: Sequence[Tensor]) -> list[Tensor]:
    """The outputs as tensors of their own: the next step would overwrite one that shares memory with a variable."""
    raw = [_keras.raw_value(variable) for variable in variables if _keras.is_initialized(variable)]
    shared = {memory_of(tensor) for tensor in (*raw, *batch)}
    return [t.detach().clone() if memory_of(t) in shared else t.detach() for t in outputs]


@final
class _Memory:
    """Remembers the value of every variable on its first use in the block, and puts all of them back at its end."""

    def __init__(self) -> None:
        self._before: dict[int, tuple[keras.Variable, torch.Tensor, torch.Tensor]] = {}
        self._block = contextlib.ExitStack()

    @property
    def variables(self) -> list[keras.Variable]:
        """The variables that were used, in the order of first use."""
        return [variable for variable, *_ in self._before.values()]

    def __enter__(self) -> "_Memory":
        self._block.enter_context(_keras.on_variable_use(self._remember))
        return self

    def __exit__(self, *exception: object) -> None:
        self._block.close()
        for variable, raw, value in self._before.values():
            if _keras.raw_value(variable) is not raw:
                _keras.set_raw_value(variable, raw)
            raw.copy_(value)

    def _remember(self, variable: keras.Variable) -> None:
        if not _keras.is_initialized(variable):
            return
        raw = _keras.raw_value(variable)
        _private.record_as_state(raw)
        if id(variable) in self._before:
            return
        with _private.outside_capture():
            value = raw.detach().clone()
        self._before[id(variable)] = (variable, raw, value)


@contextlib.contextmanager
def _explained(name: str) -> Iterator[None]:
    try:
        yield
    except ValueNeeded as error:
        raise CaptureError(needs_value_message(name, error)) from error
    except RuntimeError as error:
        if "trying to get value out of a tracing tensor" not in str(error):
            raise
        raise CaptureError(needs_value_message(name, error)) from error
