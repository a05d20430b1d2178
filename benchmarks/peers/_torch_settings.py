"""What a peer may set for the whole process, kept apart, so that no peer runs with the settings of another."""

import contextlib
from collections.abc import Iterator

import torch


def flushes_denormals() -> bool:
    """Whether denormal numbers are flushed to zero at present; PyTorch has no question for it."""
    return bool(torch.tensor([1e-39]) * 1.0 == 0)


class Settings:
    """The number of threads and the handling of denormal numbers: those at the start, then what the block before left."""

    def __init__(self) -> None:
        self._read()

    def _read(self) -> None:
        self._num_threads, self._flushes = torch.get_num_threads(), flushes_denormals()

    def _apply(self) -> None:
        torch.set_num_threads(self._num_threads)
        torch.set_flush_denormal(self._flushes)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """They hold inside the block; what it changes holds in the next one only."""
        outside = Settings()
        self._apply()
        try:
            yield
        finally:
            self._read()
            outside._apply()
