"""The checks of the page `guide_custom_train_step`."""

import keras
import numpy as np
import pytest

import trainstep as ts

from . import conventions
from .pages import guide_custom_train_step as page_module

both_modes = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])
FIT = {"batch_size": 16, "shuffle": False, "verbose": 0}


@both_modes
def test_weights_of_one_are_no_weights_bit_for_bit_and_updates_are_counted(compile):
    page = page_module.build(native=False)
    plain, weighted = (ts.step(model.train_step, compile=compile) for model in (page.compiled, page.weighted))
    for t in range(4):
        x, y = conventions.batch(t, 16, page.x, page.y)
        logs, weighted_logs = plain(x, y), weighted(x, y, np.ones((16, 1), "float32"))
        assert float(logs["loss"]) == float(weighted_logs["loss"])
        for ours, theirs in zip(page.compiled.get_weights(), page.weighted.get_weights(), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        assert int(page.compiled.optimizer.iterations.numpy()) == t + 1
    assert plain.num_traces == weighted.num_traces == int(compile)


@both_modes
def test_fit_resets_own_trackers_at_the_border_of_an_epoch(compile):
    page = page_module.build(native=False)
    kernel, bias = page.own.get_weights()
    trainer = ts.Trainer(ts.step(page.own.train_step, compile=compile), model=page.own)
    history = trainer.fit(page.x, page.y, epochs=2, **FIT).history
    losses, errors = adam_on_a_linear_model(page.x, page.y, kernel, bias, num_batches=8)
    np.testing.assert_allclose(history["loss"], np.mean(losses.reshape(2, 4), axis=1), rtol=1e-4)
    np.testing.assert_allclose(history["mae"], np.mean(errors.reshape(2, 4), axis=1), rtol=1e-4)


def adam_on_a_linear_model(x, y, kernel, bias, *, num_batches):
    """Mean squared and mean absolute errors before each update, by Kingma and Ba's algorithm 1 in NumPy."""
    w = np.concatenate([kernel, bias[None]]).astype("float64")
    m, v, losses, errors = np.zeros_like(w), np.zeros_like(w), [], []
    for t in range(num_batches):
        rows = slice(t % 4 * 16, t % 4 * 16 + 16)
        inputs = np.concatenate([x[rows], np.ones((16, 1))], axis=1)
        error = inputs @ w - y[rows]
        losses.append(np.mean(error**2))
        errors.append(np.mean(np.abs(error)))
        g = 2 * inputs.T @ error / 16
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        w -= 0.001 * (m / (1 - 0.9 ** (t + 1))) / (np.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-7)
    return np.array(losses), np.array(errors)


@both_modes
def test_one_step_fits_with_sample_weights_class_weights_and_without(compile):
    """A class weight arrives as the sample weight of each row."""
    classes = (page_module.build(native=False).y > 0.5).astype("int32")

    def fitted(**weights):
        page = page_module.build(native=False)
        trainer = ts.Trainer(ts.step(page.weighted.train_step, compile=compile), model=page.weighted)
        history = trainer.fit(page.x, classes, epochs=2, **FIT, **weights).history
        return history["loss"], page.weighted.get_weights()[0]

    plain, _ = fitted()
    by_class = fitted(class_weight={0: 0.5, 1: 3.0})
    by_row = fitted(sample_weight=np.where(classes == 1, 3.0, 0.5).astype("float32"))
    for ours, theirs in zip(by_class, by_row, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert not np.allclose(plain, by_row[0], rtol=1e-2)


@both_modes
def test_evaluation_of_a_model_compiled_without_an_optimizer(compile):
    page = page_module.build(native=False)
    before = page.evaluated.get_weights()
    kernel, bias = before
    trainer = ts.Trainer(test_step=ts.step(page.evaluated.test_step, compile=compile), model=page.evaluated)
    results = trainer.evaluate(page.x, page.y, batch_size=16, verbose=0)
    error = page.x @ kernel + bias - page.y
    np.testing.assert_allclose(results["loss"], np.mean(error**2), rtol=1e-5)
    np.testing.assert_allclose(results["compile_metrics/mae"], np.mean(np.abs(error)), rtol=1e-5)
    for old, new in zip(before, page.evaluated.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)


@both_modes
@pytest.mark.parametrize("name", ["sequential", "functional"])
def test_evaluation_leaves_dropout_off(name, compile):
    page = page_module.build(native=True)
    model = page.tracked[name]
    trainer = ts.Trainer(ts.step(model.train_step, compile=compile), ts.step(model.test_step, compile=compile), model=model)
    trainer.fit(page.img, page.lab, **FIT)
    w1, b1, w2, b2 = model.get_weights()
    logits = np.maximum(page.img.reshape(64, 16) @ w1 + b1, 0) @ w2 + b2
    assert trainer.evaluate(page.img, page.lab, batch_size=16, verbose=0)["accuracy"] == np.mean(logits.argmax(1) == page.lab)
    assert keras.ops.convert_to_numpy(model.accuracy.count) == 64
