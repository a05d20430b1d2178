"""The expert's loop in PyTorch: compiled or fused, one thread or all, denormals flushed; whichever is fastest."""

import functools
import os

import torch

from benchmarks.workloads import AbstractWorkload

from ._abstract import Peer, Run
from ._torch_loop import prepare_loop


def prepare(
    workload: AbstractWorkload, *, shuffle: bool = True, num_threads: int, compile_loss: bool = False, fused: bool = False
) -> Run:
    """With `compile_loss`, loss and optimizer are compiled; with `fused`, the optimizer is one call for all weights."""
    options = {"fused": True} if fused else {"foreach": True}
    if not compile_loss:
        return prepare_loop(workload, shuffle=shuffle, num_threads=num_threads, **options)
    return prepare_loop(
        workload, shuffle=shuffle, num_threads=num_threads, compile_loss=torch.compile, compile_apply=torch.compile, foreach=True
    )


def _variants() -> dict[str, functools.partial[Run]]:
    ways = {"fused": {"fused": True}, "foreach": {}, "compiled": {"compile_loss": True}}
    threads = {1, os.cpu_count() or 1}
    return {
        f"{way}, {n} thread(s)": functools.partial(prepare, num_threads=n, **options)
        for way, options in ways.items()
        for n in threads
    }


_VARIANTS = _variants()
PEER = Peer("expert's loop", _VARIANTS, slow_to_compile=frozenset(name for name in _VARIANTS if name.startswith("compiled")))
