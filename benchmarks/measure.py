"""Measures workloads and peers on one backend, interleaved, in one process: `python -m benchmarks.measure --help`."""

import argparse
import json
import statistics
import sys
from typing import Any

import keras

from benchmarks.entrants import Entrant, best_variant
from benchmarks.limit import limit
from benchmarks.options import add_selection, selected
from benchmarks.peers import BASELINE, OURS, Peer, peers
from benchmarks.workloads import WORKLOADS, AbstractWorkload

MOST_EPOCHS_COMPARED = 20


def measure(
    workload: AbstractWorkload, chosen: list[Peer], *, num_rounds: int, run_seconds: float, is_quick: bool
) -> dict[str, Any]:
    """What every peer takes for a step, what the products alone take, and whether all train the same.

    The peers run one after another, round after round; a ratio is the median of the ratios within a round.
    """
    entrants, notes = [], []
    for peer in chosen:
        try:
            entrant, more = best_variant(peer, workload, run_seconds, is_quick=is_quick)
        except RuntimeError as error:
            notes.append(str(error))
            continue
        entrants.append(entrant)
        notes += more
    for round_number in range(num_rounds):
        first = round_number % max(len(entrants), 1)
        for entrant in entrants[first:] + entrants[:first]:
            entrant.measure()
    return {
        "workload": workload.name,
        "key": workload.key,
        "backend": keras.config.backend(),
        "num_rounds": num_rounds,
        "peers": {entrant.peer.name: _figures(entrant) for entrant in entrants},
        "not_peers": _not_peers(workload, entrants),
        "times_as_fast_as": _ratios(entrants),
        "limit_microseconds": limit(workload.products(), run_seconds=run_seconds),
        "notes": notes,
    }


def _figures(entrant: Entrant) -> dict[str, Any]:
    return {
        "variant": entrant.variant,
        "microseconds": round(statistics.median(entrant.times), 1),
        "spread": [round(min(entrant.times), 1), round(max(entrant.times), 1)],
        "first_run_seconds": round(entrant.first_seconds, 2),
        "first_loss": round(entrant.losses[0], 5),
        "num_epochs": len(entrant.losses),
    }


def _ratios(entrants: list[Entrant]) -> dict[str, float]:
    """How many times as fast ours is as each other: the median over the rounds."""
    times = {entrant.peer.name: entrant.times for entrant in entrants}
    ours = times.pop(OURS, [])
    if not ours:
        return {}
    return {
        name: round(statistics.median(theirs / our for theirs, our in zip(other, ours, strict=True)), 3)
        for name, other in times.items()
    }


def _not_peers(workload: AbstractWorkload, entrants: list[Entrant]) -> dict[str, str]:
    """Those whose losses are not those of Keras' `fit` (or else of the first): in the first epoch, or on average over all compared.

    Every peer shuffles for itself, and the loss of a single epoch may jump, so the tolerance is a fraction of the first loss.
    `tests/unit/test_benchmarks.py` compares exactly.
    """
    by_name = {entrant.peer.name: entrant.losses for entrant in entrants}
    standard = by_name.get(BASELINE, next(iter(by_name.values()), []))
    found = {}
    for name, losses in by_name.items():
        for num_epochs in {1, min(len(losses), len(standard), MOST_EPOCHS_COMPARED)}:
            loss, expected = (statistics.mean(values[:num_epochs]) for values in (losses, standard))
            if abs(loss - expected) > workload.tolerance * max(abs(expected), abs(standard[0])):
                found[name] = f"loss {loss:.4f} over {num_epochs} epoch(s), where {expected:.4f} was expected"
    return found


def main() -> None:
    """Prints a line of JSON for each workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_selection(parser)
    options = parser.parse_args()
    available, notes = peers(keras.config.backend())
    for note in notes:
        print(note, file=sys.stderr)
    for workload in selected(WORKLOADS, options.workloads, lambda workload: workload.key):
        result = measure(
            workload,
            selected(available, options.peers, lambda peer: peer.name),
            num_rounds=options.rounds,
            run_seconds=options.run_seconds,
            is_quick=options.quick,
        )
        result["notes"] += notes
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
