"""Peers made ready to be measured: prepared, warm, and the fastest variant chosen."""

import math
import statistics
import sys
import time

import keras

from benchmarks.peers import Peer, Run, settings_of_one_peer
from benchmarks.workloads import AbstractWorkload

MOST_EPOCHS_A_RUN = 400
MOST_SECONDS_OF_SETTLING = 60.0


class Entrant:
    """One peer, or one variant of it, on one workload.

    Attributes:
        variant: Which way it goes, where the peer has several.
        losses: The mean loss of every epoch so far.
        times: Microseconds a step of every measured run.
    """

    def __init__(self, peer: Peer, variant: str, workload: AbstractWorkload):
        self.peer, self.variant = peer, variant
        self.losses: list[float] = []
        self.times: list[float] = []
        self._workload = workload
        self._num_epochs = workload.num_epochs
        self._settings = settings_of_one_peer(keras.config.backend())
        started = time.perf_counter()
        with self._settings():
            self._run: Run = peer.variants[variant](workload)
        self.train(workload.num_epochs)
        self.first_seconds = time.perf_counter() - started

    def train(self, num_epochs: int) -> float:
        """Trains on, and answers how many seconds an epoch took."""
        with self._settings():
            started = time.perf_counter()
            losses = self._run(num_epochs)
            seconds = time.perf_counter() - started
        if not all(map(math.isfinite, losses)) or len(losses) != num_epochs:
            raise ValueError(f"{self.peer.name} on {self._workload.key}: {num_epochs} finite losses were expected. Got {losses}.")
        self.losses += losses
        return seconds / num_epochs

    def settle(self, run_seconds: float, *, is_quick: bool) -> None:
        """Trains until it is as fast as it gets, and fixes how many epochs a run must have to take `run_seconds`."""
        started = time.perf_counter()
        seconds = self.train(self._num_epochs)
        while not is_quick and self._is_settling(time.perf_counter() - started):
            seconds = self.train(self._num_epochs)
        self._num_epochs = min(max(self._num_epochs, math.ceil(run_seconds / seconds)), MOST_EPOCHS_A_RUN)

    def _is_settling(self, elapsed: float) -> bool:
        is_settled = getattr(self._run, "is_settled", lambda: True)
        return elapsed < self.peer.settling_seconds or (not is_settled() and elapsed < MOST_SECONDS_OF_SETTLING)

    def measure(self) -> None:
        """One run, its time noted."""
        self.times.append(self.train(self._num_epochs) / self._workload.num_steps * 1e6)


def best_variant(peer: Peer, workload: AbstractWorkload, run_seconds: float, *, is_quick: bool) -> tuple[Entrant, list[str]]:
    """The fastest variant of a peer, warm; and a note for each that fails.

    Raises:
        RuntimeError: All of them fail.
    """
    entrants, notes = [], []
    for variant in peer.variants:
        if is_quick and variant in peer.slow_to_compile:
            continue
        try:
            entrant = Entrant(peer, variant, workload)
            entrant.settle(run_seconds, is_quick=is_quick)
        except Exception as error:
            notes.append(f"{peer.name} {variant}".strip() + f" fails: {type(error).__name__}: {str(error).strip().splitlines()[0]}")
            continue
        entrants.append(entrant)
        print(f"{workload.key}, {peer.name} {variant}: first run {entrant.first_seconds:.1f} s", file=sys.stderr, flush=True)
    if not entrants:
        raise RuntimeError("; ".join(notes) or f"{peer.name} has no variant that compiles quickly")
    if len(entrants) > 1:
        for _ in range(3):
            for entrant in entrants:
                entrant.measure()
    best = min(entrants, key=lambda entrant: statistics.median(entrant.times or [0.0]))
    best.times.clear()
    return best, notes
