"""Case 05: batch normalisation learns its statistics in a custom step, once for each batch."""

import keras
import numpy as np
import pytest

import trainstep as ts

RUNS = {
    "one batch": ([[3, 7]], {}, 2.5, 2.5),
    "the batch twice": ([[3, 7], [3, 7]], {}, 3.75, 3.25),
    "two batches": ([[3, 7], [1, 1]], {}, 1.75, 1.25),
    "two batches, accumulated": ([[3, 7], [1, 1]], {"gradient_accumulation_steps": 2}, 1.75, 1.25),
}


def flat(normalisation):
    return keras.Sequential([keras.Input((1,)), normalisation, keras.layers.Dense(1)])


def nested(normalisation):
    inner = keras.Sequential([keras.Input((1,)), normalisation])
    return keras.Sequential([keras.Input((1,)), inner, keras.layers.Dense(1)])


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("build", [flat, nested])
@pytest.mark.parametrize("run", RUNS)
def test_moving_statistics(run, build, compile):
    batches, options, mean, variance = RUNS[run]
    normalisation = keras.layers.BatchNormalization(momentum=0.5)
    model = build(normalisation)
    optimizer = keras.optimizers.SGD(0.0, **options)

    @ts.step(compile=compile)
    def train_step(x, y):
        with ts.GradientTape() as tape:
            loss = keras.ops.mean(keras.ops.square(model(x, training=True) - y))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights, strict=True))
        return {"loss": loss}

    @ts.step(compile=compile)
    def test_step(x, y):
        return {"loss": keras.ops.mean(keras.ops.square(model(x, training=False) - y))}

    for batch in batches:
        x = np.array(batch, "float32")[:, None]
        train_step(x, np.zeros_like(x))
    np.testing.assert_allclose(keras.ops.convert_to_numpy(normalisation.moving_mean), [mean], rtol=1e-5)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(normalisation.moving_variance), [variance], rtol=1e-5)

    before = [np.array(w) for w in model.get_weights()]
    test_step(x, np.zeros_like(x))
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
