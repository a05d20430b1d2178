"""An actor learns to balance a pole on a cart, a critic tells it how much longer the pole will stand. The carts are plain NumPy."""

import keras
import numpy as np
from keras import layers, ops

import trainstep as ts

NUM_CARTS, NUM_MOVES = 32, 32  # How many carts move side by side, and how often before each update.
DISCOUNT = 0.99
ENTROPY_WEIGHT = 0.01
MAX_MOVES = 500  # A pole that has stood so long starts anew.


class CartPoles:
    """Poles on carts, each in a state (position, velocity, angle, angular velocity) in m, m/s, rad and rad/s."""

    def __init__(self, seed: int):
        self.random = np.random.default_rng(seed)
        self.states = self.random.uniform(-0.05, 0.05, (NUM_CARTS, 4))
        self.ages = np.zeros(NUM_CARTS, "int64")
        self.ages_at_end: list[int] = []

    def move(self, actions: np.ndarray) -> np.ndarray:
        """Pushes each cart for 20 ms with 10 N, to the left (0) or right (1); whether its pole fell. Those start anew."""
        _, velocity, angle, spin = self.states.T
        pull = (np.where(actions == 1, 10.0, -10.0) + 0.05 * spin**2 * np.sin(angle)) / 1.1
        turn = (9.8 * np.sin(angle) - np.cos(angle) * pull) / (0.5 * (4 / 3 - 0.1 * np.cos(angle) ** 2 / 1.1))
        push = pull - 0.05 * turn * np.cos(angle) / 1.1
        self.states = self.states + 0.02 * np.stack([velocity, push, spin, turn], axis=1)
        self.ages += 1

        has_fallen = (abs(self.states[:, 0]) > 2.4) | (abs(self.states[:, 2]) > np.deg2rad(12))
        is_over = has_fallen | (self.ages >= MAX_MOVES)
        self.ages_at_end += self.ages[is_over].tolist()
        self.ages[is_over] = 0
        self.states[is_over] = self.random.uniform(-0.05, 0.05, (is_over.sum(), 4))
        return has_fallen


def discounted_returns(has_fallen: np.ndarray, last_values: np.ndarray) -> np.ndarray:
    """The discounted sum of the rewards until the pole falls; after the last move, the critic's guess.

    The reward of a move is such that a pole that never falls is worth 1. Shapes: `has_fallen` and the returns
    `(num_moves, num_carts)`, `last_values` `(num_carts,)`.
    """
    returns = np.empty(has_fallen.shape, "float32")
    following = last_values
    for i in reversed(range(len(has_fallen))):
        following = returns[i] = (1 - DISCOUNT) + DISCOUNT * np.where(has_fallen[i], 0, following)
    return returns


def main(compile: bool | str = "auto", num_updates: int = 600) -> list[float]:
    """For each tenth of the training: how many moves the poles stood on average that ended in it."""
    keras.utils.set_random_seed(0)
    state = keras.Input((4,))
    actor = keras.Model(state, layers.Dense(2)(layers.Dense(64, activation="tanh")(state)))
    critic = keras.Model(state, layers.Dense(1)(layers.Dense(64, activation="tanh")(state)))
    weights = actor.trainable_weights + critic.trainable_weights
    optimizer = keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(5e-3, num_updates))
    seed_generator = keras.random.SeedGenerator(1)

    @ts.step(compile=compile)
    def act(states):
        return keras.random.categorical(actor(states), 1, seed=seed_generator)[:, 0], critic(states)[:, 0]

    @ts.step(compile=compile)
    def train_step(states, actions, returns):
        with ts.GradientTape() as tape:
            log_probabilities = ops.log_softmax(actor(states))
            values = critic(states)[:, 0]
            surprises = ops.stop_gradient(returns - values)
            advantages = (surprises - ops.mean(surprises)) / (ops.std(surprises) + 1e-6)
            chosen = ops.take_along_axis(log_probabilities, actions[:, None], axis=1)[:, 0]
            entropy = -ops.sum(ops.exp(log_probabilities) * log_probabilities, axis=1)
            actor_loss = -ops.mean(chosen * advantages + ENTROPY_WEIGHT * entropy)
            critic_loss = ops.mean(ops.square(returns - values))
            loss = actor_loss + 0.5 * critic_loss
        gradients = tape.gradient(loss, weights)
        optimizer.apply_gradients(zip(gradients, weights, strict=True))
        return {"loss": loss}

    carts = CartPoles(seed=2)
    num_moves_by_tenth = []
    for tenth in range(10):
        carts.ages_at_end.clear()
        for _ in range(num_updates // 10):
            states, actions, has_fallen = [], [], []
            for _ in range(NUM_MOVES):
                states.append(carts.states.astype("float32"))
                actions.append(ops.convert_to_numpy(act.predict(states[-1])[0]))
                has_fallen.append(carts.move(actions[-1]))
            last_values = ops.convert_to_numpy(act.predict(carts.states.astype("float32"))[1])
            returns = discounted_returns(np.array(has_fallen), last_values)
            train_step(np.concatenate(states), np.concatenate(actions), returns.reshape(-1))
        num_moves_by_tenth.append(float(np.mean(carts.ages_at_end)))
        print(f"{10 * (tenth + 1):3d} % of the training: poles stand for {num_moves_by_tenth[-1]:5.1f} moves")
    return num_moves_by_tenth


if __name__ == "__main__":
    main()
