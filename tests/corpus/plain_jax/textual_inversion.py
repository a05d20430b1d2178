"""Textual inversion in plain JAX."""

import jax
import jax.numpy as jnp
from keras import ops

from ..conventions import Page, batch
from ..pages.textual_inversion import BATCH_SIZE, PLACEHOLDER, diffused, embedded_level, given_draws
from ..pages.textual_inversion import build as build
from . import Run, initial_state, split

FROZEN = ("image_encoder", "unet")


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`; what is frozen is not part of the donated state."""
    text_encoder, optimizer = page.text_encoder, page.optimizer
    optimizer.build(text_encoder.trainable_variables)

    def loss_fn(trainable, others, frozen, images, tokens, draws):
        latent_noise, noise, levels = draws

        def encoded(images):
            return page.image_encoder.stateless_call([], frozen["image_encoder"], images)[0]

        noisy = diffused(encoded, images, latent_noise, noise, levels)
        hidden, _ = text_encoder.stateless_call(trainable, others, tokens)
        found, _ = page.unet.stateless_call([], frozen["unet"], [noisy, ops.map(embedded_level, levels), hidden])
        return jnp.mean((found - noise) ** 2)

    def train_step(trainable, slots, others, frozen, images, tokens, draws):
        loss, [gradient] = jax.value_and_grad(loss_fn)(trainable, others, frozen, images, tokens, draws)
        is_placeholder = jnp.arange(len(gradient))[:, None] == PLACEHOLDER
        trainable, slots = optimizer.stateless_apply(slots, [jnp.where(is_placeholder, gradient, 0.0)], trainable)
        return {"loss": loss}, trainable, slots

    train_step = jax.jit(train_step, donate_argnums=(0, 1))
    state, frozen, t = initial_state(page, "text_encoder", "optimizer"), initial_state(page, *FROZEN), 0
    (trainable, others), slots = split(text_encoder, state["text_encoder"]), state["optimizer"]
    while True:
        images, tokens = batch(t, BATCH_SIZE, page.images, page.tokens)
        logs, trainable, slots = train_step(trainable, slots, others, frozen, images, tokens, given_draws(t))
        yield logs, frozen | {"text_encoder": trainable + others, "optimizer": slots}
        t += 1
