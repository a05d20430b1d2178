"""A policy and its learned reward in plain JAX: acting, learning and updating are jitted, the environment is Python."""

import jax
import jax.numpy as jnp
import numpy as np

from ..conventions import Page, uniform
from ..pages.rlhf_demo import MAX_STEPS, walk
from ..pages.rlhf_demo import build as build
from . import Run, State, initial_state

NAMES = ("policy", "reward")


def steps(page: Page) -> Run:
    """One episode at a time."""
    learner, t = Learner(page), 0
    state = initial_state(page)
    while True:
        logs, state = learner.run_episode(state, t)
        yield logs, state
        t += 1


class Learner:
    """The three jitted steps, and the episode that calls them: state in, state out."""

    def __init__(self, page: Page):
        self.models = {"policy": page.policy, "reward": page.reward_model}
        self.optimizers = {"policy": page.policy_optimizer, "reward": page.reward_optimizer}
        for name in NAMES:
            self.optimizers[name].build(self.models[name].trainable_variables)
        self.act = jax.jit(self.act)
        self.learn = jax.jit(self.learn, donate_argnums=0)
        self.update = jax.jit(self.update, donate_argnums=(0, 1))

    def act(self, policy_weights, cell, draw):
        """The action for a state, by a draw from [0, 1)."""
        probabilities, _ = self.models["policy"].stateless_call(policy_weights, [], jnp.reshape(cell, (1, 1)))
        return jnp.where(draw >= probabilities[0, 0], 1, 0)

    def learn(self, sums, policy_weights, reward_weights, cell, action, reward):
        """Adds the gradients of one step of the environment to the sums; the sums come as one list for each model."""
        cell, one_hot = jnp.reshape(cell, (1, 1)), jax.nn.one_hot(jnp.reshape(action, (1,)), 2)
        state_and_action = jnp.concatenate([cell, one_hot], axis=1)

        def predicted_reward(weights):
            return self.models["reward"].stateless_call(weights, [], state_and_action)[0][0, 0]

        def policy_loss(weights):
            probabilities, _ = self.models["policy"].stateless_call(weights, [], cell)
            return -jnp.log(jnp.sum(probabilities * one_hot) + 1e-7) * predicted_reward(reward_weights)

        def reward_loss(weights):
            return (predicted_reward(weights) - reward) ** 2

        loss_of_policy, policy_gradients = jax.value_and_grad(policy_loss)(policy_weights)
        loss_of_reward, reward_gradients = jax.value_and_grad(reward_loss)(reward_weights)
        new = jax.tree.map(jnp.add, sums, {"policy": policy_gradients, "reward": reward_gradients})
        return {"policy_loss": loss_of_policy, "reward_loss": loss_of_reward}, new

    def update(self, state: State, sums, num_steps):
        """Applies the clipped means of the gradients, and sets the sums to zero."""
        new = {}
        for name, model in (("policy", "policy"), ("reward", "reward_model")):
            gradients = [jnp.clip(total / num_steps, -1.0, 1.0) for total in sums[name]]
            slots = state[f"{name}_optimizer"]
            new[model], new[f"{name}_optimizer"] = self.optimizers[name].stateless_apply(slots, gradients, state[model])
        return new, jax.tree.map(jnp.zeros_like, sums)

    def run_episode(self, state: State, t: int) -> tuple[dict[str, float], State]:
        """One episode of the page, with the draws of step `t`."""
        sums = {name: [state.pop(f"{name}_sum/{i}")[0] for i in range(4)] for name in NAMES}
        weights = state["policy"], state["reward_model"]
        cell, is_done, losses, rewards = 0, False, [], []
        while not is_done and len(losses) < MAX_STEPS:
            action = int(self.act(weights[0], float(cell), uniform(t, len(losses), ())))
            next_cell, reward, is_done = walk(cell, action)
            logs, sums = self.learn(sums, *weights, float(cell), action, reward)
            losses.append([float(logs["policy_loss"]), float(logs["reward_loss"])])
            rewards.append(reward)
            cell = next_cell
        state, sums = self.update(state, sums, float(len(losses)))
        policy_loss, reward_loss = np.mean(losses, axis=0)
        totals = {f"{name}_sum/{i}": [total] for name in NAMES for i, total in enumerate(sums[name])}
        return {"policy_loss": policy_loss, "reward_loss": reward_loss, "episode_reward": sum(rewards)}, state | totals
