"""Attention on a graph in plain JAX; the graph is a constant of the program, as the page's model holds it."""

import jax

from ..conventions import Page, batch
from ..pages.gat_node_classification import BATCH_SIZE, NUM_TRAINING_NODES
from ..pages.gat_node_classification import build as build
from . import Run, initial_state


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`. All variables of the model are trained."""
    model, optimizer, tracker, metrics = page.model, page.optimizer, page.loss, page.metrics
    optimizer.build(model.trainable_variables)
    indices, labels = page.indices[:NUM_TRAINING_NODES], page.labels[:NUM_TRAINING_NODES]
    metrics.build(labels, model.logits_of(indices))

    def loss_fn(weights, nodes, labels):
        logits, _ = model.stateless_call(weights, [], [model.nodes, model.edges])
        logits = logits[nodes]
        return model.compute_loss(y=labels, y_pred=logits), logits

    def train_step(state, nodes, labels):
        (loss, logits), gradients = jax.value_and_grad(loss_fn, has_aux=True)(state["model"], nodes, labels)
        weights, slots = optimizer.stateless_apply(state["optimizer"], gradients, state["model"])
        tracked = tracker.stateless_update_state(state["loss"], loss)
        measured = metrics.stateless_update_state(state["metrics"], labels, logits)
        [accuracy] = metrics.stateless_result(measured).values()
        logs = {"loss": tracker.stateless_result(tracked), "compile_metrics/accuracy": accuracy}
        return logs, {"model": weights, "optimizer": slots, "loss": tracked, "metrics": measured}

    train_step = jax.jit(train_step, donate_argnums=0)
    state, t = initial_state(page), 0
    while True:
        logs, state = train_step(state, *batch(t, BATCH_SIZE, indices, labels))
        yield logs, state
        t += 1
