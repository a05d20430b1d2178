"""A variational autoencoder: digits squeezed into two numbers, and a map of the plane that those numbers span."""

import math
import sys
from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts
from trainstep import digits


def load_images(num_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Flat images to learn from, of shape `(num_samples, 784)` with values from 0 to 1, and 2,000 to test with."""
    (training, _), (test, _) = digits.load()
    return training[:num_samples].reshape(-1, 784).astype("float32") / 255, test.reshape(-1, 784).astype("float32") / 255


def make_encoder() -> keras.Model:
    """Images (b, 784) to the mean and the logarithm of the variance of their codes, each (b, 2)."""
    images = keras.Input((784,))
    features = layers.Dense(256, activation="relu")(images)
    return keras.Model(images, [layers.Dense(2)(features), layers.Dense(2)(features)])


def make_decoder() -> keras.Model:
    """Codes (b, 2) to images (b, 784): the logit of each pixel."""
    return keras.Sequential(
        [keras.Input((2,)), layers.Dense(128, activation="relu"), layers.Dense(256, activation="relu"), layers.Dense(784)]
    )


def reconstruction_loss(images: Any, logits: Any) -> Any:
    """How improbable the pixels are, in nats per image: the cross-entropy, summed over the pixels."""
    return ops.mean(ops.sum(ops.binary_crossentropy(images, logits, from_logits=True), axis=1))


def divergence(mean: Any, log_variance: Any) -> Any:
    """How far the codes are from the standard normal distribution, in nats per image."""
    return ops.mean(ops.sum(-0.5 * (1 + log_variance - ops.square(mean) - ops.exp(log_variance)), axis=1))


def main(
    compile: bool | str = "auto", num_samples: int = 10_000, epochs: int = 30, picture: str | None = None
) -> tuple[keras.callbacks.History, dict[str, float], keras.Model]:
    """Trains; gives the history, the losses of the test digits, and the decoder."""
    keras.utils.set_random_seed(0)
    x_train, x_test = load_images(num_samples)
    encoder, decoder = make_encoder(), make_decoder()
    weights = encoder.trainable_weights + decoder.trainable_weights
    optimizer = keras.optimizers.Adam()
    seed_generator = keras.random.SeedGenerator(1)

    @ts.step(compile=compile)
    def train_step(images):
        with ts.GradientTape() as tape:
            mean, log_variance = encoder(images)
            noise = keras.random.normal(ops.shape(mean), seed=seed_generator)
            codes = mean + ops.exp(log_variance / 2) * noise
            reconstruction = reconstruction_loss(images, decoder(codes))
            kl = divergence(mean, log_variance)
            loss = reconstruction + kl
        gradients = tape.gradient(loss, weights)
        optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {"loss": loss, "reconstruction": reconstruction, "kl": kl}

    @ts.step(compile=compile)
    def test_step(images):
        mean, log_variance = encoder(images)
        return {"reconstruction": reconstruction_loss(images, decoder(mean)), "kl": divergence(mean, log_variance)}

    trainer = ts.Trainer(train_step, test_step)
    history = trainer.fit(x_train, batch_size=100, epochs=epochs)
    evaluation = trainer.evaluate(x_test, batch_size=100)
    print(
        "a test digit from the mean of its two numbers: {reconstruction:.1f} nats; the numbers: {kl:.1f} nats".format(**evaluation)
    )
    if picture:
        draw(picture, decoder)
    return history, evaluation, decoder


def draw(path: str, decoder: keras.Model, num_rows: int = 15) -> None:
    """What the decoder makes of the plane of codes: places as far apart as the standard normal distribution puts them."""
    from matplotlib.figure import Figure

    places = [math.sqrt(2) * float(ops.erfinv(2 * p - 1)) for p in np.linspace(0.03, 0.97, num_rows)]
    codes = np.array([(x, y) for y in reversed(places) for x in places], "float32")
    images = ops.convert_to_numpy(ops.sigmoid(decoder(codes))).reshape(num_rows, num_rows, 28, 28)
    axes = (figure := Figure(figsize=(5, 5))).add_axes((0, 0, 1, 1))
    axes.imshow(images.transpose(0, 2, 1, 3).reshape(num_rows * 28, num_rows * 28), cmap="gray_r")
    axes.set_axis_off()
    figure.savefig(path, dpi=72)


if __name__ == "__main__":
    if sys.argv[1:]:
        import matplotlib.figure  # noqa: F401  # If it is missing, better now than after the training.
    main(picture=sys.argv[1] if sys.argv[1:] else None)
