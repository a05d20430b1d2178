"""A Wasserstein GAN with gradient penalty: the gradient of a gradient in every step."""

import dataclasses

import keras
import numpy as np
from keras import ops

from benchmarks.products import Product, dense_stack, forward_stack

from ._abstract import AbstractWorkload, Slope, Training, Update, fresh
from .gan import dense_network

PENALTY_WEIGHT = 1.0


@dataclasses.dataclass(frozen=True)
class WganGp(AbstractWorkload):
    """Points around eight spots on a circle; one update of the critic and one of the generator in a step. Adam."""

    num_steps: int = 30
    batch_size: int = 256
    num_codes: int = 8
    width: int = 128
    num_spots: int = 8
    tolerance: float = 0.15

    @property
    def key(self) -> str:
        """Its name on the command line."""
        return "wgan_gp"

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"WGAN-GP, dense, second order, batch {self.batch_size}"

    @property
    def has_stock_step(self) -> bool:
        """Two losses: a step of its own."""
        return False

    @property
    def generator_widths(self) -> tuple[int, ...]:
        """From codes to points."""
        return (self.num_codes, self.width, self.width, self.width, 2)

    @property
    def critic_widths(self) -> tuple[int, ...]:
        """From points to scores."""
        return (2, self.width, self.width, self.width, 1)

    def data(self) -> tuple[np.ndarray, ...]:
        """Points (n, 2) float32."""
        random = np.random.default_rng(0)
        angles = 2 * np.pi * random.integers(self.num_spots, size=self.num_samples) / self.num_spots
        spots = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        return ((spots + 0.05 * random.normal(size=spots.shape)).astype("float32"),)

    def training(self, slope: Slope) -> Training:
        """The losses of Gulrajani et al., 2017."""
        return fresh(lambda: self._training(slope))

    def _training(self, slope: Slope) -> Training:
        critic = dense_network(*self.critic_widths)
        generator = dense_network(*self.generator_widths)
        seed = keras.random.SeedGenerator(1)

        def fake_points(real):
            return generator(keras.random.normal((ops.shape(real)[0], self.num_codes), seed=seed))

        def critic_loss(real):
            fake = fake_points(real)
            mix = keras.random.uniform((ops.shape(real)[0], 1), seed=seed)
            slopes = ops.norm(slope(critic, real + mix * (fake - real)), axis=1)
            penalty = ops.mean(ops.square(slopes - 1))
            scores = critic(fake)
            return PENALTY_WEIGHT * penalty + ops.mean(scores) - ops.mean(critic(real)), scores

        def generator_loss(real):
            scores = critic(fake_points(real))
            return -ops.mean(scores), scores

        return Training(
            (critic, generator),
            (
                Update(keras.optimizers.Adam(3e-4, 0.5, 0.9), critic, critic_loss, keras.metrics.Mean(name="d_loss")),
                Update(keras.optimizers.Adam(3e-4, 0.5, 0.9), generator, generator_loss, keras.metrics.Mean(name="g_loss")),
            ),
            (seed,),
        )

    def products(self) -> list[Product]:
        """The critic on real, generated and mixed points, the gradient of its slope, and the generator through it."""
        rows, c, g = self.batch_size, self.critic_widths, self.generator_widths
        slope = 2 * forward_stack(rows, c)
        gradient_of_slope = 2 * forward_stack(rows, c)
        through_critic = 2 * forward_stack(rows, c)
        return [
            *(2 * dense_stack(rows, c)),
            *slope,
            *gradient_of_slope,
            *forward_stack(rows, g),
            *through_critic,
            *dense_stack(rows, g),
        ]
