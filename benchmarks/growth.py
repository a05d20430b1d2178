"""How time and memory grow with depth, batch size, variables and epochs, ours beside Keras' `fit` and the plain loop.

`python -m benchmarks.growth --backends jax --axes depth` narrows it down. Every point is a process of its own.
"""

import argparse
import dataclasses
import json
import pathlib
from typing import Any

from benchmarks.alone import alone
from benchmarks.options import selected
from benchmarks.system import description

BACKENDS = ("jax", "tensorflow", "torch")
PEERS = ("trainstep fit", "Keras fit", "plain loop")
RESULTS = pathlib.Path(__file__).parent / "growth.json"


@dataclasses.dataclass(frozen=True)
class Axis:
    """What grows: an attribute of a workload, and the values it takes; the other attributes stay at `fixed`."""

    name: str
    workload: str
    attribute: str
    values: tuple[int, ...]
    fixed: tuple[tuple[str, Any], ...] = ()


AXES = (
    Axis("depth", "dense", "depth", (2, 4, 8, 16, 32, 64), (("num_steps", 50), ("width", 64))),
    Axis("batch size", "dense", "batch_size", (1, 4, 16, 64, 256, 1024, 4096), (("num_steps", 20),)),
    Axis("variables", "many_variables", "num_offsets", (4, 16, 64, 256)),
    Axis("epochs", "dense", "num_epochs", (1, 5, 30), (("num_steps", 20),)),
)


def measure(axis: Axis, backend: str, peer: str, *, seconds: float) -> list[dict[str, Any]]:
    """The figures of one peer at all values."""
    points = []
    for value in axis.values:
        figures = alone(axis.workload, peer, backend=backend, seconds=seconds, **dict(axis.fixed), **{axis.attribute: value})
        points.append({"axis": axis.name, "value": value, "backend": backend, "peer": peer} | figures)
        print(_line(points[-1]), flush=True)
    return points


def _line(point: dict[str, Any]) -> str:
    names = ("microseconds", "first_update_seconds", "full_speed_seconds", "peak_megabytes", "drift_megabytes")
    cells = [point["axis"], f"{point['value']:,}", point["backend"], point["peer"], *(f"{point[name]:,}" for name in names)]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Prints a Markdown table, and writes `growth.json` where nothing is left out or `--output` is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--backends", default="", help="separated by commas; all by default")
    parser.add_argument("--axes", default="", help=f"separated by commas; all by default: {', '.join(axis.name for axis in AXES)}")
    parser.add_argument("--peers", default="", help="separated by commas; all by default")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each trains at least, after its first update")
    parser.add_argument("--output", default="", help="where to write; growth.json by default where nothing is left out")
    options = parser.parse_args()
    print(
        "| axis | value | backend | peer | us a step | first update, s | full speed, s | memory, MB | drift, MB |\n"
        + "|---" * 9
        + "|"
    )
    points = [
        point
        for axis in selected(AXES, options.axes, lambda axis: axis.name)
        for backend in selected(BACKENDS, options.backends, str)
        for peer in selected(PEERS, options.peers, str)
        for point in measure(axis, backend, peer, seconds=options.seconds)
    ]
    is_complete = not (options.backends or options.axes or options.peers)
    if is_complete or options.output:
        path = pathlib.Path(options.output) if options.output else RESULTS
        path.write_text(json.dumps({"system": description(), "points": points}, indent=1) + "\n")


if __name__ == "__main__":
    main()
