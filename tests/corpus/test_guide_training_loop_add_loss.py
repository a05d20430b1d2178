"""The checks of the page `guide_training_loop_add_loss`."""

import keras
import numpy as np
import pytest

import trainstep as ts

from . import conventions
from .pages import guide_training_loop_add_loss as page_module

both_modes = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


def numpy(value):
    return keras.ops.convert_to_numpy(value)


@both_modes
def test_one_added_loss_after_each_pass_that_of_the_last(compile):
    page = page_module.build(native=False)
    train_step, _ = page_module.make_steps(page, compile=compile)
    for t in range(4):
        x, y = conventions.batch(t, 8, page.x, page.y)
        kernel, bias = (numpy(w) for w in page.model.trainable_weights[:2])
        loss = train_step(x, y)["loss"]
        assert np.isfinite(float(loss))
        [added] = page.model.losses
        np.testing.assert_allclose(float(added), 0.01 * np.maximum(x @ kernel + bias, 0).sum(), rtol=1e-5)
    assert train_step.num_traces == int(compile)


@both_modes
def test_without_the_added_loss_the_weights_go_elsewhere(compile):
    def weights_after_one_step(*, with_added_loss):
        page = page_module.build(native=False)
        page.tracked["model"] = page_module.make_model(with_added_loss=with_added_loss)
        train_step, _ = page_module.make_steps(page, compile=compile)
        train_step(*conventions.batch(0, 8, page.x, page.y))
        assert len(page.model.losses) == int(with_added_loss)
        return page.model.get_weights()

    first, *_ = zip(weights_after_one_step(with_added_loss=True), weights_after_one_step(with_added_loss=False), strict=True)
    assert not np.allclose(*first, atol=1e-5)


@both_modes
def test_the_gradient_after_the_block_is_the_same(compile, expected):
    numbers = conventions.record(
        page_module.build(native=False), page_module.steps, page_module.NUM_STEPS, compile=compile, gradient_inside=False
    )
    for key, value in expected("guide_training_loop_add_loss").items():
        np.testing.assert_allclose(numbers[key], value, rtol=1e-4, atol=1e-5, err_msg=key)


@both_modes
def test_f1_updated_in_a_step_with_weights_and_read_outside(compile):
    rng = np.random.default_rng(0)
    y, p, w = rng.random(64) < 0.5, rng.random(64).astype("float32"), rng.random(64).astype("float32")
    f1 = page_module.F1()

    @ts.step(compile=compile)
    def update(y, p, w):
        f1.update_state(y, p, sample_weight=w)

    update(y[:32], p[:32], w[:32])
    update(y[32:], p[32:], w[32:])
    hits = y & (p >= 0.5)
    precision, recall = w[hits].sum() / w[p >= 0.5].sum(), w[hits].sum() / w[y].sum()
    np.testing.assert_allclose(float(f1.result()), 2 * precision * recall / (precision + recall), rtol=1e-5)
    f1.reset_state()
    assert [float(numpy(v)) for v in f1.variables] == [0, 0, 0]
