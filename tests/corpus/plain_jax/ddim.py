"""The diffusion model in plain JAX."""

import jax
import jax.numpy as jnp

from ..conventions import Page, batch, normal, uniform
from ..pages.ddim import BATCH_SIZE, EMA, END_ANGLE, START_ANGLE
from ..pages.ddim import build as build
from . import Run, initial_state, merged, split


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`. The statistics of the pixels never change: constants of the program."""
    net, optimizer, trackers = page.net, page.optimizer, {"n_loss": page.n_loss, "i_loss": page.i_loss}
    optimizer.build(net.trainable_variables)

    def loss_fn(trainable, others, noisy, noises, images, noise_rates, signal_rates):
        seen_noises, others = net.stateless_call(trainable, others, [noisy, noise_rates**2], training=True)
        seen_images = (noisy - noise_rates * seen_noises) / signal_rates
        noise_losses = jnp.mean(jnp.abs(noises - seen_noises), axis=-1)
        image_losses = jnp.mean(jnp.abs(images - seen_images), axis=-1)
        return jnp.sum(noise_losses), (others, {"n_loss": noise_losses, "i_loss": image_losses})

    def train_step(state, images, noises, times):
        images = page.norm(images)
        angles = START_ANGLE + times * (END_ANGLE - START_ANGLE)
        noise_rates, signal_rates = jnp.sin(angles), jnp.cos(angles)
        noisy = signal_rates * images + noise_rates * noises
        trainable, others = split(net, state["net"])
        gradients, (others, losses) = jax.grad(loss_fn, has_aux=True)(
            trainable, others, noisy, noises, images, noise_rates, signal_rates
        )
        trainable, optimizer_state = optimizer.stateless_apply(state["optimizer"], gradients, trainable)
        weights = merged(net, trainable, others)
        new = state | {"net": weights, "optimizer": optimizer_state}
        new["ema"] = [EMA * average + (1 - EMA) * weight for average, weight in zip(state["ema"], weights, strict=True)]
        for name, tracker in trackers.items():
            new[name] = tracker.stateless_update_state(state[name], losses[name])
        return {name: tracker.stateless_result(new[name]) for name, tracker in trackers.items()}, new

    train_step = jax.jit(train_step, donate_argnums=0)
    state, t = initial_state(page), 0
    while True:
        (x,) = batch(t, BATCH_SIZE, page.x)
        logs, state = train_step(state, x, normal(t, 0, x.shape), uniform(t, 1, (BATCH_SIZE, 1, 1, 1)))
        yield logs, state
        t += 1
