"""The variational autoencoder in plain JAX."""

import jax
import jax.numpy as jnp
import keras

from ..conventions import Page, batch, normal
from ..pages.vae import BATCH_SIZE
from ..pages.vae import build as build
from . import Run, initial_state, merged, split

TRACKERS = {"loss": "total_loss", "reconstruction_loss": "reconstruction_loss", "kl_loss": "kl_loss"}


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`."""
    encoder, decoder, optimizer = page.encoder, page.decoder, page.optimizer
    optimizer.build(encoder.trainable_variables + decoder.trainable_variables)

    def losses(weights, others, x, noise):
        num_of_encoder = len(encoder.trainable_variables)
        (mean, log_variance, z), others = encoder.stateless_call(weights[:num_of_encoder], others, x, noise)
        reconstruction, _ = decoder.stateless_call(weights[num_of_encoder:], [], z)
        reconstruction_loss = jnp.mean(jnp.sum(keras.losses.binary_crossentropy(x, reconstruction), axis=(1, 2)))
        kl_loss = jnp.mean(jnp.sum(-0.5 * (1 + log_variance - mean**2 - jnp.exp(log_variance)), axis=1))
        total_loss = reconstruction_loss + kl_loss
        return total_loss, ({"loss": total_loss, "reconstruction_loss": reconstruction_loss, "kl_loss": kl_loss}, others)

    def train_step(state, x, noise):
        encoder_weights, others = split(encoder, state["encoder"])
        weights = encoder_weights + state["decoder"]
        (_, (values, others)), gradients = jax.value_and_grad(losses, has_aux=True)(weights, others, x, noise)
        weights, slots = optimizer.stateless_apply(state["optimizer"], gradients, weights)
        new = {
            "encoder": merged(encoder, weights[: len(encoder_weights)], others),
            "decoder": weights[len(encoder_weights) :],
            "optimizer": slots,
        }
        logs = {}
        for name, tracker in TRACKERS.items():
            metric = page.tracked[tracker]
            new[tracker] = metric.stateless_update_state(state[tracker], values[name])
            logs[name] = metric.stateless_result(new[tracker])
        return logs, new

    train_step = jax.jit(train_step, donate_argnums=0)
    state, t = initial_state(page), 0
    while True:
        logs, state = train_step(state, *batch(t, BATCH_SIZE, page.x), normal(t, 0, (BATCH_SIZE, 2)))
        yield logs, state
        t += 1
