"""Inductor at work in a process of its own, so that training goes on meanwhile."""

import atexit
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, final

import torch

from . import _private
from ._inductor_process import Described, Portable, cache_folder, write

_ERRORS = "errors.txt"


@final
class Compilation:
    """Makes Inductor's program of a graph, or finds it where this process or an earlier one left it on disk.

    Inductor is a Python program: in the process that trains it would keep the training waiting as long as it runs.

    Args:
        graph: What to compile.
        inputs: Of the shapes, strides and devices that it will be called with.
    """

    _at_work: ClassVar["Compilation | None"] = None

    def __init__(self, graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]):
        self._graph = graph
        self._inputs = [Described.of(tensor) for tensor in inputs]
        self._portable = Portable.of(graph) if sys.executable else None
        self._done = cache_folder() / "trainstep" / self._key()
        self._process: subprocess.Popen[bytes] | None = None
        self.error: str | None = None
        """What went wrong in the process that has ended, in a line."""

    @property
    def can_run_elsewhere(self) -> bool:
        """Whether the graph can go to another process; otherwise `load` takes as long as compiling takes."""
        return self._portable is not None

    @property
    def is_on_disk(self) -> bool:
        """Whether `load` will find the program."""
        return self._portable is not None and self._done.exists()

    def start(self) -> bool:
        """Starts the process; `False` if another one is still at work, since each of them takes a core of the machine."""
        at_work = Compilation._at_work
        if at_work is not None and not at_work.has_ended:
            return False
        assert self._portable is not None
        self._temporary = tempfile.TemporaryDirectory(prefix="trainstep-")
        folder = pathlib.Path(self._temporary.name)
        write(folder, self._portable, self._inputs, done=self._done)
        # "-P": this room's modules, beside the script, must not stand in the way of Python's own.
        command = [sys.executable, "-P", str(pathlib.Path(__file__).with_name("_inductor_process.py")), str(folder)]
        with (folder / _ERRORS).open("wb") as errors:
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors)
        Compilation._at_work = self
        return True

    @property
    def has_ended(self) -> bool:
        """Whether the process has done its work, or failed."""
        if self._process is None or self._process.poll() is None:
            return False
        self._release()
        return True

    def load(self) -> Callable[..., Any]:
        """The program: from the disk if it is there, else compiled now."""
        # Inductor rewrites the graph that it is given; this one goes on running, and may become part of another capture.
        graph = _copy_of(self._graph) if self._portable is None else self._portable.graph()
        return _private.compile_graph(graph, self._inputs)

    def abandon(self) -> None:
        """Ends the process, if it is at work."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
            self._release()

    def _release(self) -> None:
        if Compilation._at_work is not self:
            return
        Compilation._at_work = None
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        lines = (pathlib.Path(self._temporary.name) / _ERRORS).read_text(errors="replace").strip().splitlines()
        self._temporary.cleanup()
        if process.returncode:
            self.error = lines[-1] if lines else f"the process ended with status {process.returncode}"

    def _key(self) -> str:
        if self._portable is None:
            return "none"
        constants = {name: [str(array.dtype), array.tolist()] for name, array in self._portable.constants.items()}
        about = [torch.__version__, torch.get_num_threads(), self._portable.source, constants, self._inputs]
        return hashlib.sha256(json.dumps(about).encode()).hexdigest()


@atexit.register
def _end_with_this_process() -> None:
    at_work = Compilation._at_work  # noqa: SLF001
    if at_work is not None:
        at_work.abandon()


def _copy_of(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    copy = torch.fx.Graph()
    copy.output(copy.graph_copy(module.graph, val_map={}))
    return torch.fx.GraphModule(module, copy)
