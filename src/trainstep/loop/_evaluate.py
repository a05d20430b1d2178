"""The evaluation loop."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np

from .. import _keras, backends
from .._step import Step
from ..data import AbstractFeed, read
from ._events import Events
from ._progress import AbstractProgress
from ._reading import as_numbers
from ._steps import run_steps


@final
class Evaluation:
    """A test step and the data it is run on, once or many times.

    Args:
        step: The test step.
        feed: Its batches.
        progress: Told of each step.
        companions: Steps that may share its metrics. A step that runs eagerly does not know its metrics before its first
            run; those that it shares with a companion are then reset by that one.
    """

    def __init__(self, step: Step, feed: AbstractFeed, *, progress: AbstractProgress, companions: Sequence[Step] = ()):
        self.step = step
        self.feed = feed
        self._progress = progress
        self._companions = companions

    def run(self, events: Events, *, epoch: int = 0) -> dict[str, Any]:
        """The logs over one epoch of the feed, as Python floats."""
        self.step.forget_stale_programs()
        for step in (self.step, *(() if self.step.variables else self._companions)):
            step.reset_metrics()
        if events.may_change_data:
            self.feed.forget_copies()
        return evaluate(self.step, self.feed, epoch=epoch, events=events, progress=self._progress)


def evaluate(step: Step, feed: AbstractFeed, *, epoch: int, events: Events, progress: AbstractProgress) -> dict[str, Any]:
    """Runs a test step on the feed's batches; its logs as Python floats.

    The loop:

        on_test_begin
        for each batch:
            on_test_batch_begin
            evaluate the batch
            on_test_batch_end
        logs = what the metrics say
        on_test_end
    """
    progress.epoch_begin(epoch, feed.num_steps)
    events.test_begin()
    device_logs: Mapping[str, Any] = {}
    if events.has_test_batch_hooks:
        for num_steps_completed, batch in enumerate(map(read, feed.epoch(epoch))):
            events.test_batch_begin(num_steps_completed)
            device_logs = step.run(batch)
            events.test_batch_end(num_steps_completed, device_logs)
            progress.steps_done(1, device_logs)
    else:
        for num_steps, device_logs in run_steps(step, feed, epoch):
            progress.steps_done(num_steps, device_logs)
    logs = as_numbers(device_logs)
    progress.steps_ended(logs)
    events.test_end(logs)
    progress.epoch_end(logs)
    return logs


@contextlib.contextmanager
def metrics_kept(step: Step) -> Iterator[None]:
    """Puts the metrics and running means of a step back as they were, bit for bit, when the block ends."""
    to_numpy = backends.active().to_numpy
    # A copy: the array may be a view of memory that the next step takes over.
    before = [(variable, np.array(to_numpy(_keras.raw_value(variable)), copy=True)) for variable in step.metric_variables]
    try:
        yield
    finally:
        for variable, value in before:
            variable.assign(value)
