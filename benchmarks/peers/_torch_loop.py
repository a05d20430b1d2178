"""The loop by hand in PyTorch, for all ways to make its step fast."""

from typing import Any

import torch

from benchmarks.workloads import AbstractWorkload

from ._abstract import Run
from ._batches import Orders
from ._torch_step import torch_data, torch_updates


def prepare_loop(workload: AbstractWorkload, *, shuffle: bool, num_threads: int = 0, **options: Any) -> Run:
    """`options` go to `torch_updates`; with `num_threads`, the process runs on so many, and flushes denormals."""
    torch.manual_seed(0)
    updates = torch_updates(workload, **options)
    data = torch_data(workload)
    orders = Orders(workload, shuffle=shuffle)

    def epoch() -> float:
        for update in updates:
            update.means.reset()
        for rows in torch.from_numpy(orders.next()):
            batch = [part[rows] for part in data]
            for update in updates:
                update(batch)
        (loss, _), *_ = [update.means.result() for update in updates]
        return loss

    def run(num_epochs: int) -> list[float]:
        if num_threads:
            torch.set_num_threads(num_threads)
            torch.set_flush_denormal(True)
        return [epoch() for _ in range(num_epochs)]

    return run
