"""The plain loop in PyTorch: eager, operation by operation."""

from benchmarks.workloads import AbstractWorkload

from ._abstract import Peer, Run
from ._torch_loop import prepare_loop


def prepare(workload: AbstractWorkload, *, shuffle: bool = True) -> Run:
    """As in PyTorch's own tutorials, but for the batches, which are taken from tensors in memory without a `DataLoader`."""
    return prepare_loop(workload, shuffle=shuffle)


PEER = Peer("plain loop", {"": prepare})
