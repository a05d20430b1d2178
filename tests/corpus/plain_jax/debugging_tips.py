"""Second-order gradients mixed into the first, in plain JAX."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from ..conventions import Page, batch
from ..pages.debugging_tips import BATCH_SIZE, VARIANTS
from ..pages.debugging_tips import build as build
from . import Run, initial_state


def steps(page: Page) -> Run:
    """The page's three steps, each in a `jax.jit` of its own, as the page has them."""
    train_steps = {variant: jitted_step(page, variant) for variant in VARIANTS}
    states = {v: initial_state(page, *(name for name in page.tracked if name.startswith(v))) for v in VARIANTS}
    t = 0
    while True:
        x, y = batch(t, BATCH_SIZE, page.x, page.y)
        logs = {}
        for variant, train_step in train_steps.items():
            new_logs, states[variant] = train_step(states[variant], x, y)
            logs |= {f"{variant}/{name}": value for name, value in new_logs.items()}
        yield logs, states["plain"] | states["normalized"] | states["scheduled"]
        t += 1


def jitted_step(page: Page, variant: str) -> Callable:
    """The step of one variant."""
    names = [f"{variant}_{kind}" for kind in ("model", "optimizer", "loss_tracker", "metrics")]
    model, optimizer, tracker, metrics = (page.tracked[name] for name in names)
    optimizer.build(model.trainable_variables)
    metrics.build(page.y[:BATCH_SIZE], model(page.x[:BATCH_SIZE]))

    def loss_fn(weights, x, y):
        predictions, _ = model.stateless_call(weights, [], x, training=True)
        return model.compute_loss(x, y, predictions), predictions

    def sum_of_gradients(weights, x, y):
        (loss, predictions), gradients = jax.value_and_grad(loss_fn, has_aux=True)(weights, x, y)
        return sum(jnp.sum(g) for g in gradients), (gradients, loss, predictions)

    def train_step(state, x, y):
        weights, slots, tracked, measured = (state[name] for name in names)
        second_order, (gradients, loss, predictions) = jax.grad(sum_of_gradients, has_aux=True)(weights, x, y)
        directions = [model.mix(h, g) for h, g in zip(second_order, gradients, strict=True)]
        weights, slots = optimizer.stateless_apply(slots, directions, weights)
        tracked = tracker.stateless_update_state(tracked, loss)
        measured = metrics.stateless_update_state(measured, y, predictions)
        logs = {"loss": tracker.stateless_result(tracked), **metrics.stateless_result(measured)}
        return logs, dict(zip(names, (weights, slots, tracked, measured), strict=True))

    return jax.jit(train_step, donate_argnums=0)
