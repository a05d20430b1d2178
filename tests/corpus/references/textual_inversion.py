"""Textual inversion in plain TensorFlow, with the embedding's gradient as the indexed slices that TensorFlow returns."""

import math

import tensorflow as tf

from ..conventions import Page, Steps, batch, integers, normal
from ..pages.textual_inversion import build as build

SIGN = 1.0
SHAPE = (4, 4, 4, 2)


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    (embedding,) = page.text_encoder.trainable_variables
    t = 0
    while True:
        images, tokens = batch(t, 4, page.images, page.tokens)
        with tf.GradientTape() as tape:
            found, noise = predicted_noise(page, images, tokens, t, SIGN)
            loss = tf.reduce_mean((found - noise) ** 2)
        slices = tape.gradient(loss, embedding)
        assert isinstance(slices, tf.IndexedSlices)
        values = tf.where((slices.indices == 30)[:, None], slices.values, 0.0)
        gradient = tf.math.unsorted_segment_sum(values, slices.indices, 31)
        page.optimizer.apply_gradients([(gradient, embedding)])
        yield {"loss": loss}
        t += 1


def predicted_noise(page: Page, images: tf.Tensor, tokens: tf.Tensor, t: int, sign: float = 1.0) -> tuple[tf.Tensor, tf.Tensor]:
    """What the U-net makes of the noisy latents, and the noise that it was to find."""
    kept, levels = noise_schedule(), integers(t, 2, (4,), 20)
    mean, log_variance = tf.split(tf.cast(page.image_encoder(images), tf.float32), 2, axis=3)
    z = 0.18215 * (mean + tf.exp(tf.clip_by_value(log_variance, -30.0, 20.0) / 2) * normal(t, 0, SHAPE))
    noise = tf.constant(normal(t, 1, SHAPE))
    amount = tf.reshape(tf.constant([kept[level] for level in levels]), (4, 1, 1, 1))
    noisy = tf.sqrt(amount) * z + sign * tf.sqrt(1 - amount) * noise
    angles = [[int(level) * 10000 ** (-j / 4) for j in range(4)] for level in levels]
    embedded = tf.constant([[*map(math.cos, row), *map(math.sin, row)] for row in angles])
    return page.unet([noisy, embedded, page.text_encoder(tokens)]), noise


def noise_schedule() -> list[float]:
    """The product of 1 - beta up to each level."""
    low, high = math.sqrt(0.00085), math.sqrt(0.012)
    kept, product = [], 1.0
    for i in range(20):
        product *= 1 - (low + (high - low) * i / 19) ** 2
        kept.append(product)
    return kept
