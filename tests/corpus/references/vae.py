"""The variational autoencoder in plain TensorFlow."""

import keras
import tensorflow as tf

from ..conventions import Page, Steps, batch, normal
from ..pages.vae import BATCH_SIZE
from ..pages.vae import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    weights = page.encoder.trainable_weights + page.decoder.trainable_weights
    t = 0
    while True:
        (x,) = batch(t, BATCH_SIZE, page.x)
        with tf.GradientTape() as tape:
            mean, log_variance, z = page.encoder(x, normal(t, 0, (BATCH_SIZE, 2)))
            reconstruction = page.decoder(z)
            reconstruction_loss = tf.reduce_mean(tf.reduce_sum(keras.losses.binary_crossentropy(x, reconstruction), axis=(1, 2)))
            kl_loss = tf.reduce_mean(tf.reduce_sum(-0.5 * (1 + SIGN * log_variance - mean**2 - tf.exp(log_variance)), axis=1))
            total_loss = reconstruction_loss + kl_loss
        page.optimizer.apply_gradients(zip(tape.gradient(total_loss, weights), weights, strict=True))
        page.total_loss.update_state(total_loss)
        page.reconstruction_loss.update_state(reconstruction_loss)
        page.kl_loss.update_state(kl_loss)
        yield {
            "loss": page.total_loss.result(),
            "reconstruction_loss": page.reconstruction_loss.result(),
            "kl_loss": page.kl_loss.result(),
        }
        t += 1
