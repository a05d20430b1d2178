"""Batches of rows of arrays."""

from collections.abc import Iterator
from typing import final

from .._errors import DataError
from ._abstract import AbstractSource, Batch
from ._columns import Nest, named_columns
from ._order import AbstractOrder
from ._rows import Rows, Table


@final
class ArraySource(AbstractSource):
    """Batches of the rows of NumPy arrays and tensors, in any nest; the last batch may be shorter. They are `Rows`, not yet read.

    Args:
        columns: The arguments of a step by name (`{"x": ..., "y": ...}`), each a nest of columns; a batch is a tuple of them.
        batch_size: Rows in a batch.
        order: In which order the rows of a pass are read.
        call: For error messages: "fit".

    Raises `DataError` if there are no rows, or not as many in every column.
    """

    kind = "arrays"
    is_repeatable = True
    is_endless = False

    def __init__(self, columns: dict[str, Nest], *, batch_size: int, order: AbstractOrder, call: str):
        self._table = Table(tuple(columns.values()))
        self._batch_size = batch_size
        self._order = order
        self.num_rows = count_rows(columns, call)
        self.num_batches = -(-self.num_rows // batch_size)

    def forget_copies(self) -> None:
        self._table.forget_copies()

    def batches(self, pass_index: int, *, first_batch: int = 0) -> Iterator[Batch]:
        order = self._order.rows(pass_index, self.num_rows)
        for start in range(first_batch * self._batch_size, self.num_rows, self._batch_size):
            yield Rows(self._table, order[start : start + self._batch_size])


def count_rows(columns: dict[str, Nest], call: str) -> int:
    """The number of rows that all columns have. Raises `DataError` if there are none, or not as many in every column."""
    named = [pair for name, nest in columns.items() for pair in named_columns(nest, name)]
    if not named:
        raise DataError(f"`{call}` needs data. Got an empty {type(columns['x']).__name__} as `x`.")
    first_name, first = named[0]
    for name, column in named[1:]:
        if column.num_rows != first.num_rows:
            raise DataError(
                f"`{call}` needs as many rows in every array. `{first_name}` has {first.num_rows}, `{name}` has {column.num_rows}."
            )
    if first.num_rows == 0:
        raise DataError(f"`{call}` needs at least one sample. `{first_name}` has 0 rows: its shape is {tuple(first.array.shape)}.")
    return first.num_rows
