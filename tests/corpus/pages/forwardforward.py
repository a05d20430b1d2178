"""The forward-forward algorithm: no global loss; each layer has its own optimizer, tape and inner loop inside the outer step."""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, overwrite_weights, permutation

NUM_STEPS, RTOL, ATOL = 4, 1e-4, 1e-5
LOGS = ["FinalLoss"]
CHANGES = ["L1", "L2", "L1_optimizer", "L2_optimizer", "L1_loss", "L2_loss", "loss_sum", "loss_count"]
NUM_SAMPLES, NUM_LABELS, NUM_EPOCHS_OF_A_LAYER, THRESHOLD = 16, 3, 4, 1.5


class ForwardForwardDense(layers.Layer):
    """A dense layer (b, n) to (b, units) that learns by itself to answer loudly to what is right and softly to what is not."""

    def __init__(self, units: int, *, name: str):
        super().__init__(name=name)
        self.dense, self.relu = layers.Dense(units), layers.ReLU()
        self.optimizer = keras.optimizers.Adam(0.03)
        self.loss_metric = keras.metrics.Mean(name=f"{name}_loss")

    def build(self, input_shape):
        self.dense.build(input_shape)
        self.built = True

    def call(self, x):
        length = ops.norm(x, ord=2, axis=1, keepdims=True) + 1e-4
        return self.relu(self.dense(x / length))

    def forward_forward(self, positive: Any, negative: Any) -> tuple[Any, Any, Any]:
        """Trains this layer alone. What it now makes of both inputs, out of reach for gradients, and its mean loss so far."""
        for _ in range(NUM_EPOCHS_OF_A_LAYER):
            with ts.GradientTape() as tape:
                goodness_of_positive = ops.mean(ops.square(self(positive)), axis=1)
                goodness_of_negative = ops.mean(ops.square(self(negative)), axis=1)
                excess = ops.concatenate([THRESHOLD - goodness_of_positive, goodness_of_negative - THRESHOLD], axis=0)
                loss = ops.cast(ops.mean(ops.log(1 + ops.exp(excess))), "float32")
                self.loss_metric.update_state(loss)
            gradients = tape.gradient(loss, self.dense.trainable_weights)
            self.optimizer.apply_gradients(zip(gradients, self.dense.trainable_weights, strict=True))
        return ops.stop_gradient(self(positive)), ops.stop_gradient(self(negative)), self.loss_metric.result()


def overlay(sample: Any, label: Any) -> Any:
    """One flat sample with its label written over its first entries: its greatest value at the label, 0 beside it."""
    return ops.concatenate([ops.max(sample) * ops.one_hot(label, NUM_LABELS, dtype=sample.dtype), sample[NUM_LABELS:]])


class ForwardForwardNetwork:
    """Layers that are trained one after the other, each on what the one before it has just learned to say."""

    def __init__(self, page: Page):
        self.hidden = [page.L1, page.L2]
        self.loss_sum, self.loss_count = page.loss_sum, page.loss_count
        self.seed_generator = keras.random.SeedGenerator(4)

    def train_step(self, x, y, order=None):
        """Images (16, 4, 4) and labels (16,); `order` shuffles the labels of the negative samples, at random if not given."""
        x = ops.reshape(x, (x.shape[0], -1))
        wrong_labels = keras.random.shuffle(y, seed=self.seed_generator) if order is None else ops.take(y, order)
        positive = ops.vectorized_map(lambda pair: overlay(*pair), (x, y))
        negative = ops.vectorized_map(lambda pair: overlay(*pair), (positive, wrong_labels))
        for layer in self.hidden:
            positive, negative, loss = layer.forward_forward(positive, negative)
            self.loss_sum.assign_add(loss)
            self.loss_count.assign_add(1.0)
        return {"FinalLoss": self.loss_sum / self.loss_count}

    def predict_step(self, x):
        """The label of each image under which the layers answer loudest: (b, 4, 4) to (b,)."""
        x = ops.reshape(x, (x.shape[0], -1))
        goodness = []
        for label in range(NUM_LABELS):
            h = ops.vectorized_map(lambda sample, label=label: overlay(sample, label), x)
            total = 0.0
            for layer in self.hidden:
                h = layer(h)
                total = total + ops.mean(ops.square(h), axis=1)
            goodness.append(total)
        return ops.argmax(ops.stack(goodness, axis=1), axis=1)


def build(*, native: bool) -> Page:
    """Two layers with their optimizers and trackers, two sums, and an optimizer of the whole that nobody uses."""
    hidden = {name: ForwardForwardDense(8, name=name) for name in ("L1", "L2")}
    hidden["L1"].build((None, 16))
    hidden["L2"].build((None, 8))
    overwrite_weights(*(layer.dense for layer in hidden.values()))
    rng = np.random.default_rng(25)
    return Page(
        tracked={
            **hidden,
            **{f"{name}_optimizer": layer.optimizer for name, layer in hidden.items()},
            **{f"{name}_loss": layer.loss_metric for name, layer in hidden.items()},
            "loss_sum": keras.Variable(0.0, trainable=False, name="loss_sum"),
            "loss_count": keras.Variable(0.0, trainable=False, name="loss_count"),
            "unused_optimizer": keras.optimizers.Adam(0.03),
        },
        data={"x": rng.random((NUM_SAMPLES, 4, 4)), "y": rng.integers(0, NUM_LABELS, NUM_SAMPLES)},
        native=native,
    )


def steps(page: Page, *, compile: bool) -> Steps:
    """Runs the page's step on its one batch again and again."""
    train_step = ts.step(ForwardForwardNetwork(page).train_step, compile=compile)
    t = 0
    while True:
        yield train_step(page.x, page.y) if page.native else train_step(page.x, page.y, permutation(t, 0, NUM_SAMPLES))
        t += 1
