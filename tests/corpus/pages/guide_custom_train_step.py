"""Five ways to write a step: compiled losses and metrics, own trackers, sample weights, evaluation, a trainer of models."""

import keras
import numpy as np
from keras import layers

import trainstep as ts

from ..conventions import Logs, Page, Steps, batch, overwrite_weights

NUM_STEPS, RTOL, ATOL = 6, 1e-4, 1e-5
BATCH_SIZE = 16
BATCHES_PER_EPOCH = 4
LOGS = [
    "compiled/loss",
    "compiled/compile_metrics/mae",
    "own/loss",
    "own/mae",
    "weighted/loss",
    "weighted/compile_metrics/mae",
    "weighted/compile_metrics/weighted_mae",
    "evaluated/loss",
    "evaluated/compile_metrics/mae",
    "sequential/accuracy",
    "functional/accuracy",
]
CHANGES = [
    *("compiled", "compiled optimizer", "compiled loss", "compiled compile_metrics"),
    *("own", "own optimizer", "own loss", "own mae"),
    *("weighted", "weighted optimizer", "weighted loss", "weighted compile_metrics"),
    *("evaluated loss", "evaluated compile_metrics"),
    *("sequential", "sequential optimizer", "sequential accuracy"),
    *("functional", "functional optimizer", "functional accuracy"),
]


class CompiledLoss(keras.Model):
    """A linear model whose step uses the loss and the metrics given to `compile`, and sample weights if there are any."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(1)

    def call(self, x):
        return self.dense(x)

    def train_step(self, x, y, sample_weight=None):
        with ts.GradientTape() as tape:
            predictions = self(x, training=True)
            loss = self.compute_loss(y=y, y_pred=predictions, sample_weight=sample_weight)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return self.updated_metrics(loss, y, predictions, sample_weight)

    def test_step(self, x, y, sample_weight=None):
        predictions = self(x, training=False)
        loss = self.compute_loss(y=y, y_pred=predictions, sample_weight=sample_weight)
        return self.updated_metrics(loss, y, predictions, sample_weight)

    def updated_metrics(self, loss, y, predictions, sample_weight):
        for metric in self.metrics:
            if metric.name == "loss":
                metric.update_state(loss)
            else:
                metric.update_state(y, predictions, sample_weight=sample_weight)
        return {metric.name: metric.result() for metric in self.metrics}


class OwnTrackers(keras.Model):
    """A linear model with trackers of its own; nothing but the optimizer is given to `compile`."""

    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(1)
        self.loss_fn = keras.losses.MeanSquaredError()
        self.loss_tracker = keras.metrics.Mean(name="loss")
        self.mae = keras.metrics.MeanAbsoluteError(name="mae")

    def call(self, x):
        return self.dense(x)

    @property
    def metrics(self):
        return [self.loss_tracker, self.mae]

    def train_step(self, x, y):
        with ts.GradientTape() as tape:
            predictions = self(x, training=True)
            loss = self.loss_fn(y, predictions)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.loss_tracker.update_state(loss)
        self.mae.update_state(y, predictions)
        return {"loss": self.loss_tracker.result(), "mae": self.mae.result()}


class ClassifierTrainer(keras.Model):
    """Trains the classifier given to it; its loss is neither tracked nor returned."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
        self.loss_fn = keras.losses.SparseCategoricalCrossentropy()

    def call(self, x):
        return self.inner(x)

    @property
    def metrics(self):
        return [self.accuracy]

    def train_step(self, x, y):
        with ts.GradientTape() as tape:
            predictions = self.inner(x, training=True)
            loss = self.loss_fn(y, predictions)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.accuracy.update_state(y, predictions)
        return {"accuracy": self.accuracy.result()}

    def test_step(self, x, y):
        self.accuracy.update_state(y, self.inner(x, training=False))
        return {"accuracy": self.accuracy.result()}


def sequential_classifier(rate: float) -> keras.Model:
    """Images (4, 4, 1) to the probabilities of 10 classes."""
    return keras.Sequential(
        [
            layers.Flatten(),
            layers.Dense(16, activation="relu"),
            layers.Dropout(rate),
            layers.Dense(10, activation="softmax"),
        ]
    )


def functional_classifier(rate: float) -> keras.Model:
    """The same, wider, and with its input shape known."""
    images = keras.Input((4, 4, 1))
    x = layers.Dense(24, activation="relu")(layers.Flatten()(images))
    return keras.Model(images, layers.Dense(10, activation="softmax")(layers.Dropout(rate)(x)))


def build(*, native: bool) -> Page:
    """Six models, all compiled: four linear ones on equal weights, and two trainers of classifiers."""
    rng = np.random.default_rng(1)
    data = {
        "x": rng.random((64, 32)).astype("float32"),
        "y": rng.random((64, 1)).astype("float32"),
        "sw": rng.random((64, 1)).astype("float32"),
        "img": rng.random((64, 4, 4, 1)).astype("float32"),
        "lab": rng.integers(0, 10, 64).astype("int32"),
    }
    models = {
        "compiled": CompiledLoss(),
        "own": OwnTrackers(),
        "weighted": CompiledLoss(),
        "evaluated": CompiledLoss(),
        "sequential": ClassifierTrainer(sequential_classifier(0.2 if native else 0.0)),
        "functional": ClassifierTrainer(functional_classifier(0.4 if native else 0.0)),
    }
    for model in models.values():
        model(data["img"][:1] if isinstance(model, ClassifierTrainer) else data["x"][:1])
    overwrite_weights(models["compiled"], models["sequential"], models["functional"])
    for name in ("own", "weighted", "evaluated"):
        overwrite_weights(models[name])
    models["compiled"].compile("adam", loss="mse", metrics=["mae"])
    models["own"].compile("adam")
    weighted_mae = keras.metrics.MeanAbsoluteError(name="weighted_mae")
    models["weighted"].compile("adam", loss="mse", metrics=["mae"], weighted_metrics=[weighted_mae])
    models["evaluated"].compile(loss="mse", metrics=["mae"])
    models["sequential"].compile("sgd")
    models["functional"].compile("adam")
    tracked = dict(models)
    for name, model in models.items():
        tracked |= {f"{name} optimizer": model.optimizer} | {f"{name} {metric.name}": metric for metric in model.metrics}
    return Page(tracked=tracked, data=data, native=native)


def steps(page: Page, *, compile: bool) -> Steps:
    """One batch for each of the cases at a time; metrics are reset after each epoch."""
    cases = {
        "compiled": (page.compiled.train_step, [page.x, page.y]),
        "own": (page.own.train_step, [page.x, page.y]),
        "weighted": (page.weighted.train_step, [page.x, page.y, page.sw]),
        "evaluated": (page.evaluated.test_step, [page.x, page.y]),
        "sequential": (page.sequential.train_step, [page.img, page.lab]),
        "functional": (page.functional.train_step, [page.img, page.lab]),
    }
    cases = {name: (ts.step(function, compile=compile), arrays) for name, (function, arrays) in cases.items()}
    t = 0
    while True:
        logs = {}
        for name, (step, arrays) in cases.items():
            if t % BATCHES_PER_EPOCH == 0:
                step.reset_metrics()
            logs[name] = step(*batch(t, BATCH_SIZE, *arrays))
        yield flat(logs)
        t += 1


def flat(logs: Logs) -> Logs:
    """Nested names joined by "/"."""
    return {"/".join(path): value for path, value in keras.tree.flatten_with_path(logs)}
