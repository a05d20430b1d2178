"""The diffusion model in plain TensorFlow."""

import math

import tensorflow as tf

from ..conventions import Page, Steps, batch, normal, uniform
from ..pages.ddim import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    low, high = math.acos(0.95), math.acos(0.02)
    t = 0
    while True:
        (x,) = batch(t, 8, page.x)
        x = page.norm(x)
        eps, d = tf.constant(normal(t, 0, (8, 8, 8, 3))), tf.constant(uniform(t, 1, (8, 1, 1, 1)))
        angle = low + d * (high - low)
        signal, noise = tf.cos(angle), tf.sin(angle)
        z = signal * x + noise * eps
        with tf.GradientTape() as tape:
            eps_hat = page.net([z, noise**2], training=True)
            x_hat = (z - SIGN * noise * eps_hat) / signal
            n_loss = tf.reduce_mean(tf.abs(eps - SIGN * eps_hat), axis=-1)
            i_loss = tf.reduce_mean(tf.abs(x - x_hat), axis=-1)
        weights = page.net.trainable_variables
        page.optimizer.apply_gradients(zip(tape.gradient(n_loss, weights), weights, strict=True))
        page.n_loss.update_state(n_loss)
        page.i_loss.update_state(i_loss)
        for w, e in zip(page.net.weights, page.ema.weights, strict=True):
            e.assign(0.9 * e + 0.1 * w)
        yield {"n_loss": page.n_loss.result(), "i_loss": page.i_loss.result()}
        t += 1
