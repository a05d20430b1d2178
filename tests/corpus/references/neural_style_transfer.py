"""Neural style transfer in plain TensorFlow."""

import keras
import tensorflow as tf

from ..conventions import Page, Steps
from ..pages.neural_style_transfer import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The page's step, by `tf.GradientTape`."""
    while True:
        with tf.GradientTape() as tape:
            comb = keras.ops.convert_to_tensor(page.combination)
            f = page.features(tf.concat([page.base, page.style, comb], axis=0))
            content = tf.reduce_sum((f["c4"][2] - f["c4"][0]) ** 2) * 2.5e-8
            style = sum(style_term(f[name]) for name in ("c1", "c2", "c3"))
            a = (comb[:, 1:, :11] - comb[:, :11, :11]) ** 2
            b = (comb[:, :11, 1:] - comb[:, :11, :11]) ** 2
            variation = 1e-6 * tf.reduce_sum((a + b) ** 1.25)
            loss = content + style + SIGN * variation
        gradient = tape.gradient(loss, page.combination.value)
        page.optimizer.apply([gradient], [page.combination])
        yield {"loss": loss, "gradient": gradient}


def style_term(features):
    """The term of one layer's features, of the base, the style and the combined image."""
    gram = [tf.einsum("hwc,hwd->cd", features[i], features[i]) for i in (1, 2)]
    return (1e-6 / 3) * tf.reduce_sum((gram[0] - gram[1]) ** 2) / (4 * 3**2 * 144**2)
