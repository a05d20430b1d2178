"""The checks of the page `rlhf_demo`."""

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts

from .conventions import state, uniform
from .pages import rlhf_demo


def draw(n):
    return uniform(0, n, ())


def walked(policy):
    """The cells, actions and rewards of the first episode, by NumPy and the policy as it is."""
    rows, cell, is_done = [], 0, False
    while not is_done and len(rows) < rlhf_demo.MAX_STEPS:
        p = ops.convert_to_numpy(policy(np.array([[cell]], "float32")))[0]
        action = int(draw(len(rows)) >= p[0])
        next_cell, reward, is_done = rlhf_demo.walk(cell, action)
        rows.append((cell, action, reward))
        cell = next_cell
    return (np.array(column, "float32") for column in zip(*rows, strict=True))


def first_moments(optimizer):
    return [slot.numpy() for slot in optimizer.variables if "momentum" in slot.path]


@pytest.mark.parametrize("compile", [True, False])
def test_the_update_is_by_the_gradient_of_the_mean_loss(compile):
    """Adam's first moment after one update is a tenth of the gradient."""
    page = rlhf_demo.build(native=False)
    cells, actions, rewards = walked(page.policy)
    one_hot = np.eye(2, dtype="float32")[actions.astype(int)]
    inputs = np.concatenate([cells[:, None], one_hot], axis=1)
    estimates = ops.convert_to_numpy(page.reward_model(inputs))[:, 0]
    with ts.GradientTape() as tape:
        probabilities = ops.sum(ops.multiply(page.policy(cells[:, None]), one_hot), axis=1)
        policy_loss = ops.mean(-ops.log(probabilities + 1e-7) * ops.convert_to_tensor(estimates))
    policy_gradients = tape.gradient(policy_loss, page.policy.trainable_weights)
    with ts.GradientTape() as tape:
        reward_loss = ops.mean((page.reward_model(inputs)[:, 0] - ops.convert_to_tensor(rewards)) ** 2)
    reward_gradients = tape.gradient(reward_loss, page.reward_model.trainable_weights)

    logs = rlhf_demo.Learner(page, compile=compile).run_episode(draw)
    np.testing.assert_allclose(logs["policy_loss"], float(policy_loss), rtol=1e-5)
    np.testing.assert_allclose(logs["reward_loss"], float(reward_loss), rtol=1e-5)
    for optimizer, gradients in ((page.policy_optimizer, policy_gradients), (page.reward_optimizer, reward_gradients)):
        for moment, gradient in zip(first_moments(optimizer), gradients, strict=True):
            np.testing.assert_allclose(moment, 0.1 * np.clip(ops.convert_to_numpy(gradient), -1, 1), rtol=1e-4, atol=1e-7)


def test_every_element_is_clipped():
    page = rlhf_demo.build(native=False)
    learner = rlhf_demo.Learner(page, compile=True)
    for total in learner.policy_sums:
        total.assign(np.linspace(-9.0, 9.0, int(np.prod(total.shape))).reshape(total.shape))
    expected = [0.1 * np.clip(total.numpy() / 3, -1, 1) for total in learner.policy_sums]
    learner.update(3.0)
    for moment, value in zip(first_moments(page.policy_optimizer), expected, strict=True):
        np.testing.assert_allclose(moment, value, rtol=1e-6)


@pytest.mark.parametrize("compile", [True, False])
def test_a_weight_without_a_gradient_counts_as_zero(compile):
    page = rlhf_demo.build(native=False)
    unused = page.policy.add_weight(shape=(3,), initializer="ones", trainable=True, name="unused")
    for i, weight in enumerate(page.policy.trainable_weights):
        page.tracked[f"policy_sum/{i}"] = keras.Variable(ops.zeros(weight.shape), trainable=False)
    learner = rlhf_demo.Learner(page, compile=compile)
    learner.run_episode(draw)
    np.testing.assert_array_equal(unused.numpy(), np.ones(3))
    assert len(first_moments(page.policy_optimizer)) == 5


def test_weights_keep_their_values_during_an_episode_and_sums_start_anew():
    page = rlhf_demo.build(native=False)
    learner = rlhf_demo.Learner(page, compile=True)
    before = state(page)
    learner.learn(1.0, 1, 0.0)
    during = state(page)
    changed = {name for name, value in before.items() if not np.array_equal(value, during[name])}
    assert {name.split("/")[0] for name in changed} == {"policy_sum", "reward_sum"}
    learner.update(1.0)
    assert all(not np.any(total.numpy()) for total in learner.policy_sums + learner.reward_sums)


def test_sums_may_be_plain_tensors():
    """The variant of the page: gradients leave the compiled step as tensors and are summed outside of it."""
    page, other = rlhf_demo.build(native=False), rlhf_demo.build(native=False)

    @ts.step
    def gradients(cell, action, reward):
        inputs = ops.concatenate([ops.reshape(cell, (1, 1)), ops.one_hot(ops.reshape(action, (1,)), 2)], axis=1)
        with ts.GradientTape() as tape:
            loss = (page.reward_model(inputs)[0, 0] - reward) ** 2
        return tape.gradient(loss, page.reward_model.trainable_weights)

    learner = rlhf_demo.Learner(other, compile=True)
    sums = [ops.zeros(w.shape) for w in page.reward_model.trainable_weights]
    for row in [(0.0, 1, 0.0), (1.0, 0, 0.0), (2.0, 1, 1.0)]:
        sums = [total + g for total, g in zip(sums, gradients.predict(row), strict=True)]
        learner.learn(*row)
    for total, variable in zip(sums, learner.reward_sums, strict=True):
        np.testing.assert_allclose(ops.convert_to_numpy(total), variable.numpy(), rtol=1e-5, atol=1e-7)


def test_each_step_is_captured_once():
    learner = rlhf_demo.Learner(rlhf_demo.build(native=False), compile=True)
    for t in range(3):
        learner.run_episode(lambda n, t=t: uniform(t, n, ()))
    assert (learner.act.num_traces, learner.learn.num_traces, learner.update.num_traces) == (1, 1, 1)
