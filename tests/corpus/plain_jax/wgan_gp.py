"""The Wasserstein GAN with gradient penalty in plain JAX."""

import jax
import jax.numpy as jnp

from ..conventions import Page, batch
from ..pages.wgan_gp import BATCH_SIZE, PENALTY_WEIGHT, noise_of_step
from ..pages.wgan_gp import build as build
from . import Run, initial_state, merged, split


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`."""
    critic, generator = page.critic, page.generator
    page.critic_optimizer.build(critic.trainable_variables)
    page.generator_optimizer.build(generator.trainable_variables)

    def scores(weights, images):
        return critic.stateless_call(weights, [], images, training=True)[0]

    def critic_loss(weights, real, fake, mix):
        mixed = real + mix * (fake - real)
        slopes = jax.grad(lambda images: jnp.sum(scores(weights, images)))(mixed)
        norms = jnp.sqrt(jnp.sum(slopes**2, axis=(1, 2, 3)))
        penalty = jnp.mean((norms - 1) ** 2)
        return jnp.mean(scores(weights, fake)) - jnp.mean(scores(weights, real)) + PENALTY_WEIGHT * penalty

    def generator_loss(weights, statistics, critic_weights, code):
        fake, statistics = generator.stateless_call(weights, statistics, code, training=True)
        return -jnp.mean(scores(critic_weights, fake)), statistics

    def train_step(state, real, noise):
        critic_weights, critic_slots = state["critic"], state["critic_optimizer"]
        weights, statistics = split(generator, state["generator"])
        codes, mixes, last_code = noise
        for code, mix in zip(codes, mixes, strict=True):
            fake, statistics = generator.stateless_call(weights, statistics, code, training=True)
            d_loss, gradients = jax.value_and_grad(critic_loss)(critic_weights, real, fake, mix)
            critic_weights, critic_slots = page.critic_optimizer.stateless_apply(critic_slots, gradients, critic_weights)

        value_and_grad = jax.value_and_grad(generator_loss, has_aux=True)
        (g_loss, statistics), gradients = value_and_grad(weights, statistics, critic_weights, last_code)
        weights, slots = page.generator_optimizer.stateless_apply(state["generator_optimizer"], gradients, weights)
        new = {
            "critic": critic_weights,
            "generator": merged(generator, weights, statistics),
            "critic_optimizer": critic_slots,
            "generator_optimizer": slots,
        }
        return {"d_loss": d_loss, "g_loss": g_loss}, new

    train_step = jax.jit(train_step, donate_argnums=0)
    state, t = initial_state(page), 0
    while True:
        logs, state = train_step(state, *batch(t, BATCH_SIZE, page.x), noise_of_step(t))
        yield logs, state
        t += 1
