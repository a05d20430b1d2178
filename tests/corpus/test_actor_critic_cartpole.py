"""The checks of the page `actor_critic_cartpole`."""

import gc
import weakref

import keras
import numpy as np
import pytest

import trainstep as ts

from .pages import actor_critic_cartpole as cartpole


@pytest.fixture
def page():
    return cartpole.build(native=False)


class Noticing:
    """A model that keeps weak references to all that it returns."""

    def __init__(self, model):
        self.model, self.references = model, []
        self.trainable_variables = model.trainable_variables

    def __call__(self, state):
        outputs = self.model(state)
        self.references += [weakref.ref(output) for output in outputs]
        return outputs


def test_numpy_reads_inside_the_tape_do_not_cut_the_gradient(page):
    state = np.array([[0.1, -0.2, 0.03, 0.4]], "float32")
    with ts.GradientTape() as tape:
        probabilities, _ = page.model(state)
        p = keras.ops.convert_to_numpy(probabilities[0])
        log_p = keras.ops.log(probabilities[0, 1])
    kernel, bias = page.model.layers[2].kernel, page.model.layers[2].bias
    bias_gradient, kernel_gradient = tape.gradient(log_p, [bias, kernel])
    np.testing.assert_allclose(keras.ops.convert_to_numpy(bias_gradient), [-p[0], 1 - p[1]], rtol=1e-5)  # One-hot less p.
    hidden = np.maximum(state @ page.model.layers[1].kernel.numpy(), 0)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(kernel_gradient), hidden.T * [-p[0], 1 - p[1]], rtol=1e-4, atol=1e-7)


def test_the_advantage_is_not_stopped(page, monkeypatch):
    """One step: the return is 0, so the loss is v ln p + v^2 / 2, and Adam's first moment is a tenth of its gradient, ln p + v."""
    monkeypatch.setattr(cartpole, "MAX_STEPS", 1)
    state = cartpole.CartPole().reset()[None]
    p, v = (keras.ops.convert_to_numpy(output) for output in page.model(state))
    action = cartpole.choose(p[0], np.random.default_rng(42))
    loss, reward = cartpole.RecordedEpisode(page)()
    log_p = np.log(p[0, action])
    assert reward == 1.0
    np.testing.assert_allclose(float(loss), log_p * v[0, 0] + v[0, 0] ** 2 / 2, rtol=1e-5)
    of_value_bias = [slot for slot in page.optimizer.variables if "momentum" in slot.path][-1]
    np.testing.assert_allclose(of_value_bias.numpy(), [0.1 * (log_p + v[0, 0])], rtol=1e-4)


def test_nothing_that_was_recorded_outlives_its_episode(page):
    page.tracked["model"] = noticing = Noticing(page.model)
    run_episode = cartpole.RecordedEpisode(page)
    lengths = [run_episode()[1] for _ in range(6)]
    gc.collect()
    assert len(set(lengths)) > 2
    assert len(noticing.references) == 2 * sum(lengths)
    assert [r for r in noticing.references if r() is not None] == []


def test_episodes_of_every_length_share_one_program(page):
    run_episode = cartpole.SplitEpisode(page)
    assert len({run_episode()[1] for _ in range(6)}) > 2
    assert (run_episode.act.num_traces, run_episode.learn.num_traces) == (1, 1)


def test_a_whole_episode_cannot_be_compiled(page):
    episode = cartpole.RecordedEpisode(page)
    before = [w.numpy() for w in page.model.trainable_variables]
    with pytest.raises(ts.CaptureError, match=r"needs the value of a tensor as a NumPy array.*probabilities"):
        ts.step(lambda: cartpole.RecordedEpisode.episode.__wrapped__(episode), compile=True)()
    assert all(np.array_equal(w.numpy(), old) for w, old in zip(page.model.trainable_variables, before, strict=True))
