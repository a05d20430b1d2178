"""The training loop."""

from typing import Any

from .._step import Step
from ..data import AbstractFeed
from ._events import Events
from ._progress import AbstractProgress
from ._reading import as_numbers
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
    logs are read at the end of an epoch, and by callbacks that look.
    """
    logs: dict[str, Any] = {}
    for epoch in events.train_begin(epochs):
        progress.epoch_begin(epoch, feed.num_steps)
        events.epoch_begin(epoch)
        step.forget_stale_programs()
        step.reset_metrics()
        logs = as_numbers(_train_one_epoch(step, feed, epoch, events, progress))
        progress.steps_ended(logs)
        logs.update(validation.after_epoch(epoch, events))
        events.epoch_end(epoch, logs)
        progress.epoch_end(logs)
        if events.stop_requested:
            break
    events.train_end(logs)


def _train_one_epoch(step: Step, feed: AbstractFeed, epoch: int, events: Events, progress: AbstractProgress) -> dict[str, Any]:
    """Trains on every batch of an epoch; the logs after the last one, still on the device."""
    logs: dict[str, Any] = {}
    for num_steps_completed, batch in enumerate(feed.epoch(epoch)):
        events.train_batch_begin(num_steps_completed)
        if events.has_train_batch_hooks:
            step.forget_stale_programs()
        logs = step.run(batch)
        events.train_batch_end(num_steps_completed, logs)
        progress.step_done(logs)
        if events.stop_requested:
            break
    return logs
