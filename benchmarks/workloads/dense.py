"""Classifiers of digits with hidden layers: 784-32-10, and 784-512-dropout-10, the listing of the README."""

import dataclasses

import keras
import numpy as np

from benchmarks.products import Product, dense_stack
from trainstep import digits

from ._abstract import AbstractWorkload, Slope, Training, classifier, fresh


def digit_images(num_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 28, 28) float32 from 0 to 1 and labels (n,) int32."""
    (images, labels), _ = digits.load()
    rows = np.arange(num_samples) % len(images)
    return images[rows].astype("float32") / 255, labels[rows].astype("int32")


@dataclasses.dataclass(frozen=True)
class Dense(AbstractWorkload):
    """`depth` hidden layers of `width`, RMSprop."""

    num_steps: int = 200
    batch_size: int = 32
    width: int = 32
    depth: int = 1

    @property
    def key(self) -> str:
        """Its name on the command line."""
        return "dense"

    @property
    def name(self) -> str:
        """Its name in the table."""
        dropout = "-dropout" if self.dropout else ""
        return f"784{f'-{self.width}{dropout}' * self.depth}-10, batch {self.batch_size}"

    def data(self) -> tuple[np.ndarray, ...]:
        """Images (n, 784) and labels (n,)."""
        images, labels = digit_images(self.num_samples)
        return images.reshape(-1, 784), labels

    def training(self, slope: Slope) -> Training:
        """Hidden layers with ReLU, each followed by dropout where there is any."""
        return fresh(lambda: classifier(self._model(), keras.optimizers.RMSprop()))

    def _model(self) -> keras.Model:
        layers: list[keras.layers.Layer] = []
        for _ in range(self.depth):
            layers.append(keras.layers.Dense(self.width, activation="relu"))
            if self.dropout:
                layers.append(keras.layers.Dropout(self.dropout))
        return keras.Sequential([keras.Input((784,)), *layers, keras.layers.Dense(10)])

    def products(self) -> list[Product]:
        """All layers, the first on data."""
        return dense_stack(self.batch_size, (784, *[self.width] * self.depth, 10))
