"""Compiles a graph by Inductor: in this process, or as a script in a process of its own, which fills Inductor's cache on disk.

The script starts in seconds because nothing but PyTorch is imported here. For the same reason the private names of PyTorch that it
needs are here and not in `_private.py`; `tests/test_keras_canary.py` and the tests of this room watch over both.
"""

import json
import os
import pathlib
import runpy
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

OPTIONS: Mapping[str, Any] = {
    # Draws by PyTorch's own functions stay PyTorch's own numbers.
    "fallback_random": True,
    # The number of threads is that of the run, so that one program serves all.
    "cpp.dynamic_threads": True,
}


class Portable(NamedTuple):
    """A graph as text that can go to another process: Python source, and the tensors that it takes as `self.<name>`."""

    source: str
    constants: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, graph: torch.fx.GraphModule) -> "Portable | None":
        """The graph as text; `None` if it has parts that are graphs themselves."""
        constants: dict[str, np.ndarray] = {}
        for node in graph.graph.nodes:
            if node.op == "get_attr":
                value = getattr(graph, node.target, None)
                if not isinstance(value, torch.Tensor) or value.dtype == torch.bfloat16:
                    return None
                constants[node.target] = value.detach().cpu().numpy()
            elif node.op == "call_module":
                return None
        return cls(graph.graph.python_code("self").src, constants)

    def graph(self) -> torch.fx.GraphModule:
        """The same graph again, in any process."""
        names: dict[str, Any] = {"torch": torch, "device": torch.device, "inf": float("inf"), "nan": float("nan")}
        exec(self.source, names)
        module = type("Portable", (torch.nn.Module,), {"forward": names["forward"]})()
        for name, value in self.constants.items():
            module.register_buffer(name, torch.from_numpy(value.copy()))
        return torch.fx.symbolic_trace(module)


class Described(NamedTuple):
    """All that matters of a tensor when a graph is compiled, as JSON can hold it."""

    shape: list[int]
    stride: list[int]
    dtype: str
    device: str

    @classmethod
    def of(cls, tensor: torch.Tensor) -> "Described":
        return cls(list(tensor.shape), list(tensor.stride()), str(tensor.dtype).removeprefix("torch."), str(tensor.device))

    def empty(self) -> torch.Tensor:
        """A tensor like it."""
        return torch.empty_strided(self.shape, self.stride, dtype=getattr(torch, self.dtype), device=self.device)


def compile_graph(graph: torch.fx.GraphModule, inputs: Sequence[Described]) -> Callable[..., Any]:
    """Compiles a graph for such inputs.

    `torch.compile` would do it too, but its Dynamo checks every input at every call, about 270 microseconds a step, and gives up
    silently after a number of programs. Inductor's caches on disk, of the whole program and of each kernel, are used only where
    there is a `ShapeEnv`.
    """
    from torch._guards import TracingContext, tracing
    from torch._inductor.compile_fx import compile_fx
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    mode = FakeTensorMode(shape_env=ShapeEnv())
    with mode:
        fakes = [described.empty() for described in inputs]
    with tracing(TracingContext(mode)), torch.no_grad():
        return compile_fx(graph, fakes, config_patches=dict(OPTIONS))  # type: ignore[return-value]


def cache_folder() -> pathlib.Path:
    """Where Inductor keeps its programs."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return pathlib.Path(cache_dir())


def write(folder: pathlib.Path, portable: Portable, inputs: Sequence[Described], *, done: pathlib.Path) -> None:
    """Writes what the script needs, and which file it shall make at the end."""
    np.savez(folder / "constants.npz", **portable.constants)  # type: ignore[arg-type]
    task = {"source": portable.source, "inputs": inputs, "num_threads": torch.get_num_threads(), "done": str(done)}
    (folder / "task.json").write_text(json.dumps(task), encoding="utf-8")


def main(folder: pathlib.Path) -> None:
    """Compiles what `write` wrote."""
    task = json.loads((folder / "task.json").read_text(encoding="utf-8"))
    with np.load(folder / "constants.npz", allow_pickle=False) as stored:
        portable = Portable(task["source"], dict(stored))
    torch.set_num_threads(task["num_threads"])
    operators = runpy.run_path(str(pathlib.Path(__file__).with_name("_random_operators.py")))
    compile_graph(portable.graph(), [Described(*described) for described in task["inputs"]])
    del operators  # They are known as long as their library lives.
    done = pathlib.Path(task["done"])
    done.parent.mkdir(parents=True, exist_ok=True)
    done.touch()


def _end_with_parent() -> None:
    """Ends this process as soon as the other end of its standard input is closed, however the parent ended."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # PyTorch's parts warn each other of their deprecation
    threading.Thread(target=_end_with_parent, daemon=True).start()
    main(pathlib.Path(sys.argv[1]))
