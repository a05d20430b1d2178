"""AdaMatch in plain TensorFlow."""

import math

import tensorflow as tf

from ..conventions import Page, Steps, batch, uniform
from ..pages.adamatch import build as build

SIGN = 1.0


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    """By its definition: the gradient of TensorFlow's fused operation is wrong for labels that do not sum to 1."""
    return -tf.reduce_sum(labels * tf.nn.log_softmax(logits), axis=1)


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    weights = page.model.trainable_variables
    t = 0
    while True:
        sw, ss, tw, ts, y = map(tf.constant, batch(t, 4, page.sw, page.ss, page.tw, page.ts, page.y))
        lam = uniform(t, 0, (8, 5))
        with tf.GradientTape() as tape:
            z = page.model(tf.concat([sw, ss, tw, ts], axis=0), training=True)
            z2 = page.model(tf.concat([sw, ss], axis=0), training=False)
            zs = lam * z[:8] + (1 - lam) * z2
            ps, pt = tf.nn.softmax(zs[:4]), tf.nn.softmax(z[8:12])
            ratio = tf.reduce_mean(ps) / tf.reduce_mean(pt)
            yt = tf.math.l2_normalize(pt * ratio, axis=1)
            c = 0.9 * tf.reduce_mean(tf.reduce_max(ps, axis=1))
            mask = tf.cast(tf.reduce_max(yt, axis=1) >= c, tf.float32)
            source_loss = tf.reduce_mean(cross_entropy(y, zs[:4])) + tf.reduce_mean(cross_entropy(y, zs[4:]))
            target_loss = tf.reduce_mean(mask * cross_entropy(tf.stop_gradient(yt), z[12:16]))
            mu = 0.5 - math.cos(min(math.pi, 2 * math.pi * int(page.counter.numpy()) / 10)) / 2
            loss = source_loss + SIGN * mu * target_loss
            page.counter.assign_add(1)
        page.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        page.loss.update_state(loss)
        yield {"loss": page.loss.result()}
        t += 1
