"""What can be chosen on the command line, for all backends and for one."""

import argparse
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")

QUICK_WORKLOADS = "linear,dense,dropout"


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Workloads, peers and how thoroughly to measure."""
    parser.add_argument(
        "--workloads", default="", help="keys, separated by commas: linear,dense,dropout,convnet,...; all by default"
    )
    parser.add_argument("--peers", default="", help="names, or the words they begin with, separated by commas; all by default")
    parser.add_argument("--rounds", type=int, default=7, help="how often every peer runs, in turn (%(default)s)")
    parser.add_argument("--run-seconds", type=float, default=0.3, help="how long a run takes at least (%(default)s)")
    parser.add_argument(
        "--quick", action="store_true", help="a minute a backend: three workloads, three rounds, nothing that compiles slowly"
    )


def completed(options: argparse.Namespace) -> argparse.Namespace:
    """With `--quick`, what it stands for."""
    if options.quick:
        options.workloads = options.workloads or QUICK_WORKLOADS
        options.rounds, options.run_seconds = min(options.rounds, 3), min(options.run_seconds, 0.1)
    return options


def as_arguments(options: argparse.Namespace) -> list[str]:
    """The same selection for another process."""
    chosen: list[Any] = ["--workloads", options.workloads, "--peers", options.peers, "--rounds", options.rounds]
    return [*map(str, chosen), "--run-seconds", str(options.run_seconds), *(["--quick"] if options.quick else [])]


def selected(every: Iterable[T], wanted: str, name_of: Callable[[T], str]) -> list[T]:
    """Those whose name begins with one of the wanted, in any case; all where none is wanted.

    Raises:
        SystemExit: One of the wanted is the beginning of no name.
    """
    every = list(every)
    starts = [start.strip().lower() for start in wanted.split(",") if start.strip()]
    for start in starts:
        if not any(name_of(one).lower().startswith(start) for one in every):
            raise SystemExit(f"there is no {start!r} among {', '.join(name_of(one) for one in every)}")
    return [one for one in every if not starts or any(name_of(one).lower().startswith(start) for start in starts)]
