"""Finding the fastest way to run steps, by measuring steps that train."""

import itertools
import statistics
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import final

from ._ways import FEW_STEPS_AT_ONCE, Block, Way, at_once, num_at_once, one_by_one
from .backends import AbstractLoop, AbstractProgram, Tensor

NUM_SAMPLES = 5
NUM_SAMPLES_IF_CLOSE = 15
CLOSE = 0.2
"""Two ways of which one takes at most this part longer are measured more thoroughly: machines are noisy."""

SO_MUCH_SLOWER = 2.0
"""A way that takes so many times as long as the best one is not measured any further."""

ADVANTAGE = 0.97
"""A way that takes more than this part of the time of the best one so far is not worth a change."""

PATIENCE = 20
"""After so many blocks that another way cannot run, because they are too short, it is given up."""

Course = Generator[None, Block, None]


@final
class Exploration:
    """Is told of each block of steps that has run, and says how the next one runs.

    One by one at first. When that has taken as long as another way takes to be compiled, or is going to, that way is compiled in
    the background; then blocks are run in both ways, in turn, and the faster one goes on.

    Attributes:
        one_by_one: The way that can always be gone.
        current: How the next block is to run.
        best: The fastest way so far.
        results: What was measured, and what cannot be had.
        is_over: Whether `current` and `best` are the same, and stay so.
    """

    def __init__(self, program: AbstractProgram):
        self.one_by_one = self.best = self.current = one_by_one(program)
        self.results: list[str] = []
        self.is_over = False
        self._program = program
        self._seconds_spent = 0.0
        self._course: Course = self._explore()
        next(self._course)

    def heed(self, block: Block) -> None:
        """Takes in what has just been run."""
        self._seconds_spent += block.seconds * block.num_steps
        try:
            self._course.send(block)
        except StopIteration:
            self.is_over = True

    def _explore(self) -> Course:
        first = yield
        while not self._program.is_settled:
            yield
        compile_seconds = self._program.capture_seconds + first.seconds
        block = yield from self._measured([self.best])
        for loop in self._program.loops():
            block = yield from self._worth_it(loop, loop.relative_cost * compile_seconds, block)
            columns = self._columns_on_device(block)
            if block is None or columns is None:
                return
            max_steps = max(2, num_at_once(self.best.seconds))
            failures = yield from _done_in_background(preparation(loop, columns, block.batch_size, max_steps))
            del columns
            if failures:
                self.results.append(f"no {loop.kind}: {failures[0]}")
            else:
                yield from self._compare(at_once(loop, max_steps=max_steps))
            block = yield  # The table of the block before may be gone by now.

    def _worth_it(self, loop: AbstractLoop, seconds_to_compile: float, block: Block) -> Generator[None, Block, Block | None]:
        """Lets blocks pass until the loop is worth its price, and gives the last of them; `None` if it will never be."""
        num_too_short = 0
        while num_too_short <= PATIENCE:
            is_short = block.num_steps < max(2, loop.multiple_of)
            if not is_short and self._is_worth(seconds_to_compile, block.num_left):
                return block
            num_too_short += is_short
            block = yield
        return None

    def _is_worth(self, seconds_to_compile: float, num_left: int | None) -> bool:
        """Whether the training will take long enough: it will last as long again as it has lasted, if nothing else is known."""
        to_come = max((num_left or 0) * self.best.seconds, self._seconds_spent)
        seconds_to_measure = 2 * FEW_STEPS_AT_ONCE * self.best.seconds
        return to_come > 2 * seconds_to_compile + 10 * seconds_to_measure

    def _columns_on_device(self, block: Block | None) -> list[Tensor] | None:
        if block is None or not block.table.fits_on_device:
            return None
        try:
            return block.table.on_device()
        except Exception as error:  # no room there, say; then the rows come from the host as before
            self.results.append(f"the data stay on the host: {_in_one_line(error)}")
            return None

    def _compare(self, way: Way) -> Course:
        best = self.best
        yield from self._measured([way], num_samples=1)  # Whatever is done at its first call is not measured.
        yield from self._measured([best, way])
        if abs(way.seconds / best.seconds - 1.0) < CLOSE:
            yield from self._measured([best, way], num_samples=NUM_SAMPLES_IF_CLOSE)
        is_faster = 0 < way.seconds < ADVANTAGE * best.seconds
        self.best = self.current = way if is_faster else best
        self.results.append(f"{best.seconds * 1e6:,.0f} us by {best.kind}, {way.seconds * 1e6:,.0f} us by {way.kind}")

    def _measured(self, ways: Sequence[Way], num_samples: int = NUM_SAMPLES) -> Generator[None, Block, Block]:
        """Measures ways over the next blocks, in turn, so that what else the machine does meets all of them.

        A way that the blocks are too short for keeps 0 seconds.
        """
        samples: dict[Way, list[float]] = {way: [] for way in ways}
        turns = itertools.cycle(ways)
        num_turns_left = len(ways) * num_samples + PATIENCE
        while True:
            self.current = next(turns)
            block = yield
            num_turns_left -= 1
            if block.way is self.current:
                samples[block.way].append(block.seconds)
            if min(map(len, samples.values())) >= num_samples or not num_turns_left or _is_decided(samples.values()):
                break
        for way in ways:
            way.seconds = statistics.median(samples[way] or [0.0])
        return block


def preparation(loop: AbstractLoop, columns: Sequence[Tensor], batch_size: int, max_steps: int) -> Callable[[], None]:
    """What is done in the background."""
    return lambda: loop.prepare(columns, batch_size, max_steps)


def _is_decided(samples: Iterable[Sequence[float]]) -> bool:
    """Whether one way is so much slower than the other that no more of its time need be spent."""
    best, *others = (min(seconds, default=0.0) for seconds in samples)
    return best > 0 and any(other > SO_MUCH_SLOWER * best for other in others)


def _done_in_background(task: Callable[[], None]) -> Generator[None, Block, list[str]]:
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
