"""Ways to run the steps of a program on the rows of a table."""

import dataclasses
import weakref
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol, final

import numpy as np

from ._batch import inputs_of
from .backends import AbstractLoop, AbstractProgram, Tensor

SECONDS_AT_ONCE = 0.05
"""What goes to the device at once takes about so long: short enough for a progress bar and for Ctrl-C."""

MAX_STEPS_AT_ONCE = 256
FEW_STEPS_AT_ONCE = 8
MOST_SECONDS_AT_ONCE = 1.0
"""Also of slow steps a few go together, if that takes no longer: each program asks the system for its memory anew."""


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
Run = Callable[[Table, Indices], list[Tensor]]
"""Runs one step on each batch of rows; the outputs of the last one."""


@final
@dataclasses.dataclass(eq=False)
class Way:
    """One way to run steps, and how long a step takes in it, in seconds; 0 if that is not known yet."""

    kind: str
    run: Run
    multiple_of: int = 1
    max_steps: int = MAX_STEPS_AT_ONCE
    seconds: float = 0.0

    def can_run(self, num_steps: int) -> bool:
        """Whether it can run so many steps at once."""
        return num_steps % self.multiple_of == 0 and num_steps <= self.max_steps


@final
@dataclasses.dataclass(frozen=True)
class Block:
    """What was just run, and how long a step took in it, in seconds."""

    way: Way
    num_steps: int
    seconds: float
    table_reference: weakref.ref[Table]
    """Not the table itself: measuring may be left off, and would hold the data of a training that is over."""
    batch_size: int
    num_left: int | None
    """How many steps the training took from here, these among them, as far as was known."""

    @property
    def table(self) -> Table:
        """The table, for as long as whoever ran the block holds it."""
        table = self.table_reference()
        assert table is not None
        return table


def one_by_one(program: AbstractProgram) -> Way:
    """A call of the program for each batch, whose rows are read where the columns lie."""

    def run(table: Table, indices: Indices) -> list[Tensor]:
        outputs: list[Tensor] = []
        for rows in indices:
            outputs = program(inputs_of(table.leaves(rows)))
        return outputs

    return Way("one step at a time", run)


def at_once(loop: AbstractLoop, *, max_steps: int) -> Way:
    """All in one call of a loop, on columns that lie on the device."""

    def run(table: Table, indices: Indices) -> list[Tensor]:
        rows = np.concatenate([np.asarray(batch, "int32") for batch in indices])
        return loop(table.on_device(), rows.reshape(len(indices), -1))

    return Way(loop.kind, run, loop.multiple_of, max_steps)


def num_at_once(seconds: float) -> int:
    """How many steps of so many seconds go to the device together."""
    few = min(FEW_STEPS_AT_ONCE, int(MOST_SECONDS_AT_ONCE / seconds))
    return min(max(int(SECONDS_AT_ONCE / seconds), few, 1), MAX_STEPS_AT_ONCE)
