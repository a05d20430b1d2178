"""The eikonal equation in plain JAX: the gradient with respect to the receiver by `jax.grad`, beside the page's gradient layer."""

import jax
import jax.numpy as jnp

from ..conventions import Page, batch
from ..pages.eikonal import BATCH_SIZE, inputs
from ..pages.eikonal import build as build
from . import Run, initial_state


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`. All variables of the network are trained."""
    model, optimizer, tracker = page.travel_time, page.optimizer, page.mean_loss
    optimizer.build(model.trainable_variables)

    def sum_of_times(receiver, weights, sx, sy):
        times, _ = model.stateless_call(weights, [], [sx, sy, *receiver])
        return jnp.sum(times)

    def loss_fn(weights, sx, sy, rx, ry, v, target):
        gx, gy = jax.grad(sum_of_times)((rx, ry), weights, sx, sy)
        residual = ((gx**2 + gy**2) * v**2 - 1) / 2
        return jnp.mean(jnp.abs(residual - target))

    def train_step(state, points, target):
        loss, gradients = jax.value_and_grad(loss_fn)(state["travel_time"], *points, target)
        weights, slots = optimizer.stateless_apply(state["optimizer"], gradients, state["travel_time"])
        tracked = tracker.stateless_update_state(state["mean_loss"], loss)
        new = {"travel_time": weights, "optimizer": slots, "mean_loss": tracked}
        return {"loss": tracker.stateless_result(tracked)}, new

    train_step = jax.jit(train_step, donate_argnums=0)
    state, t = initial_state(page), 0
    while True:
        *points, target = batch(t, BATCH_SIZE, *inputs(page), page.target)
        logs, state = train_step(state, points, target)
        yield logs, state
        t += 1
