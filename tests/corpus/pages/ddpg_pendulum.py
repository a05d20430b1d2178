"""Deep deterministic policy gradient: a replay buffer in NumPy, two optimizers, target networks that follow slowly."""

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, overwrite_weights

NUM_STEPS, RTOL, ATOL = 50, 1e-4, 1e-5
LOGS = ["critic_loss", "actor_loss", "reward"]
CHANGES = ["actor", "critic", "target_actor", "target_critic", "actor_optimizer", "critic_optimizer"]
EPISODE_LENGTH, CAPACITY, MINIBATCH_SIZE = 25, 60, 16
GAMMA, TAU = 0.99, 0.005


class Pendulum:
    """A pendulum to be swung up, in NumPy float64: the state is (cos a, sin a, angular velocity)."""

    def __init__(self):
        self.rng = np.random.default_rng(31)
        self.angle = self.velocity = 0.0

    def reset(self):
        self.angle = self.rng.random() * 2 * np.pi - np.pi
        self.velocity = self.rng.random() * 2 - 1
        return self.state()

    def state(self):
        return np.array([np.cos(self.angle), np.sin(self.angle), self.velocity])

    def step(self, torque):
        wrapped = (self.angle + np.pi) % (2 * np.pi) - np.pi
        reward = -(wrapped**2 + 0.1 * self.velocity**2 + 0.001 * torque**2)
        self.velocity = np.clip(self.velocity + 0.05 * (15 * np.sin(self.angle) + 3 * torque), -8, 8)
        self.angle = self.angle + 0.05 * self.velocity
        return self.state(), reward


class Buffer:
    """A ring of the last transitions (state, action, reward, next state), each an array of float64."""

    def __init__(self):
        self.rng = np.random.default_rng(33)
        self.columns = [np.zeros((CAPACITY, width)) for width in (3, 1, 1, 3)]
        self.num_added = 0

    def add(self, *transition):
        for column, value in zip(self.columns, transition, strict=True):
            column[self.num_added % CAPACITY] = value
        self.num_added += 1

    def sample(self):
        rows = self.rng.integers(0, min(self.num_added, CAPACITY), MINIBATCH_SIZE)
        return [column[rows] for column in self.columns]


def make_actor():
    return keras.Sequential(
        [
            keras.Input((3,)),
            layers.Dense(16, activation="relu"),
            layers.Dense(16, activation="relu"),
            layers.Dense(1, activation="tanh"),
            layers.Rescaling(2.0),
        ]
    )


def make_critic():
    state, action = keras.Input((3,)), keras.Input((1,))
    of_state = layers.Dense(8, activation="relu")(layers.Dense(8, activation="relu")(state))
    of_action = layers.Dense(8, activation="relu")(action)
    both = layers.Dense(16, activation="relu")(layers.Concatenate()([of_state, of_action]))
    return keras.Model([state, action], layers.Dense(1)(both))


def build(*, native: bool) -> Page:
    """Actor and critic, their targets with equal weights, and two optimizers."""
    actor, critic, target_actor, target_critic = make_actor(), make_critic(), make_actor(), make_critic()
    last_kernel_of_actor = 2
    overwrite_weights(actor, critic, scales={last_kernel_of_actor: 0.003})
    target_actor.set_weights(actor.get_weights())
    target_critic.set_weights(critic.get_weights())
    return Page(
        tracked={
            "actor": actor,
            "critic": critic,
            "target_actor": target_actor,
            "target_critic": target_critic,
            "actor_optimizer": keras.optimizers.Adam(0.001),
            "critic_optimizer": keras.optimizers.Adam(0.002),
        },
        native=native,
    )


def steps(page: Page, *, compile: bool) -> Steps:
    """One step of the environment and one update at a time, on trainstep."""
    learner = Learner(page, compile=compile)
    environment, buffer, noise_rng = Pendulum(), Buffer(), np.random.default_rng(32)
    while True:
        state, noise = environment.reset(), 0.0
        for _ in range(EPISODE_LENGTH):
            noise = noise + 0.15 * (0 - noise) * 0.01 + 0.2 * np.sqrt(0.01) * noise_rng.normal()
            action = np.clip(float(learner.act(state)["action"]) + noise, -2, 2)
            next_state, reward = environment.step(action)
            buffer.add(state, action, reward, next_state)
            logs = learner.update(*buffer.sample())
            learner.follow()
            yield {**logs, "reward": reward}
            state = next_state


class Learner:
    """The three compiled steps of the page: `act`, `update` of actor and critic, and the targets `follow`."""

    def __init__(self, page, *, compile):
        self.actor, self.critic = page.actor, page.critic
        self.target_actor, self.target_critic = page.target_actor, page.target_critic
        self.actor_optimizer, self.critic_optimizer = page.actor_optimizer, page.critic_optimizer
        self.act = ts.step(self.act, compile=compile)
        self.update = ts.step(self.update, compile=compile)
        self.follow = ts.step(self.follow, compile=compile)

    def act(self, state):
        return {"action": self.actor(state[None])[0, 0]}

    def update(self, states, actions, rewards, next_states):
        rewards = ops.cast(rewards, "float32")
        with ts.GradientTape() as tape:
            next_actions = self.target_actor(next_states, training=True)
            y = rewards + GAMMA * self.target_critic([next_states, next_actions], training=True)
            critic_loss = ops.mean((y - self.critic([states, actions], training=True)) ** 2)
        gradients = tape.gradient(critic_loss, self.critic.trainable_weights)
        self.critic_optimizer.apply_gradients(zip(gradients, self.critic.trainable_weights, strict=True))

        with ts.GradientTape() as tape:
            actor_loss = -ops.mean(self.critic([states, self.actor(states, training=True)], training=True))
        gradients = tape.gradient(actor_loss, self.actor.trainable_weights)
        self.actor_optimizer.apply_gradients(zip(gradients, self.actor.trainable_weights, strict=True))
        return {"critic_loss": critic_loss, "actor_loss": actor_loss}

    def follow(self):
        for target, model in ((self.target_actor, self.actor), (self.target_critic, self.critic)):
            for slow, fast in zip(target.variables, model.variables, strict=True):
                slow.assign(TAU * fast + (1 - TAU) * slow)
