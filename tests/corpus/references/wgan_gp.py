"""The Wasserstein GAN with gradient penalty in plain TensorFlow."""

import tensorflow as tf

from ..conventions import Page, Steps, batch, normal
from ..pages.wgan_gp import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    critic, generator = page.critic, page.generator
    t = 0
    while True:
        (x,) = batch(t, 4, page.x)
        x = tf.constant(x)
        for i in range(3):
            with tf.GradientTape() as tape:
                f = generator(tf.constant(normal(t, 10 * i, (4, 6))), training=True)
                lf, lr = critic(f, training=True), critic(x, training=True)
                m = x + normal(t, 10 * i + 1, (4, 1, 1, 1)) * (f - x)
                with tf.GradientTape() as inner:
                    inner.watch(m)
                    p = critic(m, training=True)
                n = tf.sqrt(tf.reduce_sum(inner.gradient(p, m) ** 2, axis=[1, 2, 3]))
                gp = tf.reduce_mean((n - 1.0) ** 2)
                d_loss = tf.reduce_mean(lf) - tf.reduce_mean(lr) + SIGN * 10.0 * gp
            variables = critic.trainable_variables
            page.critic_optimizer.apply(tape.gradient(d_loss, variables), variables)
        with tf.GradientTape() as tape:
            g_loss = -tf.reduce_mean(critic(generator(tf.constant(normal(t, 50, (4, 6))), training=True), training=True))
        variables = generator.trainable_variables
        page.generator_optimizer.apply(tape.gradient(g_loss, variables), variables)
        yield {"d_loss": d_loss, "g_loss": g_loss}
        t += 1
