"""Case 03: a variable without a gradient neither crashes the step nor stops training without a word."""

import warnings

import keras
import numpy as np
import pytest

import trainstep as ts

VARIANTS = {
    "plain": ({}, 0.71),
    "accumulation": ({"gradient_accumulation_steps": 2}, 0.9),
    "clipping": ({"global_clipnorm": 1.0}, 0.71),
    "weight decay": ({"weight_decay": 0.1}, (1 * 0.99 - 0.1) * 0.99 - 0.19),
    "moving average": ({"use_ema": True, "ema_momentum": 0.5}, 0.71),
}


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_other_variables_train_and_this_one_stays(variant, compile):
    options, expected = VARIANTS[variant]
    a, b = keras.Variable(1.0, name="a"), keras.Variable(1.0, name="b")
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, **options)

    @ts.step(compile=compile)
    def train_step(x):
        with ts.GradientTape() as tape:
            loss = keras.ops.mean(a * x)
        gradients = tape.gradient(loss, [a, b])
        assert gradients[1] is None
        optimizer.apply_gradients(zip(gradients, [a, b], strict=True))
        return {"loss": loss}

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for num_rows in (1, 1):
            train_step(np.ones(num_rows, "float32"))
    about_b = [w for w in caught if "Gradients do not exist" in str(w.message)]
    assert len(about_b) == 1
    assert "b" in str(about_b[0].message)
    assert float(b.numpy()) == 1.0
    np.testing.assert_allclose(a.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("compile", [True, False])
def test_a_second_signature_does_not_warn_again(compile):
    a, b = keras.Variable(1.0, name="a"), keras.Variable(1.0, name="b")
    optimizer = keras.optimizers.SGD(0.1)

    @ts.step(compile=compile)
    def train_step(x):
        with ts.GradientTape() as tape:
            loss = keras.ops.mean(a * x)
        optimizer.apply_gradients(zip(tape.gradient(loss, [a, b]), [a, b], strict=True))

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for num_rows in (2, 1, 2):
            train_step(np.ones(num_rows, "float32"))
    assert len([w for w in caught if "Gradients do not exist" in str(w.message)]) == 1
    np.testing.assert_allclose(a.numpy(), 0.7, rtol=1e-5)


@pytest.mark.parametrize("compile", [True, False])
def test_a_loss_that_is_not_differentiable_is_an_error_that_names_the_variables(compile):
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", name="w1")])
    optimizer = keras.optimizers.SGD(0.1)

    @ts.step(compile=compile)
    def train_step(x):
        with ts.GradientTape() as tape:
            loss = keras.ops.mean(keras.ops.cast(keras.ops.argmax(model(x), axis=0), "float32"))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights, strict=True))
        return {"loss": loss}

    with pytest.raises(ts.TapeError, match=r"w1/kernel.*argmax"):
        train_step(np.ones((2, 1), "float32"))
    assert float(model.get_weights()[0][0, 0]) == 1.0
    assert int(optimizer.iterations.numpy()) == 0
