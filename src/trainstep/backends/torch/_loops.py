"""Many steps one after another, without the way through Python from each batch to the next."""

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch

from .._abstract import AbstractLoop, Tensor

Run = Callable[..., list[torch.Tensor]]
Values = Callable[[], list[torch.Tensor]]


@final
class InOrder(AbstractLoop):
    """Calls a program for each batch, which is gathered on the device.

    Args:
        run: Takes the variables' tensors and then the batch; updates the former in place.
        values: The variables' tensors.
    """

    kind = "steps in a row, batches gathered on the device"
    relative_cost = 0.0
    multiple_of = 1

    def __init__(self, run: Run, values: Values):
        self._run = run
        self._values = values

    def prepare(self, columns: Sequence[Tensor], batch_size: int, max_steps: int) -> None:
        """There is nothing to prepare."""

    def __call__(self, columns: Sequence[Any], rows: np.ndarray) -> list[Tensor]:
        outputs: list[torch.Tensor] = []
        device = columns[0].device if columns else None
        with torch.no_grad():
            values = self._values()
            for indices in torch.from_numpy(rows).to(device):
                outputs = self._run(*values, *[torch.index_select(column, 0, indices) for column in columns])
        return outputs
