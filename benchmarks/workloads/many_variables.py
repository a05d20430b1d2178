"""As many small variables as one likes, and next to no arithmetic: what each variable costs. For `growth` only."""

import dataclasses

import keras

from ._abstract import Slope, Tensor, Training, classifier, fresh
from .linear import Linear


class Offsets(keras.layers.Layer):
    """Adds `num_offsets` vectors of two, each a variable of its own."""

    def __init__(self, num_offsets: int):
        super().__init__()
        self.offsets = [self.add_weight(shape=(2,), initializer="zeros", name=f"offset_{i}") for i in range(num_offsets)]
        self.built = True

    def call(self, x) -> Tensor:
        """(batch, 2) to the same."""
        for offset in self.offsets:
            x = x + offset
        return x


@dataclasses.dataclass(frozen=True)
class ManyVariables(Linear):
    """The linear classifier with offsets, each of which has a momentum too."""

    num_steps: int = 50
    batch_size: int = 32
    num_epochs: int = 1
    num_offsets: int = 16

    @property
    def key(self) -> str:
        """Its name on the command line."""
        return "many_variables"

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"linear with {self.num_offsets} offsets"

    def training(self, slope: Slope) -> Training:
        """One dense layer, and the offsets behind it; momentum."""
        return fresh(
            lambda: classifier(
                keras.Sequential([keras.Input((2,)), keras.layers.Dense(2), Offsets(self.num_offsets)]),
                keras.optimizers.SGD(1e-3, momentum=0.9),
            )
        )
