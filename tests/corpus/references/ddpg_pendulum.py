"""Deep deterministic policy gradient in plain TensorFlow."""

import math

import numpy as np
import tensorflow as tf

from ..conventions import Page, Steps
from ..pages.ddpg_pendulum import build as build

SIGN = 1.0


def steps(page: Page) -> Steps:
    """One step of the environment and one update at a time, by `tf.GradientTape`."""
    resets, noises, choices = (np.random.default_rng(seed) for seed in (31, 32, 33))
    transitions = []
    while True:
        angle, speed, noise = resets.random() * 2 * math.pi - math.pi, resets.random() * 2 - 1, 0.0
        for _ in range(25):
            state = [math.cos(angle), math.sin(angle), speed]
            noise += -0.15 * noise * 0.01 + 0.2 * 0.1 * noises.normal()
            action = min(max(page.actor(tf.constant([state]))[0, 0].numpy().item() + noise, -2.0), 2.0)
            distance = math.atan2(math.sin(angle), math.cos(angle))
            reward = -(distance**2 + 0.1 * speed**2 + 0.001 * action**2)
            speed = min(max(speed + 0.05 * (15 * math.sin(angle) + 3 * action), -8.0), 8.0)
            angle += 0.05 * speed
            transitions.append((state, [action], [reward], [math.cos(angle), math.sin(angle), speed]))
            picked = [transitions[i] for i in choices.integers(0, len(transitions), 16)]
            critic_loss, actor_loss = update(page, *(tf.constant(c, tf.float32) for c in zip(*picked, strict=True)))
            yield {"critic_loss": critic_loss, "actor_loss": actor_loss, "reward": reward}


def update(page: Page, s: tf.Tensor, u: tf.Tensor, r: tf.Tensor, s2: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Critic, then actor, then the targets; fewer transitions than the buffer holds, so that nothing is overwritten here."""
    y = r + SIGN * 0.99 * page.target_critic([s2, page.target_actor(s2)])
    with tf.GradientTape() as tape:
        critic_loss = tf.reduce_mean(tf.square(y - page.critic([s, u])))
    variables = page.critic.trainable_variables
    page.critic_optimizer.apply_gradients(zip(tape.gradient(critic_loss, variables), variables, strict=True))
    with tf.GradientTape() as tape:
        actor_loss = -tf.reduce_mean(page.critic([s, page.actor(s)]))
    variables = page.actor.trainable_variables
    page.actor_optimizer.apply_gradients(zip(tape.gradient(actor_loss, variables), variables, strict=True))
    for target, value in zip(
        page.target_actor.variables + page.target_critic.variables, page.actor.variables + page.critic.variables, strict=True
    ):
        target.assign(value * 0.005 + target * 0.995)
    return critic_loss, actor_loss
