"""What a peer says: its name, and one or several ways to prepare a training, of which the fastest is measured."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Protocol

from benchmarks.workloads import AbstractWorkload

Run = Callable[[int], list[float]]
"""`run(num_epochs)` trains on, and gives the mean loss of each epoch, which has reached the host when it returns."""


class Prepare(Protocol):
    """Builds a training from the same weights as every other peer; the first run compiles it."""

    def __call__(self, workload: AbstractWorkload, *, shuffle: bool = True) -> Run:
        """With `shuffle`, every epoch is in a new order."""
        ...


@dataclasses.dataclass(frozen=True)
class Peer:
    """One that trains the workloads.

    Args:
        name: Its name in the table.
        variants: Ways to do it; an expert tries several, and keeps the one that is fastest for the workload.
        slow_to_compile: The variants that `--quick` leaves out.
        settling_seconds: How long it trains before it is measured, where it may get faster while it trains; and on, as long as
            `run.is_settled()` says no, if there is such a thing.
    """

    name: str
    variants: Mapping[str, Prepare]
    slow_to_compile: frozenset[str] = frozenset()
    settling_seconds: float = 0.0
