"""`keras.ops.cond` and loops inside a step: branches that assign, and what a backend cannot do."""

import keras
import numpy as np
import pytest

import trainstep as ts


def stepping(function, compile):
    return ts.step(compile=compile)(function)


@pytest.mark.parametrize("compile", [True, False])
def test_branches_assign_variables(compile):
    a, b = keras.Variable(1.0), keras.Variable(10.0)

    def up():
        a.assign_add(1.0)
        return a.value * 2.0

    def down():
        a.assign_sub(1.0)
        b.assign(a + 100.0)
        return a.value * 3.0

    @ts.step(compile=compile)
    def train_step(x):
        return {"loss": keras.ops.cond(keras.ops.sum(x) > 0.0, up, down)}

    x = np.ones(2, "float32")
    assert [float(train_step(s * x)["loss"]) for s in (1.0, -1.0, -1.0, 1.0)] == [4.0, 3.0, 0.0, 2.0]
    assert (float(a.numpy()), float(b.numpy())) == (1.0, 100.0)


@pytest.mark.parametrize("compile", [True, False])
def test_loss_scaling_skips_a_step_whose_gradient_is_infinite(compile):
    w = keras.Variable(0.0)
    inner = keras.optimizers.SGD(1.0)
    optimizer = keras.optimizers.LossScaleOptimizer(inner, initial_scale=1024.0)

    @ts.step(compile=compile)
    def train_step(x):
        with ts.GradientTape() as tape:
            loss = optimizer.scale_loss(keras.ops.mean(w * x))
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return {"w": w.value}

    x = np.full(2, 0.5, "float32")
    assert float(train_step(x)["w"]) == -0.5
    assert float(train_step(np.full(2, np.inf, "float32"))["w"]) == -0.5
    assert (int(inner.iterations.numpy()), float(optimizer.dynamic_scale.numpy())) == (1, 512.0)
    assert float(train_step(x)["w"]) == -1.0


@pytest.mark.parametrize("compile", [True, False])
def test_a_schedule_with_warmup(compile):
    w = keras.Variable(0.0)
    schedule = keras.optimizers.schedules.CosineDecay(0.0, 4, warmup_target=1.0, warmup_steps=2)
    optimizer = keras.optimizers.SGD(schedule)

    @ts.step(compile=compile)
    def train_step(x):
        with ts.GradientTape() as tape:
            loss = keras.ops.mean(w * x)
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return {"w": w.value}

    values = [0.0] + [float(train_step(np.ones(2, "float32"))["w"]) for _ in range(4)]
    np.testing.assert_allclose(-np.diff(values), [0.0, 0.5, 1.0, (1 + np.cos(np.pi / 4)) / 2], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("compile", [True, False])
def test_a_scan_through_a_gradient(compile):
    w = keras.Variable(2.0)

    @ts.step(compile=compile)
    def train_step(x):
        with ts.GradientTape() as tape:
            total, _ = keras.ops.scan(lambda carry, row: (carry * w + row, carry), keras.ops.zeros(()), x)
        return {"total": total, "gradient": tape.gradient(total, w)}

    logs = train_step(np.array([1.0, 2.0, 3.0], "float32"))
    assert (float(logs["total"]), float(logs["gradient"])) == (11.0, 6.0)  # w^2 + 2 w + 3, and 2 w + 2.


def test_a_variable_assigned_in_the_body_of_a_scan_is_updated_or_refused():
    w = keras.Variable(0.0, name="counter")

    @ts.step(compile=True)
    def train_step(x):
        def body(carry, row):
            w.assign_add(row)
            return carry, row

        keras.ops.scan(body, keras.ops.zeros(()), x)
        return {"w": w.value}

    x = np.array([1.0, 2.0, 3.0], "float32")
    if keras.config.backend() == "jax":
        with pytest.raises(ts.CaptureError, match=r"'counter'.*part of the carry"):
            train_step(x)
        assert float(w.numpy()) == 0.0
    else:
        assert float(train_step(x)["w"]) == 6.0
