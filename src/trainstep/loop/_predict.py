"""The prediction loop."""

from typing import Any

import keras
import numpy as np

from .. import backends, data
from .._errors import StepError, describe
from .._step import Step
from ..backends import Tensor
from ._events import Events
from ._progress import AbstractProgress


def predict(step: Step, feed: data.AbstractFeed, *, events: Events, progress: AbstractProgress) -> Any:
    """Runs a prediction step on the feed's batches; NumPy arrays in the nest of its result, batches concatenated in order.

    The loop:

        on_predict_begin
        for each batch:
            on_predict_batch_begin
            predict
            fetch the result of the batch before, while the device works on this one
            on_predict_batch_end
        on_predict_end
    """
    progress.epoch_begin(0, feed.num_steps)
    events.predict_begin()
    step.forget_stale_programs()
    fetched: list[Any] = []
    waiting: list[Any] = []
    for num_steps_completed, batch in enumerate(map(data.read, feed.epoch(0))):
        events.predict_batch_begin(num_steps_completed)
        outputs = step.predict(batch)
        fetched.extend(map(_fetch, waiting))
        waiting = [outputs]
        events.predict_batch_end(num_steps_completed, outputs)
        progress.steps_done(1, {})
    fetched.extend(map(_fetch, waiting))
    progress.steps_ended({})
    events.predict_end()
    progress.epoch_end({})
    return keras.tree.map_structure(_concatenate, *fetched)


def _fetch(outputs: Any) -> Any:
    return keras.tree.map_structure(backends.active().to_numpy, outputs)


def _concatenate(*batches: Tensor) -> np.ndarray:
    if batches[0].ndim == 0:
        raise StepError(
            f"A prediction step must return one row for each sample. It returned {describe(batches[0])}: keep the first axis."
        )
    return np.concatenate(batches)
