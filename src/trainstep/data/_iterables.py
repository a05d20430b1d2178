"""Batches that the user's own Python code makes."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, final

from .._errors import DataError, describe
from ._abstract import AbstractSource, Batch


@final
class IterableSource(AbstractSource):
    """Any object that gives a fresh iterator of batches each time it is asked: a list of batches, a loader."""

    is_repeatable = True
    is_endless = False

    def __init__(self, iterable: Iterable[Batch]):
        self._iterable = iterable
        self.kind = describe(iterable)
        self.num_batches = length_of(iterable)

    def batches(self, pass_index: int, *, first_batch: int = 0) -> Iterator[Batch]:
        return itertools.islice(iter(self._iterable), first_batch, None)


@final
class IteratorSource(AbstractSource):
    """An iterator, such as a running generator: what it has given is gone."""

    is_repeatable = False
    is_endless = False
    num_batches = None

    def __init__(self, iterator: Iterator[Batch]):
        self._iterator = iterator
        self.kind = describe(iterator)

    def batches(self, pass_index: int, *, first_batch: int = 0) -> Iterator[Batch]:
        return itertools.islice(self._iterator, first_batch, None)


@final
class CallableSource(AbstractSource):
    """A function without arguments that returns a fresh iterator of batches, such as a generator function."""

    is_repeatable = True
    is_endless = False
    num_batches = None

    def __init__(self, function: Callable[[], Iterable[Batch]], *, call: str):
        self._function = function
        self._call = call
        self.kind = f"the function {getattr(function, '__name__', type(function).__name__)!r}"

    def batches(self, pass_index: int, *, first_batch: int = 0) -> Iterator[Batch]:
        made = self._function()
        if not isinstance(made, Iterable):
            raise DataError(
                f"`{self._call}` calls {self.kind} for a fresh iterator of batches at the start of every pass. "
                f"It returned {describe(made)}."
            )
        return itertools.islice(iter(made), first_batch, None)


def length_of(iterable: Any) -> int | None:
    """How many batches there are, where the object knows. One without a length may still define `__len__`, and raise."""
    try:
        return len(iterable)
    except TypeError:
        return None
