"""What PyTorch wants to have set while it trains."""

import contextlib
from collections.abc import Iterator

import torch


@contextlib.contextmanager
def denormals_flushed() -> Iterator[None]:
    """Numbers too small for the usual format (below 1e-38 in float32) count as zero inside the block.

    Processors take many times as long for them, and moving averages decay into them. XLA and TensorFlow always do so. Of this
    thread, and of those that it starts.
    """
    if _flushes_denormals():
        yield
        return
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def _flushes_denormals() -> bool:
    """Whether it is so already; PyTorch has no question for it."""
    return bool(torch.tensor([1e-39]) * 1.0 == 0)
