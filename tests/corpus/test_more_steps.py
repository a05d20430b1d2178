"""Two published kinds of step that are in no page, written as their papers say, against closed forms in NumPy."""

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts

pytestmark = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])

NUM_STEPS = 4


def linear_model(weights):
    model = keras.Sequential([keras.Input((len(weights),)), keras.layers.Dense(1, use_bias=False)])
    model.layers[-1].kernel.assign(weights[:, None])
    return model


def mean_square(x, y, w):
    return np.mean((x @ w - y) ** 2)


def slope(x, y, w):
    return 2 / len(x) * x.T @ (x @ w - y)


def test_meta_learning(compile):
    """A gradient through an inner update, second order: C. Finn et al., "Model-Agnostic Meta-Learning" (2017)."""
    inner_rate, outer_rate, num_tasks = 0.1, 0.05, 3
    random = np.random.default_rng(0)
    x = random.normal(size=(2, num_tasks, 5, 4)).astype("float32")  # Support and query of each task.
    y = random.normal(size=(2, num_tasks, 5)).astype("float32")
    start = random.normal(size=4).astype("float32")
    model, optimizer = linear_model(start), keras.optimizers.SGD(outer_rate)

    @ts.step(compile=compile)
    def train_step(support, query):
        with ts.GradientTape() as outer:
            losses = []
            for task in range(num_tasks):
                x, y = support[0][task], support[1][task]
                with ts.GradientTape() as inner:
                    loss = ops.mean(ops.square(model(x)[:, 0] - y))
                gradients = inner.gradient(loss, model.trainable_variables)
                adapted = [w - inner_rate * g for w, g in zip(model.trainable_variables, gradients, strict=True)]
                x, y = query[0][task], query[1][task]
                prediction, _ = model.stateless_call(adapted, model.non_trainable_variables, x)
                losses.append(ops.mean(ops.square(prediction[:, 0] - y)))
            loss = sum(losses) / num_tasks
        gradients = outer.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return {"loss": loss}

    w = start.astype("float64")
    for _ in range(NUM_STEPS):
        loss = train_step((x[0], y[0]), (x[1], y[1]))["loss"]
        expected, gradient = 0.0, np.zeros(4)
        for s, s_y, q, q_y in zip(x[0], y[0], x[1], y[1], strict=True):
            adapted = w - inner_rate * slope(s, s_y, w)
            curvature = 2 / len(s) * s.T @ s
            expected += mean_square(q, q_y, adapted) / num_tasks
            gradient += (np.eye(4) - inner_rate * curvature) @ slope(q, q_y, adapted) / num_tasks
        w -= outer_rate * gradient
        np.testing.assert_allclose(float(loss), expected, rtol=1e-5)
        np.testing.assert_allclose(model.get_weights()[0][:, 0], w, rtol=1e-4, atol=1e-6)


def test_sharpness_aware_minimization(compile):
    """Weights that go up the slope and back inside a step: P. Foret et al., "Sharpness-Aware Minimization" (2021)."""
    radius, rate, momentum = 0.05, 0.1, 0.9
    random = np.random.default_rng(1)
    x, y = random.normal(size=(8, 4)).astype("float32"), random.normal(size=8).astype("float32")
    start = random.normal(size=4).astype("float32")
    model, optimizer = linear_model(start), keras.optimizers.SGD(rate, momentum=momentum)

    @ts.step(compile=compile)
    def train_step(x, y):
        weights = model.trainable_variables
        with ts.GradientTape() as tape:
            loss = ops.mean(ops.square(model(x)[:, 0] - y))
        gradients = tape.gradient(loss, weights)
        norm = ops.sqrt(sum(ops.sum(ops.square(g)) for g in gradients))
        ways_up = [radius * g / norm for g in gradients]
        for weight, way in zip(weights, ways_up, strict=True):
            weight.assign_add(way)
        with ts.GradientTape() as tape:
            sharp_loss = ops.mean(ops.square(model(x)[:, 0] - y))
        gradients = tape.gradient(sharp_loss, weights)
        for weight, way in zip(weights, ways_up, strict=True):
            weight.assign_sub(way)
        optimizer.apply(gradients, weights)
        return {"loss": loss, "sharp_loss": sharp_loss}

    w, velocity = start.astype("float64"), np.zeros(4)
    for _ in range(NUM_STEPS):
        logs = train_step(x, y)
        gradient = slope(x, y, w)
        above = w + radius * gradient / np.linalg.norm(gradient)
        expected = mean_square(x, y, w), mean_square(x, y, above)
        velocity = momentum * velocity - rate * slope(x, y, above)
        w = w + velocity
        np.testing.assert_allclose([float(logs["loss"]), float(logs["sharp_loss"])], expected, rtol=1e-5)
        np.testing.assert_allclose(model.get_weights()[0][:, 0], w, rtol=1e-4, atol=1e-6)
