"""The classifier of handwritten digits, and its training by steps. Imports Keras: the backend must have been chosen before."""

import dataclasses
import math
from typing import Any

import keras
import numpy as np

import trainstep as ts

from ._digits import Digits

LEARNING_RATE = 3e-3
"""At the first step; it falls to zero at the last one, so that three epochs are enough."""


@dataclasses.dataclass(frozen=True)
class Results:
    """What the classifier makes of the test digits."""

    metrics: dict[str, float]
    predicted: np.ndarray


def train_and_test(digits: Digits, *, model_name: str, epochs: int, batch_size: int, seed: int) -> Results:
    """Trains a new classifier on the training digits, and asks it about the test digits."""
    keras.utils.set_random_seed(seed)
    num_steps = epochs * math.ceil(len(digits.x_train) / batch_size)
    trainer = _new_trainer(_MODELS[model_name](), num_steps)
    trainer.fit(digits.x_train, digits.y_train, batch_size=batch_size, epochs=epochs)
    metrics = trainer.evaluate(digits.x_test, digits.y_test, batch_size=batch_size, verbose=0)
    probabilities = trainer.predict(digits.x_test, batch_size=batch_size, verbose=0)
    return Results(metrics={name: float(value) for name, value in metrics.items()}, predicted=probabilities.argmax(axis=-1))


def _new_trainer(model: keras.Model, num_steps: int) -> ts.Trainer:
    loss_fn = keras.losses.SparseCategoricalCrossentropy()
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(LEARNING_RATE, num_steps))
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")
    mean_loss = keras.metrics.Mean(name="loss")

    @ts.step
    def train_step(images: Any, labels: Any) -> dict[str, keras.metrics.Metric]:
        with ts.GradientTape() as tape:
            predictions = model(images, training=True)
            loss = loss_fn(labels, predictions)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        accuracy.update_state(labels, predictions)
        mean_loss.update_state(loss)
        return {"loss": mean_loss, "accuracy": accuracy}

    @ts.step
    def test_step(images: Any, labels: Any) -> dict[str, keras.metrics.Metric]:
        predictions = model(images, training=False)
        accuracy.update_state(labels, predictions)
        mean_loss.update_state(loss_fn(labels, predictions))
        return {"loss": mean_loss, "accuracy": accuracy}

    @ts.step
    def predict_step(images: Any) -> Any:
        return model(images, training=False)

    return ts.Trainer(train_step, test_step, predict_step)


def _new_mlp() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((28, 28)),
            keras.layers.Flatten(),
            keras.layers.Dense(512, activation="relu"),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(10, activation="softmax"),
        ],
        name="mlp",
    )


def _new_convnet() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((28, 28)),
            keras.layers.Reshape((28, 28, 1)),
            keras.layers.Conv2D(16, 5, strides=2, activation="relu"),
            keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.2),
            keras.layers.Dense(10, activation="softmax"),
        ],
        name="convnet",
    )


_MODELS = {"mlp": _new_mlp, "convnet": _new_convnet}
