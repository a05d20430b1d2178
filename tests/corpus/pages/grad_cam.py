"""Grad-CAM: where in an image a class was seen, by the gradient with respect to an activation inside a trained model."""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, overwrite_weights

NUM_STEPS, RTOL, ATOL = 1, 1e-4, 1e-5
LOGS = [f"{name}/{i}" for i in range(4) for name in ("heatmap", "heatmap of class 2")]
CHANGES: list[str] = []


def build(*, native: bool) -> Page:
    """The classifier, and four images."""
    inputs = keras.Input((16, 16, 3))
    activation = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(inputs)
    activation = layers.Conv2D(12, 3, strides=2, padding="same", activation="relu", name="target")(activation)
    logits = layers.Dense(5, name="logits")(layers.GlobalAveragePooling2D()(activation))
    classifier = keras.Model(inputs, logits)
    overwrite_weights(classifier)
    x = np.random.default_rng(4).normal(size=(4, 16, 16, 3)).astype("float32")
    return Page(tracked={"classifier": classifier}, data={"x": x}, native=native)


def with_activation(classifier: keras.Model) -> keras.Model:
    """A second model over the same layers: images to the target layer's activation and the logits."""
    return keras.Model(classifier.inputs[0], [classifier.get_layer("target").output, classifier.outputs[0]])


def score_gradient(model: keras.Model, images: Any, class_index: Any = None) -> tuple[Any, Any]:
    """The target activation (b, 4, 4, 12), and the gradient of the score of a class with respect to it.

    Args:
        model: Made by `with_activation`.
        images: A tensor (b, 16, 16, 3).
        class_index: An integer or a scalar tensor; without it the class with the largest score in the first image.
    """
    with ts.GradientTape() as tape:
        activation, logits = model(images)
        if class_index is None:
            class_index = ops.argmax(logits[0])
        scores = logits[:, class_index]
    return activation, tape.gradient(scores, activation)


def heatmap(model: keras.Model, image: Any, class_index: Any = None) -> Any:
    """How much each place of the target activation speaks for the class: (4, 4), at most 1. Takes one image (1, 16, 16, 3)."""
    activation, gradient = score_gradient(model, image, class_index)
    weights = ops.mean(gradient, axis=(0, 1, 2))
    heat = ops.squeeze(activation[0] @ weights[:, None])
    return ops.maximum(heat, 0) / ops.max(heat)


def steps(page: Page, *, compile: bool) -> Steps:
    """The heatmaps of each image, for the class that it is taken for, and for class 2."""
    model = with_activation(page.classifier)

    @ts.step(compile=compile)
    def heat(image, class_index=None):
        return heatmap(model, image, class_index)

    while True:
        logs = {}
        for i in range(len(page.x)):
            image = page.x[i : i + 1]
            logs[f"heatmap/{i}"] = heat.predict((image,))
            logs[f"heatmap of class 2/{i}"] = heat.predict((image, 2))
        yield logs
