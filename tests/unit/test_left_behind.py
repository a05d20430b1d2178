"""Tensors that a step leaves in attributes are numbers afterwards, compiled as well as eager."""

import keras
import numpy as np
import pytest

import trainstep as ts

X = np.arange(6, dtype="float32").reshape(3, 2)


class Noting(keras.layers.Layer):
    """Leaves the mean of its input in an attribute."""

    def call(self, x):
        self.mean = keras.ops.mean(x)
        self.parts = {"max": keras.ops.max(x), "two": [keras.ops.min(x), self.mean * 2.0]}
        return x * 2.0


@pytest.mark.parametrize("compile", [True, False])
def test_an_attribute_read_by_the_step_and_afterwards(compile):
    layer = Noting()
    model = keras.Sequential([layer])

    @ts.step(compile=compile)
    def train_step(x):
        outputs = model(x)
        return {"loss": keras.ops.mean(outputs) + layer.mean}

    for factor in (1.0, 2.0):
        assert float(train_step(factor * X)["loss"]) == 7.5 * factor
        assert float(layer.mean) == 2.5 * factor
        assert float(layer.parts["max"]) == 5.0 * factor
        assert [float(v) for v in layer.parts["two"]] == [0.0, 5.0 * factor]
    model(X)
    assert float(layer.mean) == 2.5


@pytest.mark.parametrize("compile", [True, False])
def test_a_closure_and_an_attribute_of_a_plain_object(compile):
    class Owner:
        def __init__(self):
            self.last = "nothing yet"

    owner, last = Owner(), None

    @ts.step(compile=compile)
    def train_step(x):
        nonlocal last
        last = keras.ops.sum(x)
        owner.last = last + 1.0
        return {"loss": last}

    train_step(X)
    train_step(2.0 * X)
    assert (float(last), float(owner.last)) == (30.0, 31.0)


def test_a_failed_capture_leaves_what_was_there():
    layer = Noting()
    layer.mean = "before"

    @ts.step(compile=True)
    def train_step(x):
        layer(x)
        return {"loss": x}

    with pytest.raises(ts.StepError):
        train_step(X)
    assert layer.mean == "before"
