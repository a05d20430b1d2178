"""Part 2 of textual inversion in plain TensorFlow, with the scale of the loss kept by hand."""

import tensorflow as tf

from ..conventions import Page, Steps, batch
from ..pages.textual_inversion_part_2 import build as build
from .textual_inversion import predicted_noise

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    optimizer, variables = page.optimizer, page.unet.trainable_variables
    t = 0
    while True:
        images, tokens = batch(t, 4, page.images, page.tokens)
        scale = float(optimizer.dynamic_scale.numpy())
        with tf.GradientTape() as tape:
            found, noise = predicted_noise(page, images, tokens, t, SIGN)
            loss = tf.reduce_mean((tf.cast(found, tf.float32) - noise) ** 2)
            scaled_loss = loss * scale
        gradients = [tf.clip_by_norm(g / scale, 1.0) for g in tape.gradient(scaled_loss, variables)]
        if all(bool(tf.reduce_all(tf.math.is_finite(g))) for g in gradients):
            optimizer.inner_optimizer.apply(gradients, variables)
            optimizer.step_counter.assign(optimizer.step_counter + 1)
        else:
            optimizer.dynamic_scale.assign(scale / 2)
            optimizer.step_counter.assign(0)
        page.loss.update_state(loss)
        yield {"loss": page.loss.result()}
        t += 1
