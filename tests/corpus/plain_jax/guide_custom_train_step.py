"""The cases of the guide in plain JAX: a jitted step for each, as the page has them."""

from collections.abc import Callable
from typing import Any

import jax

from ..conventions import Page, batch
from ..pages.guide_custom_train_step import BATCH_SIZE, BATCHES_PER_EPOCH, flat
from ..pages.guide_custom_train_step import build as build
from . import Run, initial_state

ARRAYS = {
    "compiled": ("x", "y"),
    "own": ("x", "y"),
    "weighted": ("x", "y", "sw"),
    "evaluated": ("x", "y"),
    "sequential": ("img", "lab"),
    "functional": ("img", "lab"),
}


def steps(page: Page) -> Run:
    """One batch for each of the cases at a time; metrics are reset after each epoch."""
    train_steps = {name: jitted_step(page, name) for name in ARRAYS}
    states = {name: initial_state(page, *(key for key in page.tracked if key.split()[0] == name)) for name in ARRAYS}
    t = 0
    while True:
        logs, seen = {}, {}
        for name, train_step in train_steps.items():
            if t % BATCHES_PER_EPOCH == 0:
                reset_metrics(page, name, states[name])
            arrays = batch(t, BATCH_SIZE, *(page.data[key] for key in ARRAYS[name]))
            logs[name], states[name] = train_step(states[name], *arrays)
            seen |= states[name]
        yield flat(logs), seen
        t += 1


def jitted_step(page: Page, name: str) -> Callable:
    """A step of training, or of testing for the case that is only evaluated. All variables of the models are trained."""
    model, optimizer = page.tracked[name], page.tracked[f"{name} optimizer"]
    if name != "evaluated":
        optimizer.build(model.trainable_variables)
    x, *targets = (page.data[key][:BATCH_SIZE] for key in ARRAYS[name])
    for metric in model.metrics:
        if metric.name == "compile_metrics":
            metric.build(targets[0], model(x))

    def loss_fn(weights: list, x: Any, y: Any, sample_weight: Any = None) -> tuple[Any, Any]:
        predictions, _ = model.stateless_call(weights, [], x)
        if hasattr(model, "loss_fn"):
            return model.loss_fn(y, predictions), predictions
        return model.compute_loss(y=y, y_pred=predictions, sample_weight=sample_weight), predictions

    def updated_metrics(state: dict, loss: Any, predictions: Any, y: Any, sample_weight: Any = None) -> tuple[dict, dict]:
        new, logs = {}, {}
        for metric in model.metrics:
            key = f"{name} {metric.name}"
            arguments = (loss,) if metric.name == "loss" else (y, predictions)
            weight = {"sample_weight": sample_weight} if metric.name == "compile_metrics" else {}
            new[key] = metric.stateless_update_state(state[key], *arguments, **weight)
            logs[metric.name] = metric.stateless_result(new[key])
        return logs, new

    def train_step(state, x, *targets):
        (loss, predictions), gradients = jax.value_and_grad(loss_fn, has_aux=True)(state[name], x, *targets)
        weights, slots = optimizer.stateless_apply(state[f"{name} optimizer"], gradients, state[name])
        logs, metrics = updated_metrics(state, loss, predictions, *targets)
        return logs, {name: weights, f"{name} optimizer": slots} | metrics

    def test_step(state, x, *targets):
        logs, metrics = updated_metrics(state, *loss_fn(state[name], x, *targets), *targets)
        return logs, state | metrics

    return jax.jit(test_step if name == "evaluated" else train_step, donate_argnums=0)


def reset_metrics(page: Page, name: str, state: dict) -> None:
    """Zeroes in place of what the metrics of a case have counted."""
    for metric in page.tracked[name].metrics:
        key = f"{name} {metric.name}"
        state[key] = [jax.numpy.zeros_like(value) for value in state[key]]
