"""Deep deterministic policy gradient in plain JAX: the environment and the buffer are Python, so three parts are jitted."""

import jax
import jax.numpy as jnp
import numpy as np

from ..conventions import Page
from ..pages.ddpg_pendulum import EPISODE_LENGTH, GAMMA, TAU, Buffer, Pendulum
from ..pages.ddpg_pendulum import build as build
from . import Run, State, initial_state


def steps(page: Page) -> Run:
    """One step of the environment and one update at a time."""
    act, update, follow = jitted_parts(page)
    environment, buffer, noise_rng, state = Pendulum(), Buffer(), np.random.default_rng(32), initial_state(page)
    while True:
        seen, noise = environment.reset(), 0.0
        for _ in range(EPISODE_LENGTH):
            noise = noise + 0.15 * (0 - noise) * 0.01 + 0.2 * np.sqrt(0.01) * noise_rng.normal()
            action = np.clip(float(act(state["actor"], seen)) + noise, -2, 2)
            next_seen, reward = environment.step(action)
            buffer.add(seen, action, reward, next_seen)
            logs, state = update(state, *buffer.sample())
            state = follow(state)
            yield {**logs, "reward": reward}, state
            seen = next_seen


def jitted_parts(page: Page) -> tuple:
    """`act(actor, state)`, `update(state, transitions)` and `follow(state)`. All variables of all networks are trained."""
    optimizers = {"actor": page.actor_optimizer, "critic": page.critic_optimizer}
    for name, optimizer in optimizers.items():
        optimizer.build(page.tracked[name].trainable_variables)

    def call(name, weights, inputs):
        return page.tracked[name].stateless_call(weights, [], inputs, training=True)[0]

    def act(weights, seen):
        return page.actor.stateless_call(weights, [], seen[None])[0][0, 0]

    def critic_loss_fn(critic, state, seen, actions, rewards, next_seen):
        next_actions = call("target_actor", state["target_actor"], next_seen)
        y = rewards + GAMMA * call("target_critic", state["target_critic"], [next_seen, next_actions])
        return jnp.mean((y - call("critic", critic, [seen, actions])) ** 2)

    def actor_loss_fn(actor, critic, seen):
        return -jnp.mean(call("critic", critic, [seen, call("actor", actor, seen)]))

    def applied(state: State, name: str, gradients: list) -> State:
        weights, slots = optimizers[name].stateless_apply(state[f"{name}_optimizer"], gradients, state[name])
        return state | {name: weights, f"{name}_optimizer": slots}

    def update(state, seen, actions, rewards, next_seen):
        critic_loss, gradients = jax.value_and_grad(critic_loss_fn)(state["critic"], state, seen, actions, rewards, next_seen)
        state = applied(state, "critic", gradients)
        actor_loss, gradients = jax.value_and_grad(actor_loss_fn)(state["actor"], state["critic"], seen)
        return {"critic_loss": critic_loss, "actor_loss": actor_loss}, applied(state, "actor", gradients)

    def follow(state):
        slow = {
            f"target_{name}": [TAU * f + (1 - TAU) * s for f, s in zip(state[name], state[f"target_{name}"], strict=True)]
            for name in optimizers
        }
        return state | slow

    return jax.jit(act), jax.jit(update, donate_argnums=0), jax.jit(follow, donate_argnums=0)
