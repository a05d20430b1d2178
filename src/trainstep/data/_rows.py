"""A batch as rows of a table: read on the host when it is taken alone, or on the device, many batches at once."""

import dataclasses
import math
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, final

import keras
import numpy as np

from .. import backends
from .._batch import structure_of
from ..backends import Tensor
from ._abstract import Batch
from ._columns import AbstractColumn, Nest, select

MAX_BYTES_ON_DEVICE = 2**30
"""Columns of more bytes than this stay on the host. Room for them on the device is not asked for: a step needs its own."""


@final
class Table:
    """Columns in any nest, one for each leaf of a batch.

    Args:
        columns: The arguments of a step, each a nest of columns with the same number of rows.
    """

    def __init__(self, columns: tuple[Nest, ...]):
        self._columns = columns
        self._on_device: list[Tensor] | None = None
        self._flat: list[AbstractColumn] = keras.tree.flatten(columns)
        self._arrays = [column.array for column in self._flat]
        self.key: Hashable = structure_of(columns), tuple((tuple(array.shape), array.dtype) for array in self._arrays)
        self.fits_on_device = sum(map(_num_bytes, self._arrays)) <= MAX_BYTES_ON_DEVICE

    def batch(self, indices: range | np.ndarray) -> Batch:
        """These rows of each column, in this order."""
        return select(self._columns, indices)

    def leaves(self, indices: range | np.ndarray) -> list[np.ndarray | Tensor]:
        """The same without the nest, in the order of its leaves."""
        return [column.rows(indices) for column in self._flat]

    def on_device(self) -> list[Tensor]:
        """All columns as tensors on the device, in the order of a batch's leaves; placed at the first call."""
        if self._on_device is None:
            self._on_device = [backends.active().as_column(array) for array in self._arrays]
        return self._on_device

    def forget_copies(self) -> None:
        """The columns are placed on the device anew when they are next needed there: they may have been changed in place."""
        self._on_device = None


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Rows:
    """A batch that is not read yet."""

    table: Table
    indices: range | np.ndarray

    def read(self) -> Batch:
        """The batch, read where the columns lie."""
        return self.table.batch(self.indices)


@final
@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Batches of the same size that follow each other, all of one table."""

    table: Table
    indices: list[range | np.ndarray]

    def __len__(self) -> int:
        return len(self.indices)


def read(batch: Batch) -> Batch:
    """The batch itself, read if that has been put off."""
    return batch.read() if isinstance(batch, Rows) else batch


def in_blocks(batches: Iterable[Batch], max_size: Callable[[Table, int], int]) -> Iterator[Block | Batch]:
    """The batches in their order, those that can go together in one `Block`.

    `max_size` is asked before each block how many batches of that table, with so many rows each, it may have.

    A batch that is not of a table comes by itself, as it is.
    """
    block: Block | None = None
    limit = 1
    for batch in batches:
        if block is not None and (len(block) >= limit or not _continues(block, batch)):
            yield block
            block = None
        if not isinstance(batch, Rows):
            yield batch
        elif block is None:
            block, limit = Block(batch.table, [batch.indices]), max_size(batch.table, len(batch.indices))
        else:
            block.indices.append(batch.indices)
    if block is not None:
        yield block


def _continues(block: Block, batch: Batch) -> bool:
    return isinstance(batch, Rows) and batch.table is block.table and len(batch.indices) == len(block.indices[0])


def _num_bytes(array: np.ndarray | Tensor) -> int:
    dtype: Any = array.dtype
    bytes_each = getattr(dtype, "itemsize", None) or dtype.size  # TensorFlow has its own name for it.
    return bytes_each * math.prod(map(int, array.shape))
