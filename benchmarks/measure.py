"""Measures every workload and peer on one backend, interleaved, in one process: `python -m benchmarks.measure`."""

import json
import statistics
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import keras

from benchmarks.peers import keras_fit, trainstep_fit
from benchmarks.workloads.dense import Dense

WORKLOADS = [Dense(32), Dense(512)]
PEERS: list[ModuleType] = [keras_fit, trainstep_fit]
NUM_ROUNDS = 7


def measure(workload: Dense) -> dict[str, Any]:
    """Microseconds a step for each peer: the median over interleaved epochs, after one that warms up; and the losses."""
    epochs: dict[str, Callable[[], float]] = {peer.NAME: peer.prepare(workload) for peer in PEERS}
    losses = {name: [epoch()] for name, epoch in epochs.items()}
    times: dict[str, list[float]] = {name: [] for name in epochs}
    for _ in range(NUM_ROUNDS):
        for name, epoch in epochs.items():
            started = time.perf_counter()
            losses[name].append(epoch())
            times[name].append((time.perf_counter() - started) / workload.num_steps * 1e6)
    return {
        "workload": workload.name,
        "backend": keras.config.backend(),
        "microseconds": {name: round(statistics.median(values)) for name, values in times.items()},
        "spread": {name: [round(min(values)), round(max(values))] for name, values in times.items()},
        "ratio": round(statistics.median(k / t for k, t in zip(times[keras_fit.NAME], times[trainstep_fit.NAME], strict=True)), 2),
        "last_loss": {name: round(values[-1], 4) for name, values in losses.items()},
    }


if __name__ == "__main__":
    for each in WORKLOADS:
        print(json.dumps(measure(each)), flush=True)
