"""A Wasserstein GAN with gradient penalty: a tape inside a tape, three updates of the critic in a step, two optimizers."""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, batch, normal, overwrite_weights

NUM_STEPS, RTOL, ATOL = 4, 1e-3, 1e-4
LOGS = ["d_loss", "g_loss"]
CHANGES = ["critic", "generator", "critic_optimizer", "generator_optimizer"]
BATCH_SIZE, NUM_CODES, NUM_CRITIC_UPDATES = 4, 6, 3
PENALTY_WEIGHT = 10.0


def build(*, native: bool) -> Page:
    """Critic and generator, each with its Adam."""
    page = Page(tracked={}, data={"x": np.random.default_rng(14).random((16, 8, 8, 1)).astype("float32") * 2 - 1}, native=native)
    page.tracked["critic"] = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.ZeroPadding2D(1),
            layers.Conv2D(8, 5, strides=2, padding="same"),
            layers.LeakyReLU(0.2),
            layers.Conv2D(16, 5, strides=2, padding="same"),
            layers.LeakyReLU(0.2),
            layers.Dropout(page.rate(0.3)),
            layers.Flatten(),
            layers.Dropout(page.rate(0.2)),
            layers.Dense(1),
        ],
        name="critic",
    )
    page.tracked["generator"] = keras.Sequential(
        [
            keras.Input((NUM_CODES,)),
            layers.Dense(64, use_bias=False),
            layers.BatchNormalization(),
            layers.LeakyReLU(0.2),
            layers.Reshape((2, 2, 16)),
            layers.UpSampling2D(2),
            layers.Conv2D(8, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.LeakyReLU(0.2),
            layers.UpSampling2D(2),
            layers.Conv2D(1, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.Activation("tanh"),
        ],
        name="generator",
    )
    overwrite_weights(page.critic, page.generator)
    page.tracked["critic_optimizer"] = keras.optimizers.Adam(2e-4, beta_1=0.5, beta_2=0.9)
    page.tracked["generator_optimizer"] = keras.optimizers.Adam(2e-4, beta_1=0.5, beta_2=0.9)
    return page


def gradient_penalty(critic: keras.Model, real: Any, fake: Any, mix: Any) -> Any:
    """How far the critic's slopes at the mixed images `real + mix (fake - real)` are from 1: the mean square, a scalar."""
    mixed = real + mix * (fake - real)
    with ts.GradientTape() as tape:
        tape.watch(mixed)
        scores = critic(mixed, training=True)
    gradients = tape.gradient(scores, mixed)
    norms = ops.sqrt(ops.sum(ops.square(gradients), axis=(1, 2, 3)))
    return ops.mean(ops.square(norms - 1))


class WGAN:
    """The two networks and their training step. Noise that is not handed to the step is drawn by it."""

    def __init__(self, page: Page):
        self.critic, self.generator = page.critic, page.generator
        self.critic_optimizer, self.generator_optimizer = page.critic_optimizer, page.generator_optimizer
        self.seed_generator = keras.random.SeedGenerator(1)

    def train_step(self, x, noise=None):
        """Three updates of the critic, then one of the generator, on images `x` (b, 8, 8, 1)."""
        codes, mixes, last_code = self.draw(ops.shape(x)[0]) if noise is None else noise
        for code, mix in zip(codes, mixes, strict=True):
            with ts.GradientTape() as tape:
                fake = self.generator(code, training=True)
                fake_scores = self.critic(fake, training=True)
                real_scores = self.critic(x, training=True)
                penalty = gradient_penalty(self.critic, x, fake, mix)
                d_loss = ops.mean(fake_scores) - ops.mean(real_scores) + PENALTY_WEIGHT * penalty
            weights = self.critic.trainable_variables
            self.critic_optimizer.apply_gradients(zip(tape.gradient(d_loss, weights), weights, strict=True))

        with ts.GradientTape() as tape:
            g_loss = -ops.mean(self.critic(self.generator(last_code, training=True), training=True))
        weights = self.generator.trainable_variables
        self.generator_optimizer.apply_gradients(zip(tape.gradient(g_loss, weights), weights, strict=True))
        return {"d_loss": d_loss, "g_loss": g_loss}

    def draw(self, batch_size):
        """Codes and mixing weights for each update of the critic, and codes for the generator's."""
        codes = [self.normal((batch_size, NUM_CODES)) for _ in range(NUM_CRITIC_UPDATES)]
        mixes = [self.normal((batch_size, 1, 1, 1)) for _ in range(NUM_CRITIC_UPDATES)]
        return codes, mixes, self.normal((batch_size, NUM_CODES))

    def normal(self, shape):
        """Standard normal numbers, others at each call."""
        return keras.random.normal(shape, seed=self.seed_generator)


def noise_of_step(t: int) -> tuple[list[np.ndarray], list[np.ndarray], np.ndarray]:
    """The codes, mixing weights and last codes of numeric mode."""
    codes = [normal(t, 10 * i, (BATCH_SIZE, NUM_CODES)) for i in range(NUM_CRITIC_UPDATES)]
    mixes = [normal(t, 10 * i + 1, (BATCH_SIZE, 1, 1, 1)) for i in range(NUM_CRITIC_UPDATES)]
    return codes, mixes, normal(t, 50, (BATCH_SIZE, NUM_CODES))


def steps(page: Page, *, compile: bool) -> Steps:
    """The page's step, on trainstep."""
    train_step = ts.step(WGAN(page).train_step, compile=compile)
    t = 0
    while True:
        (x,) = batch(t, BATCH_SIZE, page.x)
        yield train_step(x) if page.native else train_step(x, noise_of_step(t))
        t += 1
