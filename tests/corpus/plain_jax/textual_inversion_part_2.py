"""Part 2 of textual inversion in plain JAX: mixed precision, the scale of the loss among the optimizer's values."""

import jax
import keras
from keras import ops

from ..conventions import Page, batch
from ..pages.textual_inversion import BATCH_SIZE, diffused, embedded_level, given_draws
from ..pages.textual_inversion_part_2 import build as build
from . import Run, initial_state

FROZEN = ("image_encoder", "text_encoder")


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`; what is frozen is not part of the donated state."""
    model, unet, optimizer, tracker = page.model, page.unet, page.optimizer, page.loss

    def loss_fn(weights, slots, noisy, noise, embedded, hidden):
        found, _ = unet.stateless_call(weights, [], [noisy, embedded, hidden])
        loss = model.compute_loss(y=noise, y_pred=found)
        with keras.StatelessScope(zip(optimizer.variables, slots, strict=True)):
            return optimizer.scale_loss(loss), loss

    def train_step(state, frozen, images, tokens, draws):
        def encoded(images):
            return page.image_encoder.stateless_call([], frozen["image_encoder"], images)[0]

        latent_noise, noise, levels = draws
        noisy = diffused(encoded, images, latent_noise, noise, levels)
        hidden, _ = page.text_encoder.stateless_call([], frozen["text_encoder"], tokens)
        inputs = noisy, noise, ops.map(embedded_level, levels), hidden
        value_and_grad = jax.value_and_grad(loss_fn, has_aux=True)
        (_, loss), gradients = value_and_grad(state["unet"], state["optimizer"], *inputs)
        weights, slots = optimizer.stateless_apply(state["optimizer"], gradients, state["unet"])
        tracked = tracker.stateless_update_state(state["loss"], loss)
        return {"loss": tracker.stateless_result(tracked)}, {"unet": weights, "optimizer": slots, "loss": tracked}

    train_step = jax.jit(train_step, donate_argnums=0)
    state, frozen, t = initial_state(page, "unet", "optimizer", "loss"), initial_state(page, *FROZEN), 0
    while True:
        logs, state = train_step(state, frozen, *batch(t, BATCH_SIZE, page.images, page.tokens), given_draws(t))
        yield logs, state | frozen
        t += 1
