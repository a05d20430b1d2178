"""Measures every backend in a process of its own, one after another, and prints one table: `python -m benchmarks --help`."""

import argparse
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from benchmarks.alone import alone
from benchmarks.chart import draw
from benchmarks.options import add_selection, as_arguments, completed, selected
from benchmarks.system import description
from benchmarks.table import notes, table, table_alone

BACKENDS = ("jax", "tensorflow", "torch")
HERE = pathlib.Path(__file__).parent
RESULTS = HERE / "results.json"
CHART = HERE.parent / "docs" / "benchmarks.png"


def measure(backend: str, arguments: list[str]) -> list[dict[str, Any]]:
    """The results of one backend, one for each workload."""
    environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-m", "benchmarks.measure", *arguments]
    run = subprocess.run(command, env=environment, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def measure_alone(result: dict[str, Any], seconds: float) -> dict[str, dict[str, Any]]:
    """For each peer that was measured: first update, full speed and memory, in a process of its own."""
    return {peer: alone(result["key"], peer, backend=result["backend"], seconds=seconds) for peer in result["peers"]}


def kept(results: list[dict[str, Any]], measured: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The earlier results with those measured now in their places."""
    by_place = {(r["key"], r["backend"]): r for r in [*results, *measured]}
    return list(by_place.values())


def main() -> None:
    """Measures, prints the table, and writes results and chart where everything was measured or `--save` is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--backends", default="", help=f"separated by commas; all by default: {','.join(BACKENDS)}")
    parser.add_argument(
        "--output", default="", help="where to write; by default results.json, unless peers are left out or --quick"
    )
    parser.add_argument("--alone", type=float, default=0.0, metavar="SECONDS", help="every peer once more, by itself: memory")
    add_selection(parser)
    options = completed(parser.parse_args())
    measured = [r for backend in selected(BACKENDS, options.backends, str) for r in measure(backend, as_arguments(options))]
    if options.alone:
        for result in measured:
            result["alone"] = measure_alone(result, options.alone)
    print(table(measured))
    print(table_alone(measured))
    print(notes(measured))
    is_complete = not (options.peers or options.quick)
    path = pathlib.Path(options.output) if options.output else RESULTS
    if not (is_complete or options.output):
        return
    earlier = json.loads(path.read_text())["results"] if path.exists() and is_complete else []
    everything = kept(earlier, measured)
    path.write_text(json.dumps({"system": description(), "results": everything}, indent=1) + "\n")
    draw(everything, CHART if path == RESULTS else path.with_suffix(".png"))


if __name__ == "__main__":
    main()
