"""An LSTM over sequences of 80 tokens, two classes: as many products in a row as there are tokens."""

import dataclasses

import keras
import numpy as np

from benchmarks.products import MatMul, Product, dense

from ._abstract import AbstractWorkload, Slope, Training, classifier, fresh


@dataclasses.dataclass(frozen=True)
class Recurrent(AbstractWorkload):
    """Embedding, LSTM of 64 units, one dense layer; Adam."""

    num_steps: int = 10
    batch_size: int = 32
    length: int = 80
    units: int = 64
    vocabulary: int = 1000

    @property
    def key(self) -> str:
        """Its name on the command line."""
        return "lstm"

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"LSTM {self.units}, length {self.length}, batch {self.batch_size}"

    def data(self) -> tuple[np.ndarray, ...]:
        """Tokens (n, length) int32, and whether there are more small ones than large."""
        random = np.random.default_rng(0)
        tokens = random.integers(self.vocabulary, size=(self.num_samples, self.length))
        return tokens.astype("int32"), (tokens.mean(axis=1) < (self.vocabulary - 1) / 2).astype("int32")

    def training(self, slope: Slope) -> Training:
        """The state after the last token is classified."""
        return fresh(lambda: classifier(self._model(), keras.optimizers.Adam()))

    def _model(self) -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((self.length,), dtype="int32"),
                keras.layers.Embedding(self.vocabulary, self.units),
                keras.layers.LSTM(self.units),
                keras.layers.Dense(2),
            ]
        )

    def products(self) -> list[Product]:
        """The inputs of all tokens at once, the state token by token, its weights' gradient at once."""
        rows, gates = self.batch_size * self.length, 4 * self.units
        forward = MatMul(self.batch_size, self.units, gates, in_a_row=self.length)
        backward = MatMul(self.batch_size, gates, self.units, in_a_row=self.length)
        return [
            *dense(rows, self.units, gates),
            forward,
            backward,
            MatMul(self.units, rows, gates),
            *dense(self.batch_size, self.units, 2),
        ]
