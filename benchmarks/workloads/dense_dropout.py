"""784-512-dropout-10: the listing of the README, large enough that the products count."""

import dataclasses

from .dense import Dense


@dataclasses.dataclass(frozen=True)
class DenseDropout(Dense):
    """One wide hidden layer, and dropout behind it."""

    num_steps: int = 50
    batch_size: int = 128
    width: int = 512
    dropout: float = 0.2
    tolerance: float = 0.1

    @property
    def key(self) -> str:
        """Its name on the command line."""
        return "dropout"
