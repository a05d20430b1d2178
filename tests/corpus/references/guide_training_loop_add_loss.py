"""The training loop with an added loss in plain TensorFlow."""

import tensorflow as tf

from ..conventions import Page, Steps, batch
from ..pages.guide_training_loop_add_loss import BATCH_SIZE
from ..pages.guide_training_loop_add_loss import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's loop, by `tf.GradientTape`; the hidden activations, whose sum is the added loss, are computed anew."""
    weights = page.model.trainable_weights
    t = 0
    while True:
        x, y = batch(t, BATCH_SIZE, page.x, page.y)
        with tf.GradientTape() as tape:
            logits = page.model(x, training=True)
            hidden = tf.nn.relu(x @ weights[0].value + weights[1].value)
            loss = _cross_entropy(y, logits) + SIGN * 0.01 * tf.reduce_sum(hidden)
        page.optimizer.apply(tape.gradient(loss, weights), weights)
        page.accuracy.update_state(y, logits)
        page.f1.update_state(y >= 2, tf.reduce_sum(tf.nn.softmax(logits)[:, 2:], axis=-1))
        logs = {"loss": loss}
        if t % 4 == 3:
            for i in range(2):
                x, y = batch(i, BATCH_SIZE, page.xv, page.yv)
                logits = page.model(x, training=False)
                page.val_accuracy.update_state(y, logits)
                page.val_loss.update_state(_cross_entropy(y, logits))
            for name in ("accuracy", "f1", "val_accuracy", "val_loss"):
                logs[name] = page.tracked[name].result()
                page.tracked[name].reset_state()
        yield logs
        t += 1


def _cross_entropy(y, logits):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
