"""A mixture of experts: loss terms left on a layer by its forward pass, which also counts how often each expert was chosen."""

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Logs, Page, Steps, batch, overwrite_weights

NUM_STEPS, RTOL, ATOL = 5, 1e-4, 1e-5
LOGS = [f"{part}/{name}" for part in ("published", "intended") for name in ("loss", "moe_loss", "compile_metrics/accuracy")]
CHANGES = [
    *("published", "published optimizer", "published loss", "published compile_metrics"),
    *("intended", "intended optimizer", "intended loss", "intended compile_metrics"),
]
BATCH_SIZE = 8
NUM_EXPERTS, TOP_K, CAPACITY = 4, 2, 2.0


class MixtureOfExperts(layers.Layer):
    """Features (b, n) to (b, 3): the sum of the two experts that the gate likes best, weighted by the gate.

    Each call leaves three loss terms: `diversity` and `importance`, and `overflow`, how far the experts are above their capacity.
    """

    def __init__(self):
        super().__init__()
        self.gate = layers.Dense(NUM_EXPERTS, activation="softmax")
        self.experts = [layers.Dense(3) for _ in range(NUM_EXPERTS)]

    def build(self, input_shape):
        for layer in (self.gate, *self.experts):
            layer.build(input_shape)
        self.count = self.add_weight(shape=(NUM_EXPERTS,), initializer="zeros", trainable=False, name="count")

    def call(self, x):
        weights = self.gate(x)
        top_weights, top_experts = ops.top_k(weights, TOP_K)
        answers = ops.stack([expert(x) for expert in self.experts], axis=1)
        chosen = ops.take_along_axis(answers, top_experts[:, :, None], axis=1)

        experts = ops.reshape(top_experts, (-1,))
        self.count.assign_add(ops.segment_sum(ops.ones_like(experts, "float32"), experts, num_segments=NUM_EXPERTS))
        self.diversity = ops.mean(ops.sum(weights * ops.log(weights + 1e-10), axis=1))
        load = ops.sum(weights, axis=0)
        self.importance = ops.mean((load - ops.mean(load)) ** 2)
        self.overflow = ops.sum(ops.relu(self.count - CAPACITY))
        return ops.sum(top_weights[:, :, None] * chosen, axis=1)


class Classifier(keras.Model):
    """Images (b, 8, 8, 1) to the probabilities of 3 classes."""

    def __init__(self, dropout: float):
        super().__init__()
        self.features = keras.Sequential(
            [
                layers.Conv2D(8, 3, activation="relu"),
                layers.MaxPooling2D(2),
                layers.Flatten(),
                layers.Dropout(dropout),
            ]
        )
        self.mixture = MixtureOfExperts()

    def call(self, x, training=None):
        return ops.softmax(self.mixture(self.features(x, training=training)))

    def losses_of(self, x, y, predictions):
        """The whole loss, and the part of it that the mixture left in the forward pass."""
        mixture_loss = 0.01 * (self.mixture.diversity + self.mixture.overflow + self.mixture.importance)
        return self.compute_loss(x=x, y=y, y_pred=predictions) + mixture_loss, mixture_loss

    def train_step(self, x, y):
        with ts.GradientTape() as tape:
            predictions = self(x, training=True)
            loss, mixture_loss = self.losses_of(x, y, predictions)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return self.reported(loss, mixture_loss, y, predictions)

    def test_step(self, x, y):
        predictions = self(x, training=False)
        loss, mixture_loss = self.losses_of(x, y, predictions)
        return self.reported(loss, mixture_loss, y, predictions)

    def reported(self, loss, mixture_loss, y, predictions):
        """Updates the metrics; the tracker of the loss gets the loss, as was intended."""
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, predictions)
        return {"moe_loss": mixture_loss} | {metric.name: metric.result() for metric in self.metrics}


class PublishedClassifier(Classifier):
    """Its metrics are updated as was published: that of the loss gets labels, weighted by probabilities, and is reported."""

    def reported(self, loss, mixture_loss, y, predictions):
        logs = {"loss": loss, "moe_loss": mixture_loss}
        for metric in self.metrics:
            metric.update_state(y, predictions)
            logs[metric.name] = metric.result()
        return logs


def build(*, native: bool) -> Page:
    """The classifier as published and as intended, on equal weights, each with its own Adam and metrics."""
    rng = np.random.default_rng(21)
    x = rng.random((32, 8, 8, 1)).astype("float32")
    y = np.eye(3, dtype="float32")[rng.integers(0, 3, 32)]
    tracked = {}
    for name, kind in {"published": PublishedClassifier, "intended": Classifier}.items():
        model = kind(0.5 if native else 0.0)
        model(x[:1])
        model.mixture.count.assign(np.zeros(NUM_EXPERTS))
        overwrite_weights(model)
        model.compile("adam", loss="categorical_crossentropy", metrics=["accuracy"])
        tracked |= {name: model, f"{name} optimizer": model.optimizer}
        tracked |= {f"{name} {metric.name}": metric for metric in model.metrics}
    return Page(tracked=tracked, data={"x": x, "y": y}, native=native)


def steps(page: Page, *, compile: bool) -> Steps:
    """One batch for each of the two at a time."""
    train_steps = {name: ts.step(page.tracked[name].train_step, compile=compile) for name in ("published", "intended")}
    t = 0
    while True:
        x, y = batch(t, BATCH_SIZE, page.x, page.y)
        yield flat({name: train_step(x, y) for name, train_step in train_steps.items()})
        t += 1


def flat(logs: Logs) -> Logs:
    """Nested names joined by "/"."""
    return {"/".join(path): value for path, value in keras.tree.flatten_with_path(logs)}
