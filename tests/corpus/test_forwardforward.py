"""What must hold of the forward-forward algorithm beyond its numbers."""

import keras
import numpy as np
import pytest

import trainstep as ts

from . import conventions
from .pages import forwardforward

both_ways = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


@both_ways
def test_four_updates_of_each_layer_a_step_and_one_trace(compile):
    page = forwardforward.build(native=True)
    step = ts.step(forwardforward.ForwardForwardNetwork(page).train_step, compile=compile)
    for t in range(3):
        step(page.x, page.y)
        assert [int(page.tracked[name].iterations.value) for name in ("L1_optimizer", "L2_optimizer")] == [4 * (t + 1)] * 2
    assert step.num_traces == (1 if compile else 0)
    assert not page.unused_optimizer.built


@both_ways
def test_the_second_layer_does_not_change_the_first(compile):
    """The first layer and its optimizer come out the same, bit for bit or nearly, with and without a layer that learns from it."""
    states = []
    for num_layers in (1, 2):
        page = forwardforward.build(native=False)
        network = forwardforward.ForwardForwardNetwork(page)
        del network.hidden[num_layers:]
        step = ts.step(network.train_step, compile=compile)
        for t in range(2):
            step(page.x, page.y, conventions.permutation(t, 0, 16))
        states.append(conventions.state(page))
    for key in (k for k in states[0] if k.startswith("L1")):
        np.testing.assert_allclose(states[1][key], states[0][key], rtol=1e-5, atol=1e-7, err_msg=key)
    assert any(not np.array_equal(states[0][key], states[1][key]) for key in states[0] if key.startswith("L2/"))


@both_ways
def test_weights_stay_float32_though_the_data_are_float64(compile):
    page = forwardforward.build(native=True)
    assert page.x.dtype == np.float64
    logs = next(forwardforward.steps(page, compile=compile))
    assert {v.dtype for layer in (page.L1, page.L2) for v in layer.trainable_weights} == {"float32"}
    assert {keras.backend.standardize_dtype(logs["FinalLoss"].dtype)} == {"float32"}


def test_a_label_is_written_over_the_first_entries(run):
    x = np.random.default_rng(0).random((3, 6)).astype("float32")
    labels = np.array([2, 0, 1], "int32")
    written = run(lambda x, y: keras.ops.vectorized_map(lambda pair: forwardforward.overlay(*pair), (x, y)), x, labels)
    expected = x.copy()
    expected[:, :3] = 0
    expected[np.arange(3), labels] = x.max(axis=1)
    np.testing.assert_array_equal(written, expected)


def test_predicts_the_label_under_which_the_layers_answer_loudest():
    page = forwardforward.build(native=True)
    weights = [[keras.ops.convert_to_numpy(w.value) for w in layer.dense.weights] for layer in (page.L1, page.L2)]
    goodness = np.zeros((16, 3))
    for label in range(3):
        h = page.x.reshape(16, 16).copy()
        h[:, :3] = 0
        h[:, label] = page.x.reshape(16, 16).max(axis=1)
        for kernel, bias in weights:
            h = np.maximum(h / (np.linalg.norm(h, axis=1, keepdims=True) + 1e-4) @ kernel + bias, 0)
            goodness[:, label] += (h**2).mean(axis=1)
    expected = goodness.argmax(axis=1)
    assert len(set(expected)) > 1

    trainer = ts.Trainer(predict_step=ts.step(forwardforward.ForwardForwardNetwork(page).predict_step))
    np.testing.assert_array_equal(trainer.predict(page.x, batch_size=8, verbose=0), expected)
