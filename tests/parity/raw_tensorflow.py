"""The listing as written by hand for TensorFlow: `tf.function`, `tf.GradientTape`, `tf.Variable`."""

import numpy as np
import tensorflow as tf


def losses(weights, images, labels, *, batch_size, num_steps, learning_rate=0.001, rho=0.9, epsilon=1e-7):
    """The loss of each of the first steps."""
    weights = [tf.Variable(w) for w in weights]
    averages = [tf.Variable(tf.zeros_like(w)) for w in weights]
    w1, b1, w2, b2 = weights

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            logits = tf.nn.relu(x @ w1 + b1) @ w2 + b2
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))
        for w, a, g in zip(weights, averages, tape.gradient(loss, weights), strict=True):
            a.assign(rho * a + (1 - rho) * g * g)
            w.assign_sub(learning_rate * g / tf.sqrt(a + epsilon))
        return loss

    history = []
    for i in range(0, num_steps * batch_size, batch_size):
        history.append(step(tf.constant(images[i : i + batch_size]), tf.constant(labels[i : i + batch_size])))
    return np.array([loss.numpy() for loss in history])
