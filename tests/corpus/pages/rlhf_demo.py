"""A policy learns from a learned reward: gradients summed over an episode, averaged, clipped by element, applied once."""

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, overwrite_weights, uniform

NUM_STEPS, RTOL, ATOL = 4, 1e-4, 1e-5
LOGS = ["policy_loss", "reward_loss", "episode_reward"]
CHANGES = ["policy", "reward_model", "policy_optimizer", "reward_optimizer"]
NUM_CELLS, MAX_STEPS = 4, 40


def walk(cell, action):
    """The environment, a line of cells: left (0) or right (1), reward 1 and the end in the last cell."""
    cell = min(max(cell + (1 if action == 1 else -1), 0), NUM_CELLS - 1)
    is_done = cell == NUM_CELLS - 1
    return cell, float(is_done), is_done


def build(*, native: bool) -> Page:
    """Policy and reward model, an Adam for each, and for each weight a sum of gradients over the episode."""
    policy = keras.Sequential([keras.Input((1,)), layers.Dense(8, activation="relu"), layers.Dense(2, activation="softmax")])
    reward_model = keras.Sequential([keras.Input((3,)), layers.Dense(8, activation="relu"), layers.Dense(1)])
    overwrite_weights(policy, reward_model)
    sums = {
        f"{name}_sum/{i}": keras.Variable(ops.zeros(weight.shape), trainable=False)
        for name, model in (("policy", policy), ("reward", reward_model))
        for i, weight in enumerate(model.trainable_weights)
    }
    return Page(
        tracked={
            "policy": policy,
            "reward_model": reward_model,
            "policy_optimizer": keras.optimizers.Adam(1e-3),
            "reward_optimizer": keras.optimizers.Adam(1e-3),
            **sums,
        },
        native=native,
    )


def steps(page: Page, *, compile: bool) -> Steps:
    """One episode at a time: three steps on trainstep, and the environment in Python between them."""
    learner = Learner(page, compile=compile)
    t = 0
    while True:
        yield learner.run_episode(None if page.native else lambda n, t=t: uniform(t, n, ()))
        t += 1


class Learner:
    """Acts, sums up gradients after each step of the environment, and updates both networks at the end of the episode."""

    def __init__(self, page, *, compile):
        self.policy, self.reward_model = page.policy, page.reward_model
        self.policy_optimizer, self.reward_optimizer = page.policy_optimizer, page.reward_optimizer
        self.policy_sums = [value for name, value in page.tracked.items() if name.startswith("policy_sum/")]
        self.reward_sums = [value for name, value in page.tracked.items() if name.startswith("reward_sum/")]
        self.seed = keras.random.SeedGenerator(1)
        self.act = ts.step(self.act, compile=compile)
        self.learn = ts.step(self.learn, compile=compile)
        self.update = ts.step(self.update, compile=compile)

    def act(self, cell, draw=None):
        """The action for a state, by a draw from [0, 1)."""
        if draw is None:
            draw = keras.random.uniform((), seed=self.seed)
        probabilities = self.policy(ops.reshape(cell, (1, 1)))
        return {"action": ops.where(draw >= probabilities[0, 0], 1, 0)}

    def learn(self, cell, action, reward):
        """Adds the gradients of one step of the environment to the sums."""
        policy_weights, reward_weights = self.policy.trainable_weights, self.reward_model.trainable_weights
        cell, one_hot = ops.reshape(cell, (1, 1)), ops.one_hot(ops.reshape(action, (1,)), 2)
        state_and_action = ops.concatenate([cell, one_hot], axis=1)

        predicted_reward = ops.stop_gradient(self.reward_model(state_and_action)[0, 0])
        with ts.GradientTape() as tape:
            probability = ops.sum(self.policy(cell) * one_hot)
            policy_loss = -ops.log(probability + 1e-7) * predicted_reward
        gradients = tape.gradient(policy_loss, policy_weights, unconnected_gradients="zero")
        for total, gradient in zip(self.policy_sums, gradients, strict=True):
            total.assign_add(gradient)

        with ts.GradientTape() as tape:
            reward_loss = (self.reward_model(state_and_action)[0, 0] - reward) ** 2
        gradients = tape.gradient(reward_loss, reward_weights, unconnected_gradients="zero")
        for total, gradient in zip(self.reward_sums, gradients, strict=True):
            total.assign_add(gradient)
        return {"policy_loss": policy_loss, "reward_loss": reward_loss}

    def update(self, num_steps):
        """Applies the clipped means of the gradients, and sets the sums to zero."""
        for optimizer, sums, weights in (
            (self.policy_optimizer, self.policy_sums, self.policy.trainable_weights),
            (self.reward_optimizer, self.reward_sums, self.reward_model.trainable_weights),
        ):
            gradients = [ops.clip(total / num_steps, -1.0, 1.0) for total in sums]
            optimizer.apply_gradients(zip(gradients, weights, strict=True))
            for total in sums:
                total.assign(ops.zeros(total.shape))

    def run_episode(self, draw=None):
        """One episode; `draw(n)` is the random number of step n, if the steps are not to draw it themselves."""
        cell, is_done, losses, rewards = 0, False, [], []
        while not is_done and len(losses) < MAX_STEPS:
            action = self.act(float(cell)) if draw is None else self.act(float(cell), draw(len(losses)))
            action = int(action["action"])
            next_cell, reward, is_done = walk(cell, action)
            logs = self.learn(float(cell), action, reward)
            losses.append([float(logs["policy_loss"]), float(logs["reward_loss"])])
            rewards.append(reward)
            cell = next_cell
        self.update(float(len(losses)))
        policy_loss, reward_loss = np.mean(losses, axis=0)
        return {"policy_loss": policy_loss, "reward_loss": reward_loss, "episode_reward": sum(rewards)}
