"""How many steps go to the device at once, and in which way: found by measuring steps that train."""

import dataclasses
import itertools
import statistics
import threading
import time
import weakref
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from typing import Any, Protocol, final

import numpy as np

from . import backends
from ._batch import inputs_of
from .backends import AbstractLoop, AbstractProgram, Tensor

SECONDS_AT_ONCE = 0.05
"""What goes to the device at once takes about so long: short enough for a progress bar and for Ctrl-C."""

MAX_STEPS_AT_ONCE = 256
FEW_STEPS_AT_ONCE = 8
MOST_SECONDS_AT_ONCE = 1.0
"""Also of slow steps a few go together, if that takes no longer: each program asks the system for its memory anew."""

_NUM_SAMPLES = 5
_NUM_SAMPLES_IF_CLOSE = 15
_SO_MUCH_SLOWER = 2.0
_CLOSE = 0.2
"""Two ways of which one takes at most this part longer are measured more thoroughly: machines are noisy."""

_PATIENCE = 20
"""After so many blocks that another way cannot run, because they are too short, it is given up."""

_ADVANTAGE = 0.97
"""A way that takes more than this part of the time of the best one so far is not worth a change."""


class Table(Protocol):
    """Columns whose rows make batches."""

    fits_on_device: bool
    key: Hashable
    """Equal for tables of the same structure, shapes and dtypes."""

    def batch(self, indices: Any) -> Any:
        """These rows of each column, as the arguments of a step."""
        ...

    def leaves(self, indices: Any) -> Sequence[Any]:
        """The leaves of `batch(indices)`, in their order."""
        ...

    def on_device(self) -> list[Tensor]:
        """All columns as tensors on the device, in the order of a batch's leaves."""
        ...


Indices = Sequence[range | np.ndarray]


@final
@dataclasses.dataclass
class _Way:
    """One way to run steps, and how long a step takes in it, in seconds; 0 if that is not known yet."""

    kind: str
    run: Callable[[Table, Indices], list[Tensor]]
    multiple_of: int = 1
    max_steps: int = MAX_STEPS_AT_ONCE
    seconds: float = 0.0


@dataclasses.dataclass(frozen=True)
class _Block:
    """What was just run, and how long a step took in it, in seconds."""

    way: _Way
    num_steps: int
    seconds: float
    table: weakref.ref[Table]
    """Not the table itself: exploring may be left off, and would hold the data of a training that is over."""
    batch_size: int
    num_left: int | None


@final
class Pace:
    """Runs the steps of one program on the rows of a table.

    One by one at first. When that has taken as long as another way takes to be compiled, or is going to, that way is compiled in
    the background; then blocks of real steps are run in both ways, in turn, and the faster one goes on. All ways give the same
    numbers up to rounding.
    """

    def __init__(self, program: AbstractProgram):
        self._program = program
        self._one_by_one = _Way("one step at a time", self._run_one_by_one)
        self._best = self._current = self._one_by_one
        self._results: list[str] = []
        self._seconds_spent = 0.0
        self._exploration: Generator[None, _Block, None] | None = self._explore()
        next(self._exploration)

    @property
    def num_steps_at_once(self) -> int:
        """How many batches the next call of `run` should be given."""
        if not self._best.seconds:
            return 1
        wanted = min(_num_at_once(self._best.seconds), self._current.max_steps)
        multiple = self._current.multiple_of
        return max(multiple, wanted // multiple * multiple)

    def run(self, table: Table, indices: Indices, *, num_left: int | None) -> list[Tensor]:
        """Runs one step on each batch of rows; the outputs of the last one.

        Args:
            table: Where the rows are.
            indices: The rows of each batch; all batches have the same size.
            num_left: How many steps the training still takes, these among them, as far as is known.
        """
        way = self._way_for(len(indices))
        if self._exploration is None:
            return way.run(table, indices)
        started = time.perf_counter()
        outputs = way.run(table, indices)
        _wait_for(outputs)
        seconds = time.perf_counter() - started
        self._seconds_spent += seconds
        try:
            self._exploration.send(_Block(way, len(indices), seconds / len(indices), weakref.ref(table), len(indices[0]), num_left))
        except StopIteration:
            self._exploration = None
        return outputs

    def report(self) -> str:
        """Which way runs now, and what was measured."""
        kind = f"{self._best.kind}, so far" if self._exploration is not None else self._best.kind
        return "; ".join([kind, *self._results])

    def _explore(self) -> Generator[None, _Block, None]:
        """Is told of each block that has run, and sets how the next one runs."""
        first = yield
        while not self._program.is_settled:
            yield
        compile_seconds = self._program.capture_seconds + first.seconds
        block = yield from self._measured([self._one_by_one])
        for loop in self._program.loops():
            if not _table_of(block).fits_on_device:
                return
            num_too_short = 0
            while (is_short := block.num_steps < max(2, loop.multiple_of)) or not self._is_worth(
                loop.relative_cost * compile_seconds, block.num_left
            ):
                num_too_short += is_short
                if num_too_short > _PATIENCE:
                    return
                block = yield
            try:
                columns = _table_of(block).on_device()
            except Exception as error:  # no room there, say; then the rows come from the host as before
                self._results.append(f"the data stay on the host: {_in_one_line(error)}")
                return
            way = _Way(loop.kind, _on_device(loop), loop.multiple_of, max(2, _num_at_once(self._best.seconds)))
            failures = yield from _done_in_background(_preparation(loop, columns, block.batch_size, way.max_steps))
            del columns
            if failures:
                self._results.append(f"no {loop.kind}: {failures[0]}")
                block = yield  # The table of the block before may be gone by now.
                continue
            best = self._best
            yield from self._measured([way], num_samples=1)  # Whatever is done at its first call is not measured.
            block = yield from self._measured([best, way])
            if abs(way.seconds / best.seconds - 1.0) < _CLOSE:
                block = yield from self._measured([best, way], num_samples=_NUM_SAMPLES_IF_CLOSE)
            is_faster = 0 < way.seconds < _ADVANTAGE * best.seconds
            self._best = self._current = way if is_faster else best
            self._results.append(f"{best.seconds * 1e6:,.0f} us by {best.kind}, {way.seconds * 1e6:,.0f} us by {way.kind}")

    def _way_for(self, num_steps: int) -> _Way:
        """The way that is to run now, or else the best one, if it can run so many steps at once."""
        if num_steps % self._current.multiple_of == 0:
            return self._current
        is_possible = num_steps % self._best.multiple_of == 0 and num_steps <= self._best.max_steps
        return self._best if is_possible else self._one_by_one

    def _is_worth(self, seconds_to_compile: float, num_left: int | None) -> bool:
        """Whether the training will take long enough: it will last as long again as it has lasted, if nothing else is known."""
        to_come = max((num_left or 0) * self._best.seconds, self._seconds_spent)
        seconds_to_measure = 2 * FEW_STEPS_AT_ONCE * self._best.seconds
        return to_come > 2 * seconds_to_compile + 10 * seconds_to_measure

    def _measured(self, ways: Sequence[_Way], num_samples: int = _NUM_SAMPLES) -> Generator[None, _Block, _Block]:
        """Measures ways over the next blocks, in turn, so that what else the machine does meets all of them.

        A way that the blocks are too short for keeps 0 seconds.
        """
        samples: dict[str, list[float]] = {way.kind: [] for way in ways}
        turns = itertools.cycle(ways)
        num_turns_left = len(ways) * num_samples + _PATIENCE
        while True:
            self._current = next(turns)
            block = yield
            num_turns_left -= 1
            if block.way is self._current:
                samples[block.way.kind].append(block.seconds)
            if min(map(len, samples.values())) >= num_samples or not num_turns_left or _is_decided(samples.values()):
                break
        for way in ways:
            way.seconds = statistics.median(samples[way.kind] or [0.0])
        return block

    def _run_one_by_one(self, table: Table, indices: Indices) -> list[Tensor]:
        outputs: list[Tensor] = []
        for rows in indices:
            outputs = self._program(inputs_of(table.leaves(rows)))
        return outputs


def _num_at_once(seconds: float) -> int:
    """How many steps of so many seconds go to the device together."""
    few = min(FEW_STEPS_AT_ONCE, int(MOST_SECONDS_AT_ONCE / seconds))
    return min(max(int(SECONDS_AT_ONCE / seconds), few, 1), MAX_STEPS_AT_ONCE)


def _is_decided(samples: Iterable[Sequence[float]]) -> bool:
    """Whether one way is so much slower than the other that no more of its time need be spent."""
    best, *others = (min(seconds, default=0.0) for seconds in samples)
    return best > 0 and any(other > _SO_MUCH_SLOWER * best for other in others)


def _on_device(loop: AbstractLoop) -> Callable[[Table, Indices], list[Tensor]]:
    def run(table: Table, indices: Indices) -> list[Tensor]:
        rows = np.concatenate([np.asarray(batch, "int32") for batch in indices])
        return loop(table.on_device(), rows.reshape(len(indices), -1))

    return run


def _table_of(block: _Block) -> Table:
    """The table of a block that has just been run, and which the caller of `Pace.run` still holds."""
    table = block.table()
    assert table is not None
    return table


def _preparation(loop: AbstractLoop, columns: Sequence[Tensor], batch_size: int, max_steps: int) -> Callable[[], None]:
    return lambda: loop.prepare(columns, batch_size, max_steps)


def _done_in_background(task: Callable[[], None]) -> Generator[None, _Block, list[str]]:
    """Does the task in another thread while blocks run; what went wrong, in one line, if anything did."""
    failures: list[str] = []

    def attempt() -> None:
        try:
            task()
        except Exception as error:  # whatever a compiler stumbles on, there is a way that runs already
            failures.append(_in_one_line(error))

    thread = threading.Thread(target=attempt, name="trainstep compiles a loop")
    thread.start()
    while thread.is_alive():
        yield
    return failures


def _in_one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def _wait_for(outputs: Sequence[Tensor]) -> None:
    if outputs:
        backends.active().to_numpy(outputs[0])
    else:
        backends.active().synchronize()
