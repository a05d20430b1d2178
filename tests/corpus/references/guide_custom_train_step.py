"""The five cases of the guide in plain TensorFlow: losses by its own operations, one case after another."""

import tensorflow as tf

from ..conventions import Logs, Page, Steps, batch
from ..pages.guide_custom_train_step import BATCH_SIZE, BATCHES_PER_EPOCH
from ..pages.guide_custom_train_step import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's steps, by `tf.GradientTape`."""
    t = 0
    while True:
        if t % BATCHES_PER_EPOCH == 0:
            for name in ("compiled", "own", "weighted", "evaluated", "sequential", "functional"):
                for metric in page.tracked[name].metrics:
                    metric.reset_state()
        x, y, sw, images, labels = batch(t, BATCH_SIZE, page.x, page.y, page.sw, page.img, page.lab)
        yield (
            _regression(page, "compiled", x, y)
            | _regression(page, "own", x, y)
            | _regression(page, "weighted", x, y, sw)
            | _regression(page, "evaluated", x, y, is_training=False)
            | _classification(page, "sequential", images, labels)
            | _classification(page, "functional", images, labels)
        )
        t += 1


def _regression(page: Page, name: str, x, y, sw=None, *, is_training=True) -> Logs:
    model = page.tracked[name]
    with tf.GradientTape() as tape:
        predictions = model(x, training=is_training)
        squares = tf.reduce_mean((y - SIGN * predictions) ** 2, axis=-1)
        loss = tf.reduce_mean(squares if sw is None else squares * sw[:, 0])
    if is_training:
        weights = model.trainable_variables
        model.optimizer.apply(tape.gradient(loss, weights), weights)
    tracker, others = model.metrics
    tracker.update_state(loss)
    if name == "own":
        others.update_state(y, predictions)
        return {"own/loss": tracker.result(), "own/mae": others.result()}
    others.update_state(y, predictions, sample_weight=sw)
    results = {f"{name}/compile_metrics/{key}": value for key, value in others.result().items()}
    return {f"{name}/loss": tracker.result()} | results


def _classification(page: Page, name: str, images, labels) -> Logs:
    model = page.tracked[name]
    weights = model.trainable_variables
    with tf.GradientTape() as tape:
        probabilities = model(images, training=True)
        chosen = tf.gather(probabilities, labels, axis=1, batch_dims=1)
        loss = -tf.reduce_mean(tf.math.log(chosen))
    model.optimizer.apply(tape.gradient(loss, weights), weights)
    [accuracy] = model.metrics
    accuracy.update_state(labels, probabilities)
    return {f"{name}/accuracy": accuracy.result()}
