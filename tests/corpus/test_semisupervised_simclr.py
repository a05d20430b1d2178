"""The checks of the page `semisupervised_simclr`."""

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts

from .conventions import state
from .pages import semisupervised_simclr as simclr


@pytest.fixture
def page():
    return simclr.build(native=False)


def training_batch(page, t):
    return *simclr.nested_batch(page, t), simclr.given_draws(t)


def first_moments(optimizer):
    return [slot.numpy() for slot in optimizer.variables if "momentum" in slot.path]


def probe_loss(page, features, labels):
    """By NumPy: the mean cross-entropy of the probe as it is now."""
    logits = ops.convert_to_numpy(page.probe(features))
    log_p = logits - np.log(np.sum(np.exp(logits), axis=1, keepdims=True))
    return -np.mean(log_p[np.arange(len(labels)), labels])


@pytest.mark.parametrize("compile", [True, False])
def test_the_gradient_of_a_vector_is_that_of_its_sum(page, compile):
    """Adam's first moment after one step is a tenth of it: here eight times the gradient of the mean."""
    (u, _), (images, _) = simclr.nested_batch(page, 0)
    draws = simclr.given_draws(0)
    views = [page.model.strong(np.concatenate([u, images]), *draws[k]) for k in (0, 1)]
    with ts.GradientTape() as tape:
        mean = ops.mean(page.model.contrastive_loss(*(page.projection(page.encoder(view)) for view in views)))
    gradients = tape.gradient(mean, page.encoder.trainable_weights + page.projection.trainable_weights)
    ts.step(page.model.train_step, compile=compile)(*training_batch(page, 0))
    for moment, gradient in zip(first_moments(page.contrastive_optimizer), gradients, strict=True):
        np.testing.assert_allclose(moment, 0.8 * ops.convert_to_numpy(gradient), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("compile", [True, False])
def test_the_probe_sees_the_updated_encoder(page, compile):
    _, (images, labels) = simclr.nested_batch(page, 0)
    views = page.model.weak(images, *simclr.given_draws(0)[2])
    old_features, old_probe = page.encoder(views), page.probe.get_weights()
    logs = ts.step(page.model.train_step, compile=compile)(*training_batch(page, 0))
    page.probe.set_weights(old_probe)
    np.testing.assert_allclose(float(logs["p_loss"]), probe_loss(page, page.encoder(views), labels), rtol=1e-5)
    assert abs(float(logs["p_loss"]) - probe_loss(page, old_features, labels)) > 1e-4


@pytest.mark.parametrize("compile", [True, False])
def test_labels_change_the_probe_alone(compile):
    def trained(add):
        page = simclr.build(native=False)
        train_step = ts.step(page.model.train_step, compile=compile)
        for t in range(2):
            unlabelled, (images, labels), draws = training_batch(page, t)
            train_step(unlabelled, (images, (labels + add) % simclr.NUM_CLASSES), draws)
        return state(page)

    one, other = trained(0), trained(1)
    different = {name.split("/")[0] for name, value in one.items() if not np.array_equal(value, other[name])}
    assert different - {"p_acc"} == {"model", "probe", "probe_optimizer", "p_loss"}


@pytest.mark.parametrize("compile", [True, False])
def test_metrics_start_anew_in_each_epoch_and_the_test_reports_two_of_them(page, compile):
    by_hand = simclr.build(native=False)
    train_step, test_step = (ts.step(f, compile=compile) for f in (page.model.train_step, page.model.test_step))
    batches = [training_batch(page, t) for t in range(4)]
    history = ts.Trainer(train_step, test_step).fit(
        batches, epochs=2, validation_data=(page.l, page.y), validation_batch_size=8, verbose=0
    )
    assert set(history.history) == {*simclr.LOGS, "val_p_loss", "val_p_acc"}

    hand_step = ts.step(by_hand.model.train_step, compile=compile)
    for epoch in range(2):
        by_hand.model.reset_metrics()
        for batch in batches:
            logs = hand_step(*batch)
        for name in simclr.LOGS:
            np.testing.assert_allclose(history.history[name][epoch], float(logs[name]), rtol=1e-5)
        features = by_hand.encoder(np.clip(page.l / 255, 0, 1))
        np.testing.assert_allclose(history.history["val_p_loss"][epoch], probe_loss(by_hand, features, page.y), rtol=1e-4)
    assert (
        float(page.c_acc.variables[1].numpy()) == 4 * 2 * 8
    )  # Two answers for each of eight images, in one epoch of four batches.


def test_the_step_is_captured_once(page):
    train_step = ts.step(page.model.train_step, compile=True)
    for t in range(4):
        train_step(*training_batch(page, t))
    assert train_step.num_traces == 1


@pytest.mark.parametrize("compile", [True, False])
def test_views_of_one_image_differ_and_differ_again_in_the_next_step(compile):
    page = simclr.build(native=True)

    @ts.step(compile=compile)
    def views(images):
        return page.model.strong(images, training=True), page.model.strong(images, training=True)

    drawn = [ops.convert_to_numpy(view) for _ in range(2) for view in views.predict(page.u[:2])]
    assert all(not np.allclose(drawn[i], drawn[k], atol=1e-2) for i in range(4) for k in range(i))
    assert all(view.min() >= 0 and view.max() <= 1 for view in drawn)
    assert keras.backend.standardize_dtype(drawn[0].dtype) == "float32"
