"""A linear classifier of 2,000 points in the plane, all of them in every batch: nothing but the cost of a step."""

import dataclasses

import keras
import numpy as np

from benchmarks.products import Product, dense

from ._abstract import AbstractWorkload, Slope, Training, classifier, fresh


@dataclasses.dataclass(frozen=True)
class Linear(AbstractWorkload):
    """Two classes of points, told apart by one dense layer; plain gradient descent."""

    num_steps: int = 1
    batch_size: int = 2000
    num_epochs: int = 50

    @property
    def key(self) -> str:
        """Its name on the command line."""
        return "linear"

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"linear, {self.batch_size:,} points, full batch"

    def data(self) -> tuple[np.ndarray, ...]:
        """Points (n, 2) float32 and labels (n,) int32."""
        random = np.random.default_rng(0)
        labels = random.integers(2, size=self.num_samples)
        means = np.array([[0.0, 3.0], [3.0, 0.0]])
        return (means[labels] + random.normal(size=(self.num_samples, 2))).astype("float32"), labels.astype("int32")

    def training(self, slope: Slope) -> Training:
        """One dense layer with two outputs."""
        return fresh(
            lambda: classifier(
                keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)]),
                keras.optimizers.SGD(0.1),
            )
        )

    def products(self) -> list[Product]:
        """One layer, on data."""
        return dense(self.batch_size, 2, 2, is_first=True)
