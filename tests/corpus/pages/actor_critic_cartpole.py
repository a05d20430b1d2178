"""Actor and critic learn to balance a pole: a whole episode, environment and sampling included, inside one tape.

An episode as published needs Python between its tensors (the environment), so it runs eagerly. Compiled, it is split as a user
would: a compiled `act` for each state, then a compiled `learn` on the finished episode, padded to the longest one.
"""

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

from ..conventions import Page, Steps, overwrite_weights

NUM_STEPS, RTOL, ATOL = 6, 1e-4, 1e-5
LOGS = ["loss", "running_reward"]
CHANGES = ["model", "optimizer"]
MAX_STEPS = 30
GAMMA = 0.99


class CartPole:
    """A pole on a cart, in NumPy: the state is (position, velocity, angle, angular velocity) in m, m/s, rad and rad/s."""

    def __init__(self):
        self.rng = np.random.default_rng(41)
        self.state = np.zeros(4)

    def reset(self):
        self.state = self.rng.uniform(-0.05, 0.05, 4)
        return self.state

    def step(self, action):
        """Pushes with 10 N to the left (0) or the right (1) for 20 ms: the new state, and whether the pole has fallen."""
        _, velocity, angle, spin = self.state
        force, pole = (10.0 if action == 1 else -10.0), 0.1 * 0.5
        pull = (force + pole * spin**2 * np.sin(angle)) / 1.1
        turn = (9.8 * np.sin(angle) - np.cos(angle) * pull) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
        push = pull - pole * turn * np.cos(angle) / 1.1
        self.state = self.state + 0.02 * np.array([velocity, push, spin, turn])
        return self.state, bool(abs(self.state[0]) > 2.4 or abs(self.state[2]) > np.deg2rad(12))


def choose(probabilities, rng):
    """An action drawn by the probabilities (2,) of a tensor, which may be one that a tape is recording."""
    p = ops.convert_to_numpy(probabilities).astype("float64")
    return int(rng.choice(2, p=p / p.sum()))


def normalised_returns(num_rewards):
    """The discounted returns of an episode with reward 1 per step, as Python floats of mean 0 and deviation 1."""
    returns = np.array([sum(GAMMA**k for k in range(num_rewards - t)) for t in range(num_rewards)])
    return ((returns - returns.mean()) / (returns.std() + np.finfo("float32").eps)).tolist()


def build(*, native: bool) -> Page:
    """A network with two heads, and Adam."""
    state = keras.Input((4,))
    common = layers.Dense(16, activation="relu")(state)
    model = keras.Model(state, [layers.Dense(2, activation="softmax")(common), layers.Dense(1)(common)])
    overwrite_weights(model)
    return Page(tracked={"model": model, "optimizer": keras.optimizers.Adam(0.01)}, native=native)


def steps(page: Page, *, compile: bool) -> Steps:
    """One episode at a time, on trainstep."""
    run_episode = (SplitEpisode if compile else RecordedEpisode)(page)
    running_reward = 0.0
    while True:
        loss, reward = run_episode()
        running_reward = 0.05 * reward + 0.95 * running_reward
        yield {"loss": loss, "running_reward": running_reward}


class RecordedEpisode:
    """The episode as published: everything inside one tape. Returns the loss and the reward of each."""

    def __init__(self, page):
        self.model, self.optimizer, self.huber = page.model, page.optimizer, keras.losses.Huber()
        self.environment, self.rng = CartPole(), np.random.default_rng(42)
        self.log_probabilities, self.values = [], []

    @ts.step(compile=False)
    def episode(self):
        with ts.GradientTape() as tape:
            state, is_done = self.environment.reset(), False
            while not is_done and len(self.values) < MAX_STEPS:
                probabilities, value = self.model(state[None])
                self.values.append(value[0, 0])
                action = choose(probabilities[0], self.rng)
                self.log_probabilities.append(ops.log(probabilities[0, action]))
                state, is_done = self.environment.step(action)

            losses = []
            for log_p, v, g in zip(self.log_probabilities, self.values, normalised_returns(len(self.values)), strict=True):
                losses += [-log_p * (g - v), self.huber(ops.expand_dims(v, 0), ops.expand_dims(g, 0))]
            loss = sum(losses)
            gradients = tape.gradient(loss, self.model.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        logs = {"loss": loss, "reward": len(self.values)}
        self.log_probabilities.clear()
        self.values.clear()
        return logs

    def __call__(self):
        logs = self.episode()
        return logs["loss"], float(logs["reward"])


class SplitEpisode:
    """The same episode as two compiled steps: `act` on each state, and `learn` from all of them."""

    def __init__(self, page):
        self.model, self.optimizer, self.huber = page.model, page.optimizer, keras.losses.Huber(reduction="none")
        self.environment, self.rng = CartPole(), np.random.default_rng(42)

    @ts.step(compile=True)
    def act(self, state):
        probabilities, _ = self.model(state[None])
        return probabilities[0]

    @ts.step(compile=True)
    def learn(self, states, actions, returns, is_real):
        with ts.GradientTape() as tape:
            probabilities, values = self.model(states)
            log_p = ops.log(ops.take_along_axis(probabilities, actions[:, None], axis=1))[:, 0]
            losses = -log_p * (returns - values[:, 0]) + self.huber(values, returns[:, None])
            loss = ops.sum(is_real * losses)
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables, strict=True))
        return {"loss": loss}

    def __call__(self):
        states, actions = [], []
        state, is_done = self.environment.reset(), False
        while not is_done and len(states) < MAX_STEPS:
            states.append(state)
            actions.append(choose(self.act.predict(state), self.rng))
            state, is_done = self.environment.step(actions[-1])
        num_steps = len(states)
        returns, is_real = normalised_returns(num_steps), np.ones(num_steps)
        logs = self.learn(padded(states), padded(actions, "int32"), padded(returns), padded(is_real))
        return logs["loss"], float(num_steps)


def padded(rows, dtype="float32"):
    """The rows, and zeros up to the longest episode."""
    rows = np.array(rows, dtype)
    return np.concatenate([rows, np.zeros((MAX_STEPS - len(rows), *rows.shape[1:]), dtype)])
