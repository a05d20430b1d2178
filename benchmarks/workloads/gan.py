"""A generative adversarial network of dense layers on digits: two networks, two optimizers, one step."""

import dataclasses

import keras
import numpy as np
from keras import ops

from benchmarks.products import Product, dense_stack, forward_stack

from ._abstract import AbstractWorkload, Slope, Training, Update, fresh
from .dense import digit_images


def dense_network(*widths: int, activation: str | None = None) -> keras.Model:
    """Dense layers with ReLU between them; the last has the activation given."""
    hidden = [keras.layers.Dense(width, activation="relu") for width in widths[1:-1]]
    return keras.Sequential([keras.Input((widths[0],)), *hidden, keras.layers.Dense(widths[-1], activation=activation)])


@dataclasses.dataclass(frozen=True)
class Gan(AbstractWorkload):
    """The discriminator is updated, then the generator, each on codes of its own; Adam."""

    num_steps: int = 40
    batch_size: int = 128
    num_codes: int = 32
    width: int = 256
    tolerance: float = 0.1

    @property
    def key(self) -> str:
        """Its name on the command line."""
        return "gan"

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"GAN, dense, two optimizers, batch {self.batch_size}"

    @property
    def has_stock_step(self) -> bool:
        """Two losses: a step of its own."""
        return False

    @property
    def generator_widths(self) -> tuple[int, ...]:
        """From codes to images."""
        return (self.num_codes, self.width, 784)

    @property
    def discriminator_widths(self) -> tuple[int, ...]:
        """From images to the logit that they are real."""
        return (784, self.width, 1)

    def data(self) -> tuple[np.ndarray, ...]:
        """Images (n, 784)."""
        images, _ = digit_images(self.num_samples)
        return (images.reshape(-1, 784),)

    def training(self, slope: Slope) -> Training:
        """The losses of Goodfellow et al., 2014; the generator's is the one that does not saturate."""
        return fresh(self._training)

    def _training(self) -> Training:
        discriminator = dense_network(*self.discriminator_widths)
        generator = dense_network(*self.generator_widths, activation="sigmoid")
        seed = keras.random.SeedGenerator(1)

        def codes(real):
            return keras.random.normal((ops.shape(real)[0], self.num_codes), seed=seed)

        def discriminator_loss(real):
            real_logits, fake_logits = discriminator(real), discriminator(generator(codes(real)))
            return ops.mean(ops.softplus(-real_logits)) + ops.mean(ops.softplus(fake_logits)), fake_logits

        def generator_loss(real):
            logits = discriminator(generator(codes(real)))
            return ops.mean(ops.softplus(-logits)), logits

        return Training(
            (discriminator, generator),
            (
                Update(keras.optimizers.Adam(3e-4, 0.5), discriminator, discriminator_loss, keras.metrics.Mean(name="d_loss")),
                Update(keras.optimizers.Adam(3e-4, 0.5), generator, generator_loss, keras.metrics.Mean(name="g_loss")),
            ),
            (seed,),
        )

    def products(self) -> list[Product]:
        """The discriminator's update on real and generated images, then the generator's through the discriminator's inputs."""
        rows, d, g = self.batch_size, self.discriminator_widths, self.generator_widths
        through_discriminator = 2 * forward_stack(rows, d)
        return [
            *(2 * dense_stack(rows, d)),
            *forward_stack(rows, g),
            *through_discriminator,
            *dense_stack(rows, g),
        ]
