"""A small transformer that predicts the next token: two blocks of width 128 with four heads."""

import dataclasses

import keras
import numpy as np

from benchmarks.products import MatMul, Product, dense

from ._abstract import AbstractWorkload, Slope, Tensor, Training, classifier, fresh


class Block(keras.layers.Layer):
    """Causal attention and a feed-forward part, each behind a normalization and beside a short cut."""

    def __init__(self, width: int, num_heads: int):
        super().__init__()
        self.first_norm = keras.layers.LayerNormalization()
        self.attention = keras.layers.MultiHeadAttention(num_heads, width // num_heads)
        self.second_norm = keras.layers.LayerNormalization()
        self.expand = keras.layers.Dense(4 * width, activation="relu")
        self.contract = keras.layers.Dense(width)

    def call(self, x) -> Tensor:
        """(batch, length, width) to the same."""
        normal = self.first_norm(x)
        x = x + self.attention(normal, normal, use_causal_mask=True)
        return x + self.contract(self.expand(self.second_norm(x)))


class Tokens(keras.layers.Layer):
    """Tokens and their places to vectors."""

    def __init__(self, vocabulary: int, length: int, width: int):
        super().__init__()
        self.token = keras.layers.Embedding(vocabulary, width)
        self.place = keras.layers.Embedding(length, width)
        self.length = length

    def call(self, tokens) -> Tensor:
        """(batch, length) integers to (batch, length, width)."""
        return self.token(tokens) + self.place(keras.ops.arange(self.length))


@dataclasses.dataclass(frozen=True)
class Transformer(AbstractWorkload):
    """AdamW, its gradients clipped by their global norm."""

    num_steps: int = 10
    batch_size: int = 32
    length: int = 64
    width: int = 128
    num_heads: int = 4
    num_blocks: int = 2
    vocabulary: int = 64

    @property
    def key(self) -> str:
        """Its name on the command line."""
        return "transformer"

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"transformer, {self.num_blocks} x {self.width}, length {self.length}, batch {self.batch_size}"

    def data(self) -> tuple[np.ndarray, ...]:
        """Tokens (n, length) int32, and the one that follows each: it depends on the two before, but for one in four."""
        random = np.random.default_rng(0)
        tokens = random.integers(self.vocabulary, size=(self.num_samples, self.length + 1))
        for place in range(2, self.length + 1):
            follows = (tokens[:, place - 1] + 3 * tokens[:, place - 2]) % self.vocabulary
            tokens[:, place] = np.where(random.random(self.num_samples) < 0.75, follows, tokens[:, place])
        return tokens[:, :-1].astype("int32"), tokens[:, 1:].astype("int32")

    def training(self, slope: Slope) -> Training:
        """Embeddings, blocks, a normalization and the logits of the next token."""
        return fresh(
            lambda: classifier(self._model(), keras.optimizers.AdamW(learning_rate=1e-3, weight_decay=0.01, global_clipnorm=1.0))
        )

    def _model(self) -> keras.Model:
        return keras.Sequential(
            [
                keras.Input((self.length,), dtype="int32"),
                Tokens(self.vocabulary, self.length, self.width),
                *[Block(self.width, self.num_heads) for _ in range(self.num_blocks)],
                keras.layers.LayerNormalization(),
                keras.layers.Dense(self.vocabulary),
            ]
        )

    def products(self) -> list[Product]:
        """In each block: queries, keys and values, the two products of attention, its output, and two dense layers."""
        rows, stack, per_head = self.batch_size * self.length, self.batch_size * self.num_heads, self.width // self.num_heads
        attention = [
            MatMul(self.length, per_head, self.length, stack=stack),
            MatMul(self.length, self.length, per_head, stack=stack),
        ]
        linear = [
            (self.width, 3 * self.width),
            (self.width, self.width),
            (self.width, 4 * self.width),
            (4 * self.width, self.width),
        ]
        block = 3 * attention + [product for k, n in linear for product in dense(rows, k, n)]
        return block * self.num_blocks + dense(rows, self.width, self.vocabulary)
