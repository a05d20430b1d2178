"""A DCGAN: a generator learns to draw digits by deceiving a discriminator. Two networks, two optimizers, two tapes in one step."""

import sys

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts
from trainstep import digits

NUM_CODES = 32


def load_images(num_samples: int) -> np.ndarray:
    """Images of shape `(num_samples, 28, 28, 1)` with values from -1 (background) to 1."""
    (images, _), _ = digits.load()
    return images[:num_samples, ..., None].astype("float32") / 127.5 - 1


def make_discriminator() -> keras.Model:
    """Images (b, 28, 28, 1) to the logit that they are real, (b, 1)."""
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(16, 4, strides=2, padding="same"),
            layers.LeakyReLU(0.2),
            layers.Conv2D(32, 4, strides=2, padding="same"),
            layers.LeakyReLU(0.2),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(1),
        ]
    )


def make_generator() -> keras.Model:
    """Codes (b, 32) to images (b, 28, 28, 1)."""
    return keras.Sequential(
        [
            keras.Input((NUM_CODES,)),
            layers.Dense(7 * 7 * 32, use_bias=False),
            layers.BatchNormalization(momentum=0.9),
            layers.ReLU(),
            layers.Reshape((7, 7, 32)),
            layers.Conv2DTranspose(16, 4, strides=2, padding="same", use_bias=False),
            layers.BatchNormalization(momentum=0.9),
            layers.ReLU(),
            layers.Conv2DTranspose(1, 4, strides=2, padding="same", activation="tanh"),
        ]
    )


def main(
    compile: bool | str = "auto", num_samples: int = 10_000, epochs: int = 15, picture: str | None = None
) -> tuple[keras.callbacks.History, np.ndarray]:
    """Trains; gives the history and 100 generated images, of shape `(100, 28, 28)`."""
    keras.utils.set_random_seed(0)
    discriminator, generator = make_discriminator(), make_generator()
    discriminator_optimizer = keras.optimizers.Adam(5e-4, beta_1=0.5)
    generator_optimizer = keras.optimizers.Adam(1e-3, beta_1=0.5)
    cross_entropy = keras.losses.BinaryCrossentropy(from_logits=True)
    seed_generator = keras.random.SeedGenerator(1)

    @ts.step(compile=compile)
    def train_step(real):
        codes = keras.random.normal((ops.shape(real)[0], NUM_CODES), seed=seed_generator)

        with ts.GradientTape() as tape:
            real_logits = discriminator(real, training=True)
            fake_logits = discriminator(generator(codes, training=True), training=True)
            is_real, is_fake = ops.ones_like(real_logits), ops.zeros_like(fake_logits)
            d_loss = (cross_entropy(is_real, real_logits) + cross_entropy(is_fake, fake_logits)) / 2
        gradients = tape.gradient(d_loss, discriminator.trainable_weights)
        discriminator_optimizer.apply_gradients(zip(gradients, discriminator.trainable_weights, strict=True))

        with ts.GradientTape() as tape:
            g_loss = cross_entropy(is_real, discriminator(generator(codes, training=True), training=True))
        gradients = tape.gradient(g_loss, generator.trainable_weights)
        generator_optimizer.apply_gradients(zip(gradients, generator.trainable_weights, strict=True))
        return {"d_loss": d_loss, "g_loss": g_loss}

    @ts.step(compile=compile)
    def generate(codes):
        return generator(codes, training=False)

    trainer = ts.Trainer(train_step, predict_step=generate)
    history = trainer.fit(load_images(num_samples), batch_size=50, epochs=epochs)
    codes = np.random.default_rng(1).normal(size=(100, NUM_CODES)).astype("float32")
    images = trainer.predict(codes, batch_size=100, verbose=0)[..., 0]
    print(
        f"ink on a generated image: {np.mean(images > 0):.1%} of the pixels; on a real one: {np.mean(load_images(1_000) > 0):.1%}"
    )
    if picture:
        draw(picture, images)
    return history, images


def draw(path: str, images: np.ndarray) -> None:
    """Ten rows of ten images."""
    from matplotlib.figure import Figure

    axes = (figure := Figure(figsize=(5, 5))).add_axes((0, 0, 1, 1))
    axes.imshow(images.reshape(10, 10, 28, 28).transpose(0, 2, 1, 3).reshape(280, 280), cmap="gray_r")
    axes.set_axis_off()
    figure.savefig(path, dpi=72)


if __name__ == "__main__":
    if sys.argv[1:]:
        import matplotlib.figure  # noqa: F401  # If it is missing, better now than after the training.
    main(picture=sys.argv[1] if sys.argv[1:] else None)
