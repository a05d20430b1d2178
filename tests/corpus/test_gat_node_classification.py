"""The checks of the page `gat_node_classification`."""

import keras
import numpy as np
import pytest

import trainstep as ts

from . import conventions
from .pages import gat_node_classification as page_module

both_modes = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


def numpy(value):
    return keras.ops.convert_to_numpy(value)


def test_a_node_without_an_edge_keeps_only_its_residual():
    page = page_module.build(native=False)
    lonely = np.setdiff1d(np.arange(30), page.edges[:, 0])
    assert lonely.size
    layer = page.model.attention[0]
    states = np.random.default_rng(0).normal(size=(30, 8)).astype("float32")
    outputs = numpy(layer(states, page.edges))
    np.testing.assert_array_equal(outputs[lonely], states[lonely])
    assert not np.any(np.all(np.isclose(outputs, states), axis=1)[np.unique(page.edges[:, 0])])


@both_modes
def test_the_gradient_of_an_attention_vector_is_that_of_finite_differences(compile):
    page = page_module.build(native=False)
    vector = page.model.attention[0].heads[0].attention

    def loss_of(indices, labels):
        return page.model.compute_loss(y=labels, y_pred=page.model.logits_of(indices))

    @ts.step(compile=compile)
    def gradient_step(indices, labels):
        with ts.GradientTape() as tape:
            loss = loss_of(indices, labels)
        return tape.gradient(loss, vector)

    batch = page.indices[:24], page.labels[:24]
    gradient, start, h = numpy(gradient_step.predict(batch)), numpy(vector.value), 2e-3
    differences = np.zeros_like(start)
    for i in range(8):
        losses = []
        for sign in (1, -1):
            moved = start.copy()
            moved[i] += sign * h
            vector.assign(moved)
            losses.append(float(loss_of(*batch)))
        differences[i] = (losses[0] - losses[1]) / (2 * h)
    assert np.abs(gradient).max() > 1e-3
    np.testing.assert_allclose(gradient, differences, atol=1e-4)


@both_modes
def test_fit_evaluate_and_predict(compile):
    page = page_module.build(native=False)
    train_step = page_module.make_train_step(page, compile=compile)
    trainer = ts.Trainer(
        train_step,
        ts.step(page.model.test_step, compile=compile),
        ts.step(page.model.predict_step, compile=compile),
        model=page.model,
    )
    history = trainer.fit(page.indices[:24], page.labels[:24], batch_size=8, epochs=8, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]
    assert train_step.num_traces == int(compile)

    logits = numpy(page.model([page.model.nodes, page.model.edges]))[24:].astype("float64")
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    predictions = trainer.predict(page.indices[24:], verbose=0)
    assert predictions.shape == (6, 3)
    np.testing.assert_allclose(predictions, expected, rtol=1e-4)
    np.testing.assert_allclose(predictions.sum(axis=1), 1, rtol=1e-5)
    before = page.model.get_weights()
    results = trainer.evaluate(page.indices[24:], page.labels[24:], verbose=0)
    np.testing.assert_allclose(results["loss"], -np.mean(np.log(expected[range(6), page.labels[24:]])), rtol=1e-4)
    assert all(np.array_equal(old, new) for old, new in zip(before, page.model.get_weights(), strict=True))


def test_the_graph_is_not_trained_and_not_captured_again():
    page = page_module.build(native=False)
    train_step = page_module.make_train_step(page, compile=True)
    for t in range(4):
        train_step(*conventions.batch(t, 8, page.indices[:24], page.labels[:24]))
    assert train_step.num_traces == 1
    assert len(page.model.weights) == 12
    np.testing.assert_array_equal(numpy(page.model.nodes), page.nodes)
    np.testing.assert_array_equal(numpy(page.model.edges), page.edges)
