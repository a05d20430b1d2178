"""The shifting vision model in plain TensorFlow, its forward pass by TensorFlow's operations on the model's variables."""

import tensorflow as tf

from ..conventions import Page, Steps, batch, uniform
from ..pages.shiftvit import BATCH_SIZE
from ..pages.shiftvit import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`, on one flat list of sources."""
    weights = page.model.trainable_variables
    t = 0
    while True:
        x, y = batch(t, BATCH_SIZE, page.x, page.y)
        with tf.GradientTape() as tape:
            logits = _forward([w.value for w in weights], x, t)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        page.optimizer.apply(tape.gradient(loss, weights), weights)
        page.loss.update_state(loss)
        page.metrics.update_state(y, logits)
        results = {f"compile_metrics/{name}": value for name, value in page.metrics.result().items()}
        yield {"loss": page.loss.result()} | results
        t += 1


def _forward(weights, x, t):
    kernel, bias, *rest = weights
    x = tf.nn.conv2d(x / 255, kernel, 4, "VALID") + bias
    for k in range(2):
        gamma, beta, w1, b1, w2, b2 = rest[6 * k : 6 * k + 6]
        wide = tf.nn.gelu(_normalized(_shifted(x), gamma, beta) @ w1 + b1)
        kept = tf.cast(uniform(t, k, (BATCH_SIZE, 1, 1, 1)) >= 0.2, "float32")
        x += SIGN * (wide @ w2 + b2) * kept / 0.8
    gamma, beta, kernel, bias = rest[12:]
    return _normalized(tf.reduce_mean(x, axis=(1, 2)), gamma, beta) @ kernel + bias


def _normalized(x, gamma, beta):
    mean, variance = tf.nn.moments(x, axes=-1, keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-3) * gamma + beta


def _shifted(x):
    left, right, up, down, *others = tf.split(x, 8, axis=-1)
    column, row = tf.zeros_like(left[:, :, :1]), tf.zeros_like(left[:, :1])
    left = tf.concat([left[:, :, 1:], column], axis=2)
    right = tf.concat([column, right[:, :, :-1]], axis=2)
    up = tf.concat([up[:, 1:], row], axis=1)
    down = tf.concat([row, down[:, :-1]], axis=1)
    return tf.concat([left, right, up, down, *others], axis=-1)
