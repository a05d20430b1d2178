"""The checks of the page `textual_inversion`, both parts."""

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts

from .conventions import batch, state
from .pages import textual_inversion as part_1
from .pages import textual_inversion_part_2 as part_2


def arguments(page, t=0):
    return *batch(t, part_1.BATCH_SIZE, page.images, page.tokens), part_1.given_draws(t)


def slots(optimizer, name):
    return [variable.numpy() for variable in optimizer.variables if name in variable.path]


@pytest.mark.parametrize("compile", [True, False])
def test_only_the_row_of_the_placeholder_learns_but_weight_decay_shrinks_all(compile):
    page = part_1.build(native=False)
    train_step = part_1.make_step(page, compile=compile)
    (embedding,) = page.text_encoder.trainable_weights
    for t in range(3):
        before = embedding.numpy()
        train_step(*arguments(page, t))
        learning_rate = 1e-2 * (1 + np.cos(np.pi * t / 20)) / 2
        others = np.arange(part_1.NUM_TOKENS) != part_1.PLACEHOLDER
        np.testing.assert_allclose(embedding.numpy()[others], before[others] * (1 - learning_rate * 0.004), rtol=2e-7)
        moved = embedding.numpy()[~others] - before[~others] * (1 - learning_rate * 0.004)
        assert np.all(np.abs(moved) > 1e-4)
    (momentum,) = slots(page.optimizer, "momentum")
    assert not np.any(momentum[others])
    assert np.all(momentum[~others])


def test_the_unedited_gradient_is_dense_and_has_every_used_row():
    page = part_1.build(native=False)
    tokens = page.tokens[:4]
    with ts.GradientTape() as tape:
        loss = ops.mean(page.text_encoder(tokens) ** 2)
    (gradient,) = tape.gradient(loss, page.text_encoder.trainable_weights)
    assert tuple(gradient.shape) == (part_1.NUM_TOKENS, 8)
    rows = np.flatnonzero(np.any(ops.convert_to_numpy(gradient), axis=1))
    np.testing.assert_array_equal(rows, np.unique(tokens))


@pytest.mark.parametrize("native", [True, False])
def test_frozen_networks_stay_and_the_step_is_captured_once(native):
    page = part_1.build(native=native)
    train_step = part_1.make_step(page, compile=True)
    before = [w.numpy() for w in page.text_encoder.non_trainable_weights + page.unet.weights + page.image_encoder.weights]
    for t in range(3):
        train_step(*(arguments(page, t)[:2] if native else arguments(page, t)))
    after = page.text_encoder.non_trainable_weights + page.unet.weights + page.image_encoder.weights
    assert len(after) == 3 + 8 + 2
    assert all(np.array_equal(old, w.numpy()) for old, w in zip(before, after, strict=True))
    assert train_step.num_traces == 1


@pytest.mark.parametrize("compile", [True, False])
def test_an_infinite_gradient_halves_the_scale_and_changes_no_weight(compile):
    page = part_2.build(native=False)
    train_step = ts.step(page.model.train_step, compile=compile)
    train_step(*arguments(page))
    before, (images, tokens, draws) = state(page), arguments(page, 1)
    train_step(np.full_like(images, 1e6), tokens, draws)  # More than float16 can hold.
    after = state(page)
    changed = {
        name for name, value in after.items() if name.startswith(("unet", "optimizer")) and not np.array_equal(value, before[name])
    }
    assert float(page.optimizer.dynamic_scale.numpy()) == 2.0**14
    assert all(after[name].shape == () for name in changed)  # The scale and the count of good steps.
    assert int(page.optimizer.iterations.numpy()) == 1
    train_step(*arguments(page, 2))
    assert int(page.optimizer.iterations.numpy()) == 2
    assert float(page.optimizer.dynamic_scale.numpy()) == 2.0**14
    assert all(np.all(np.isfinite(w.numpy())) for w in page.unet.weights)


def test_weights_stay_float32_and_arithmetic_is_float16():
    page = part_2.build(native=False)
    next(part_2.steps(page, compile=True))
    assert {keras.backend.standardize_dtype(w.dtype) for w in page.unet.weights} == {"float32"}
    found = page.unet([np.zeros((1, 4, 4, 2)), np.zeros((1, 8)), np.zeros((1, 5, 8))])
    assert keras.backend.standardize_dtype(found.dtype) == "float16"
    assert {slot.dtype.name for slot in slots(page.optimizer, "momentum")} == {"float32"}


def test_each_gradient_is_unscaled_and_clipped_by_its_norm():
    """Adam's first moment is a tenth of the clipped gradient: none has a norm above 0.1, and some are just there."""
    page = part_2.build(native=False)
    next(part_2.steps(page, compile=True))
    norms = np.array([np.linalg.norm(slot) for slot in slots(page.optimizer, "momentum")])
    assert len(norms) == 8
    assert np.all(norms <= 0.1 * (1 + 1e-3))
    assert np.any(norms > 0.099)


def test_the_mixed_step_is_captured_once():
    page = part_2.build(native=False)
    train_step = ts.step(page.model.train_step, compile=True)
    for t in range(3):
        train_step(*arguments(page, t))
    assert train_step.num_traces == 1
