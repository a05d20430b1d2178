"""The limit: a step's matrix products and convolutions alone, forward and backward, in one compiled program of the backend.

No training step that computes the same products through the same backend is faster than this, whatever is around it.
"""

import statistics
import time
from collections.abc import Callable

import keras

from benchmarks.products import Product, programs

NUM_RUNS = 5


def limit(products: list[Product], *, run_seconds: float) -> float:
    """Microseconds for one step's products: the median of five runs of at least `run_seconds`; of two ways, the faster."""
    ways = programs(keras.config.backend(), products)
    return round(min(_microseconds(program, run_seconds) for program in ways), 1)


def _microseconds(program: Callable[[int], None], run_seconds: float) -> float:
    program(1)
    num_calls, seconds = 1, 0.0
    while seconds < run_seconds / 3:
        num_calls *= 2
        seconds = _seconds(program, num_calls)
    num_calls = max(1, round(num_calls * run_seconds / seconds))
    return statistics.median(_seconds(program, num_calls) for _ in range(NUM_RUNS)) / num_calls * 1e6


def _seconds(program: Callable[[int], None], num_calls: int) -> float:
    started = time.perf_counter()
    program(num_calls)
    return time.perf_counter() - started
