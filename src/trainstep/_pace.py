"""How many steps go to the device at once, and in which way."""

import time
import weakref
from collections.abc import Sequence
from typing import final

from . import backends
from ._exploration import Exploration
from ._ways import Block, Indices, Table, Way, num_at_once
from .backends import AbstractProgram, Tensor


@final
class Pace:
    """Runs the steps of one program on the rows of a table, in the fastest way that has been found.

    All ways give the same numbers up to rounding.
    """

    def __init__(self, program: AbstractProgram):
        self._exploration = Exploration(program)

    @property
    def num_steps_at_once(self) -> int:
        """How many batches the next call of `run` should be given."""
        best, current = self._exploration.best, self._exploration.current
        if not best.seconds:
            return 1
        wanted = min(num_at_once(best.seconds), current.max_steps)
        return max(current.multiple_of, wanted // current.multiple_of * current.multiple_of)

    def run(self, table: Table, indices: Indices, *, num_left: int | None) -> list[Tensor]:
        """Runs one step on each batch of rows; the outputs of the last one.

        Args:
            table: Where the rows are.
            indices: The rows of each batch; all batches have the same size.
            num_left: How many steps the training still takes, these among them, as far as is known.
        """
        way = self._way_for(len(indices))
        if self._exploration.is_over:
            return way.run(table, indices)
        started = time.perf_counter()
        outputs = way.run(table, indices)
        _wait_for(outputs)
        seconds = (time.perf_counter() - started) / len(indices)
        self._exploration.heed(Block(way, len(indices), seconds, weakref.ref(table), len(indices[0]), num_left))
        return outputs

    def report(self) -> str:
        """Which way runs now, and what was measured."""
        kind = self._exploration.best.kind + ("" if self._exploration.is_over else ", so far")
        return "; ".join([kind, *self._exploration.results])

    def _way_for(self, num_steps: int) -> Way:
        """The way that is to run now, or else the best one, if it can run so many steps at once."""
        ways = self._exploration.current, self._exploration.best
        return next((way for way in ways if way.can_run(num_steps)), self._exploration.one_by_one)


def _wait_for(outputs: Sequence[Tensor]) -> None:
    if outputs:
        backends.active().to_numpy(outputs[0])
    else:
        backends.active().synchronize()
