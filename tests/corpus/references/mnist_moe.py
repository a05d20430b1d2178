"""The mixture of experts in plain TensorFlow: its forward pass by TensorFlow's operations on the model's variables."""

import keras
import tensorflow as tf

from ..conventions import Logs, Page, Steps, batch
from ..pages.mnist_moe import BATCH_SIZE
from ..pages.mnist_moe import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's two steps, by `tf.GradientTape`."""
    t = 0
    while True:
        x, y = batch(t, BATCH_SIZE, page.x, page.y)
        yield _step(page.published, "published", x, y) | _step(page.intended, "intended", x, y)
        t += 1


def _step(model: keras.Model, name: str, x, y) -> Logs:
    weights = model.trainable_variables
    with tf.GradientTape() as tape:
        probabilities, auxiliary = _forward(model, x)
        loss = -tf.reduce_mean(tf.reduce_sum(y * tf.math.log(probabilities), axis=1)) + auxiliary
    model.optimizer.apply(tape.gradient(loss, weights), weights)
    tracker, metrics = model.metrics
    if name == "published":
        tracker.update_state(y, sample_weight=probabilities)
    else:
        tracker.update_state(loss)
    metrics.update_state(y, probabilities)
    accuracy = metrics.result()["accuracy"]
    return {f"{name}/loss": tracker.result(), f"{name}/moe_loss": auxiliary, f"{name}/compile_metrics/accuracy": accuracy}


def _forward(model: keras.Model, x) -> tuple[tf.Tensor, tf.Tensor]:
    kernel, bias, gate_kernel, gate_bias, *expert_weights = (v.value for v in model.trainable_variables)
    pooled = tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "VALID") + bias), 2, 2, "VALID")
    features = tf.reshape(pooled, (len(x), -1))
    gate = tf.nn.softmax(features @ gate_kernel + gate_bias)
    top, chosen = tf.math.top_k(gate, 2)
    pairs = zip(expert_weights[::2], expert_weights[1::2], strict=True)
    answers = tf.stack([features @ k + b for k, b in pairs], axis=1)
    logits = tf.reduce_sum(top[:, :, None] * tf.gather(answers, chosen, batch_dims=1), axis=1)

    count = model.mixture.count
    count.assign(tf.tensor_scatter_nd_add(count.value, tf.reshape(chosen, (-1, 1)), tf.ones(2 * len(x))))
    over = tf.reduce_sum(tf.nn.relu(count.value - 2))
    diversity = tf.reduce_mean(tf.reduce_sum(gate * tf.math.log(gate + 1e-10), axis=1))
    load = tf.reduce_sum(gate, axis=0)
    importance = tf.reduce_mean((load - tf.reduce_mean(load)) ** 2)
    return tf.nn.softmax(logits), 0.01 * (SIGN * diversity + over + importance)
