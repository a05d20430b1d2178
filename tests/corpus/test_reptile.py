"""The checks of the page `reptile`."""

import keras
import numpy as np
import pytest

from .pages import reptile as page_module

both_modes = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


def moving_statistics(page):
    return [v.numpy() for v in page.model.non_trainable_variables]


@both_modes
def test_batch_normalization_runs_in_inference_mode(compile):
    """Its statistics stay, and the loss of two samples is the mean of the losses of each by itself."""
    page = page_module.build(native=False)
    before = moving_statistics(page)
    page.optimizer.learning_rate.assign(0.0)
    inner_step = page_module.make_inner_step(page, compile=compile)
    images, labels, _ = page_module.task(page.pool, 0)
    together, *apart = (float(inner_step(images[rows], labels[rows])["loss"]) for rows in (slice(0, 2), slice(0, 1), slice(1, 2)))
    np.testing.assert_allclose(together, np.mean(apart), rtol=1e-5)
    assert apart[0] != apart[1]

    page = page_module.build(native=False)
    run = page_module.steps(page, compile=compile)
    for _ in range(3):
        next(run)
    assert len(before) == 4
    for old, new in zip(before, moving_statistics(page), strict=True):
        np.testing.assert_array_equal(old, new)


@both_modes
def test_a_step_size_of_zero_moves_no_weight_and_one_moves_them_all_the_way(compile):
    page = page_module.build(native=False)
    inner_step = page_module.make_inner_step(page, compile=compile)
    old = page.model.get_weights()
    page_module.meta_iteration(page, inner_step, 0, step_size=0.0)
    for before, after in zip(old, page.model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)
    page_module.meta_iteration(page, inner_step, 0, step_size=1.0)
    assert not np.allclose(old[0], page.model.get_weights()[0], atol=1e-4)


@both_modes
def test_evaluation_counts_updates_and_puts_the_weights_back(compile):
    page = page_module.build(native=False)
    inner_step = page_module.make_inner_step(page, compile=compile)
    page_module.meta_iteration(page, inner_step, 0, step_size=0.25)
    old = page.model.get_weights()
    assert int(page.optimizer.iterations.numpy()) == 4
    page_module.evaluate(page, inner_step, 0)
    assert int(page.optimizer.iterations.numpy()) == 4 + 5
    for before, after in zip(old, page.model.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)


def test_the_inner_step_is_compiled_once_for_all_tasks():
    page = page_module.build(native=False)
    inner_step = page_module.make_inner_step(page, compile=True)
    for t in range(3):
        page_module.meta_iteration(page, inner_step, t, step_size=0.25)
        page_module.evaluate(page, inner_step, t)
    assert inner_step.num_traces == 1
    assert keras.ops.convert_to_numpy(page.optimizer.iterations) == 3 * (4 + 5)
