"""A hypernetwork: one network writes the weights of another, which has none of its own."""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, batch, overwrite_weights

NUM_STEPS, RTOL, ATOL = 8, 1e-4, 1e-5
LOGS = ["loss", "mean_loss"]
CHANGES = ["hypernetwork", "optimizer"]
NUM_WEIGHTS = 12 * 6 + 6 + 6 * 3 + 3
NUM_LOSSES_IN_MEAN = 8


class WrittenDense(layers.Layer):
    """A dense layer whose `kernel` and `bias` are tensors that somebody else sets before each call."""

    def __init__(self, units: int, activation: Any = None):
        super().__init__()
        self.units, self.activation = units, keras.activations.get(activation)
        self.kernel: Any = None
        self.bias: Any = None
        self.built = True

    def call(self, x):
        return self.activation(x @ self.kernel + self.bias)

    def compute_output_shape(self, input_shape):
        return (*input_shape[:-1], self.units)


def build(*, native: bool) -> Page:
    """The hypernetwork, its Adam, and the network that it writes."""
    hypernetwork = keras.Sequential(
        [keras.Input((12,)), layers.Dense(8, activation="relu"), layers.Dense(NUM_WEIGHTS, activation="sigmoid")]
    )
    written = keras.Sequential([WrittenDense(6, "relu"), WrittenDense(3)])
    overwrite_weights(hypernetwork)
    rng = np.random.default_rng(23)
    return Page(
        tracked={"hypernetwork": hypernetwork, "written": written, "optimizer": keras.optimizers.Adam(1e-4)},
        data={"x": rng.normal(size=(32, 12)).astype("float32"), "y": rng.integers(0, 3, 32).astype("int32")},
        native=native,
    )


def write(network: keras.Sequential, weights: Any) -> None:
    """Sets the kernels and biases of a network of two layers to parts of `weights`, a tensor (1, 99)."""
    first, second = network.layers
    first.kernel = ops.reshape(weights[:, 0:72], (12, 6))
    first.bias = ops.reshape(weights[:, 72:78], (6,))
    second.kernel = ops.reshape(weights[:, 78:96], (6, 3))
    second.bias = ops.reshape(weights[:, 96:99], (3,))


def make_train_step(page: Page, *, compile: bool) -> ts.Step:
    """One update of the hypernetwork on one sample, `x` (1, 12) and `y` (1,)."""
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @ts.step(compile=compile)
    def train_step(x, y):
        with ts.GradientTape() as tape:
            write(page.written, page.hypernetwork(x))
            loss = loss_fn(y, page.written(x))
        weights = page.hypernetwork.trainable_weights
        page.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}

    return train_step


def steps(page: Page, *, compile: bool) -> Steps:
    """The page's loop: steps on single samples, and every eight of them the mean of all losses so far."""
    train_step = make_train_step(page, compile=compile)
    losses, mean_loss, t = [], 0.0, 0
    while True:
        loss = train_step(*batch(t, 1, page.x, page.y))["loss"]
        losses.append(float(loss))
        t += 1
        if t % NUM_LOSSES_IN_MEAN == 0:
            mean_loss = sum(losses) / len(losses)
        yield {"loss": loss, "mean_loss": mean_loss}
