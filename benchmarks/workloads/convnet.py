"""A convolutional network on digits, as in Keras' first example of one."""

import dataclasses

import keras
import numpy as np

from benchmarks.products import Conv, Product, dense

from ._abstract import AbstractWorkload, Slope, Training, classifier, fresh
from .dense import digit_images


@dataclasses.dataclass(frozen=True)
class Convnet(AbstractWorkload):
    """Two convolutions with pooling, dropout, one dense layer; Adam."""

    num_steps: int = 10
    batch_size: int = 64
    dropout: float = 0.5
    tolerance: float = 0.1

    @property
    def key(self) -> str:
        """Its name on the command line."""
        return "convnet"

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"convnet, batch {self.batch_size}"

    def data(self) -> tuple[np.ndarray, ...]:
        """Images (n, 28, 28, 1) and labels (n,)."""
        images, labels = digit_images(self.num_samples)
        return images[..., None], labels

    def training(self, slope: Slope) -> Training:
        """conv 32, pool, conv 64, pool, dropout, dense 10."""
        return fresh(lambda: classifier(self._model(), keras.optimizers.Adam()))

    def _model(self) -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((28, 28, 1)),
                keras.layers.Conv2D(32, 3, activation="relu"),
                keras.layers.MaxPooling2D(),
                keras.layers.Conv2D(64, 3, activation="relu"),
                keras.layers.MaxPooling2D(),
                keras.layers.Flatten(),
                keras.layers.Dropout(self.dropout),
                keras.layers.Dense(10),
            ]
        )

    def products(self) -> list[Product]:
        """Two convolutions, the first on data, and the dense layer."""
        return [
            Conv(self.batch_size, 28, 1, 3, 32, has_input_gradient=False),
            Conv(self.batch_size, 13, 32, 3, 64),
            *dense(self.batch_size, 1600, 10),
        ]
