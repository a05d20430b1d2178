"""Running a captured graph: compiled by Inductor where that is possible, else operation by operation."""

import os
import warnings
from collections.abc import Callable
from typing import Any, final

import torch

from ..._errors import TrainStepWarning
from . import _private

_has_warned = False


@final
class Runner:
    """Calls a graph; compiles it at the first call, for the strides and devices of that call's inputs."""

    def __init__(self, graph: torch.fx.GraphModule, *, name: str):
        self._graph = graph
        self._name = name
        self._run: Callable[..., Any] | None = None
        self._obstacle = compiler_obstacle()
        if self._obstacle is not None:
            self._run = graph
            _warn_once_without_compiler()

    @property
    def kind(self) -> str:
        """What runs."""
        if self._obstacle is None:
            return "Inductor program (captured graph, compiled)"
        return f"captured graph, not compiled: {self._obstacle}"

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Runs the graph, with gradients switched off by the caller."""
        if self._run is None:
            self._run = self._compile(inputs)
        return list(self._run(*inputs))

    def _compile(self, inputs: tuple[torch.Tensor, ...]) -> Callable[..., Any]:
        # Inductor rewrites the graph that it is given; this one may still become part of another capture.
        graph = torch.fx.GraphModule(self._graph, _copy_of(self._graph.graph))
        try:
            return _private.compile_graph(graph, inputs)
        except Exception as error:  # whatever Inductor stumbles on, the graph itself still runs
            reason = str(error).strip().split("\n", 1)[0][:200]
            self._obstacle = f"Inductor failed ({type(error).__name__}: {reason})"
            warnings.warn(
                f"PyTorch's Inductor could not compile the step {self._name!r}, so that it runs operation by operation: more "
                f"slowly, with the same numbers. {type(error).__name__}: {reason}",
                TrainStepWarning,
                stacklevel=2,
            )
            return self._graph


def compiler_obstacle() -> str | None:
    """Why steps are not compiled in this process; `None` if they are."""
    if os.environ.get("TRAINSTEP_INDUCTOR") == "0":
        return "TRAINSTEP_INDUCTOR=0"
    try:
        _private.find_cpp_compiler()
    except Exception:  # Inductor raises several kinds, some of them private
        return "no C++ compiler found"
    return None


def _warn_once_without_compiler() -> None:
    global _has_warned
    if _has_warned or os.environ.get("TRAINSTEP_INDUCTOR") == "0":
        return
    _has_warned = True
    warnings.warn(
        "No C++ compiler was found, so PyTorch's Inductor cannot compile steps. They run as captured graphs, operation by "
        "operation: for small models about four times as slow as compiled (measured: 784-32-10 at batch 32, 600 microseconds a "
        "step against 150). Install one, for instance `apt install g++`, or set the environment variable CXX to yours.",
        TrainStepWarning,
        stacklevel=2,
    )


def _copy_of(graph: torch.fx.Graph) -> torch.fx.Graph:
    copy = torch.fx.Graph()
    output = copy.graph_copy(graph, val_map={})
    copy.output(output)
    return copy
