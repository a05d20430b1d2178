"""Running a captured graph: operation by operation at first, and compiled by Inductor as soon as that is ready, if it is faster."""

import dataclasses
import os
import statistics
import time
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, final

import torch

from ..._errors import TrainStepWarning
from . import _private, _threads
from ._compilation import Compilation
from ._devices import synchronize

SECONDS_BEFORE_COMPILING = 0.3
"""A step that has run for so long in all is compiled: of what takes ten seconds and more a short training would have nothing."""

SECONDS_BEFORE_WAITING = 10.0
"""The same for a graph that must be compiled in this process, while the training waits."""

NUM_SAMPLES = 5
NUM_SAMPLES_IF_CLOSE = 25
CLOSE = 1.25
"""Ways of which one takes less than so many times another are measured more thoroughly: machines are noisy."""

ADVANTAGE = 0.97
"""Another way is taken if it takes less than this part of the time."""

_has_warned = False

Run = Callable[..., Any]


@final
@dataclasses.dataclass(eq=False)
class _Way:
    """One way to run the graph, and how many seconds it takes."""

    kind: str
    run: Run
    num_threads: int
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.call = _threads.on_threads(self.run, self.num_threads)

    def __str__(self) -> str:
        threads = "1 thread" if self.num_threads == 1 else f"{self.num_threads} threads"
        measured = f", {self.seconds * 1e6:,.0f} us" if self.seconds else ""
        return f"{self.kind} ({threads}{measured})"


@final
class Runner:
    """Calls a graph, in the fastest of the ways that are ready.

    Attributes:
        kind: What runs.
        is_settled: Whether that will not change any more.
        compile_at_once: Whether Inductor compiles it before the first run, and nothing is measured.
    """

    def __init__(self, graph: torch.fx.GraphModule, *, name: str):
        self.kind = "captured graph, not compiled yet"
        self.is_settled = False
        self.compile_at_once = os.environ.get("TRAINSTEP_INDUCTOR") == "1"
        self._graph = graph
        self._name = name
        self._run: Run = graph
        self._inputs: tuple[torch.Tensor, ...] = ()
        self._seconds_run = 0.0
        self._seconds_of_last: float | None = None
        self._course = self._find_fastest()

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Runs the graph, with gradients switched off by the caller."""
        if not self.is_settled:
            self._go_on(inputs)
        if self.is_settled:
            return list(self._run(*inputs))
        started = time.perf_counter()
        outputs = list(self._run(*inputs))
        synchronize()
        self._seconds_of_last = time.perf_counter() - started
        self._seconds_run += self._seconds_of_last
        return outputs

    def _go_on(self, inputs: tuple[torch.Tensor, ...]) -> None:
        self._inputs = inputs
        try:
            self._course.send(self._seconds_of_last)  # type: ignore[arg-type]
        except StopIteration:
            self.is_settled = True
        self._inputs = ()

    def _find_fastest(self) -> Generator[None, float, None]:
        """Goes on before each run, is told how many seconds the last one took, and sets how the next one runs."""
        obstacle = compiler_obstacle()
        if obstacle is not None:
            _warn_once_without_compiler()
            self.kind = f"captured graph, not compiled: {obstacle}"
            return
        if self.compile_at_once:
            self._compile_at_once()
            return
        graph = yield from self._faster([_Way("captured graph", self._graph, n) for n in _threads.choices()])
        while self._seconds_run < SECONDS_BEFORE_COMPILING:
            yield
        compiled = yield from self._compiled(graph)
        if compiled is not None:
            ways = [_Way("Inductor program", compiled, n) for n in _threads.choices()]
            yield from self._faster([graph, *ways])
            self.kind += f"; the {graph}" if self._run is not graph.call else "; Inductor's program is no faster"

    def _faster(self, ways: Sequence[_Way]) -> Generator[None, float, _Way]:
        """Measures the ways over the next runs, in turn, and leaves the fastest; the first one where others hardly differ."""
        samples: dict[_Way, list[float]] = {way: [] for way in ways}
        yield from self._sample(samples, 1)
        for seconds in samples.values():
            seconds.clear()  # The first call may have more to do.
        yield from self._sample(samples, NUM_SAMPLES)
        if _are_close(samples):
            yield from self._sample(samples, NUM_SAMPLES_IF_CLOSE - NUM_SAMPLES)
        for way, seconds in samples.items():
            way.seconds = statistics.median(seconds)
        first, fastest = ways[0], min(ways, key=lambda way: way.seconds)
        best = fastest if fastest.seconds < ADVANTAGE * first.seconds else first
        self._run, self.kind = best.call, str(best)
        return best

    def _sample(self, samples: Mapping[_Way, list[float]], num_samples: int) -> Generator[None, float, None]:
        for _ in range(num_samples):
            for way, seconds in samples.items():
                self._run = way.call
                seconds.append((yield))

    def _compiled(self, graph: _Way) -> Generator[None, float, Run | None]:
        """Lets steps run until Inductor's program is there; `None` if it will never be."""
        compilation = Compilation(self._graph, self._inputs)
        try:
            if not compilation.can_run_elsewhere:
                self.kind = f"{graph}; to be compiled in this process when it has run for {SECONDS_BEFORE_WAITING:.0f} s"
                while self._seconds_run < SECONDS_BEFORE_WAITING:
                    yield
            elif not compilation.is_on_disk:
                while not compilation.start():
                    yield
                self.kind = f"{graph}, while Inductor compiles it in another process"
                self._run = _threads.on_threads(self._graph, min(graph.num_threads, _threads.one_left_free()))
                while not compilation.has_ended:
                    yield
            return self._loaded(compilation)
        finally:
            compilation.abandon()

    def _compile_at_once(self) -> None:
        compiled = self._loaded(Compilation(self._graph, self._inputs))
        if compiled is not None:
            self._run, self.kind = compiled, "Inductor program"

    def _loaded(self, compilation: Compilation) -> Run | None:
        failure = compilation.error
        if failure is None:
            try:
                return compilation.load()
            except Exception as error:  # whatever Inductor stumbles on, the graph itself still runs
                failure = f"{type(error).__name__}: {error}"
        reason = failure.strip().split("\n", 1)[0][:200]
        self.kind = f"captured graph, not compiled: Inductor failed ({reason})"
        warnings.warn(
            f"PyTorch's Inductor could not compile the step {self._name!r}, so that it runs operation by operation: more "
            f"slowly, with the same numbers. {reason}",
            TrainStepWarning,
            stacklevel=2,
        )
        return None


def _are_close(samples: Mapping[_Way, list[float]]) -> bool:
    fastest, *others = sorted(map(statistics.median, samples.values()))
    return bool(others) and others[0] < CLOSE * fastest


def compiler_obstacle() -> str | None:
    """Why steps are not compiled in this process; `None` if they are."""
    if os.environ.get("TRAINSTEP_INDUCTOR") == "0":
        return "TRAINSTEP_INDUCTOR=0"
    try:
        _private.find_cpp_compiler()
    except Exception:  # Inductor raises several kinds, some of them private
        return "no C++ compiler found"
    return None


def compiler() -> str:
    """What compiles captured steps."""
    obstacle = compiler_obstacle()
    if obstacle is None:
        return f"PyTorch {torch.__version__} Inductor with the C++ compiler {_private.find_cpp_compiler()}"
    return f"none ({obstacle}): steps run as captured graphs; install g++, or set CXX, for compiled ones"


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
