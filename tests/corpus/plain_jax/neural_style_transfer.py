"""Neural style transfer in plain JAX."""

import jax
import jax.numpy as jnp

from ..conventions import Page
from ..pages.neural_style_transfer import (
    CONTENT_LAYER,
    CONTENT_WEIGHT,
    STYLE_LAYERS,
    STYLE_WEIGHT,
    VARIATION_WEIGHT,
    content_loss,
    style_loss,
    variation_loss,
)
from ..pages.neural_style_transfer import build as build
from . import Run, initial_state


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`; the network's weights only are read, and not part of the donated state."""
    optimizer = page.optimizer
    optimizer.build([page.combination])

    def total_loss(combination, weights, base, style):
        features, _ = page.features.stateless_call(weights, [], jnp.concatenate([base, style, combination]))
        loss = CONTENT_WEIGHT * content_loss(features[CONTENT_LAYER][0], features[CONTENT_LAYER][2])
        for name in STYLE_LAYERS:
            loss += STYLE_WEIGHT / len(STYLE_LAYERS) * style_loss(features[name][1], features[name][2])
        return loss + VARIATION_WEIGHT * variation_loss(combination)

    def train_step(state, weights, base, style):
        [combination] = state["combination"]
        loss, gradient = jax.value_and_grad(total_loss)(combination, weights, base, style)
        new, slots = optimizer.stateless_apply(state["optimizer"], [gradient], [combination])
        return {"loss": loss, "gradient": gradient}, {"combination": new, "optimizer": slots}

    train_step = jax.jit(train_step, donate_argnums=0)
    state, frozen = initial_state(page, "combination", "optimizer"), initial_state(page, "features")
    while True:
        logs, state = train_step(state, frozen["features"], page.base, page.style)
        yield logs, state | frozen
