"""What the page `neural_style_transfer` wants checked besides its numbers."""

import keras
import numpy as np
import pytest

import trainstep as ts

from .conventions import record, state
from .pages import neural_style_transfer as page_module

both_ways = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])
numpy = keras.ops.convert_to_numpy


@both_ways
def test_the_loss_falls_and_the_image_alone_is_trained(compile):
    page = page_module.build(native=False)
    features = page.features.get_weights()
    numbers = record(page, page_module.steps, 5, compile=compile)
    losses = [float(numbers[f"{t}/logs/loss"]) for t in range(5)]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]
    for now, before in zip(page.features.get_weights(), features, strict=True):
        np.testing.assert_array_equal(now, before)
    trained = page.optimizer._trainable_variables
    assert len(trained) == 1
    assert trained[0] is page.combination


@both_ways
def test_the_content_loss_and_its_gradient_are_zero_at_first(compile):
    page = page_module.build(native=False)

    @ts.step(compile=compile)
    def content(base):
        with ts.GradientTape() as tape:
            features = page.features(keras.ops.concatenate([base, page.combination], axis=0))["c4"]
            loss = page_module.content_loss(features[0], features[1])
        return loss, tape.gradient(loss, page.combination)

    loss, gradient = content.predict(page.base)
    assert float(loss) == 0.0
    np.testing.assert_array_equal(numpy(gradient), np.zeros((1, 12, 12, 3)))


@both_ways
def test_a_flat_image_has_no_variation_and_a_finite_gradient(compile):
    image = keras.Variable(np.full((1, 12, 12, 3), 7.0, "float32"))

    @ts.step(compile=compile)
    def variation():
        with ts.GradientTape() as tape:
            loss = page_module.variation_loss(image)
        return loss, tape.gradient(loss, image)

    loss, gradient = variation.predict(())
    assert float(loss) == 0.0
    np.testing.assert_array_equal(numpy(gradient), np.zeros((1, 12, 12, 3)))


@both_ways
def test_the_gradient_may_be_applied_outside_of_the_step(compile):
    inside, outside = page_module.build(native=False), page_module.build(native=False)
    run = page_module.steps(inside, compile=compile)
    ask = ts.step(lambda base, style: page_module.loss_and_gradient(outside, base, style), compile=compile)
    for _ in range(3):
        logs = next(run)
        loss, gradient = ask.predict((outside.base, outside.style))
        outside.optimizer.apply_gradients([(gradient, outside.combination)])
        np.testing.assert_allclose(float(loss), float(logs["loss"]), rtol=1e-6)
    for key, value in state(inside).items():
        np.testing.assert_allclose(state(outside)[key], value, rtol=1e-6, err_msg=key)
    assert ask.num_traces == (1 if compile else 0)
