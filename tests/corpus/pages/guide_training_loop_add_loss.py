"""A training loop written by hand: a loss that a layer adds, metrics updated, read and reset by hand, validation."""

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, batch, overwrite_weights

NUM_STEPS, RTOL, ATOL = 8, 1e-4, 1e-5
LOGS = ["loss"]
CHANGES = ["model", "optimizer", "accuracy", "f1"]
BATCH_SIZE = 8
BATCHES_PER_EPOCH = 4

loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class Act(layers.Layer):
    """Returns its input, and adds a loss that keeps activations small."""

    def call(self, x):
        self.add_loss(0.01 * ops.sum(x))
        return x


class F1(keras.metrics.Metric):
    """The harmonic mean of precision and recall of a yes-or-no question."""

    def __init__(self, name="f1", threshold=0.5):
        super().__init__(name=name)
        self.threshold = threshold
        self.true_positives = self.add_weight(name="true_positives", initializer="zeros")
        self.false_positives = self.add_weight(name="false_positives", initializer="zeros")
        self.false_negatives = self.add_weight(name="false_negatives", initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=1.0):
        actual, predicted = ops.cast(y_true, "bool"), ops.greater_equal(y_pred, self.threshold)

        def count(cases):
            return ops.sum(ops.cast(cases, "float32") * sample_weight)

        self.true_positives.assign_add(count(ops.logical_and(actual, predicted)))
        self.false_positives.assign_add(count(ops.logical_and(ops.logical_not(actual), predicted)))
        self.false_negatives.assign_add(count(ops.logical_and(actual, ops.logical_not(predicted))))

    def result(self):
        precision = ops.divide_no_nan(self.true_positives, self.true_positives + self.false_positives)
        recall = ops.divide_no_nan(self.true_positives, self.true_positives + self.false_negatives)
        return ops.divide_no_nan(2 * precision * recall, precision + recall)


def make_model(*, with_added_loss=True) -> keras.Model:
    """20 numbers to 4 logits."""
    model = keras.Sequential(
        [
            keras.Input((20,)),
            layers.Dense(8, activation="relu"),
            *([Act()] if with_added_loss else []),
            layers.Dense(8, activation="relu"),
            layers.Dense(4),
        ]
    )
    overwrite_weights(model)
    return model


def build(*, native: bool) -> Page:
    """Model, Adam, and the metrics of training and of validation."""
    rng = np.random.default_rng(2)
    data = {
        "x": rng.normal(size=(32, 20)).astype("float32"),
        "y": rng.integers(0, 4, 32).astype("int32"),
        "xv": rng.normal(size=(16, 20)).astype("float32"),
        "yv": rng.integers(0, 4, 16).astype("int32"),
    }
    tracked = {
        "model": make_model(),
        "optimizer": keras.optimizers.Adam(1e-3),
        "accuracy": keras.metrics.SparseCategoricalAccuracy(name="accuracy"),
        "f1": F1(),
        "val_accuracy": keras.metrics.SparseCategoricalAccuracy(name="val_accuracy"),
        "val_loss": keras.metrics.Mean(name="val_loss"),
    }
    return Page(tracked=tracked, data=data, native=native)


def make_steps(page: Page, *, compile: bool, gradient_inside=True) -> tuple[ts.Step, ts.Step]:
    """The training step and the validation step; the gradient is taken inside the tape's block or after it."""

    @ts.step(compile=compile)
    def train_step(x, y):
        with ts.GradientTape() as tape:
            logits = page.model(x, training=True)
            loss = loss_fn(y, logits)
            if page.model.losses:
                loss = loss + sum(page.model.losses)
            if gradient_inside:
                gradients = tape.gradient(loss, page.model.trainable_weights)
        if not gradient_inside:
            gradients = tape.gradient(loss, page.model.trainable_weights)
        page.optimizer.apply(gradients, page.model.trainable_weights)
        page.accuracy.update_state(y, logits)
        page.f1.update_state(y >= 2, ops.sum(ops.softmax(logits)[:, 2:], axis=-1))
        return {"loss": loss}

    @ts.step(compile=compile)
    def validation_step(x, y):
        logits = page.model(x, training=False)
        page.val_accuracy.update_state(y, logits)
        page.val_loss.update_state(loss_fn(y, logits))

    return train_step, validation_step


def steps(page: Page, *, compile: bool, gradient_inside=True) -> Steps:
    """Epoch after epoch; the loss of each step, and the metrics at the end of an epoch."""
    train_step, validation_step = make_steps(page, compile=compile, gradient_inside=gradient_inside)
    while True:
        for i in range(BATCHES_PER_EPOCH):
            logs = train_step(*batch(i, BATCH_SIZE, page.x, page.y))
            if i % 2 == 0:
                print(f"batch {i}: loss {float(logs['loss']):.4f}")
            if i < BATCHES_PER_EPOCH - 1:
                yield logs
        for i in range(2):
            validation_step(*batch(i, BATCH_SIZE, page.xv, page.yv))
        metrics = [page.accuracy, page.f1, page.val_accuracy, page.val_loss]
        logs |= {metric.name: metric.result() for metric in metrics}
        for metric in metrics:
            metric.reset_state()
        yield logs
