"""The CycleGAN in plain JAX: one forward pass, whose pullback is asked once for each of the four losses."""

import jax
import jax.numpy as jnp

from ..conventions import Page, batch
from ..pages.cyclegan import BATCH_SIZE, CYCLE_WEIGHT, IDENTITY_WEIGHT, NETWORKS, mae
from ..pages.cyclegan import build as build
from . import Run, initial_state


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`. No network has variables that are not trained."""
    for name in NETWORKS:
        page.tracked[f"{name}_optimizer"].build(page.tracked[name].trainable_variables)

    def losses_fn(weights, x, y):
        def call(name, images):
            return page.tracked[name].stateless_call(weights[name], [], images, training=True)[0]

        fake_y, fake_x = call("G", x), call("F", y)
        cycled_x, cycled_y = call("F", fake_y), call("G", fake_x)
        same_x, same_y = call("F", x), call("G", y)
        real_in_x, fake_in_x = call("D_X", x), call("D_X", fake_x)
        real_in_y, fake_in_y = call("D_Y", y), call("D_Y", fake_y)
        return {
            "G": jnp.mean((1 - fake_in_y) ** 2) + CYCLE_WEIGHT * mae(y, cycled_y) + IDENTITY_WEIGHT * mae(y, same_y),
            "F": jnp.mean((1 - fake_in_x) ** 2) + CYCLE_WEIGHT * mae(x, cycled_x) + IDENTITY_WEIGHT * mae(x, same_x),
            "D_X": (jnp.mean((1 - real_in_x) ** 2) + jnp.mean(fake_in_x**2)) / 2,
            "D_Y": (jnp.mean((1 - real_in_y) ** 2) + jnp.mean(fake_in_y**2)) / 2,
        }

    def train_step(state, x, y):
        weights = {name: state[name] for name in NETWORKS}
        losses, pullback = jax.vjp(lambda weights: losses_fn(weights, x, y), weights)
        new = {}
        for name in NETWORKS:
            (gradients,) = pullback({other: jnp.float32(other == name) for other in NETWORKS})
            optimizer = page.tracked[f"{name}_optimizer"]
            new[name], new[f"{name}_optimizer"] = optimizer.stateless_apply(
                state[f"{name}_optimizer"], gradients[name], weights[name]
            )
        return {f"{name}_loss": losses[name] for name in NETWORKS}, new

    train_step = jax.jit(train_step, donate_argnums=0)
    state, t = initial_state(page), 0
    while True:
        logs, state = train_step(state, *batch(t, BATCH_SIZE, page.x, page.y))
        yield logs, state
        t += 1
