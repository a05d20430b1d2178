"""Which batches make an epoch."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import final

from .._errors import DataError
from ._abstract import AbstractSource, Batch
from ._read_ahead import read_ahead


class AbstractFeed(ABC):
    """Hands out the batches of one epoch after another."""

    num_steps: int | None
    """Batches in an epoch; `None` where only the end will tell."""

    @abstractmethod
    def look_ahead(self, epoch: int) -> Batch:
        """The first batch that `epoch`, the first one, will give; it is not lost. Raises `DataError` if there is none."""

    @abstractmethod
    def forget_copies(self) -> None:
        """The user's data may have been changed in place: what was copied of them is not used any more."""

    @abstractmethod
    def epoch(self, epoch: int) -> Iterator[Batch]:
        """The batches of this epoch. Raises `DataError` where the data have run out."""


@final
class FreshPasses(AbstractFeed):
    """Each epoch is a new pass over the source, or its first `max_steps` batches."""

    def __init__(self, source: AbstractSource, *, max_steps: int | None, argument: str):
        self._passes = _Passes(source, argument)
        self._max_steps = max_steps
        self.num_steps = min((n for n in (source.num_batches, max_steps) if n is not None), default=None)

    def look_ahead(self, epoch: int) -> Batch:
        return self._passes.look_ahead(epoch, epoch)

    def forget_copies(self) -> None:
        self._passes.source.forget_copies()

    def epoch(self, epoch: int) -> Iterator[Batch]:
        return itertools.islice(self._passes.open(epoch, epoch), self._max_steps)


@final
class GoingOn(AbstractFeed):
    """Every epoch has `num_steps` batches; it goes on where the last one stopped, into the next pass where one ends.

    Exactly the batches that are used are drawn from the source.
    """

    def __init__(self, source: AbstractSource, *, num_steps: int, argument: str):
        self._passes = _Passes(source, argument)
        self._num_passes = 0
        self._running: Iterator[Batch] = iter(())
        self.num_steps = num_steps

    def look_ahead(self, epoch: int) -> Batch:
        return self._passes.look_ahead(self._num_passes, epoch)

    def forget_copies(self) -> None:
        self._passes.source.forget_copies()

    def epoch(self, epoch: int) -> Iterator[Batch]:
        for _ in range(self.num_steps or 0):
            try:
                batch = next(self._running)
            except StopIteration:
                self._running = self._passes.open(self._num_passes, epoch)
                self._num_passes += 1
                batch = next(self._running)
            yield batch


@final
class _Passes:
    """Opens pass after pass over a source, and says clearly when there are no more."""

    def __init__(self, source: AbstractSource, argument: str):
        self.source = source
        self._argument = argument
        self._num_opened = 0
        self._ahead: dict[int, Iterator[Batch]] = {}

    def look_ahead(self, pass_index: int, epoch: int) -> Batch:
        batches = self.open(pass_index, epoch)
        first = next(batches)
        self._ahead[pass_index] = itertools.chain([first], batches)
        return first

    def open(self, pass_index: int, epoch: int) -> Iterator[Batch]:
        """The batches of a pass, of which there is at least one. An iterator's first pass is the one looked at ahead."""
        opened_as = pass_index if self.source.is_repeatable else next(iter(self._ahead), pass_index)
        return self._ahead.pop(opened_as) if opened_as in self._ahead else self._open(pass_index, epoch)

    def _open(self, pass_index: int, epoch: int) -> Iterator[Batch]:
        if self._num_opened and not self.source.is_repeatable:
            raise DataError(
                f"In epoch {epoch + 1}, `{self._argument}` has run dry: {self.source.kind} gives its batches only once. "
                "Pass a function that returns a fresh one for every pass, or make it longer and say with steps "
                "(`steps_per_epoch`, `validation_steps`) how many of its batches make an epoch."
            )
        batches = self.source.batches(pass_index)
        if self.source.is_read_ahead:
            batches = read_ahead(batches)
        self._num_opened += 1
        try:
            first = next(batches)
        except StopIteration:
            raise DataError(
                f"In epoch {epoch + 1}, `{self._argument}` gives no batches: {self.source.kind} is empty, or has been used up."
            ) from None
        return itertools.chain([first], batches)
