"""One training step by hand in TensorFlow; `keras_fit` and the loops by hand share it."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from benchmarks.workloads import Training


def slope(function, points):
    """The gradient of the sum of `function(points)`."""
    with tf.GradientTape() as tape:
        tape.watch(points)
        values = function(points)
    return tape.gradient(values, points)


def step_of(training: Training) -> Callable[..., None]:
    """`step(*batch)`: all updates, and their metrics."""

    def step(*batch: Any) -> None:
        for update in training.updates:
            weights = [weight.value for weight in update.network.trainable_weights]
            with tf.GradientTape() as tape:
                loss, predictions = update.loss(*batch)
            gradients = tape.gradient(loss, weights)
            update.optimizer.apply_gradients(zip(gradients, update.network.trainable_weights, strict=True))
            update.record(batch, loss, predictions)

    return step
