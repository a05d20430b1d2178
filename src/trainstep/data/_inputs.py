"""Batches cut to what a prediction takes."""

from collections.abc import Iterator
from typing import final

from ._abstract import AbstractSource, Batch
from ._rows import read


@final
class InputsOnly(AbstractSource):
    """The batches of another source, tuples cut to their first elements: a dataset of `(x, y)` can be predicted on."""

    def __init__(self, source: AbstractSource, num_inputs: int):
        self._source = source
        self._num_inputs = num_inputs
        self.kind = source.kind
        self.is_repeatable = source.is_repeatable
        self.is_endless = source.is_endless
        self.is_read_ahead = source.is_read_ahead
        self.num_batches = source.num_batches

    def forget_copies(self) -> None:
        self._source.forget_copies()

    def batches(self, pass_index: int, *, first_batch: int = 0) -> Iterator[Batch]:
        for batch in map(read, self._source.batches(pass_index, first_batch=first_batch)):
            yield batch[: self._num_inputs] if isinstance(batch, tuple) else batch
