"""What the page `hypernetwork` wants checked besides its numbers."""

import keras
import numpy as np
import pytest

from .conventions import batch
from .pages import hypernetwork

both_ways = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])
numpy = keras.ops.convert_to_numpy


def closed_form(weights, x):
    """What the written network answers for (n, 12), by hand; `weights` (99,)."""
    w0, b0, w1, b1 = np.split(weights, [72, 78, 96])
    return np.maximum(x @ w0.reshape(12, 6) + b0, 0) @ w1.reshape(6, 3) + b1


def test_the_written_network_is_the_formula_and_owns_nothing():
    page = hypernetwork.build(native=False)
    weights = np.random.default_rng(1).normal(size=(1, 99)).astype("float32")
    hypernetwork.write(page.written, keras.ops.convert_to_tensor(weights))
    np.testing.assert_allclose(numpy(page.written(page.x)), closed_form(weights[0], page.x), rtol=1e-4, atol=1e-5)
    assert page.written.variables == []


@both_ways
def test_a_step_leaves_numbers_in_the_layers_and_nothing_that_breaks_a_later_call(compile):
    page = hypernetwork.build(native=False)
    train_step = hypernetwork.make_train_step(page, compile=compile)
    x, y = batch(0, 1, page.x, page.y)
    weights = numpy(page.hypernetwork(x))[0]
    train_step(x, y)
    np.testing.assert_allclose(numpy(page.written(page.x)), closed_form(weights, page.x), rtol=1e-4, atol=1e-5)
    fresh = np.random.default_rng(2).normal(size=(1, 99)).astype("float32")
    hypernetwork.write(page.written, keras.ops.convert_to_tensor(fresh))
    np.testing.assert_allclose(numpy(page.written(page.x)), closed_form(fresh[0], page.x), rtol=1e-4, atol=1e-5)
    assert page.written.variables == []
    train_step(*batch(1, 1, page.x, page.y))  # and that does not break the next step
    assert train_step.num_traces == (1 if compile else 0)


def test_thirty_two_steps_are_traced_once_and_train():
    page = hypernetwork.build(native=False)
    before = page.hypernetwork.get_weights()
    train_step = hypernetwork.make_train_step(page, compile=True)
    losses = [float(train_step(*batch(t, 1, page.x, page.y))["loss"]) for t in range(32)]
    assert train_step.num_traces == 1
    assert len(set(losses)) > 16
    assert all(np.abs(w - old).max() > 1e-4 for w, old in zip(page.hypernetwork.get_weights(), before, strict=True))


@both_ways
def test_the_mean_so_far_is_recorded_every_eight_steps(compile):
    run = hypernetwork.steps(hypernetwork.build(native=False), compile=compile)
    logs = [next(run) for _ in range(16)]
    losses, means = [float(entry["loss"]) for entry in logs], [entry["mean_loss"] for entry in logs]
    assert means[:7] == [0.0] * 7
    np.testing.assert_allclose([means[7], means[14], means[15]], [np.mean(losses[:8]), np.mean(losses[:8]), np.mean(losses)])
