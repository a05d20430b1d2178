"""A variational autoencoder: several losses and trackers, noise in a layer, a log key that differs from its tracker's name."""

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, batch, normal, overwrite_weights

NUM_STEPS, RTOL, ATOL = 6, 1e-4, 1e-5
LOGS = ["loss", "reconstruction_loss", "kl_loss"]
CHANGES = ["encoder", "decoder", "optimizer", "total_loss", "reconstruction_loss", "kl_loss"]
BATCH_SIZE = 8


class Sampling(layers.Layer):
    """Draws from the normal distribution with the given mean and logarithm of the variance; takes the noise if it is given one."""

    def __init__(self, **options):
        super().__init__(**options)
        self.seed_generator = keras.random.SeedGenerator(1)

    def call(self, mean, log_variance, noise):
        if noise is None:
            noise = keras.random.normal(ops.shape(mean), seed=self.seed_generator)
        return mean + ops.exp(log_variance / 2) * noise


class Encoder(keras.Model):
    """Images (b, 8, 8, 1) to mean, logarithm of the variance and a sample, each (b, 2)."""

    def __init__(self):
        super().__init__(name="encoder")
        self.body = keras.Sequential(
            [
                layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
                layers.Conv2D(16, 3, strides=2, padding="same", activation="relu"),
                layers.Flatten(),
                layers.Dense(8, activation="relu"),
            ]
        )
        self.mean, self.log_variance, self.sampling = layers.Dense(2), layers.Dense(2), Sampling()

    def call(self, x, noise=None):
        features = self.body(x)
        mean, log_variance = self.mean(features), self.log_variance(features)
        return mean, log_variance, self.sampling(mean, log_variance, noise)


def build(*, native: bool) -> Page:
    """Encoder, decoder, Adam and three trackers."""
    encoder = Encoder()
    decoder = keras.Sequential(
        [
            keras.Input((2,)),
            layers.Dense(64, activation="relu"),
            layers.Reshape((2, 2, 16)),
            layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(8, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(1, 3, padding="same", activation="sigmoid"),
        ],
        name="decoder",
    )
    encoder(np.zeros((1, 8, 8, 1), "float32"), np.zeros((1, 2), "float32"))
    overwrite_weights(encoder, decoder)
    rng = np.random.default_rng(3)
    return Page(
        tracked={
            "encoder": encoder,
            "decoder": decoder,
            "optimizer": keras.optimizers.Adam(),
            "total_loss": keras.metrics.Mean(name="total_loss"),
            "reconstruction_loss": keras.metrics.Mean(name="reconstruction_loss"),
            "kl_loss": keras.metrics.Mean(name="kl_loss"),
        },
        data={"x": rng.random((32, 8, 8, 1)).astype("float32")},
        native=native,
    )


def steps(page: Page, *, compile: bool) -> Steps:
    """The page's step, on trainstep."""
    weights = page.encoder.trainable_weights + page.decoder.trainable_weights

    @ts.step(compile=compile)
    def train_step(x, noise=None):
        with ts.GradientTape() as tape:
            mean, log_variance, z = page.encoder(x, noise)
            reconstruction = page.decoder(z)
            reconstruction_loss = ops.mean(ops.sum(keras.losses.binary_crossentropy(x, reconstruction), axis=(1, 2)))
            kl_loss = ops.mean(ops.sum(-0.5 * (1 + log_variance - ops.square(mean) - ops.exp(log_variance)), axis=1))
            total_loss = reconstruction_loss + kl_loss
        gradients = tape.gradient(total_loss, weights)
        page.optimizer.apply_gradients(zip(gradients, weights, strict=True))
        page.total_loss.update_state(total_loss)
        page.reconstruction_loss.update_state(reconstruction_loss)
        page.kl_loss.update_state(kl_loss)
        return {"loss": page.total_loss, "reconstruction_loss": page.reconstruction_loss, "kl_loss": page.kl_loss}

    t = 0
    while True:
        (x,) = batch(t, BATCH_SIZE, page.x)
        yield train_step(x) if page.native else train_step(x, normal(t, 0, (BATCH_SIZE, 2)))
        t += 1
