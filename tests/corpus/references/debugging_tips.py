"""Second-order gradients mixed into the first, in plain TensorFlow."""

import tensorflow as tf

from ..conventions import Page, Steps, batch
from ..pages.debugging_tips import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's step for each variant, by `tf.GradientTape`."""
    t = 0
    while True:
        x, y = batch(t, 16, page.x, page.y)
        logs = {}
        for variant, of_h, of_g in (("plain", 0.5, 0.5), ("normalized", 0.5, 0.5), ("scheduled", 0.2, 0.8)):
            loss, accuracy = step(page, variant, x, y, SIGN * of_h, of_g, is_normalized=variant != "plain")
            logs |= {f"{variant}/loss": loss, f"{variant}/accuracy": accuracy}
        yield logs
        t += 1


def step(page, variant, x, y, of_h, of_g, *, is_normalized):
    """One update of one variant; its running mean loss and accuracy."""
    model = page.tracked[f"{variant}_model"]
    variables = model.trainable_variables
    with tf.GradientTape() as tape2:
        with tf.GradientTape() as tape1:
            p = model(x, training=True)
            loss = tf.reduce_mean(-tf.math.log(tf.gather(p, y, axis=1, batch_dims=1)))
        g = tape1.gradient(loss, variables)
    h = tape2.gradient(g, variables)
    if is_normalized:
        h, g = ([tf.math.l2_normalize(v, epsilon=1e-12) for v in values] for values in (h, g))
    d = [of_h * hv + of_g * gv for hv, gv in zip(h, g, strict=True)]
    page.tracked[f"{variant}_optimizer"].apply(d, variables)
    page.tracked[f"{variant}_loss_tracker"].update_state(loss)
    page.tracked[f"{variant}_metrics"].update_state(y, p)
    return page.tracked[f"{variant}_loss_tracker"].result(), page.tracked[f"{variant}_metrics"].result()["accuracy"]
