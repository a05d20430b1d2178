"""What layers add with `add_loss` in a step: read by the step, a number afterwards, and nothing of a capture in between."""

import keras
import numpy as np
import pytest

import trainstep as ts

X = np.arange(6, dtype="float32").reshape(3, 2)


class Adding(keras.layers.Layer):
    """Adds the mean of its input as a loss."""

    def call(self, x):
        self.add_loss(keras.ops.mean(x))
        return x * 2.0


class Hiding(keras.layers.Layer):
    """Holds a layer that adds a loss where no public name leads to it."""

    def __init__(self):
        super().__init__()
        self._inner = Adding()

    def call(self, x):
        return self._inner(x)


def added(model):
    return [float(loss) for loss in model.losses]


def step_on(model, *, compile):
    @ts.step(compile=compile)
    def train_step(x):
        outputs = model(x)
        return {"loss": keras.ops.mean(outputs) + sum(model.losses)}

    return train_step


@pytest.mark.parametrize("compile", [True, False])
def test_the_losses_of_the_last_pass_are_numbers_in_the_step_and_afterwards(compile):
    model = keras.Sequential([Hiding(), Adding()])
    train_step = step_on(model, compile=compile)
    for factor in (1.0, 2.0):
        assert float(train_step(factor * X)["loss"]) == 17.5 * factor
        assert added(model) == [2.5 * factor, 5.0 * factor]
    model(X)
    assert added(model) == [2.5, 5.0]
    assert train_step.num_traces == int(compile)


@pytest.mark.parametrize("compile", [True, False])
def test_a_regularizer_is_among_them(compile):
    dense = keras.layers.Dense(1, kernel_initializer="ones", kernel_regularizer=keras.regularizers.L2(0.5))
    model = keras.Sequential([dense, Adding()])
    assert float(step_on(model, compile=compile)(X)["loss"]) == 10.0 + 5.0 + 1.0
    assert added(model) == [5.0, 1.0]


@pytest.mark.parametrize("compile", [True, False])
def test_two_passes_and_a_pass_without_a_loss(compile):
    class Choosing(keras.layers.Layer):
        def call(self, x, training=False):
            if training:
                self.add_loss(keras.ops.mean(x))
            return x

    model = keras.Sequential([Choosing()])

    @ts.step(compile=compile)
    def train_step(x):
        model(x, training=True)
        first = sum(model.losses)
        model(2.0 * x, training=True)
        return {"loss": first + 10.0 * sum(model.losses)}

    @ts.step(compile=compile)
    def test_step(x):
        model(x, training=False)
        return {"losses": keras.ops.convert_to_tensor(float(len(model.losses)))}

    assert float(train_step(X)["loss"]) == pytest.approx(2.5 + 50.0)
    assert added(model) == [5.0]
    assert float(test_step(X)["losses"]) == 0.0
    assert added(model) == []


def test_a_step_inside_a_step():
    model = keras.Sequential([Adding()])
    inner = ts.step(lambda x: {"loss": keras.ops.mean(model(x))}, compile=True)

    @ts.step(compile=True)
    def outer(x):
        inner(x)
        return {"loss": sum(model.losses) * 3.0}

    assert float(outer(X)["loss"]) == 7.5
    assert float(outer(2.0 * X)["loss"]) == 15.0
    assert added(model) == [5.0]


def test_a_failed_capture_leaves_the_losses_that_were_there():
    model = keras.Sequential([Adding()])
    model(X)

    @ts.step(compile=True)
    def train_step(x):
        return {"loss": model(2.0 * x)}

    with pytest.raises(ts.StepError):
        train_step(X)
    assert added(model) == [2.5]


def test_stateless_leaves_no_loss():
    model = keras.Sequential([Adding()])
    train_step = step_on(model, compile=True)
    train_step(X)
    train_step.stateless(train_step.state, 2.0 * X)
    assert added(model) == [2.5]
