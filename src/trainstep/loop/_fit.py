"""The training loop."""

from collections.abc import Mapping
from typing import Any

from .._step import Step
from ..data import AbstractFeed, read
from ._events import Events
from ._progress import AbstractProgress
from ._reading import as_numbers
from ._steps import run_steps
from ._validation import AbstractValidation


def fit(
    step: Step, feed: AbstractFeed, *, epochs: range, validation: AbstractValidation, events: Events, progress: AbstractProgress
) -> None:
    """Trains on the feed's batches, epoch by epoch.

    The loop:

        on_train_begin
        for each epoch:
            on_epoch_begin; metrics to zero
            for each batch:
                on_train_batch_begin
                train on the batch
                on_train_batch_end
                leave both loops if a callback has asked to stop
            logs = what the metrics say; then, where it is due, the validation's
            on_epoch_end
            leave the loop if a callback has asked to stop
        on_train_end

    An epoch that a callback stops in mid-epoch is still validated and ended. The step returns before the device is done:
    logs are read at the end of an epoch, and by callbacks that look. Where no callback has a hook for batches, several steps
    may go to the device at once.
    """
    logs: dict[str, Any] = {}
    for epoch in events.train_begin(epochs):
        progress.epoch_begin(epoch, feed.num_steps)
        events.epoch_begin(epoch)
        step.forget_stale_programs()
        step.reset_metrics()
        if events.may_change_data:
            feed.forget_copies()
        logs = as_numbers(_train_one_epoch(step, feed, epoch, epochs.stop - epoch, events, progress))
        progress.steps_ended(logs)
        logs.update(validation.after_epoch(epoch, events))
        events.epoch_end(epoch, logs)
        progress.epoch_end(logs)
        if events.stop_requested:
            break
    events.train_end(logs)


def _train_one_epoch(
    step: Step, feed: AbstractFeed, epoch: int, num_epochs_left: int, events: Events, progress: AbstractProgress
) -> Mapping[str, Any]:
    """Trains on every batch of an epoch; the logs after the last one, still on the device."""
    if events.has_train_batch_hooks or events.stop_requested:
        return _train_batch_by_batch(step, feed, epoch, events, progress)
    logs: Mapping[str, Any] = {}
    for num_steps, logs in run_steps(step, feed, epoch, num_epochs_left=num_epochs_left):
        progress.steps_done(num_steps, logs)
        if events.stop_requested:
            break
    return logs


def _train_batch_by_batch(
    step: Step, feed: AbstractFeed, epoch: int, events: Events, progress: AbstractProgress
) -> Mapping[str, Any]:
    """The same where callbacks want to hear of every batch, and may change what the step reads, or stop it."""
    logs: Mapping[str, Any] = {}
    for num_steps_completed, batch in enumerate(map(read, feed.epoch(epoch))):
        events.train_batch_begin(num_steps_completed)
        step.forget_stale_programs()
        logs = step.run(batch)
        events.train_batch_end(num_steps_completed, logs)
        progress.steps_done(1, logs)
        if events.stop_requested:
            break
    return logs
