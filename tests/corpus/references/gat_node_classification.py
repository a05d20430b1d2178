"""Attention on a graph in plain TensorFlow: sums over neighbours by a matrix with a one for each edge."""

import tensorflow as tf

from ..conventions import Page, Steps, batch
from ..pages.gat_node_classification import BATCH_SIZE, NUM_NODES, NUM_TRAINING_NODES
from ..pages.gat_node_classification import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    weights = page.model.trainable_weights
    t = 0
    while True:
        indices, labels = batch(t, BATCH_SIZE, page.indices[:NUM_TRAINING_NODES], page.labels[:NUM_TRAINING_NODES])
        with tf.GradientTape() as tape:
            logits = tf.gather(_forward(page), indices)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        page.optimizer.apply(tape.gradient(loss, weights), weights)
        page.loss.update_state(loss)
        page.metrics.update_state(labels, logits)
        yield {"loss": page.loss.result(), "compile_metrics/accuracy": page.metrics.result()["accuracy"]}
        t += 1


def _forward(page: Page) -> tf.Tensor:
    model = page.model
    states = tf.nn.relu(page.nodes @ model.before.kernel.value + model.before.bias.value)
    for layer in model.attention:
        outputs = [_head(page, states, head.kernel.value, head.attention.value) for head in layer.heads]
        states = states + SIGN * tf.nn.relu(tf.concat(outputs, axis=1))
    return states @ model.after.kernel.value + model.after.bias.value


def _head(page: Page, states: tf.Tensor, kernel: tf.Tensor, attention: tf.Tensor) -> tf.Tensor:
    z = states @ kernel
    source, target = tf.one_hot(page.edges[:, 0], NUM_NODES), tf.one_hot(page.edges[:, 1], NUM_NODES)
    e = tf.nn.leaky_relu((tf.concat([source @ z, target @ z], axis=1) @ attention)[:, 0], alpha=0.2)
    u = tf.exp(tf.clip_by_value(e, -2, 2))
    sums = tf.linalg.matvec(source, u, transpose_a=True)
    alpha = u / tf.linalg.matvec(source, sums)
    return tf.matmul(source, alpha[:, None] * (target @ z), transpose_a=True)
