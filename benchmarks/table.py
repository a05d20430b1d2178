"""The results as Markdown."""

from typing import Any

from benchmarks.peers import OURS


def table(results: list[dict[str, Any]]) -> str:
    """Microseconds a step, median (least to most); for others than ours, how many times as fast ours is; and the limit."""
    names = list(dict.fromkeys(name for result in results for name in result["peers"]))
    lines = [
        "| workload | backend | "
        + " | ".join(f"`{name}`" if name.endswith("fit") else name for name in names)
        + " | products alone |",
        "|---|---|" + "---|" * (len(names) + 1),
    ]
    for result in results:
        cells = [result["workload"], result["backend"], *(_cell(result, name) for name in names), _limit(result)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def table_alone(results: list[dict[str, Any]]) -> str:
    """Of peers in processes of their own: first update, full speed, peak memory and drift; empty if none were measured."""
    lines = [
        "| workload | backend | peer | first update, s | full speed, s | memory, MB | drift, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    names = ("first_update_seconds", "full_speed_seconds", "peak_megabytes", "drift_megabytes")
    for result in results:
        for peer, figures in result.get("alone", {}).items():
            cells = [result["workload"], result["backend"], peer, *(f"{figures[name]:,}" for name in names)]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) if len(lines) > 2 else ""


def _cell(result: dict[str, Any], name: str) -> str:
    figures = result["peers"].get(name)
    if figures is None:
        return ""
    least, most = figures["spread"]
    text = f"{_number(figures['microseconds'])} ({_number(least)}-{_number(most)})"
    if name in result["times_as_fast_as"]:
        text += f", x {result['times_as_fast_as'][name]:.2f}"
    if name in result["not_peers"]:
        text += ", not a peer"
    return text


def _limit(result: dict[str, Any]) -> str:
    limit = result["limit_microseconds"]
    ours = result["peers"].get(OURS)
    return _number(limit) + (f" ({limit / ours['microseconds']:.0%} reached)" if ours else "")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def notes(results: list[dict[str, Any]]) -> str:
    """Which variant an expert chose, who is not a peer and why, and what failed."""
    lines = []
    for result in results:
        place = f"- {result['workload']}, {result['backend']}"
        chosen = [f"{name}: {figures['variant']}" for name, figures in result["peers"].items() if figures["variant"]]
        wrong = [f"{name} is not a peer: {why}" for name, why in result["not_peers"].items()]
        lines += [f"{place}: {text}" for text in [*chosen, *wrong, *result["notes"]]]
    return "\n".join(lines)
