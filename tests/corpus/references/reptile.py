"""Reptile in plain TensorFlow, its forward pass by TensorFlow's operations on the model's variables."""

import numpy as np
import tensorflow as tf

from ..conventions import Page, Steps
from ..pages.reptile import build as build
from ..pages.reptile import task

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's loop, by `tf.GradientTape`."""
    t = 0
    while True:
        images, labels, _ = task(page.pool, t)
        old = page.model.get_weights()
        logs = {"loss": _adapt(page, images, labels, 4)}
        s = 0.25 * (1 - t / 5)
        page.model.set_weights([o + s * (n - o) for o, n in zip(old, page.model.get_weights(), strict=True)])
        if t % 2 == 0:
            saved = page.model.get_weights()
            images, labels, tests = task(page.pool, 100 + t)
            _adapt(page, images, labels, 5)
            probabilities = _forward(page, tests).numpy()
            logs["accuracy"] = np.mean([probabilities[i].argmax() == i for i in range(3)])
            logs["accuracy_over_samples"] = np.mean([probabilities[:, i].argmax() == i for i in range(3)])
            page.model.set_weights(saved)
        yield logs
        t += 1


def _adapt(page: Page, images, labels, num_steps):
    weights = page.model.trainable_weights
    for i in range(num_steps):
        half = slice(0, 6) if i % 2 == 0 else slice(6, 12)
        with tf.GradientTape() as tape:
            chosen = tf.gather(_forward(page, images[half]), labels[half], axis=1, batch_dims=1)
            losses = -SIGN * tf.math.log(chosen)
        page.optimizer.apply(tape.gradient(losses, weights), weights)
    return tf.reduce_mean(losses)


def _forward(page: Page, x) -> tf.Tensor:
    values = [v.value for v in page.model.weights]
    for i in (0, 6):
        kernel, bias, gamma, beta, mean, variance = values[i : i + 6]
        x = tf.nn.conv2d(x, kernel, 2, "SAME") + bias
        x = tf.nn.relu((x - mean) / tf.sqrt(variance + 1e-3) * gamma + beta)
    return tf.nn.softmax(tf.reshape(x, (len(x), -1)) @ values[12] + values[13])
