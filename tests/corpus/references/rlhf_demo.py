"""A policy and its learned reward in plain TensorFlow, with the sums of gradients as plain tensors."""

import tensorflow as tf

from ..conventions import Page, Steps, uniform
from ..pages.rlhf_demo import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """One episode at a time, by `tf.GradientTape`."""
    t = 0
    while True:
        yield episode(page, t)
        t += 1


def episode(page: Page, t: int) -> dict[str, tf.Tensor]:
    """Walks from cell 0 to cell 3, in at most 40 steps, then updates."""
    policy_weights, reward_weights = page.policy.trainable_variables, page.reward_model.trainable_variables
    policy_sum = [tf.zeros_like(w) for w in policy_weights]
    reward_sum = [tf.zeros_like(w) for w in reward_weights]
    policy_losses, reward_losses, total_reward, cell = [], [], 0.0, 0
    for n in range(40):
        state = tf.constant([[cell]], tf.float32)
        action = 1 if uniform(t, n, ()) >= page.policy(state)[0, 0].numpy() else 0
        inputs = tf.constant([[cell, 1.0 - action, action]], tf.float32)
        cell = max(cell - 1, 0) if action == 0 else cell + 1
        reward = 1.0 if cell == 3 else 0.0
        estimate = tf.stop_gradient(page.reward_model(inputs)[0, 0])
        with tf.GradientTape() as tape:
            policy_losses.append(-SIGN * tf.math.log(page.policy(state)[0, action] + 1e-7) * estimate)
        policy_sum = [a + g for a, g in zip(policy_sum, tape.gradient(policy_losses[-1], policy_weights), strict=True)]
        with tf.GradientTape() as tape:
            reward_losses.append((page.reward_model(inputs)[0, 0] - reward) ** 2)
        reward_sum = [a + g for a, g in zip(reward_sum, tape.gradient(reward_losses[-1], reward_weights), strict=True)]
        total_reward += reward
        if reward:
            break
    apply_mean(page.policy_optimizer, policy_sum, policy_weights, len(policy_losses))
    apply_mean(page.reward_optimizer, reward_sum, reward_weights, len(reward_losses))
    return {
        "policy_loss": tf.reduce_mean(policy_losses),
        "reward_loss": tf.reduce_mean(reward_losses),
        "episode_reward": tf.constant(total_reward),
    }


def apply_mean(optimizer, sums, weights, count) -> None:
    """One update by the clipped mean."""
    optimizer.apply_gradients([(tf.clip_by_value(total / count, -1.0, 1.0), w) for total, w in zip(sums, weights, strict=True)])
