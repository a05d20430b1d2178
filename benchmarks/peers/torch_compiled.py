"""The plain loop in PyTorch with `torch.compile`: the forward and backward pass compiled, the optimizer as it is."""

import torch

from benchmarks.workloads import AbstractWorkload

from ._abstract import Peer, Run
from ._torch_loop import prepare_loop


def prepare(workload: AbstractWorkload, *, shuffle: bool = True) -> Run:
    """Compiles the function from a batch to its loss."""
    torch.compiler.reset()
    return prepare_loop(workload, shuffle=shuffle, compile_loss=torch.compile)


PEER = Peer("plain loop, torch.compile", {"": prepare}, slow_to_compile=frozenset({""}))
