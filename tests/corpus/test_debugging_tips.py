"""What the page `debugging_tips` wants checked besides its numbers."""

import keras
import numpy as np
import pytest

import trainstep as ts

from .conventions import Page, batch, record, state
from .pages import debugging_tips

both_ways = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


def loss_gradient(weights, x, y):
    """The gradient of the mean cross-entropy, by hand, in float64."""
    w1, b1, w2, b2 = weights
    z = x @ w1 + b1
    hidden = np.maximum(z, 0)
    logits = hidden @ w2 + b2
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    at_logits = (p - np.eye(4)[y]) / len(y)
    at_z = at_logits @ w2.T * (z > 0)
    return [x.T @ at_z, at_z.sum(axis=0), hidden.T @ at_logits, at_logits.sum(axis=0)]


@both_ways
def test_h_is_the_hessian_times_ones(compile):
    page = debugging_tips.build(native=False)
    model, (x, y) = page.plain_model, batch(0, 16, page.x, page.y)

    @ts.step(compile=compile)
    def both_orders(x, y):
        with ts.GradientTape() as outer:
            with ts.GradientTape() as inner:
                loss = model.compute_loss(x, y, model(x, training=True))
            g = inner.gradient(loss, model.trainable_variables)
        return g, outer.gradient(g, model.trainable_variables)

    g, h = keras.tree.map_structure(keras.ops.convert_to_numpy, both_orders.predict((x, y)))
    weights = [keras.ops.convert_to_numpy(w).astype("float64") for w in model.trainable_variables]
    step_size = 1e-6  # far too small to carry a unit across the kink of its relu
    ahead, behind = (loss_gradient([w + s * step_size for w in weights], x.astype("float64"), y) for s in (1, -1))
    for ours, value in zip(g, loss_gradient(weights, x.astype("float64"), y), strict=True):
        np.testing.assert_allclose(ours, value, rtol=1e-3, atol=1e-5)
    for ours, a, b in zip(h, ahead, behind, strict=True):
        np.testing.assert_allclose(ours, (a - b) / (2 * step_size), rtol=1e-2, atol=1e-4)
    assert np.abs(h[-1]).max() > 1e-3  # the output's bias too


def test_run_eagerly_with_a_counter_and_floats_it_gives_the_numbers_of_the_plain_variant():
    class DebuggedModel(debugging_tips.SecondOrderModel):
        num_calls = 0
        seen = ()

        def look_at(self, gradients, second_order):
            self.num_calls += 1
            self.seen = [float(f(x[0])) for x in (gradients, second_order) for f in (keras.ops.min, keras.ops.max, keras.ops.mean)]

    def numbers(model_class, compile):
        page = Page(tracked={}, data=debugging_tips.build(native=False).data)
        debugging_tips.add(page, "plain", debugging_tips.mean, 1e-2, model_class)

        def steps(page, compile):
            train_step = ts.step(page.plain_model.train_step, compile=compile)
            for t in range(10):
                yield train_step(*batch(t, 16, page.x, page.y))

        return page.plain_model, record(page, steps, 10, compile=compile)

    model, debugged = numbers(DebuggedModel, compile=False)
    _, compiled = numbers(debugging_tips.SecondOrderModel, compile=True)
    assert model.num_calls == 10
    assert len(model.seen) == 6
    assert model.seen[0] < model.seen[2] < model.seen[1]
    assert sorted(debugged) == sorted(compiled)
    for key, value in debugged.items():
        np.testing.assert_allclose(value, compiled[key], rtol=1e-4, atol=1e-6, err_msg=key)


def test_each_variant_takes_another_way_and_is_traced_once():
    page = debugging_tips.build(native=False)
    models = [page.tracked[f"{variant}_model"] for variant in debugging_tips.VARIANTS]
    train_steps = [ts.step(model.train_step, compile=True) for model in models]
    for t in range(4):
        for train_step in train_steps:
            train_step(*batch(t, 16, page.x, page.y))
    kernels = [state(page)[f"{variant}_model/0"] for variant in debugging_tips.VARIANTS]
    assert [train_step.num_traces for train_step in train_steps] == [1, 1, 1]
    assert min(np.abs(kernels[i] - kernels[j]).max() for i, j in ((0, 1), (0, 2), (1, 2))) > 1e-3
