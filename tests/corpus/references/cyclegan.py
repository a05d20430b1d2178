"""The CycleGAN in plain TensorFlow."""

import tensorflow as tf

from ..conventions import Page, Steps, batch
from ..pages.cyclegan import BATCH_SIZE
from ..pages.cyclegan import build as build

SIGN = 1.0


def generator_loss(judged: tf.Tensor, real: tf.Tensor, cycled: tf.Tensor, same: tf.Tensor) -> tf.Tensor:
    """What a generator is to make small: it is found out, its cycle does not close, it changes what is right already."""
    return (
        tf.reduce_mean((1 - judged) ** 2)
        + SIGN * 10 * tf.reduce_mean(tf.abs(real - cycled))
        + 5 * tf.reduce_mean(tf.abs(real - same))
    )


def discriminator_loss(judged_real: tf.Tensor, judged_fake: tf.Tensor) -> tf.Tensor:
    """What a discriminator is to make small."""
    return (tf.reduce_mean((1 - judged_real) ** 2) + tf.reduce_mean(judged_fake**2)) / 2


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    g, f, dx, dy = page.G, page.F, page.D_X, page.D_Y
    t = 0
    while True:
        x, y = map(tf.constant, batch(t, BATCH_SIZE, page.x, page.y))
        with tf.GradientTape(persistent=True) as tape:
            fy, fx = g(x, training=True), f(y, training=True)
            cx, cy = f(fy, training=True), g(fx, training=True)
            sx, sy = f(x, training=True), g(y, training=True)
            dfx, dfy = dx(fx, training=True), dy(fy, training=True)
            g_loss = generator_loss(dfy, y, cy, sy)
            f_loss = generator_loss(dfx, x, cx, sx)
            dx_loss = discriminator_loss(dx(x, training=True), dfx)
            dy_loss = discriminator_loss(dy(y, training=True), dfy)
        g_gradients = tape.gradient(g_loss, g.trainable_variables)
        f_gradients = tape.gradient(f_loss, f.trainable_variables)
        dx_gradients = tape.gradient(dx_loss, dx.trainable_variables)
        dy_gradients = tape.gradient(dy_loss, dy.trainable_variables)
        page.G_optimizer.apply_gradients(zip(g_gradients, g.trainable_variables, strict=True))
        page.F_optimizer.apply_gradients(zip(f_gradients, f.trainable_variables, strict=True))
        page.D_X_optimizer.apply_gradients(zip(dx_gradients, dx.trainable_variables, strict=True))
        page.D_Y_optimizer.apply_gradients(zip(dy_gradients, dy.trainable_variables, strict=True))
        yield {"G_loss": g_loss, "F_loss": f_loss, "D_X_loss": dx_loss, "D_Y_loss": dy_loss}
        t += 1
