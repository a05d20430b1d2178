"""A step that calls a step, overrides one, or is asked for in two places."""

import keras
import numpy as np
import pytest

import trainstep as ts

X = np.arange(6, dtype="float32").reshape(3, 2)


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("how", ["call", "run", "predict"])
def test_a_step_inside_a_step_is_a_part_of_it(how, compile):
    w = keras.Variable(1.0)

    def inner_function(x):
        w.assign_add(1.0)
        return keras.ops.sum(x) * w if how == "predict" else {"sum": keras.ops.sum(x) * w}

    inner = ts.step(inner_function, compile=compile)

    @ts.step(compile=compile)
    def outer(x):
        if how == "call":
            return {"sum": inner(x)["sum"]}
        return {"sum": inner.run(x)["sum"] if how == "run" else inner.predict(x)}

    assert float(outer(X)["sum"]) == 30.0
    outer(X)
    assert float(w.numpy()) == 3.0


@pytest.mark.parametrize("compile", [True, False])
def test_an_overriding_step_calls_the_one_it_overrides(compile):
    class Base:
        def __init__(self):
            self.w = keras.Variable(1.0)

        @ts.step(compile=compile)
        def train_step(self, x):
            self.w.assign_add(1.0)
            return {"sum": keras.ops.sum(x)}

    class Derived(Base):
        @ts.step(compile=compile)
        def train_step(self, x):
            logs = super().train_step(x)
            return {"twice": 2.0 * logs["sum"]}

    derived = Derived()
    assert float(derived.train_step(X)["twice"]) == 30.0
    assert float(derived.w.numpy()) == 2.0


def test_a_replaced_optimizer_is_noticed_by_the_programs_of_every_shape():
    w, holder = keras.Variable(1.0), {}
    holder["optimizer"] = keras.optimizers.SGD(0.1)

    @ts.step(compile=True)
    def train_step(x):
        with ts.GradientTape() as tape:
            loss = keras.ops.mean(w * x)
        holder["optimizer"].apply_gradients([(tape.gradient(loss, w), w)])
        return {"loss": loss}

    ones = np.ones(4, "float32")
    train_step(ones)
    train_step(ones[:3])
    np.testing.assert_allclose(w.numpy(), 0.8, rtol=1e-6)
    holder["optimizer"] = keras.optimizers.SGD(0.2)
    train_step(ones)
    train_step(ones[:3])
    np.testing.assert_allclose(w.numpy(), 0.4, rtol=1e-6)
