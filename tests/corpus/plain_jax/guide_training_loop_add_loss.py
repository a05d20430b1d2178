"""The training loop with an added loss in plain JAX: two jitted steps, and a loop that zeroes the metrics."""

import jax
import jax.numpy as jnp

from ..conventions import Page, batch
from ..pages.guide_training_loop_add_loss import BATCH_SIZE, BATCHES_PER_EPOCH, loss_fn
from ..pages.guide_training_loop_add_loss import build as build
from . import Run, initial_state

METRICS = ("accuracy", "f1", "val_accuracy", "val_loss")


def steps(page: Page) -> Run:
    """Epoch after epoch; the loss of each step, and the metrics at the end of an epoch."""
    train_step, validation_step = jitted_steps(page)
    state = initial_state(page)
    while True:
        for i in range(BATCHES_PER_EPOCH):
            logs, state = train_step(state, *batch(i, BATCH_SIZE, page.x, page.y))
            if i % 2 == 0:
                print(f"batch {i}: loss {float(logs['loss']):.4f}")
            if i < BATCHES_PER_EPOCH - 1:
                yield logs, state
        for i in range(2):
            state = validation_step(state, *batch(i, BATCH_SIZE, page.xv, page.yv))
        logs |= {name: page.tracked[name].stateless_result(state[name]) for name in METRICS}
        state |= {name: [jnp.zeros_like(value) for value in state[name]] for name in METRICS}
        yield logs, state


def jitted_steps(page: Page) -> tuple:
    """The training step and the validation step. All variables of the model are trained."""
    model, optimizer = page.model, page.optimizer
    optimizer.build(model.trainable_variables)

    def total_loss(weights, x, y):
        logits, _, losses = model.stateless_call(weights, [], x, training=True, return_losses=True)
        return loss_fn(y, logits) + sum(losses), logits

    def train_step(state, x, y):
        (loss, logits), gradients = jax.value_and_grad(total_loss, has_aux=True)(state["model"], x, y)
        weights, slots = optimizer.stateless_apply(state["optimizer"], gradients, state["model"])
        is_high = jnp.sum(jax.nn.softmax(logits)[:, 2:], axis=-1)
        counted = {
            "accuracy": page.accuracy.stateless_update_state(state["accuracy"], y, logits),
            "f1": page.f1.stateless_update_state(state["f1"], y >= 2, is_high),
        }
        return {"loss": loss}, state | {"model": weights, "optimizer": slots} | counted

    def validation_step(state, x, y):
        logits, _ = model.stateless_call(state["model"], [], x, training=False)
        counted = {
            "val_accuracy": page.val_accuracy.stateless_update_state(state["val_accuracy"], y, logits),
            "val_loss": page.val_loss.stateless_update_state(state["val_loss"], loss_fn(y, logits)),
        }
        return state | counted

    return jax.jit(train_step, donate_argnums=0), jax.jit(validation_step, donate_argnums=0)
