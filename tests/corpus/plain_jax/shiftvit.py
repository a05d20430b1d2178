"""The shifting vision model in plain JAX."""

import jax
import numpy as np

from ..conventions import Page, batch, uniform
from ..pages.shiftvit import BATCH_SIZE, NUM_BLOCKS
from ..pages.shiftvit import build as build
from . import Run, initial_state, merged, split


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`."""
    model, optimizer, tracker, metrics = page.model, page.optimizer, page.loss, page.metrics
    optimizer.build(model.trainable_variables)
    metrics.build(page.y[:1], model(page.x[:1]))

    def loss_fn(trainable, others, x, y, u):
        logits, others = model.stateless_call(trainable, others, x, u, training=True)
        return model.compute_loss(y=y, y_pred=logits), (logits, others)

    def train_step(state, x, y, u):
        trainable, others = split(model, state["model"])
        (loss, (logits, others)), gradients = jax.value_and_grad(loss_fn, has_aux=True)(trainable, others, x, y, u)
        trainable, slots = optimizer.stateless_apply(state["optimizer"], gradients, trainable)
        new = {
            "model": merged(model, trainable, others),
            "optimizer": slots,
            "loss": tracker.stateless_update_state(state["loss"], loss),
            "metrics": metrics.stateless_update_state(state["metrics"], y, logits),
        }
        results = {f"compile_metrics/{name}": value for name, value in metrics.stateless_result(new["metrics"]).items()}
        return {"loss": tracker.stateless_result(new["loss"])} | results, new

    train_step = jax.jit(train_step, donate_argnums=0)
    state, t = initial_state(page), 0
    while True:
        u = np.stack([uniform(t, k, (BATCH_SIZE, 1, 1, 1)) for k in range(NUM_BLOCKS)])
        logs, state = train_step(state, *batch(t, BATCH_SIZE, page.x, page.y), u)
        yield logs, state
        t += 1
