"""Case 27: the gradient penalty: a gradient inside a loss, per sample, also where its norm is zero and where nothing is trained."""

import keras
import numpy as np
import pytest

import trainstep as ts

X = np.array([[3.0], [5.0]], "float32")


def penalty_of(w, x, norm):
    """The mean over samples of (norm of the critic's gradient - 1)^2, for the critic w*x."""
    with ts.GradientTape() as tape:
        tape.watch(x)
        outputs = keras.ops.sum(w * x, axis=1)
    gradient = tape.gradient(outputs, x)
    return keras.ops.mean(keras.ops.square(norm(gradient) - 1.0))


def raw_norm(gradient):
    """Its derivative at zero is infinite."""
    return keras.ops.sqrt(keras.ops.sum(keras.ops.square(gradient), axis=1))


def safe_norm(gradient):
    """Finite, with the derivative 0 at zero."""
    squares = keras.ops.sum(keras.ops.square(gradient), axis=1)
    is_zero = squares == 0.0
    return keras.ops.where(is_zero, 0.0, keras.ops.sqrt(keras.ops.where(is_zero, 1.0, squares)))


def one_step(initial, norm, compile):
    w = keras.Variable(initial)

    @ts.step(compile=compile)
    def train_step(x):
        with ts.GradientTape() as tape:
            penalty = penalty_of(w, x, norm)
        return {"penalty": penalty, "gradient": tape.gradient(penalty, w)}

    logs = train_step(X)
    return float(logs["penalty"]), float(logs["gradient"])


@pytest.mark.parametrize("norm", [raw_norm, safe_norm])
@pytest.mark.parametrize("compile", [True, False])
def test_penalty_and_its_gradient(norm, compile):
    np.testing.assert_allclose(one_step(2.0, norm, compile), (1.0, 2.0), rtol=1e-5)


@pytest.mark.parametrize("compile", [True, False])
def test_a_norm_that_is_safe_at_zero(compile):
    np.testing.assert_allclose(one_step(0.0, safe_norm, compile), (1.0, 0.0), atol=1e-6)


@pytest.mark.parametrize("compile", [True, False])
def test_the_raw_norm_at_zero_is_nan_as_in_every_framework(compile):
    penalty, gradient = one_step(0.0, raw_norm, compile)
    assert penalty == 1.0
    assert np.isnan(gradient)


@pytest.mark.parametrize("compile", [True, False])
def test_the_inner_tape_in_a_step_that_trains_nothing(compile):
    w = keras.Variable(2.0)

    @ts.step(compile=compile)
    def test_step(x):
        return {"penalty": penalty_of(w, x, raw_norm)}

    @ts.step(compile=compile)
    def predict_step(x):
        with ts.GradientTape() as tape:
            tape.watch(x)
            outputs = keras.ops.sum(w * x, axis=1)
        return tape.gradient(outputs, x)

    np.testing.assert_allclose(float(test_step(X)["penalty"]), 1.0, rtol=1e-5)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(predict_step.predict(X)), [[2.0], [2.0]], rtol=1e-5)
    trainer = ts.Trainer(test_step=test_step, predict_step=predict_step)
    np.testing.assert_allclose(trainer.evaluate(X, verbose=0)["penalty"], 1.0, rtol=1e-5)
    np.testing.assert_allclose(trainer.predict(X, verbose=0), [[2.0], [2.0]], rtol=1e-5)
