"""Neural style transfer: an image, a variable that belongs to no model, is trained by a Keras optimizer."""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, overwrite_weights

NUM_STEPS, RTOL, ATOL = 5, 1e-4, 1e-5
LOGS = ["loss", "gradient"]
CHANGES = ["combination", "optimizer"]
CONTENT_LAYER, STYLE_LAYERS = "c4", ("c1", "c2", "c3")
CONTENT_WEIGHT, STYLE_WEIGHT, VARIATION_WEIGHT = 2.5e-8, 1e-6, 1e-6
SIZE, NUM_CHANNELS = 12, 3


def build(*, native: bool) -> Page:
    """The frozen network with several outputs, the two images, the image in the making and its optimizer."""
    image = keras.Input((SIZE, SIZE, NUM_CHANNELS))
    c1 = layers.Conv2D(8, 3, padding="same", activation="relu")(image)
    c2 = layers.Conv2D(8, 3, strides=2, padding="same", activation="relu")(c1)
    c3 = layers.Conv2D(12, 3, strides=2, padding="same", activation="relu")(c2)
    c4 = layers.Conv2D(12, 3, padding="same", activation="relu")(c3)
    features = keras.Model(image, {"c1": c1, "c2": c2, "c3": c3, "c4": c4})
    overwrite_weights(features)
    rng = np.random.default_rng(5)
    base, style = ((rng.random((1, SIZE, SIZE, NUM_CHANNELS)) * 255 - 128).astype("float32") for _ in range(2))
    schedule = keras.optimizers.schedules.ExponentialDecay(100.0, decay_steps=100, decay_rate=0.96)
    return Page(
        tracked={
            "features": features,
            "combination": keras.Variable(base, name="combination"),
            "optimizer": keras.optimizers.SGD(schedule),
        },
        data={"base": base, "style": style},
        native=native,
    )


def content_loss(base: Any, combination: Any) -> Any:
    """How far the features of the image are from those of the base image."""
    return ops.sum(ops.square(combination - base))


def gram_matrix(features: Any) -> Any:
    """Which channels of (height, width, channels) are active together: (channels, channels)."""
    flat = ops.reshape(ops.transpose(features, (2, 0, 1)), (features.shape[-1], -1))
    return flat @ ops.transpose(flat)


def style_loss(style: Any, combination: Any) -> Any:
    """How far the Gram matrix of the image is from that of the style image."""
    difference = gram_matrix(style) - gram_matrix(combination)
    return ops.sum(ops.square(difference)) / (4 * NUM_CHANNELS**2 * (SIZE * SIZE) ** 2)


def variation_loss(image: Any) -> Any:
    """How rough an image (1, height, width, channels) is."""
    corner = image[:, :-1, :-1]
    vertical, horizontal = ops.square(corner - image[:, 1:, :-1]), ops.square(corner - image[:, :-1, 1:])
    return ops.sum(ops.power(vertical + horizontal, 1.25))


def total_loss(page: Page, base: Any, style: Any) -> Any:
    """Content, style and variation of the image in the making, weighed."""
    images = ops.concatenate([base, style, page.combination], axis=0)
    features = page.features(images)
    loss = CONTENT_WEIGHT * content_loss(features[CONTENT_LAYER][0], features[CONTENT_LAYER][2])
    for name in STYLE_LAYERS:
        loss = loss + STYLE_WEIGHT / len(STYLE_LAYERS) * style_loss(features[name][1], features[name][2])
    return loss + VARIATION_WEIGHT * variation_loss(page.combination)


def loss_and_gradient(page: Page, base: Any, style: Any) -> tuple[Any, Any]:
    """The loss, and its gradient with respect to the image in the making."""
    with ts.GradientTape() as tape:
        loss = total_loss(page, base, style)
    return loss, tape.gradient(loss, page.combination)


def steps(page: Page, *, compile: bool) -> Steps:
    """The page's step, on trainstep."""

    @ts.step(compile=compile)
    def train_step(base, style):
        loss, gradient = loss_and_gradient(page, base, style)
        page.optimizer.apply_gradients([(gradient, page.combination)])
        return loss, gradient

    while True:
        loss, gradient = train_step.predict((page.base, page.style))
        yield {"loss": loss, "gradient": gradient}
