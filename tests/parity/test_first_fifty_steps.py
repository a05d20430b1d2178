"""The listing of the README against loops written by hand: the loss of each of the first 50 steps."""

import importlib
import pathlib
import sys

import keras
import numpy as np
import pytest

import trainstep as ts
from trainstep import digits

sys.path.insert(0, str(pathlib.Path(__file__).parent))

NUM_STEPS, BATCH_SIZE = 50, 32


@pytest.fixture(scope="module")
def data():
    (images, labels), _ = digits.load()
    return images.reshape(-1, 784).astype("float32") / 255, labels.astype("int32")


@pytest.fixture(scope="module")
def weights():
    rng = np.random.default_rng(0)
    shapes = [(784, 32), (32,), (32, 10), (10,)]
    return [(rng.normal(size=s) / np.sqrt(s[0]) if len(s) == 2 else np.zeros(s)).astype("float32") for s in shapes]


def listing(weights, compile):
    model = keras.Sequential(
        [keras.Input((784,)), keras.layers.Dense(32, activation="relu"), keras.layers.Dense(10, activation="softmax")]
    )
    model.set_weights(weights)
    loss_fn = keras.losses.SparseCategoricalCrossentropy()
    optimizer = keras.optimizers.RMSprop()
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    @ts.step(compile=compile)
    def train_step(images, labels):
        with ts.GradientTape() as tape:
            predictions = model(images, training=True)
            loss = loss_fn(labels, predictions)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        accuracy.update_state(labels, predictions)
        return {"loss": loss, "accuracy": accuracy}

    return train_step


def our_losses(step, data):
    images, labels = data
    starts = range(0, NUM_STEPS * BATCH_SIZE, BATCH_SIZE)
    return np.array([float(step(images[i : i + BATCH_SIZE], labels[i : i + BATCH_SIZE])["loss"]) for i in starts])


@pytest.mark.parametrize("compile", [True, False])
def test_equals_the_raw_framework(weights, data, compile):
    raw = importlib.import_module(f"raw_{keras.config.backend()}")
    expected = raw.losses(weights, *data, batch_size=BATCH_SIZE, num_steps=NUM_STEPS)
    ours = our_losses(listing(weights, compile), data)
    assert expected[-1] < 0.7 * expected[0]
    np.testing.assert_allclose(ours, expected, rtol=1e-5)


def test_equals_numpy_and_so_the_other_backends(weights, data):
    """Within half of 1e-4 of one judge, any two backends are within 1e-4 of each other."""
    import raw_numpy

    expected = raw_numpy.losses(weights, *data, batch_size=BATCH_SIZE, num_steps=NUM_STEPS)
    ours = our_losses(listing(weights, True), data)
    np.testing.assert_allclose(ours, expected, rtol=5e-5)


def test_a_wrong_learning_rate_would_be_seen(weights, data):
    raw = importlib.import_module(f"raw_{keras.config.backend()}")
    expected = raw.losses(weights, *data, batch_size=BATCH_SIZE, num_steps=NUM_STEPS, learning_rate=0.00101)
    ours = our_losses(listing(weights, True), data)
    assert np.abs(ours / expected - 1).max() > 1e-4
