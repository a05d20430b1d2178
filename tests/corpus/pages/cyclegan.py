"""A CycleGAN: one persistent tape asked four times, four networks with an optimizer each, plain tensors as logs."""

from collections.abc import Sequence

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, batch, overwrite_weights

NUM_STEPS, RTOL, ATOL = 5, 1e-4, 1e-5
LOGS = ["G_loss", "F_loss", "D_X_loss", "D_Y_loss"]
NETWORKS = ("G", "F", "D_X", "D_Y")
CHANGES = [*NETWORKS, *(f"{name}_optimizer" for name in NETWORKS)]
BATCH_SIZE = 2
CYCLE_WEIGHT, IDENTITY_WEIGHT = 10, 5

mse, mae = keras.losses.MeanSquaredError(), keras.losses.MeanAbsoluteError()


class ReflectionPadding(layers.Layer):
    """Mirrors one row and column at each edge: (b, h, w, c) to (b, h + 2, w + 2, c)."""

    def call(self, images):
        return ops.pad(images, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="reflect")


def generator(name: str) -> keras.Model:
    """Images (b, h, w, 3) to images of the other kind, in -1..1."""
    return keras.Sequential(
        [
            keras.Input((None, None, 3)),
            ReflectionPadding(),
            layers.Conv2D(8, 3, use_bias=False),
            layers.GroupNormalization(groups=-1, epsilon=1e-3),  # One group for each channel: instance normalisation.
            layers.ReLU(),
            layers.Conv2D(3, 3, padding="same", activation="tanh"),
        ],
        name=name,
    )


def discriminator(name: str) -> keras.Model:
    """Images (b, h, w, 3) to a map of how real each patch looks, (b, h / 2, w / 2, 1)."""
    return keras.Sequential(
        [
            keras.Input((None, None, 3)),
            layers.Conv2D(8, 4, strides=2, padding="same"),
            layers.LeakyReLU(0.2),
            layers.Conv2D(1, 4, padding="same"),
        ],
        name=name,
    )


def build(*, native: bool) -> Page:
    """Two generators, two discriminators, an Adam for each."""
    networks = {"G": generator("G"), "F": generator("F"), "D_X": discriminator("D_X"), "D_Y": discriminator("D_Y")}
    overwrite_weights(*networks.values())
    optimizers = {f"{name}_optimizer": keras.optimizers.Adam(2e-4, beta_1=0.5) for name in NETWORKS}
    rng = np.random.default_rng(13)
    images = {name: (rng.random((8, 8, 8, 3)) * 2 - 1).astype("float32") for name in ("x", "y")}
    return Page(tracked=networks | optimizers, data=images, native=native)


def training_step(page: Page, *, compile: bool, update_order: Sequence[str] = NETWORKS) -> ts.Step:
    """The page's step, on trainstep. All gradients are there before the first update, so the order of the updates is free."""
    G, F, D_X, D_Y = (page.tracked[name] for name in NETWORKS)

    @ts.step(compile=compile)
    def train_step(real_x, real_y):
        with ts.GradientTape(persistent=True) as tape:
            fake_y, fake_x = G(real_x, training=True), F(real_y, training=True)
            cycled_x, cycled_y = F(fake_y, training=True), G(fake_x, training=True)
            same_x, same_y = F(real_x, training=True), G(real_y, training=True)
            real_in_x, fake_in_x = D_X(real_x, training=True), D_X(fake_x, training=True)
            real_in_y, fake_in_y = D_Y(real_y, training=True), D_Y(fake_y, training=True)

            losses = {
                "G": mse(ops.ones_like(fake_in_y), fake_in_y)
                + CYCLE_WEIGHT * mae(real_y, cycled_y)
                + IDENTITY_WEIGHT * mae(real_y, same_y),
                "F": mse(ops.ones_like(fake_in_x), fake_in_x)
                + CYCLE_WEIGHT * mae(real_x, cycled_x)
                + IDENTITY_WEIGHT * mae(real_x, same_x),
                "D_X": (mse(ops.ones_like(real_in_x), real_in_x) + mse(ops.zeros_like(fake_in_x), fake_in_x)) / 2,
                "D_Y": (mse(ops.ones_like(real_in_y), real_in_y) + mse(ops.zeros_like(fake_in_y), fake_in_y)) / 2,
            }
        gradients = {name: tape.gradient(losses[name], page.tracked[name].trainable_weights) for name in NETWORKS}
        for name in update_order:
            page.tracked[f"{name}_optimizer"].apply(gradients[name], page.tracked[name].trainable_weights)
        return {f"{name}_loss": losses[name] for name in NETWORKS}

    return train_step


def steps(page: Page, *, compile: bool) -> Steps:
    """Runs the page's step on one pair of batches after the other."""
    train_step = training_step(page, compile=compile)
    t = 0
    while True:
        yield train_step(*batch(t, BATCH_SIZE, page.x, page.y))
        t += 1
