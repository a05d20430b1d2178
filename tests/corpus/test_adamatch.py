"""What must hold of AdaMatch beyond its numbers."""

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts

from . import conventions
from .pages import adamatch

both_ways = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


def step_of(page, *, compile):
    return ts.step(adamatch.AdaMatch(page).train_step, compile=compile)


@both_ways
def test_the_moving_statistics_change_once_and_see_all_16_rows(compile):
    page = adamatch.build(native=False)
    rescaling, convolution, normalization = page.model.layers[:3]
    images = np.concatenate([page.data[name][:4] for name in ("sw", "ss", "tw", "ts")])
    features = ops.convert_to_numpy(convolution(rescaling(images))).astype("float64")
    step_of(page, compile=compile)(*adamatch.nested_batch(page, 0))
    mean, variance = (ops.convert_to_numpy(v.value) for v in (normalization.moving_mean, normalization.moving_variance))
    np.testing.assert_allclose(mean, 0.01 * features.mean(axis=(0, 1, 2)), rtol=1e-4, atol=1e-7)
    np.testing.assert_allclose(variance, 0.99 + 0.01 * features.var(axis=(0, 1, 2)), rtol=1e-5)


def test_the_target_counts_for_nothing_at_first_and_then_more():
    page = adamatch.build(native=False)
    algorithm, training = adamatch.AdaMatch(page), adamatch.steps(page, compile=True)
    weights = []
    for t in range(7):
        assert int(page.counter.value) == t
        weights.append(float(algorithm.target_weight()))
        next(training)
    assert weights[0] == 0
    np.testing.assert_allclose(weights, 0.5 - np.cos(np.minimum(np.pi, 2 * np.pi * np.arange(7) / 10)) / 2, atol=1e-6)


@both_ways
def test_the_loss_of_the_first_step_is_that_of_the_source_alone_and_without_regularisers(compile):
    page, twin = adamatch.build(native=False), adamatch.build(native=False)
    (sw, y), (ss, _) = adamatch.nested_batch(page, 0)[0]
    all_images = np.concatenate([page.data[name][:4] for name in ("sw", "ss", "tw", "ts")])
    logits = ops.convert_to_numpy(twin.model(all_images, training=True))[:8]
    at_rest = ops.convert_to_numpy(twin.model(np.concatenate([sw, ss]), training=False))
    mixing = conventions.uniform(0, 0, (8, 5))
    mixed = (mixing * logits + (1 - mixing) * at_rest).astype("float64")
    log_softmax = mixed - np.log(np.exp(mixed).sum(axis=1, keepdims=True))
    expected = 2 * -(np.concatenate([y, y]) * log_softmax).sum(axis=1).mean()
    assert float(next(adamatch.steps(page, compile=compile))["loss"]) == pytest.approx(expected, rel=1e-5)
    assert len(page.model.losses) == 3  # The regularisers are there, and count for something; they were not added.
    assert float(sum(page.model.losses)) > 1e-3


@both_ways
def test_the_mask_lets_pass_what_is_surer_than_the_source(compile):
    """Labels of unit norm pass easily: with the page's data all do. A source that is surer of itself asks for more."""

    class Watched(adamatch.AdaMatch):
        def pseudo_labels(self, source_logits, target_logits):
            labels, self.is_sure = super().pseudo_labels(20 * source_logits, target_logits)
            return labels, self.is_sure

    page = adamatch.build(native=False)
    watched = Watched(page)
    step = ts.step(watched.train_step, compile=compile)
    num_sure = []
    for t in range(3):
        step(*adamatch.nested_batch(page, t), conventions.uniform(t, 0, (8, 5)))
        num_sure.append(int(ops.convert_to_numpy(watched.is_sure).sum()))
    assert any(0 < n < adamatch.BATCH_SIZE for n in num_sure), num_sure


def test_pseudo_labels_by_numpy(run):
    page = adamatch.build(native=False)
    source, target = np.random.default_rng(0).normal(size=(2, 6, 5)).astype("float32") * 2
    labels, is_sure = run(adamatch.AdaMatch(page).pseudo_labels, source, target)
    ps, pt = (np.exp(z) / np.exp(z).sum(axis=1, keepdims=True) for z in (source, target))
    expected = pt / np.linalg.norm(pt, axis=1, keepdims=True)
    np.testing.assert_allclose(labels, expected, rtol=1e-5)
    np.testing.assert_array_equal(is_sure, expected.max(axis=1) >= 0.9 * ps.max(axis=1).mean())


def test_without_the_stop_the_gradient_is_another(run):
    page = adamatch.build(native=False)
    weights = page.model.trainable_weights

    def gradients(source, weak, strong):
        answers = []
        for stop in (ops.stop_gradient, lambda labels: labels):
            with ts.GradientTape() as tape:
                pseudo, _ = adamatch.AdaMatch(page).pseudo_labels(page.model(source), page.model(weak))
                loss = ops.mean(adamatch.unreduced_cross_entropy(stop(pseudo), page.model(strong)))
            answers.append(tape.gradient(loss, weights))
        return answers

    stopped, followed = run(gradients, page.sw[:4], page.tw[:4], page.ts[:4])
    assert max(np.abs(a - b).max() for a, b in zip(stopped, followed, strict=True)) > 1e-3


def test_cross_entropy_of_labels_that_do_not_sum_to_1(run):
    """Value and gradient by NumPy: `sum(labels) * softmax - labels`."""
    rng = np.random.default_rng(1)
    labels, logits = rng.random((4, 5)).astype("float32"), rng.normal(size=(4, 5)).astype("float32")

    def value_and_gradient(labels, logits):
        with ts.GradientTape() as tape:
            tape.watch(logits)
            losses = adamatch.unreduced_cross_entropy(labels, logits)
        return losses, tape.gradient(losses, logits)

    losses, gradient = run(value_and_gradient, labels, logits)
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(losses, -(labels * np.log(softmax)).sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(gradient, labels.sum(axis=1, keepdims=True) * softmax - labels, rtol=1e-4, atol=1e-6)


@both_ways
def test_one_trace(compile):
    page = adamatch.build(native=True)
    step = step_of(page, compile=compile)
    for t in range(3):
        step(*adamatch.nested_batch(page, t))
    assert step.num_traces == (1 if compile else 0)
    assert keras.backend.standardize_dtype(page.counter.dtype).startswith("int")
