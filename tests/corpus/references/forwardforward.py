"""The forward-forward algorithm in plain TensorFlow."""

import numpy as np
import tensorflow as tf

from ..conventions import Page, Steps, permutation
from ..pages.forwardforward import build as build  # What its layers hold is used here, not how they train themselves.

SIGN = 1.0


def with_label(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The rows of x (16, 16) with the labels written over their first three entries."""
    result = x.copy()
    result[:, :3] = 0
    result[np.arange(16), y] = x.max(axis=1)
    return result


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    t = 0
    while True:
        x = page.x.reshape(16, 16)
        pos = with_label(x, page.y)
        neg = with_label(pos, page.y[permutation(t, 0, 16)])
        pos, neg = tf.constant(pos, tf.float64), tf.constant(neg, tf.float64)
        for name in ("L1", "L2"):
            kernel, bias = page.tracked[name].dense.trainable_variables
            optimizer, mean = page.tracked[f"{name}_optimizer"], page.tracked[f"{name}_loss"]

            def f(x: tf.Tensor, kernel: tf.Variable = kernel, bias: tf.Variable = bias) -> tf.Tensor:
                x = tf.cast(x, tf.float32)
                return tf.nn.relu(tf.matmul(x / (tf.norm(x, axis=1, keepdims=True) + 1e-4), kernel) + bias)

            for _ in range(4):
                with tf.GradientTape() as tape:
                    gp = tf.reduce_mean(f(pos) ** 2, axis=1)
                    gn = tf.reduce_mean(f(neg) ** 2, axis=1)
                    loss = tf.reduce_mean(tf.math.log(1 + tf.exp(tf.concat([1.5 - gp, SIGN * gn - 1.5], axis=0))))
                    mean.update_state(loss)
                gradients = tape.gradient(loss, [kernel, bias])
                optimizer.apply_gradients(zip(gradients, [kernel, bias], strict=True))
            pos, neg = f(pos), f(neg)
            page.loss_sum.assign_add(mean.result())
            page.loss_count.assign_add(1.0)
        yield {"FinalLoss": page.loss_sum / page.loss_count}
        t += 1
