"""The mixture of experts in plain JAX: its loss terms are read from the layer inside the function that is differentiated."""

from collections.abc import Callable

import jax

from ..conventions import Page, batch
from ..pages.mnist_moe import BATCH_SIZE
from ..pages.mnist_moe import build as build
from . import Run, State, initial_state, merged, split

PARTS = ("model", "optimizer", "loss", "compile_metrics")


def steps(page: Page) -> Run:
    """The page's two steps, each in one `jax.jit`, on a state of its own."""
    train_steps = {name: make_step(page, name) for name in ("published", "intended")}
    states = {name: initial_state(page, *names_of(name).values()) for name in train_steps}
    t = 0
    while True:
        x, y = batch(t, BATCH_SIZE, page.x, page.y)
        logs = {}
        for name, train_step in train_steps.items():
            some_logs, states[name] = train_step(states[name], x, y)
            logs |= some_logs
        yield logs, states["published"] | states["intended"]
        t += 1


def names_of(name: str) -> dict[str, str]:
    """What the page calls the model of that name and what belongs to it."""
    return {part: name if part == "model" else f"{name} {part}" for part in PARTS}


def make_step(page: Page, name: str) -> Callable:
    """The step of the one model or the other."""
    names = names_of(name)
    model, optimizer, tracker, metrics = (page.tracked[n] for n in names.values())
    optimizer.build(model.trainable_variables)
    metrics.build(page.y[:1], page.y[:1])

    def loss_fn(trainable, others, x, y):
        predictions, others = model.stateless_call(trainable, others, x, training=True)
        mixture = model.mixture
        mixture_loss = 0.01 * (mixture.diversity + mixture.overflow + mixture.importance)
        return model.compute_loss(x=x, y=y, y_pred=predictions) + mixture_loss, (mixture_loss, predictions, others)

    def train_step(state: State, x, y):
        trainable, others = split(model, state[names["model"]])
        (loss, aux), gradients = jax.value_and_grad(loss_fn, has_aux=True)(trainable, others, x, y)
        mixture_loss, predictions, others = aux
        trainable, slots = optimizer.stateless_apply(state[names["optimizer"]], gradients, trainable)
        tracked = (y, predictions) if name == "published" else (loss,)
        new_loss = tracker.stateless_update_state(state[names["loss"]], *tracked)
        new_metrics = metrics.stateless_update_state(state[names["compile_metrics"]], y, predictions)
        logs = {
            f"{name}/loss": tracker.stateless_result(new_loss),
            f"{name}/moe_loss": mixture_loss,
            f"{name}/compile_metrics/accuracy": metrics.stateless_result(new_metrics)["accuracy"],
        }
        return logs, dict(zip(names.values(), (merged(model, trainable, others), slots, new_loss, new_metrics), strict=True))

    return jax.jit(train_step, donate_argnums=0)
