"""The checks of the page `ddpg_pendulum`."""

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts

from .conventions import state
from .pages import ddpg_pendulum as ddpg


@pytest.fixture
def page():
    return ddpg.build(native=False)


def minibatch(seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(ddpg.MINIBATCH_SIZE, width)) for width in (3, 1, 1, 3)]


def changed(before, after):
    return {name.split("/")[0] for name, value in after.items() if name not in before or not np.array_equal(value, before[name])}


@pytest.mark.parametrize("compile", [True, False])
def test_targets_move_by_the_soft_update_alone(page, compile):
    learner = ddpg.Learner(page, compile=compile)
    before = state(page)
    learner.update(*minibatch())
    updated = state(page)
    assert changed(before, updated) == {"actor", "critic", "actor_optimizer", "critic_optimizer"}
    learner.follow()
    followed = state(page)
    assert changed(updated, followed) == {"target_actor", "target_critic"}
    for name, value in followed.items():
        if name.startswith("target_"):
            expected = 0.005 * updated[name.removeprefix("target_")] + 0.995 * before[name]
            np.testing.assert_allclose(value, expected, rtol=1e-6, atol=1e-9)


def test_the_tape_records_the_targets(page):
    """They are trainable, so a gradient is there for the asking: only the optimizer leaves them alone."""
    states, actions, rewards, next_states = (ops.convert_to_tensor(array, "float32") for array in minibatch())
    with ts.GradientTape() as tape:
        y = rewards + 0.99 * page.target_critic([next_states, page.target_actor(next_states)])
        loss = ops.mean((y - page.critic([states, actions])) ** 2)
    watched = {id(v) for v in tape.watched_variables()}
    assert all(id(v) in watched for v in page.target_critic.variables + page.target_actor.variables + page.critic.variables)
    gradients = tape.gradient(loss, page.target_critic.trainable_weights)
    assert all(np.any(ops.convert_to_numpy(g)) for g in gradients)


@pytest.mark.parametrize("compile", [True, False])
def test_the_critic_does_not_move_in_the_actor_phase(page, compile):
    """Without its own update the critic stays as it is, though the gradient of the actor's loss runs through it."""
    page.critic_optimizer.learning_rate = 0.0
    before = state(page)
    ddpg.Learner(page, compile=compile).update(*minibatch())
    assert changed(before, state(page)) == {"actor", "actor_optimizer", "critic_optimizer"}


@pytest.mark.parametrize("compile", [True, False])
def test_float64_data_give_neither_float64_weights_nor_a_new_capture(page, compile):
    run = ddpg.steps(page, compile=compile)
    for _ in range(3):
        next(run)
    owners = [page.actor, page.critic, page.target_actor, page.target_critic, page.actor_optimizer, page.critic_optimizer]
    dtypes = {keras.backend.standardize_dtype(v.dtype) for owner in owners for v in owner.variables}
    assert dtypes <= {"float32", "int32", "int64"}  # The iterations of an optimizer are whole numbers.


def test_each_step_is_captured_once(page):
    learner = ddpg.Learner(page, compile=True)
    for seed in range(3):
        batch = minibatch(seed)
        learner.act(batch[0][0])
        learner.update(*(batch if seed else [array.astype("float32") for array in batch]))
        learner.follow()
    assert (learner.act.num_traces, learner.update.num_traces, learner.follow.num_traces) == (1, 1, 1)


def test_the_ring_overwrites_its_oldest_transition():
    buffer = ddpg.Buffer()
    for i in range(62):
        buffer.add([i, i, i], i, i, [i, i, i])
    states, actions, _, _ = buffer.columns
    np.testing.assert_array_equal(actions[:, 0], [60, 61, *range(2, 60)])
    np.testing.assert_array_equal(states[1], [61, 61, 61])
    drawn = np.concatenate([buffer.sample()[1] for _ in range(50)])
    assert set(drawn[:, 0]) == set(range(2, 62))
