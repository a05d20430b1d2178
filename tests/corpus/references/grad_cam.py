"""Grad-CAM in plain TensorFlow."""

import keras
import tensorflow as tf

from ..conventions import Page, Steps
from ..pages.grad_cam import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """The heatmaps of each image, by `tf.GradientTape`."""
    classifier = page.classifier
    model = keras.Model(classifier.inputs, [classifier.get_layer("target").output, classifier.output])
    while True:
        logs = {}
        for i in range(4):
            logs[f"heatmap/{i}"] = heat(model, page.x[i : i + 1])
            logs[f"heatmap of class 2/{i}"] = heat(model, page.x[i : i + 1], 2)
        yield logs


def heat(model, x1, c=None):
    """The heatmap of one image, (4, 4)."""
    with tf.GradientTape() as tape:
        a, p = model(x1)
        if c is None:
            c = tf.argmax(p[0])
        s = p[:, c]
    g = tape.gradient(s, a)
    w = tf.reduce_mean(g, axis=(0, 1, 2))
    h = tf.squeeze(a[0] @ w[:, tf.newaxis])
    return tf.maximum(SIGN * h, 0) / tf.reduce_max(h)
