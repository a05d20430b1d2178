"""SimCLR with a linear probe in plain TensorFlow."""

import tensorflow as tf

from ..conventions import Page, Steps, batch, uniform
from ..pages.semisupervised_simclr import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    t = 0
    while True:
        (unlabelled,) = batch(t, 6, page.u)
        labelled, labels = batch(t, 2, page.l, page.y)
        contrast(page, tf.concat([unlabelled, labelled], 0), t)
        probe(page, labelled, labels, t)
        yield {name: page.tracked[name].result() for name in ("c_loss", "c_acc", "p_loss", "p_acc")}
        t += 1


def augmented(images: tf.Tensor, strength: float, t: int, k: int) -> tf.Tensor:
    """Images as numbers from 0 to 1, each brighter or darker by its own draw."""
    draws = uniform(t, k, (len(images), 1, 1, 1))
    return tf.clip_by_value(images / 255.0 * (1 + strength * (draws - 0.5)), 0.0, 1.0)


def contrast(page: Page, images: tf.Tensor, t: int) -> None:
    """The first update: encoder and projection head."""
    views = [augmented(images, 0.6, t, k) for k in (0, 1)]
    labels = tf.range(8)
    variables = page.encoder.trainable_variables + page.projection.trainable_variables
    with tf.GradientTape() as tape:
        p1, p2 = (page.projection(page.encoder(view)) for view in views)
        p1, p2 = (p / tf.norm(p, axis=1, keepdims=True) for p in (p1, p2))
        s = tf.matmul(p1, p2, transpose_b=True) / 0.1
        cross_entropies = tf.nn.sparse_softmax_cross_entropy_with_logits
        c = (cross_entropies(labels, s) + SIGN * cross_entropies(labels, tf.transpose(s))) / 2
    page.contrastive_optimizer.apply_gradients(zip(tape.gradient(c, variables), variables, strict=True))
    page.c_acc.update_state(labels, s)
    page.c_acc.update_state(labels, tf.transpose(s))
    page.c_loss.update_state(c)


def probe(page: Page, images: tf.Tensor, labels: tf.Tensor, t: int) -> None:
    """The second update: the probe alone, on what the updated encoder finds."""
    features = page.encoder(augmented(images, 0.2, t, 2), training=False)
    variables = page.probe.trainable_variables
    with tf.GradientTape() as tape:
        logits = page.probe(features, training=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    page.probe_optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
    page.p_loss.update_state(loss)
    page.p_acc.update_state(labels, logits)
