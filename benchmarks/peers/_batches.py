"""The order of the samples, for loops by hand."""

import numpy as np

from benchmarks.workloads import AbstractWorkload


class Orders:
    """For each epoch the row numbers of its batches, (steps, batch size) int32: a new permutation, or always the same."""

    def __init__(self, workload: AbstractWorkload, *, shuffle: bool):
        self._shape = (workload.num_steps, workload.batch_size)
        self._random = np.random.default_rng(0)
        self._shuffle = shuffle

    def next(self) -> np.ndarray:
        """The order of the next epoch."""
        rows = np.arange(self._shape[0] * self._shape[1], dtype="int32")
        return (self._random.permutation(rows) if self._shuffle else rows).reshape(self._shape)
