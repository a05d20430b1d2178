"""Reptile: compiled steps on one task after another, and between the tasks weights moved by NumPy in a loop written by hand."""

from collections.abc import Callable

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, overwrite_weights

NUM_STEPS, RTOL, ATOL = 5, 1e-4, 1e-5
LOGS = ["loss", "accuracy", "accuracy_over_samples"]
CHANGES = ["model", "optimizer"]
NUM_CLASSES, NUM_SHOTS, BATCH_SIZE = 3, 4, 6
NUM_TRAINING_STEPS, NUM_EVALUATION_STEPS = 4, 5


def task(pool: np.ndarray, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Twelve images of three classes, shuffled; their labels; and one more image of each class, to test with."""
    rng = np.random.default_rng(5000 + number)
    images, tests = [], []
    for chosen in rng.integers(0, len(pool), NUM_CLASSES):
        *shots, test = rng.integers(0, pool.shape[1], NUM_SHOTS + 1)
        images.append(pool[chosen, shots])
        tests.append(pool[chosen, test])
    order = rng.permutation(NUM_CLASSES * NUM_SHOTS)
    labels = np.repeat(np.arange(NUM_CLASSES, dtype="int32"), NUM_SHOTS)
    return np.concatenate(images)[order], labels[order], np.stack(tests)


def build(*, native: bool) -> Page:
    """A small convnet with batch normalization, and the optimizer that all tasks share."""
    model = keras.Sequential([keras.Input((8, 8, 1))])
    for _ in range(2):
        model.add(layers.Conv2D(8, 3, strides=2, padding="same"))
        model.add(layers.BatchNormalization())
        model.add(layers.ReLU())
    model.add(layers.Flatten())
    model.add(layers.Dense(NUM_CLASSES, activation="softmax"))
    overwrite_weights(model)
    pool = np.random.default_rng(22).random((6, 5, 8, 8, 1)).astype("float32")
    return Page(tracked={"model": model, "optimizer": keras.optimizers.SGD(0.05)}, data={"pool": pool}, native=native)


def make_inner_step(page: Page, *, compile: bool) -> ts.Step:
    """One update on a batch of one task; the target of the gradient is the vector of the losses of all samples."""
    model = page.model

    @ts.step(compile=compile)
    def inner_step(images, labels):
        with ts.GradientTape() as tape:
            probabilities = model(images)
            losses = keras.losses.sparse_categorical_crossentropy(labels, probabilities)
        gradients = tape.gradient(losses, model.trainable_weights)
        page.optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        return {"loss": ops.mean(losses)}

    return inner_step


def adapt(inner_step: Callable, images: np.ndarray, labels: np.ndarray, *, num_steps: int) -> float:
    """Takes so many steps on a task, its batches over and over; the last loss."""
    for i in range(num_steps):
        start = i * BATCH_SIZE % len(images)
        rows = slice(start, start + BATCH_SIZE)
        logs = inner_step(images[rows], labels[rows])
    return float(logs["loss"])


def meta_iteration(page: Page, inner_step: Callable, t: int, *, step_size: float) -> float:
    """Adapts to task `t`, and goes a part of the way to where that led."""
    images, labels, _ = task(page.pool, t)
    old = page.model.get_weights()
    loss = adapt(inner_step, images, labels, num_steps=NUM_TRAINING_STEPS)
    new = page.model.get_weights()
    page.model.set_weights([before + step_size * (after - before) for before, after in zip(old, new, strict=True)])
    return loss


def evaluate(page: Page, inner_step: Callable, t: int) -> tuple[float, float]:
    """The accuracy on a new task after a few steps; also as it was published, with the maximum over samples. Weights stay."""
    images, labels, tests = task(page.pool, 100 + t)
    old = page.model.get_weights()
    adapt(inner_step, images, labels, num_steps=NUM_EVALUATION_STEPS)
    probabilities = ops.convert_to_numpy(page.model(tests))
    page.model.set_weights(old)
    classes = np.arange(NUM_CLASSES)
    return float(np.mean(probabilities.argmax(axis=1) == classes)), float(np.mean(probabilities.argmax(axis=0) == classes))


def steps(page: Page, *, compile: bool) -> Steps:
    """The meta-learning loop; one meta-iteration at a time, and an evaluation after every second one."""
    inner_step = make_inner_step(page, compile=compile)
    t = 0
    while True:
        logs = {"loss": meta_iteration(page, inner_step, t, step_size=0.25 * (1 - t / 5))}
        if t % 2 == 0:
            logs["accuracy"], logs["accuracy_over_samples"] = evaluate(page, inner_step, t)
        yield logs
        t += 1
