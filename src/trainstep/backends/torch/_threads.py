"""How many threads a program runs on, where the user has not said it."""

import os
from collections.abc import Callable
from typing import Any

import torch

_AT_IMPORT = torch.get_num_threads()
_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")

Run = Callable[..., Any]


def are_ours_to_choose() -> bool:
    """Whether neither the environment nor `torch.set_num_threads` has said how many threads PyTorch shall use."""
    return torch.get_num_threads() == _AT_IMPORT and not any(name in os.environ for name in _VARIABLES)


def choices() -> list[int]:
    """Numbers of threads worth a trial: as many as there are, and one, which is faster where operations are small."""
    all_threads = torch.get_num_threads()
    return [all_threads, 1] if all_threads > 1 and are_ours_to_choose() else [all_threads]


def one_left_free() -> int:
    """How many threads leave a core to another process."""
    all_threads = torch.get_num_threads()
    return max(1, all_threads - 1) if are_ours_to_choose() else all_threads


def on_threads(run: Run, num_threads: int) -> Run:
    """`run` on so many threads, each time it is called, unless the user sets another number than there is now."""
    at_present = torch.get_num_threads()
    if num_threads == at_present:
        return run

    def call(*inputs: Any) -> Any:
        if torch.get_num_threads() != at_present:
            return run(*inputs)
        torch.set_num_threads(num_threads)
        try:
            return run(*inputs)
        finally:
            torch.set_num_threads(at_present)

    return call
