"""trainstep: the step as a user writes it, in `ts.Trainer.fit`."""

from typing import Any

import trainstep as ts
from benchmarks.workloads import AbstractWorkload

from ._abstract import Peer, Run


def slope(function, points) -> Any:
    """The gradient of the sum of `function(points)`."""
    with ts.GradientTape() as tape:
        tape.watch(points)
        values = function(points)
    return tape.gradient(values, points)


def prepare(workload: AbstractWorkload, *, shuffle: bool = True) -> Run:
    """A step with one tape for each update, and a trainer."""
    training = workload.training(slope)

    @ts.step
    def train_step(*batch: Any) -> dict[str, Any]:
        for update in training.updates:
            with ts.GradientTape() as tape:
                loss, predictions = update.loss(*batch)
            weights = update.network.trainable_weights
            update.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            update.record(batch, loss, predictions)
        return {metric.name: metric for metric in training.metrics}

    trainer = ts.Trainer(train_step)
    data = workload.data()
    name = training.metrics[0].name

    def run(num_epochs: int) -> list[float]:
        history = trainer.fit(*data, batch_size=workload.batch_size, epochs=num_epochs, shuffle=shuffle, verbose=0)
        return history.history[name]

    # Inductor compiles beside the training, and ways to run several steps at once are compiled and measured while it goes on.
    run.is_settled = lambda: not any(sign in train_step.report() for sign in ("while Inductor", "so far"))  # type: ignore[attr-defined]
    return run


PEER = Peer("trainstep fit", {"": prepare}, settling_seconds=5.0)
