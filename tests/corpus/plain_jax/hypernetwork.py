"""The hypernetwork in plain JAX: the written network as a formula."""

import jax
import jax.numpy as jnp

from ..conventions import Page, batch
from ..pages.hypernetwork import NUM_LOSSES_IN_MEAN
from ..pages.hypernetwork import build as build
from . import Run, initial_state


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`, and its loop. All variables of the hypernetwork are trained."""
    model, optimizer = page.hypernetwork, page.optimizer
    optimizer.build(model.trainable_variables)

    def loss_fn(weights, x, y):
        written, _ = model.stateless_call(weights, [], x)
        kernel, bias, last_kernel, last_bias = jnp.split(written[0], (72, 78, 96))
        hidden = jax.nn.relu(x @ jnp.reshape(kernel, (12, 6)) + bias)
        logits = hidden @ jnp.reshape(last_kernel, (6, 3)) + last_bias
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1))

    def train_step(state, x, y):
        loss, gradients = jax.value_and_grad(loss_fn)(state["hypernetwork"], x, y)
        weights, slots = optimizer.stateless_apply(state["optimizer"], gradients, state["hypernetwork"])
        return loss, {"hypernetwork": weights, "optimizer": slots}

    train_step = jax.jit(train_step, donate_argnums=0)
    state = initial_state(page, "hypernetwork", "optimizer")
    losses, mean_loss, t = [], 0.0, 0
    while True:
        loss, state = train_step(state, *batch(t, 1, page.x, page.y))
        losses.append(float(loss))
        t += 1
        if t % NUM_LOSSES_IN_MEAN == 0:
            mean_loss = sum(losses) / len(losses)
        yield {"loss": loss, "mean_loss": mean_loss}, state
