"""Actor and critic on the cart-pole in plain TensorFlow: one eager tape around each episode."""

import math

import numpy as np
import tensorflow as tf

from ..conventions import Page, Steps
from ..pages.actor_critic_cartpole import build as build

SIGN = 1.0


def steps(page: Page, max_steps: int = 30) -> Steps:
    """One episode at a time, by `tf.GradientTape`."""
    resets, draws = np.random.default_rng(41), np.random.default_rng(42)
    variables = page.model.trainable_variables
    running_reward = 0.0
    while True:
        state = resets.uniform(-0.05, 0.05, 4)
        with tf.GradientTape() as tape:
            log_ps, values = [], []
            for _ in range(max_steps):
                p, v = page.model(tf.constant(state[None], tf.float32))
                weights = p.numpy()[0].astype("float64")
                action = draws.choice(2, p=weights / np.sum(weights))
                values.append(v[0, 0])
                log_ps.append(tf.math.log(p[0, action]))
                state = pushed(state, action)
                if abs(state[0]) > 2.4 or abs(state[2]) > 12 * math.pi / 180:
                    break
            loss = tf.add_n(
                [
                    -SIGN * log_p * (g - v) + huber(v - g)
                    for log_p, v, g in zip(log_ps, values, normalised_returns(len(values)), strict=True)
                ]
            )
        page.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        running_reward = 0.05 * len(values) + 0.95 * running_reward
        yield {"loss": loss, "running_reward": running_reward}


def huber(error: tf.Tensor) -> tf.Tensor:
    """Huber's loss with delta 1 of one number."""
    size = abs(error)
    return tf.where(size <= 1, 0.5 * size**2, size - 0.5)


def normalised_returns(num_rewards: int) -> np.ndarray:
    """Discounted sums of rewards 1, from each step to the end, less their mean, over their deviation; float32."""
    total, returns = 0.0, []
    for _ in range(num_rewards):
        total = 1.0 + 0.99 * total
        returns.insert(0, total)
    return ((returns - np.mean(returns)) / (np.std(returns) + 2.0**-23)).astype("float32")


def pushed(state: np.ndarray, action: int) -> np.ndarray:
    """The cart-pole 0.02 s later, by Euler's method (Barto, Sutton and Anderson, 1983)."""
    x, x_dot, theta, theta_dot = state
    cart, pole, half_length, force = 1.0, 0.1, 0.5, (-10.0, 10.0)[action]
    temp = (force + pole * half_length * theta_dot**2 * math.sin(theta)) / (cart + pole)
    theta_acc = (9.8 * math.sin(theta) - math.cos(theta) * temp) / (
        half_length * (4.0 / 3.0 - pole * math.cos(theta) ** 2 / (cart + pole))
    )
    x_acc = temp - pole * half_length * theta_acc * math.cos(theta) / (cart + pole)
    return np.array([x + 0.02 * x_dot, x_dot + 0.02 * x_acc, theta + 0.02 * theta_dot, theta_dot + 0.02 * theta_acc])
