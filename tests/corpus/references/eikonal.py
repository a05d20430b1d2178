"""The eikonal equation in plain TensorFlow: the network as a function of its weights, the gradient by a tape inside a tape."""

import keras
import tensorflow as tf

from ..conventions import Page, Steps, batch
from ..pages import eikonal

SIGN = 1.0


def build(*, native: bool) -> Page:
    """The page's weights and data. Of its models only the one without a gradient layer is used."""
    return eikonal.build(native=native)


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    variables = page.travel_time.trainable_variables
    t = 0
    while True:
        sx, sy, rx, ry, v = map(tf.constant, batch(t, 16, page.sx, page.sy, page.rx, page.ry, page.v))
        with tf.GradientTape() as tape:
            with tf.GradientTape() as inner:
                inner.watch([rx, ry])
                time = travel_time(variables, sx, sy, rx, ry)
            gx, gy = inner.gradient(time, [rx, ry], unconnected_gradients=tf.UnconnectedGradients.ZERO)
            residual = ((gx**2 + gy**2) * v**2 - SIGN) / 2
            loss = tf.reduce_mean(tf.abs(residual))
        page.optimizer.apply(tape.gradient(loss, variables), variables)
        page.mean_loss.update_state(loss)
        yield {"loss": page.mean_loss.result()}
        t += 1


def travel_time(variables, sx, sy, rx, ry):
    """T, from the kernels and biases of its four dense layers."""
    both_ways = (slowness(variables, sx, sy, rx, ry) + slowness(variables, rx, ry, sx, sy)) / 2
    return tf.sqrt((rx - sx) ** 2 + (ry - sy) ** 2) * ((1 - 1 / 3.5) * both_ways + 1 / 3.5)


def slowness(variables, *point):
    """f, between 0 and 1."""
    *hidden_weights, kernel, bias = map(keras.ops.convert_to_tensor, variables)
    hidden = tf.concat(point, axis=1)
    for w, b in zip(hidden_weights[::2], hidden_weights[1::2], strict=True):
        hidden = tf.exp(-((hidden @ w + b) ** 2))
    return tf.sigmoid(hidden @ kernel + bias)
