"""The hypernetwork in plain TensorFlow: the written network as a formula."""

import tensorflow as tf

from ..conventions import Page, Steps, batch
from ..pages.hypernetwork import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    weights = page.hypernetwork.trainable_weights
    losses, mean, t = [], 0.0, 0
    while True:
        x, y = batch(t, 1, page.x, page.y)
        with tf.GradientTape() as tape:
            r = page.hypernetwork(x)[0]
            w0, b0, w1, b1 = tf.split(r, [72, 6, 18, 3])
            q = tf.nn.relu(x @ tf.reshape(w0, (12, 6)) + b0) @ tf.reshape(w1, (6, 3)) + SIGN * b1
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, q))
        page.optimizer.apply(tape.gradient(loss, weights), weights)
        losses.append(loss.numpy())
        if len(losses) % 8 == 0:
            mean = sum(losses) / len(losses)
        yield {"loss": loss, "mean_loss": mean}
        t += 1
