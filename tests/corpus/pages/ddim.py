"""A diffusion model: noise drawn in the step, a moving average of weights, a sampler in the test step, a metric with a network."""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, batch, normal, overwrite_weights, uniform

# The gradient of a sum over all pixels has elements that almost cancel, and Adam makes updates of them as large as of any. There
# plain TensorFlow under `tf.function` is up to 6e-4 from plain TensorFlow without; `test_ddim.py` holds the rest to 1e-4 and 1e-5.
NUM_STEPS, RTOL, ATOL = 6, 1e-4, 1e-3
LOGS = ["n_loss", "i_loss"]
CHANGES = ["net", "ema", "optimizer", "n_loss", "i_loss"]
BATCH_SIZE, SHAPE, NUM_SAMPLING_STEPS, EMA = 8, (8, 8, 3), 3, 0.9
START_ANGLE, END_ANGLE = np.arccos(0.95), np.arccos(0.02)


class SinusoidalEmbedding(layers.Layer):
    """Noise variances (b, 1, 1, 1) to sines and cosines of them, (b, 1, 1, 8)."""

    def call(self, variances):
        speeds = 2 * np.pi * np.exp(np.linspace(0, np.log(1000), 4)).astype("float32")
        angles = ops.multiply(variances, speeds)
        return ops.concatenate([ops.sin(angles), ops.cos(angles)], axis=-1)


def residual_block(x: Any, width: int) -> Any:
    """Two convolutions around a batch normalisation, added to what came in."""
    residual = x if x.shape[-1] == width else layers.Conv2D(width, 1)(x)
    x = layers.BatchNormalization(center=False, scale=False)(x)
    x = layers.Conv2D(width, 3, padding="same", activation="swish")(x)
    return layers.Add()([residual, layers.Conv2D(width, 3, padding="same")(x)])


def denoiser(name: str) -> keras.Model:
    """Noisy images (b, 8, 8, 3) and their noise variances (b, 1, 1, 1) to the noise in them; all 0 before it has learned."""
    noisy, variances = keras.Input(SHAPE), keras.Input((1, 1, 1))
    embedded = layers.UpSampling2D(8)(SinusoidalEmbedding()(variances))
    x = layers.Concatenate()([layers.Conv2D(8, 1)(noisy), embedded])
    skip = residual_block(x, 8)
    x = residual_block(layers.AveragePooling2D(2)(skip), 16)
    x = layers.Concatenate()([layers.UpSampling2D(2, interpolation="bilinear")(x), skip])
    x = layers.Conv2D(3, 1, kernel_initializer="zeros", name="noise")(residual_block(x, 8))
    return keras.Model([noisy, variances], x, name=name)


class KernelInceptionDistance(keras.metrics.Metric):
    """How far the features of two batches of images are apart, by a polynomial kernel; a mean over batches."""

    def __init__(self, features: keras.Model, **options):
        super().__init__(**options)
        self.features, self.mean = features, keras.metrics.Mean()

    def update_state(self, real, generated, sample_weight=None):
        a, b = self.features(real, training=False), self.features(generated, training=False)
        n = real.shape[0]
        others = (1 - ops.eye(n)) / (n * (n - 1))
        within = ops.sum(others * (kernel(a, a) + kernel(b, b)))
        self.mean.update_state(within - 2 * ops.mean(kernel(a, b)))

    def result(self):
        return self.mean.result()

    def reset_state(self):
        self.mean.reset_state()


def kernel(a: Any, b: Any) -> Any:
    """Features (n, 6) and (m, 6) to the (n, m) similarities of all pairs."""
    return (ops.matmul(a, ops.transpose(b)) / a.shape[-1] + 1) ** 3


class DiffusionModel(keras.Model):
    """The network, its moving average, and what training and testing do with one batch of images."""

    def __init__(self, net: keras.Model, ema: keras.Model, norm: layers.Normalization, trackers: list[keras.metrics.Metric]):
        super().__init__()
        self.net, self.ema, self.norm = net, ema, norm
        self.n_loss_tracker, self.i_loss_tracker, self.kid = trackers
        self.seed_generator = keras.random.SeedGenerator(6)

    @property
    def metrics(self):
        return [self.n_loss_tracker, self.i_loss_tracker, self.kid]

    def schedule(self, times: Any) -> tuple[Any, Any]:
        """Diffusion times in 0..1 to the rates of noise and of signal, whose squares sum to 1."""
        angles = START_ANGLE + times * (END_ANGLE - START_ANGLE)
        return ops.sin(angles), ops.cos(angles)

    def denoise(self, network: keras.Model, noisy: Any, noise_rates: Any, signal_rates: Any, *, training: bool) -> tuple[Any, Any]:
        """Splits noisy images into noise and image, as the network sees them."""
        noises = network([noisy, noise_rates**2], training=training)
        return noises, (noisy - noise_rates * noises) / signal_rates

    def train_step(self, images, noises=None, times=None):
        images = self.norm(images)
        noises, times = self.draw(images, noises, times)
        noise_rates, signal_rates = self.schedule(times)
        noisy = signal_rates * images + noise_rates * noises
        with ts.GradientTape() as tape:
            seen_noises, seen_images = self.denoise(self.net, noisy, noise_rates, signal_rates, training=True)
            noise_losses = self.loss(noises, seen_noises)  # One for each pixel: the gradient is that of their sum.
            image_losses = self.loss(images, seen_images)
        gradients = tape.gradient(noise_losses, self.net.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.net.trainable_weights, strict=True))
        self.n_loss_tracker.update_state(noise_losses)
        self.i_loss_tracker.update_state(image_losses)
        for weight, average in zip(self.net.weights, self.ema.weights, strict=True):
            average.assign(EMA * average + (1 - EMA) * weight)
        return {metric.name: metric.result() for metric in self.metrics[:-1]}

    def test_step(self, images):
        real, images = images, self.norm(images)
        noises, times = self.draw(images)
        noise_rates, signal_rates = self.schedule(times)
        noisy = signal_rates * images + noise_rates * noises
        seen_noises, seen_images = self.denoise(self.ema, noisy, noise_rates, signal_rates, training=False)
        self.n_loss_tracker.update_state(self.loss(noises, seen_noises))
        self.i_loss_tracker.update_state(self.loss(images, seen_images))
        self.kid.update_state(real, self.generate(images.shape[0]))
        return {metric.name: metric.result() for metric in self.metrics}

    def draw(self, images: Any, noises: Any = None, times: Any = None) -> tuple[Any, Any]:
        """A noise for each pixel and a diffusion time for each image, drawn if they are not given."""
        if noises is None:
            noises = keras.random.normal(images.shape, seed=self.seed_generator)
            times = keras.random.uniform((images.shape[0], 1, 1, 1), seed=self.seed_generator)
        return noises, times

    def generate(self, num_images: int) -> Any:
        """New images in 0..1: from pure noise, with a little less of it at each step."""
        noises = keras.random.normal((num_images, *SHAPE), seed=self.seed_generator)
        return self.sample(noises)

    def sample(self, noisy: Any) -> Any:
        """Images in 0..1 out of given noise."""
        times, images = ops.ones((noisy.shape[0], 1, 1, 1)), noisy
        for _ in range(NUM_SAMPLING_STEPS):
            noises, images = self.denoise(self.ema, noisy, *self.schedule(times), training=False)
            times = times - 1 / NUM_SAMPLING_STEPS
            noise_rates, signal_rates = self.schedule(times)
            noisy = signal_rates * images + noise_rates * noises
        return ops.clip(self.norm.mean + images * ops.sqrt(self.norm.variance), 0, 1)


def build(*, native: bool) -> Page:
    """The network, its moving average, the normalisation, the network of the metric, AdamW and three metrics."""
    images = np.random.default_rng(10).random((32, *SHAPE)).astype("float32")
    net, ema, norm = denoiser("net"), denoiser("ema"), layers.Normalization(axis=-1)
    features = keras.Sequential(
        [keras.Input(SHAPE), layers.Conv2D(6, 3, activation="relu"), layers.GlobalAveragePooling2D()], name="features"
    )
    overwrite_weights(net, features)
    net.get_layer("noise").kernel.assign(np.zeros((1, 1, 8, 3), "float32"))
    ema.set_weights(net.get_weights())
    features.trainable = False
    norm.adapt(images)
    return Page(
        tracked={
            "net": net,
            "ema": ema,
            "norm": norm,
            "features": features,
            "optimizer": keras.optimizers.AdamW(1e-3, weight_decay=1e-4),
            "n_loss": keras.metrics.Mean(name="n_loss"),
            "i_loss": keras.metrics.Mean(name="i_loss"),
            "kid": KernelInceptionDistance(features, name="kid"),
        },
        data={"x": images},
        native=native,
    )


def diffusion_model(page: Page) -> DiffusionModel:
    """The model of the page, with its optimizer, and a loss that is not reduced."""
    model = DiffusionModel(page.net, page.ema, page.norm, [page.n_loss, page.i_loss, page.kid])
    model.compile(optimizer=page.optimizer, loss=keras.losses.mean_absolute_error)
    return model


def steps(page: Page, *, compile: bool) -> Steps:
    """Runs the page's step on one batch after the other."""
    train_step = ts.step(diffusion_model(page).train_step, compile=compile)
    t = 0
    while True:
        (x,) = batch(t, BATCH_SIZE, page.x)
        noise = () if page.native else (normal(t, 0, x.shape), uniform(t, 1, (BATCH_SIZE, 1, 1, 1)))
        yield train_step(x, *noise)
        t += 1
