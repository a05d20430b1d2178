"""The checks of the page `shiftvit`."""

import keras
import numpy as np
import pytest

import trainstep as ts

from . import conventions
from .pages import shiftvit as page_module

both_modes = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


def numpy(value):
    return keras.ops.convert_to_numpy(value)


@both_modes
def test_the_nest_of_sources_comes_back_and_has_the_gradients_of_a_flat_list(compile):
    page = page_module.build(native=False)
    model = page.model
    x, y = conventions.batch(0, 8, page.x, page.y)
    u = np.stack([conventions.uniform(0, k, (8, 1, 1, 1)) for k in range(2)])

    def flat_gradients(x, y, u):
        with ts.GradientTape() as tape:
            loss = model.compute_loss(y=y, y_pred=model(x, u, training=True))
        return tape.gradient(loss, model.trainable_variables)

    def nested_gradients(x, y, u):
        _, _, gradients = model.loss_and_gradients(x, y, u)
        lengths.append([len(part) for part in gradients])
        assert all(isinstance(part, list) for part in gradients)
        return [gradient for part in gradients for gradient in part]

    lengths = []
    flat, nested = (ts.step(f, compile=compile).predict((x, y, u)) for f in (flat_gradients, nested_gradients))
    assert lengths == [[0, 2, 0, 6, 10]]
    by_variable = dict(zip([v.path for part in model.sources() for v in part], nested, strict=True))
    assert len(by_variable) == len(flat) == 18
    for variable, gradient in zip(model.trainable_variables, flat, strict=True):
        np.testing.assert_array_equal(numpy(by_variable[variable.path]), numpy(gradient))


def test_the_learning_rate_follows_its_formula():
    schedule = page_module.WarmUpCosine()
    expected = [1e-5, 5.05e-4] + [5e-4 * (1 + np.cos(np.pi * (s - 2) / 6)) for s in range(2, 9)] + [0]
    np.testing.assert_allclose([float(schedule(s)) for s in range(10)], expected, rtol=1e-5, atol=1e-10)


@both_modes
def test_the_learning_rate_of_each_step_is_that_of_the_schedule(compile):
    page = page_module.build(native=False)
    run = page_module.steps(page, compile=compile)
    for s in range(4):
        np.testing.assert_allclose(float(numpy(page.optimizer.learning_rate)), float(page_module.WarmUpCosine()(s)), rtol=1e-5)
        next(run)


@both_modes
def test_evaluation_drops_no_path_and_training_drops_others_each_time(compile):
    page = page_module.build(native=True)
    x, y = conventions.batch(0, 8, page.x, page.y)

    @ts.step(compile=compile)
    def losses(x, y):
        return {mode: page.model.compute_loss(y=y, y_pred=page.model(x, training=mode == "train")) for mode in ("train", "test")}

    runs = [losses(x, y) for _ in range(4)]
    assert len({float(logs["train"]) for logs in runs}) == 4
    assert len({float(logs["test"]) for logs in runs}) == 1
    results = ts.step(page.model.test_step, compile=compile)(x, y)
    np.testing.assert_allclose(float(results["loss"]), float(runs[0]["test"]), rtol=1e-6)


def test_pixels_move_by_one_and_zeros_move_in():
    x = np.arange(1, 2 * 3 * 3 * 8 + 1, dtype="float32").reshape(2, 3, 3, 8)
    expected = x.copy()
    for channel, (axis, by) in enumerate([(2, -1), (2, 1), (1, -1), (1, 1)]):
        moved = np.roll(x[..., channel], by, axis=axis)
        np.swapaxes(moved, 0, axis)[-1 if by < 0 else 0] = 0
        expected[..., channel] = moved
    np.testing.assert_array_equal(numpy(page_module.shifted(x)), expected)


def test_one_program_for_all_steps():
    page = page_module.build(native=True)
    train_step = ts.step(page.model.train_step, compile=True)
    for t in range(4):
        train_step(*conventions.batch(t, 8, page.x, page.y))
    assert train_step.num_traces == 1
