"""The MelGAN in plain TensorFlow."""

import tensorflow as tf

from ..conventions import Page, Steps, batch
from ..pages.melgan import BATCH_SIZE
from ..pages.melgan import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    g, d = page.generator, page.discriminator
    t = 0
    while True:
        x, y = map(tf.constant, batch(t, BATCH_SIZE, page.x, page.y))
        with tf.GradientTape() as tape_g, tf.GradientTape() as tape_d:
            w = g(x, training=True)
            f, r = d(y), d(w)
            gen = sum(tf.reduce_mean((1 - f[i][-1]) ** 2) for i in range(3)) / 3
            fm = sum(tf.reduce_mean(tf.abs(r[i][j] - f[i][j])) for i in range(3) for j in range(2)) / 6
            g_loss = gen + SIGN * 10 * fm
            d_loss = sum(tf.reduce_mean((1 - r[i][-1]) ** 2) + tf.reduce_mean(f[i][-1] ** 2) for i in range(3)) / 3
        g_gradients = tape_g.gradient(g_loss, g.trainable_variables)
        d_gradients = tape_d.gradient(d_loss, d.trainable_variables)
        page.generator_optimizer.apply_gradients(zip(g_gradients, g.trainable_variables, strict=True))
        page.discriminator_optimizer.apply_gradients(zip(d_gradients, d.trainable_variables, strict=True))
        page.gen_loss.update_state(g_loss)
        page.disc_loss.update_state(d_loss)
        yield {"gen_loss": page.gen_loss.result(), "disc_loss": page.disc_loss.result()}
        t += 1
