"""The checks of the page `mnist_moe`, by a forward pass in NumPy."""

import keras
import numpy as np
import pytest

import trainstep as ts

from . import conventions
from .pages import mnist_moe as page_module

both_modes = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


def numpy(value):
    return keras.ops.convert_to_numpy(value)


def forward(model, x):
    """The gate's weights, which experts were chosen, and the probabilities."""
    kernel, bias, gate_kernel, gate_bias, *experts = (numpy(v.value).astype("float64") for v in model.trainable_variables)
    windows = np.lib.stride_tricks.sliding_window_view(x[..., 0], (3, 3), axis=(1, 2))
    maps = np.maximum(np.einsum("bijkl,klc->bijc", windows, kernel[:, :, 0]) + bias, 0)
    features = maps.reshape(len(x), 3, 2, 3, 2, 8).max(axis=(2, 4)).reshape(len(x), -1)
    gate = softmax(features @ gate_kernel + gate_bias)
    chosen = np.argsort(-gate, axis=1)[:, :2]
    answers = np.stack([features @ k + b for k, b in zip(experts[::2], experts[1::2], strict=True)], axis=1)
    picked = np.take_along_axis(gate, chosen, 1)[..., None] * np.take_along_axis(answers, chosen[..., None], 1)
    return gate, chosen, softmax(picked.sum(axis=1))


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@both_modes
def test_what_the_layer_left_can_be_read_after_each_step(compile):
    page = page_module.build(native=False)
    model, total = page.intended, np.zeros(4)
    train_step = ts.step(model.train_step, compile=compile)
    for t in range(3):
        x, y = conventions.batch(t, 8, page.x, page.y)
        gate, chosen, _ = forward(model, x)
        logs = train_step(x, y)
        total += np.bincount(chosen.ravel(), minlength=4)
        diversity = np.mean(np.sum(gate * np.log(gate + 1e-10), axis=1))
        importance, overflow = np.var(gate.sum(axis=0)), np.maximum(total - 2, 0).sum()
        np.testing.assert_array_equal(numpy(model.mixture.count), total)
        assert total.sum() == 2 * 8 * (t + 1)
        np.testing.assert_allclose(float(model.mixture.diversity), diversity, rtol=1e-4)
        np.testing.assert_allclose(float(model.mixture.importance), importance, rtol=1e-4)
        np.testing.assert_allclose(float(model.mixture.overflow), overflow, rtol=1e-6)
        np.testing.assert_allclose(float(logs["moe_loss"]), 0.01 * (diversity + importance + overflow), rtol=1e-4)
    assert train_step.num_traces == int(compile)


@both_modes
def test_a_test_step_counts_too_and_leaves_the_weights(compile):
    page = page_module.build(native=True)
    model, before = page.intended, page.intended.trainable_variables
    values = [numpy(v.value).copy() for v in before]
    test_step = ts.step(model.test_step, compile=compile)
    x, y = conventions.batch(0, 8, page.x, page.y)
    _, chosen, probabilities = forward(model, x)
    cross_entropy = -np.mean(np.log(np.sum(probabilities * y, axis=1)))
    for t in range(2):
        logs = test_step(x, y)
        count = (t + 1) * np.bincount(chosen.ravel(), minlength=4)
        np.testing.assert_array_equal(numpy(model.mixture.count), count)
        model.metrics[0].reset_state()
        np.testing.assert_allclose(float(logs["loss"]), cross_entropy + float(logs["moe_loss"]), rtol=1e-5)
    for variable, value in zip(before, values, strict=True):
        np.testing.assert_array_equal(numpy(variable.value), value)


@both_modes
def test_the_published_tracker_holds_labels_weighted_by_probabilities(compile):
    page = page_module.build(native=False)
    x, y = conventions.batch(0, 8, page.x, page.y)
    _, _, probabilities = forward(page.published, x)
    logs = ts.step(page.published.train_step, compile=compile)(x, y)
    np.testing.assert_allclose(float(logs["loss"]), np.sum(y * probabilities) / np.sum(probabilities), rtol=1e-5)
