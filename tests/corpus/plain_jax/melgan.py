"""The MelGAN in plain JAX: one shared forward pass, which is pulled back twice."""

import jax

from ..conventions import Page, batch
from ..pages.melgan import BATCH_SIZE, MATCHING_WEIGHT, adversarial_loss, discriminator_loss, feature_matching_loss
from ..pages.melgan import build as build
from . import Run, initial_state


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`."""
    generator, discriminator = page.generator, page.discriminator
    page.generator_optimizer.build(generator.trainable_variables)
    page.discriminator_optimizer.build(discriminator.trainable_variables)

    def losses(generator_weights, discriminator_weights, x, y):
        generated, _ = generator.stateless_call(generator_weights, [], x, training=True)
        fake, _ = discriminator.stateless_call(discriminator_weights, [], y)
        real, _ = discriminator.stateless_call(discriminator_weights, [], generated)
        gen_loss = adversarial_loss(fake) + MATCHING_WEIGHT * feature_matching_loss(real, fake)
        return gen_loss, discriminator_loss(real, fake)

    def train_step(state, x, y):
        weights = state["generator"], state["discriminator"]
        (gen_loss, disc_loss), pull_back = jax.vjp(lambda g, d: losses(g, d, x, y), *weights)
        gradients = pull_back((1.0, 0.0))[0], pull_back((0.0, 1.0))[1]
        new, logs = {}, {}
        for name, some_weights, some_gradients in zip(("generator", "discriminator"), weights, gradients, strict=True):
            optimizer = page.tracked[f"{name}_optimizer"]
            slots = state[f"{name}_optimizer"]
            new[name], new[f"{name}_optimizer"] = optimizer.stateless_apply(slots, some_gradients, some_weights)
        for name, loss in {"gen_loss": gen_loss, "disc_loss": disc_loss}.items():
            new[name] = page.tracked[name].stateless_update_state(state[name], loss)
            logs[name] = page.tracked[name].stateless_result(new[name])
        return logs, new

    train_step = jax.jit(train_step, donate_argnums=0)
    state, t = initial_state(page), 0
    while True:
        logs, state = train_step(state, *batch(t, BATCH_SIZE, page.x, page.y))
        yield logs, state
        t += 1
