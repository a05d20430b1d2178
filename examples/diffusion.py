"""Diffusion: a network learns to see the digit behind noise, and so draws new digits from nothing but noise (DDPM and DDIM).

J. Ho et al., "Denoising Diffusion Probabilistic Models" (2020); J. Song et al., "Denoising Diffusion Implicit Models" (2021).
"""

import math
import sys
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts
from trainstep import digits

SIZE = 14  # Images are 14 x 14 pixels: a quarter of those shipped.
AVERAGING = 0.99  # How much of the averaged weights is kept at each step.


def load_images(num_samples: int) -> np.ndarray:
    """Images of shape `(num_samples, 196)` with values from -1 (background) to 1: the means of 2 x 2 pixels."""
    (images, _), _ = digits.load()
    images = images[:num_samples].reshape(-1, SIZE, 2, SIZE, 2).mean(axis=(2, 4)) / 127.5 - 1
    return images.reshape(-1, SIZE * SIZE).astype("float32")


def shares(time: Any) -> tuple[Any, Any]:
    """At a time from 0 to 1, how much the image counts and how much the noise: a point on a quarter of a circle."""
    return ops.cos(time * math.pi / 2), ops.sin(time * math.pi / 2)


def make_network(num_units: int) -> keras.Model:
    """Noisy images (b, 196) and times (b, 1) to the images behind the noise (b, 196), by residual blocks."""
    images, time = keras.Input((SIZE * SIZE,)), keras.Input((1,))
    waves = ops.concatenate([ops.sin(time * math.pi * 2**k) for k in range(-1, 5)], axis=1)
    context = layers.Dense(num_units, activation="silu")(waves)
    hidden = layers.Dense(num_units)(images)
    for _ in range(2):
        update = layers.LayerNormalization()(hidden + layers.Dense(num_units)(context))
        update = layers.Dense(num_units, activation="silu")(update)
        hidden = hidden + layers.Dense(num_units)(update)
    return keras.Model([images, time], layers.Dense(SIZE * SIZE, activation="tanh")(layers.LayerNormalization()(hidden)))


def sample(predict_image: Callable[..., Any], noise: Any, num_steps: int) -> Any:
    """Turns noise into images: splits what there is into image and noise, and mixes them again with a little less noise (DDIM)."""
    noisy, ones = noise, ops.ones((ops.shape(noise)[0], 1))
    for i in range(num_steps, 0, -1):
        image_share, noise_share = shares(i / num_steps)
        image = predict_image(noisy, i / num_steps * ones)
        noise = (noisy - image_share * image) / noise_share
        image_share, noise_share = shares((i - 1) / num_steps)
        noisy = image_share * image + noise_share * noise
    return noisy


def main(
    compile: bool | str = "auto", num_samples: int = 10_000, epochs: int = 40, num_units: int = 384, picture: str | None = None
) -> tuple[keras.callbacks.History, np.ndarray]:
    """Trains; gives the history and 100 new images, of shape `(100, 14, 14)`."""
    keras.utils.set_random_seed(0)
    images = load_images(num_samples)
    network, averaged = make_network(num_units), make_network(num_units)
    averaged.set_weights(network.get_weights())
    num_updates = epochs * math.ceil(len(images) / 100)
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(1e-3, num_updates))
    seed_generator = keras.random.SeedGenerator(1)

    @ts.step(compile=compile)
    def train_step(images):
        time = keras.random.uniform((ops.shape(images)[0], 1), seed=seed_generator)
        noise = keras.random.normal(ops.shape(images), seed=seed_generator)
        image_share, noise_share = shares(time)
        noisy = image_share * images + noise_share * noise
        with ts.GradientTape() as tape:
            loss = ops.mean(ops.square(images - network([noisy, time])))
        gradients = tape.gradient(loss, network.trainable_weights)
        optimizer.apply_gradients(zip(gradients, network.trainable_weights, strict=True))
        for average, weight in zip(averaged.weights, network.weights, strict=True):
            average.assign(AVERAGING * average + (1 - AVERAGING) * weight)
        return {"loss": loss}

    @ts.step(compile=compile)
    def draw_images(noise):
        return sample(lambda noisy, time: averaged([noisy, time]), noise, num_steps=20)

    trainer = ts.Trainer(train_step, predict_step=draw_images)
    history = trainer.fit(images, batch_size=100, epochs=epochs)
    noise = np.random.default_rng(1).normal(size=(100, SIZE * SIZE)).astype("float32")
    drawn = trainer.predict(noise, batch_size=100, verbose=0).reshape(-1, SIZE, SIZE)
    print(f"mean square error of a pixel: {history.history['loss'][0]:.3f} at first, {history.history['loss'][-1]:.3f} at last")
    if picture:
        draw(picture, drawn)
    return history, drawn


def draw(path: str, images: np.ndarray) -> None:
    """Ten rows of ten images."""
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(5, 5))).add_axes((0, 0, 1, 1))
    rows = np.pad(images, ((0, 0), (1, 1), (1, 1)), constant_values=-1).reshape(10, 10, SIZE + 2, SIZE + 2).transpose(0, 2, 1, 3)
    axes.imshow(rows.reshape(10 * (SIZE + 2), 10 * (SIZE + 2)), cmap="gray_r", vmin=-1, vmax=1, interpolation="bicubic")
    axes.set_axis_off()
    figure.savefig(path, dpi=72)


if __name__ == "__main__":
    if sys.argv[1:]:
        import matplotlib.figure  # noqa: F401  # If it is missing, better now than after the training.
    main(picture=sys.argv[1] if sys.argv[1:] else None)
