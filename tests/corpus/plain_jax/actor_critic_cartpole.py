"""Actor and critic on the cart-pole in plain JAX: the environment is Python, so `act` and `learn` are jitted each."""

import jax
import jax.numpy as jnp
import keras
import numpy as np

from ..conventions import Page
from ..pages.actor_critic_cartpole import MAX_STEPS, CartPole, choose, normalised_returns, padded
from ..pages.actor_critic_cartpole import build as build
from . import Run, initial_state


def steps(page: Page) -> Run:
    """One episode at a time."""
    act, learn = jitted_parts(page)
    environment, rng, state, running_reward = CartPole(), np.random.default_rng(42), initial_state(page), 0.0
    while True:
        seen, actions = [], []
        position, is_done = environment.reset(), False
        while not is_done and len(seen) < MAX_STEPS:
            seen.append(position)
            actions.append(choose(act(state["model"], position), rng))
            position, is_done = environment.step(actions[-1])
        returns, is_real = normalised_returns(len(seen)), np.ones(len(seen))
        loss, state = learn(state, padded(seen), padded(actions, "int32"), padded(returns), padded(is_real))
        running_reward = 0.05 * len(seen) + 0.95 * running_reward
        yield {"loss": loss, "running_reward": running_reward}, state


def jitted_parts(page: Page) -> tuple:
    """`act(weights, position)` and `learn(state, episode)`. All variables of the model are trained."""
    model, optimizer, huber = page.model, page.optimizer, keras.losses.Huber(reduction="none")
    optimizer.build(model.trainable_variables)

    def act(weights, position):
        (probabilities, _), _ = model.stateless_call(weights, [], position[None])
        return probabilities[0]

    def loss_fn(weights, seen, actions, returns, is_real):
        (probabilities, values), _ = model.stateless_call(weights, [], seen)
        log_p = jnp.log(jnp.take_along_axis(probabilities, actions[:, None], axis=1))[:, 0]
        return jnp.sum(is_real * (-log_p * (returns - values[:, 0]) + huber(values, returns[:, None])))

    def learn(state, *episode):
        loss, gradients = jax.value_and_grad(loss_fn)(state["model"], *episode)
        weights, slots = optimizer.stateless_apply(state["optimizer"], gradients, state["model"])
        return loss, {"model": weights, "optimizer": slots}

    return jax.jit(act), jax.jit(learn, donate_argnums=0)
