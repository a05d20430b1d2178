"""A MelGAN: two tapes over one shared forward pass, lists of feature maps, gradients clipped by their norm."""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, batch, overwrite_weights

NUM_STEPS, RTOL, ATOL = 6, 1e-4, 1e-5
LOGS = ["gen_loss", "disc_loss"]
CHANGES = ["generator", "discriminator", "generator_optimizer", "discriminator_optimizer", "gen_loss", "disc_loss"]
BATCH_SIZE = 4
MATCHING_WEIGHT = 10

mse, mae = keras.losses.MeanSquaredError(), keras.losses.MeanAbsoluteError()


class Scale(layers.Layer):
    """Judges a sound (b, n, 1) at one resolution: the list of its three feature maps, the last the judgement."""

    def __init__(self, pool_size: int):
        super().__init__()
        self.pool = layers.AveragePooling1D(pool_size)
        self.blocks = [
            keras.Sequential([layers.Conv1D(4, 5, padding="same"), layers.LeakyReLU(0.3)]),
            keras.Sequential([layers.Conv1D(8, 9, strides=2, padding="same", groups=2), layers.LeakyReLU(0.3)]),
            layers.Conv1D(1, 3, padding="same"),
        ]

    def call(self, x):
        x, feature_maps = self.pool(x), []
        for block in self.blocks:
            x = block(x)
            feature_maps.append(x)
        return feature_maps


class Discriminator(keras.Model):
    """A sound (b, n, 1) to three lists of three feature maps: as it is, at half and at a quarter of the resolution."""

    def __init__(self):
        super().__init__(name="discriminator")
        self.scales = [Scale(pool_size) for pool_size in (1, 2, 4)]

    def call(self, x):
        return [scale(x) for scale in self.scales]


def build(*, native: bool) -> Page:
    """Generator, discriminator, an Adam with clipped gradients for each, two trackers."""
    generator = keras.Sequential(
        [
            keras.Input((64, 1)),
            layers.Conv1D(8, 7, padding="same"),
            layers.LeakyReLU(0.3),
            layers.AveragePooling1D(4),
            layers.Conv1DTranspose(8, 8, strides=4, padding="same"),
            layers.LeakyReLU(0.3),
            layers.Conv1D(1, 7, padding="same", activation="tanh"),
        ],
        name="generator",
    )
    discriminator = Discriminator()
    discriminator(np.zeros((1, 64, 1), "float32"))
    overwrite_weights(generator, discriminator)
    rng = np.random.default_rng(12)
    return Page(
        tracked={
            "generator": generator,
            "discriminator": discriminator,
            "generator_optimizer": keras.optimizers.Adam(1e-4, beta_1=0.5, beta_2=0.9, clipnorm=1),
            "discriminator_optimizer": keras.optimizers.Adam(1e-4, beta_1=0.5, beta_2=0.9, clipnorm=1),
            "gen_loss": keras.metrics.Mean(name="gen_loss"),
            "disc_loss": keras.metrics.Mean(name="disc_loss"),
        },
        data={name: (rng.normal(size=(16, 64, 1)) * 0.3).astype("float32") for name in ("x", "y")},
        native=native,
    )


def adversarial_loss(fake: list[Any]) -> Any:
    """How far the judgements are from "real" (1)."""
    return ops.mean([mse(ops.ones_like(maps[-1]), maps[-1]) for maps in fake])


def feature_matching_loss(real: list[Any], fake: list[Any]) -> Any:
    """How far the feature maps of the two are apart, the judgements left out."""
    return ops.mean(
        [
            mae(real_map, fake_map)
            for real_maps, fake_maps in zip(real, fake, strict=True)
            for real_map, fake_map in zip(real_maps[:-1], fake_maps[:-1], strict=True)
        ]
    )


def discriminator_loss(real: list[Any], fake: list[Any]) -> Any:
    """How far the judgements are from "real" (1) for the first and from "fake" (0) for the second."""
    real_loss = ops.mean([mse(ops.ones_like(maps[-1]), maps[-1]) for maps in real])
    fake_loss = ops.mean([mse(ops.zeros_like(maps[-1]), maps[-1]) for maps in fake])
    return real_loss + fake_loss


def steps(page: Page, *, compile: bool) -> Steps:
    """The page's step, on trainstep."""
    generator, discriminator = page.generator, page.discriminator

    @ts.step(compile=compile)
    def train_step(x, y):
        with ts.GradientTape() as generator_tape, ts.GradientTape() as discriminator_tape:
            generated = generator(x, training=True)
            fake, real = discriminator(y), discriminator(generated)  # The published names: they are swapped.
            gen_loss = adversarial_loss(fake) + MATCHING_WEIGHT * feature_matching_loss(real, fake)
            disc_loss = discriminator_loss(real, fake)
        generator_gradients = generator_tape.gradient(gen_loss, generator.trainable_weights)
        discriminator_gradients = discriminator_tape.gradient(disc_loss, discriminator.trainable_weights)
        page.generator_optimizer.apply(generator_gradients, generator.trainable_weights)
        page.discriminator_optimizer.apply(discriminator_gradients, discriminator.trainable_weights)
        page.gen_loss.update_state(gen_loss)
        page.disc_loss.update_state(disc_loss)
        return {"gen_loss": page.gen_loss, "disc_loss": page.disc_loss}

    t = 0
    while True:
        yield train_step(*batch(t, BATCH_SIZE, page.x, page.y))
        t += 1
