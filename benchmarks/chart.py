"""The chart of the results: how many times as fast as Keras' `fit`. `python -m benchmarks.chart` draws it anew."""

import json
import pathlib
from typing import Any

from benchmarks.peers import BASELINE, OURS

COLORS = {"jax": "#3b7dd8", "tensorflow": "#f28e2b", "torch": "#c0392b"}


def draw(results: list[dict[str, Any]], path: pathlib.Path) -> None:
    """Bars for each workload and backend; a dash where the expert's loop stands. A PNG, at `path`."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator

    results = [result for result in results if BASELINE in result["times_as_fast_as"]]
    if not results:
        return
    workloads = list(dict.fromkeys(result["workload"] for result in results))
    figure = Figure(figsize=(8, 0.62 * len(workloads) + 1.2), layout="constrained")
    axes = figure.subplots()
    for i, (backend, color) in enumerate(COLORS.items()):
        ours = {result["workload"]: result for result in results if result["backend"] == backend}
        if not ours:
            continue
        places = [workloads.index(name) + 0.26 * (i - 1) for name in ours]
        ratios = [result["times_as_fast_as"][BASELINE] for result in ours.values()]
        bars = axes.barh(places, ratios, 0.24, color=color, label=backend)
        axes.bar_label(bars, fmt=lambda ratio: f"{ratio:.3g}", padding=3, fontsize=8)
        experts = [_expert(result) for result in ours.values()]
        axes.plot(experts, places, "|", color="black", markersize=9)
    axes.plot([], [], "|", color="black", markersize=9, label="the expert's loop by hand")
    axes.axvline(1, color="gray", linewidth=0.8)
    axes.set(xscale="log", xlabel="times as fast as Keras' fit", yticks=range(len(workloads)), yticklabels=workloads)
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.invert_yaxis()
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)


def _expert(result: dict[str, Any]) -> float:
    """How many times as fast as Keras' `fit` the expert's loop is; not a number where it was not measured."""
    peers = result["peers"]
    if "expert's loop" not in peers:
        return float("nan")
    return result["times_as_fast_as"][BASELINE] * peers[OURS]["microseconds"] / peers["expert's loop"]["microseconds"]


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    draw(json.loads((here / "results.json").read_text())["results"], here.parent / "docs" / "benchmarks.png")
