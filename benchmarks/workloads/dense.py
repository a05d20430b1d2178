"""A classifier of digits with one hidden layer: 784-width-10, softmax, RMSprop, accuracy."""

import dataclasses

import keras
import numpy as np


@dataclasses.dataclass(frozen=True)
class Dense:
    """784-`width`-10 on random images; the labels depend on the images, so that the loss falls."""

    width: int
    batch_size: int = 32
    num_samples: int = 6400

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"784-{self.width}-10, batch {self.batch_size}"

    @property
    def num_steps(self) -> int:
        """Steps in one epoch."""
        return self.num_samples // self.batch_size

    def data(self) -> tuple[np.ndarray, np.ndarray]:
        """Images (n, 784) float32 and labels (n,) int32."""
        rng = np.random.default_rng(0)
        images = rng.random((self.num_samples, 784), dtype="float32")
        return images, (images @ rng.normal(size=(784, 10)).astype("float32")).argmax(axis=1).astype("int32")

    def model(self) -> keras.Model:
        """A fresh model, the same for every peer."""
        keras.utils.set_random_seed(0)
        return keras.Sequential(
            [
                keras.Input((784,)),
                keras.layers.Dense(self.width, activation="relu"),
                keras.layers.Dense(10, activation="softmax"),
            ]
        )
