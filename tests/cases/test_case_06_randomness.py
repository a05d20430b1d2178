"""Case 06: random draws differ from step to step and repeat with the same seed; nothing is frozen, no global state moved."""

import random

import keras
import numpy as np
import pytest

import trainstep as ts

WEIGHTS = np.arange(64, dtype="float32")


def dropout_losses(seed, compile, layer_seed=None):
    """The loss of each of four steps; it tells the mask."""
    keras.utils.set_random_seed(seed)
    dropout, w = keras.layers.Dropout(0.5, seed=layer_seed), keras.Variable(1.0)
    optimizer = keras.optimizers.SGD(0.0)

    @ts.step(compile=compile)
    def train_step(x):
        with ts.GradientTape() as tape:
            loss = keras.ops.sum(keras.ops.multiply(dropout(x * w, training=True), WEIGHTS))
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return {"loss": loss}

    return [float(train_step(np.ones(64, "float32"))["loss"]) for _ in range(4)]


def raw_draws(seed, compile):
    """Four steps that draw by `keras.random` without a seed."""
    keras.utils.set_random_seed(seed)

    @ts.step(compile=compile)
    def train_step(x):
        return {"draw": keras.ops.sum(keras.random.normal((4,)) * x)}

    return [float(train_step(np.arange(4, dtype="float32"))["draw"]) for _ in range(4)]


@pytest.mark.parametrize("draw", [dropout_losses, raw_draws])
@pytest.mark.parametrize("compile", [True, False])
def test_masks_differ_and_repeat(draw, compile):
    first, again, other = draw(1, compile), draw(1, compile), draw(2, compile)
    assert len(set(first)) == 4
    assert first == again
    assert set(first).isdisjoint(other)


@pytest.mark.parametrize("draw", [dropout_losses, raw_draws])
def test_compiled_and_eager_draw_the_same(draw):
    np.testing.assert_allclose(draw(1, True), draw(1, False), rtol=1e-6)


def test_a_seeded_layer_draws_what_keras_draws():
    ours = dropout_losses(1, True, layer_seed=5)
    keras.utils.set_random_seed(1)
    dropout = keras.layers.Dropout(0.5, seed=5)
    theirs = [float(keras.ops.sum(keras.ops.multiply(dropout(np.ones(64, "float32"), training=True), WEIGHTS))) for _ in range(4)]
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


GENERATOR = np.random.default_rng(0)


@pytest.mark.parametrize("draw", [lambda: np.random.rand(), lambda: random.random(), lambda: GENERATOR.random()])
def test_a_draw_that_would_be_frozen_is_an_error(draw):
    w = keras.Variable(1.0)

    @ts.step(compile=True)
    def train_step(x):
        w.assign_add(1.0)
        return {"loss": keras.ops.mean(x) * draw()}

    with pytest.raises(ts.CaptureError, match=r"repeat that draw for ever.*keras\.random"):
        train_step(np.ones(2, "float32"))
    assert float(w.numpy()) == 1.0


def orders(seed, num_fits=1):
    """The rows in the order in which each epoch of `fit` saw them."""
    keras.utils.set_random_seed(seed)
    seen = []

    @ts.step(compile=False)
    def train_step(x):
        seen.append(int(x[0]))
        return {"loss": keras.ops.mean(x)}

    trainer = ts.Trainer(train_step)
    for _ in range(num_fits):
        trainer.fit(np.arange(8, dtype="float32"), batch_size=1, epochs=3, verbose=0)
    return [tuple(seen[i : i + 8]) for i in range(0, len(seen), 8)]


def test_shuffled_orders_differ_between_epochs_and_fits_and_repeat_with_the_seed():
    first = orders(1, num_fits=2)
    assert len(set(first)) == 6
    assert all(sorted(order) == list(range(8)) for order in first)
    assert orders(1, num_fits=2) == first
    assert set(orders(2, num_fits=2)).isdisjoint(first)


def test_fit_leaves_the_global_generators_alone():
    numpy_before, python_before = np.random.get_state(), random.getstate()
    orders_without_reseeding = ts.Trainer(ts.step(lambda x: {"loss": keras.ops.mean(x)}))
    orders_without_reseeding.fit(np.arange(8, dtype="float32"), batch_size=1, epochs=2, verbose=0)
    assert np.random.get_state()[2] == numpy_before[2]
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before[1])
    assert random.getstate() == python_before
