"""Runs the measurements on every backend, each in a process of its own, and prints one table."""

import json
import os
import pathlib
import subprocess
import sys
from typing import Any

BACKENDS = ("jax", "tensorflow", "torch")
RESULTS = pathlib.Path(__file__).parent / "results.json"


def measure(backend: str) -> list[dict[str, Any]]:
    """The results of one backend, one for each workload."""
    environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.measure"], env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def table(results: list[dict[str, Any]]) -> str:
    """A Markdown table: microseconds a step, median (least to most)."""
    lines = ["| workload | backend | Keras `fit` | trainstep `fit` | times as fast |", "|---|---|---|---|---|"]
    for r in results:
        cells = [f"{r['microseconds'][n]:,} ({r['spread'][n][0]:,}-{r['spread'][n][1]:,})" for n in ("Keras fit", "trainstep fit")]
        lines.append(f"| {r['workload']} | {r['backend']} | {cells[0]} | {cells[1]} | {r['ratio']} |")
    return "\n".join(lines)


if __name__ == "__main__":
    collected = [result for backend in BACKENDS for result in measure(backend)]
    collected.sort(key=lambda r: (r["workload"], r["backend"]))
    RESULTS.write_text(json.dumps(collected, indent=1) + "\n")
    print(table(collected))
