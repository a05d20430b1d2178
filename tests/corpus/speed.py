"""What a step of each page costs against the same step written by hand: `python -m tests.corpus.speed [--check] [PAGE ...]`.

With KERAS_BACKEND=jax or tensorflow it measures there; without, on both, prints one table and writes `speed.json`. Both versions
run in one process, in blocks that alternate, on random numbers drawn before. A plain version whose numbers are wrong is reported,
not timed.
"""

import argparse
import contextlib
import functools
import importlib
import io
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from . import conventions

BACKENDS = ("tensorflow", "jax")
NUM_ROUNDS = 15
NUM_WARM_UP_STEPS = 25
SECONDS_OF_A_BLOCK = 0.06
MIN_STEPS_OF_A_BLOCK = 5
NUM_DRAWS = 10
"""Noise repeats after so many steps, so that after the warm-up none is drawn. More than the steps of any page that draws."""
RESULTS = conventions.HERE / "speed.json"


def main() -> None:
    """Measures or checks the pages on the active backend, or measures on both, each in a process of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--check", action="store_true", help="compare numbers only")
    options = parser.parse_args()
    pages = options.pages or conventions.PAGES
    if "KERAS_BACKEND" not in os.environ:
        sys.exit(measure_on_all_backends(pages))
    keep_draws()
    failures = [result for name in pages if "reason" in (result := report(name, only_check=options.check))]
    sys.exit(1 if options.check and failures else 0)


def measure_on_all_backends(pages: list[str]) -> int:
    """Prints the table and writes it; pages that were not asked for keep what was measured before."""
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for backend in BACKENDS:
        command = [sys.executable, "-m", "tests.corpus.speed", *pages]
        environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        output = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True).stdout
        lines = map(json.loads, output.splitlines())
        results[backend] = results.get(backend, {}) | {line.pop("page"): line for line in lines}
    RESULTS.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    print(table(results))
    return 0


def table(results: dict[str, dict[str, Any]]) -> str:
    """Markdown: microseconds a step, and how many times as long a step takes on trainstep."""
    rows = ["| page | backend | trainstep | by hand | ratio | middle half |", "|---|---|---|---|---|---|"]
    for name in conventions.PAGES:
        for backend in BACKENDS:
            row = results.get(backend, {}).get(name, {"reason": "not measured"})
            if "reason" in row:
                rows.append(f"| `{name}` | {backend} | | | | {row['reason']} |")
                continue
            low, high = row["spread"]
            cells = f"{row['trainstep']:,} | {row['plain']:,} | {row['ratio']:.2f} | {low:.2f}-{high:.2f}"
            rows.append(f"| `{name}` | {backend} | {cells} |")
    return "\n".join(rows)


def report(name: str, *, only_check: bool) -> dict[str, Any]:
    """Prints one line of JSON about a page: what was measured, or the reason why it was not."""
    from . import plain_versions

    try:
        with contextlib.redirect_stdout(io.StringIO()):
            version = plain_versions.plain_version(name)
            plain_versions.check(name, version)
            result = {"page": name} | ({"numbers": "equal"} if only_check else measure(name, version))
    except plain_versions.WrongNumbers as error:
        result = {"page": name, "reason": f"plain version computes something else: {error}"}
    except FileNotFoundError as error:
        result = {"page": name, "reason": str(error)}
    print(json.dumps(result), flush=True)
    return result


def measure(name: str, version: Any) -> dict[str, Any]:
    """Microseconds a step, the median of the ratios of neighbouring blocks, and the quartiles of these."""
    module = importlib.import_module(f"{__package__}.pages.{name}")
    page = module.build(native=False)
    ours = block_of(module.steps(page, compile=True), lambda logs: version.wait(logs, page))
    plain = block_of(version.run(), version.wait)
    for block in (ours, plain):
        block(NUM_WARM_UP_STEPS)
    num_steps = max(MIN_STEPS_OF_A_BLOCK, round(SECONDS_OF_A_BLOCK / plain(MIN_STEPS_OF_A_BLOCK)))
    ours(MIN_STEPS_OF_A_BLOCK)
    pairs = []
    for i in range(NUM_ROUNDS):
        if i % 2:
            plain_seconds, our_seconds = plain(num_steps), ours(num_steps)
        else:
            our_seconds, plain_seconds = ours(num_steps), plain(num_steps)
        pairs.append((our_seconds, plain_seconds))
    ratios = [a / b for a, b in pairs]
    low, _, high = statistics.quantiles(ratios, n=4)
    return {
        "trainstep": round(statistics.median(a for a, _ in pairs) * 1e6),
        "plain": round(statistics.median(b for _, b in pairs) * 1e6),
        "ratio": round(statistics.median(ratios), 3),
        "spread": [round(low, 3), round(high, 3)],
        "steps_of_a_block": num_steps,
    }


def block_of(run: Any, wait: Callable[[Any], None]) -> Callable[[int], float]:
    """A function that runs so many steps more, waits for the last, and returns the seconds that one took."""

    def block(num_steps: int) -> float:
        started = time.perf_counter()
        for _ in range(num_steps):
            outcome = next(run)
        wait(outcome)
        return (time.perf_counter() - started) / num_steps

    return block


def keep_draws() -> None:
    """Lets pages that are imported from now on draw each noise once only."""
    for name in ("normal", "uniform", "integers", "permutation"):
        setattr(conventions, name, _kept(getattr(conventions, name)))


def _kept(draw: Callable[..., Any]) -> Callable[..., Any]:
    drawn = functools.cache(draw)
    return lambda t, *arguments: drawn(t % NUM_DRAWS, *arguments)


if __name__ == "__main__":
    main()
