"""Splitting arrays into rows to train on and rows to validate on."""

import math
from typing import Any

from .._errors import DataError
from ._arrays import count_rows
from ._columns import select


def split_rows(columns: dict[str, Any], fraction: float, *, call: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """`(rows to train on, rows to validate on)`: the last `fraction` of the rows, as they stand, is for validation.

    Raises `DataError` if one of the two would be empty.
    """
    num_rows = count_rows(columns, call)
    num_training = math.floor(num_rows * (1 - fraction))
    if num_training in (0, num_rows):
        raise DataError(
            f"`validation_split={fraction}` leaves {num_training} of {num_rows} rows to train on. Both parts need at least one."
        )
    training = {name: select(nest, range(num_training)) for name, nest in columns.items()}
    validation = {name: select(nest, range(num_training, num_rows)) for name, nest in columns.items()}
    return training, validation
