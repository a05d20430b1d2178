"""Textual inversion: of a frozen diffusion model one row of the token embedding is trained, by editing the embedding's gradient.

The second part of the page, mixed precision, is `textual_inversion_part_2`.
"""

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, batch, integers, normal, overwrite_weights

NUM_STEPS, RTOL, ATOL = 4, 1e-4, 1e-5
LOGS = ["loss"]
CHANGES = ["text_encoder", "optimizer"]
BATCH_SIZE, LENGTH, NUM_TOKENS, PLACEHOLDER = 4, 5, 31, 30
NUM_NOISE_LEVELS = 20
KEPT = np.cumprod(1 - np.linspace(0.00085**0.5, 0.012**0.5, NUM_NOISE_LEVELS) ** 2).astype("float32")
FREQUENCIES = (10000.0 ** (-np.arange(4) / 4)).astype("float32")


class TextEncoder(keras.Model):
    """Tokens (b, 5) to hidden states (b, 5, 8)."""

    def __init__(self):
        super().__init__(name="text_encoder")
        self.token_embedding = layers.Embedding(NUM_TOKENS, 8)
        self.position_embedding = layers.Embedding(LENGTH, 8)
        self.dense = layers.Dense(8)

    def call(self, tokens):
        return self.dense(self.token_embedding(tokens) + self.position_embedding(ops.arange(LENGTH)))


def make_networks():
    """Image encoder (8, 8, 3) to means and log-variances of latents (4, 4, 2 + 2), text encoder, and U-net."""
    image_encoder = keras.Sequential([keras.Input((8, 8, 3)), layers.Conv2D(4, 3, strides=2, padding="same")])
    text_encoder = TextEncoder()
    text_encoder(np.zeros((1, LENGTH), "int32"))

    latents, level, hidden = keras.Input((4, 4, 2)), keras.Input((8,)), keras.Input((LENGTH, 8))
    x = layers.Conv2D(8, 3, padding="same", activation="swish")(latents)
    condition = layers.Dense(8)(level) + layers.Dense(8)(layers.GlobalAveragePooling1D()(hidden))
    noise = layers.Conv2D(2, 3, padding="same")(x + layers.Reshape((1, 1, 8))(condition))
    unet = keras.Model([latents, level, hidden], noise)
    overwrite_weights(image_encoder, text_encoder, unet)
    return {"image_encoder": image_encoder, "text_encoder": text_encoder, "unet": unet}


def make_data():
    """Images, and captions with the placeholder in the middle."""
    rng = np.random.default_rng(26)
    images, tokens = rng.random((8, 8, 8, 3)) * 2 - 1, rng.integers(0, PLACEHOLDER, (8, LENGTH))
    tokens[:, 2] = PLACEHOLDER
    return {"images": images.astype("float32"), "tokens": tokens.astype("int32")}


def build(*, native: bool) -> Page:
    """The networks, frozen but for the token embedding, and Adam."""
    networks = make_networks()
    networks["image_encoder"].trainable = networks["unet"].trainable = False
    networks["text_encoder"].position_embedding.trainable = networks["text_encoder"].dense.trainable = False
    schedule = keras.optimizers.schedules.CosineDecay(1e-2, 20)
    optimizer = keras.optimizers.Adam(schedule, weight_decay=0.004, epsilon=1e-8, global_clipnorm=10)
    return Page(tracked={**networks, "optimizer": optimizer}, data=make_data(), native=native)


def embedded_level(level):
    """Cosines and sines of one noise level, a whole number: (8,)."""
    angles = ops.multiply(ops.cast(level, "float32"), FREQUENCIES)
    return ops.concatenate([ops.cos(angles), ops.sin(angles)])


def diffused(image_encoder, images, latent_noise, noise, levels):
    """The latents of the images, with noise of the given levels: what the U-net sees."""
    mean, log_variance = ops.split(ops.cast(image_encoder(images), "float32"), 2, axis=-1)
    latents = 0.18215 * (mean + ops.exp(ops.clip(log_variance, -30, 20) / 2) * latent_noise)
    kept = ops.reshape(ops.take(KEPT, levels), (-1, 1, 1, 1))
    return ops.sqrt(kept) * latents + ops.sqrt(1 - kept) * noise


def draw(seed):
    """Noise for the latents, noise to be found, and a noise level for each image."""
    shape = (BATCH_SIZE, 4, 4, 2)
    levels = keras.random.randint((BATCH_SIZE,), 0, NUM_NOISE_LEVELS, seed=seed)
    return keras.random.normal(shape, seed=seed), keras.random.normal(shape, seed=seed), levels


def given_draws(t):
    """The same by the convention of the numeric mode."""
    shape = (BATCH_SIZE, 4, 4, 2)
    return normal(t, 0, shape), normal(t, 1, shape), integers(t, 2, (BATCH_SIZE,), NUM_NOISE_LEVELS)


def make_step(page, *, compile):
    """The page's step: a batch and, in numeric mode, its draws."""
    loss_fn = keras.losses.MeanSquaredError(reduction="none")
    seed_generator = keras.random.SeedGenerator(1)
    is_placeholder = np.arange(NUM_TOKENS)[:, None] == PLACEHOLDER

    @ts.step(compile=compile)
    def train_step(images, tokens, draws=None):
        with ts.GradientTape() as tape:
            latent_noise, noise, levels = draw(seed_generator) if draws is None else draws
            noisy = diffused(page.image_encoder, images, latent_noise, noise, levels)
            found = page.unet([noisy, ops.map(embedded_level, levels), page.text_encoder(tokens)])
            loss = loss_fn(found, noise)
            for axis in (2, 1, 0):
                loss = ops.mean(loss, axis=axis)
        (embedding,) = page.text_encoder.trainable_weights
        (gradient,) = tape.gradient(loss, [embedding])
        gradient = ops.where(is_placeholder, gradient, 0.0)
        page.optimizer.apply_gradients([(gradient, embedding)])
        return {"loss": loss}

    return train_step


def steps(page: Page, *, compile: bool) -> Steps:
    """The page's step, on trainstep."""
    train_step, t = make_step(page, compile=compile), 0
    while True:
        images, tokens = batch(t, BATCH_SIZE, page.images, page.tokens)
        yield train_step(images, tokens) if page.native else train_step(images, tokens, given_draws(t))
        t += 1
