"""One peer on one workload in a process of its own: what a first update takes, when full speed is reached, how much memory is used.

`python -m benchmarks.alone dense "Keras fit"` prints a line of JSON; `alone()` does so for another process.
"""

import argparse
import dataclasses
import json
import os
import statistics
import subprocess
import sys
import time
from typing import Any

import keras

from benchmarks.memory import peak_megabytes, resident_megabytes
from benchmarks.options import selected
from benchmarks.peers import Run, peers
from benchmarks.workloads import ALL_WORKLOADS, AbstractWorkload

NUM_MEASURED = 7
FULL_SPEED = 1.25
"""Full speed is reached with the first epoch that takes no more than so many times the fastest."""


def alone(key: str, peer: str, *, backend: str, seconds: float = 0.0, **changes: Any) -> dict[str, Any]:
    """The figures of a peer in a fresh process; `changes` are of the workload's attributes."""
    environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", "benchmarks.alone", key, peer, "--seconds", str(seconds), "--changes", json.dumps(changes)]
    run = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def figures(workload: AbstractWorkload, prepare: Any, *, seconds: float) -> dict[str, Any]:
    """What the first update, the way to full speed and the memory are.

    The first update is that of an epoch of one step, from the call of `fit` or of the loop, the model being built before.
    """
    one_step: Run = prepare(dataclasses.replace(workload, num_steps=1))
    before = resident_megabytes()
    first_update = _seconds(one_step, 1)
    del one_step
    run: Run = prepare(workload)
    elapsed, times, resident = 0.0, [], []
    while len(times) < NUM_MEASURED or elapsed < seconds:
        times.append(_seconds(run, workload.num_epochs))
        elapsed += times[-1]
        resident.append(resident_megabytes())
    full_speed = next(i for i, value in enumerate(times) if value <= FULL_SPEED * min(times))
    num_steps = workload.num_steps * workload.num_epochs
    return {
        "first_update_seconds": round(first_update, 3),
        "full_speed_seconds": round(sum(times[:full_speed]), 3),
        "microseconds": round(statistics.median(times[full_speed:]) / num_steps * 1e6, 1),
        "peak_megabytes": round(peak_megabytes() - before, 1),
        "drift_megabytes": round(resident[-1] - resident[len(resident) // 2], 2),
        "num_epochs": len(times) * workload.num_epochs,
    }


def _seconds(run: Run, num_epochs: int) -> float:
    started = time.perf_counter()
    run(num_epochs)
    return time.perf_counter() - started


def main() -> None:
    """Prints the figures, of the first variant of the peer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", help="its key: linear, dense, dropout, ...")
    parser.add_argument("peer", help="its name, or the beginning of it")
    parser.add_argument("--seconds", type=float, default=0.0, help="train at least so long, for what gets faster while it trains")
    parser.add_argument("--changes", type=json.loads, default={}, help="attributes of the workload, as JSON")
    options = parser.parse_args()
    workload = next(each for each in ALL_WORKLOADS if each.key == options.workload)
    peer, *_ = selected(peers(keras.config.backend())[0], options.peer, lambda each: each.name)
    prepare, *_ = peer.variants.values()
    print(json.dumps(figures(dataclasses.replace(workload, **options.changes), prepare, seconds=options.seconds)))


if __name__ == "__main__":
    main()
