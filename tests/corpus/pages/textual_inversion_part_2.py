"""Part 2 of the page `textual_inversion`: the U-net is trained in mixed precision, by a model with losses and metrics of its own.

Arithmetic is float16, weights float32; the loss is scaled up before the gradient, and the scale halved when a gradient overflows.
"""

import keras
from keras import ops

import trainstep as ts

from ..conventions import Page, Steps, batch
from . import textual_inversion as part_1

NUM_STEPS = part_1.NUM_STEPS
RTOL, ATOL = 4e-3, 2e-5  # float16 has 11 bits: what the backends compute in it differs by some 1e-3 of a value.
LOGS = ["loss"]
CHANGES = ["unet", "optimizer", "loss", "model"]


class FineTuner(keras.Model):
    """Trains the U-net of a diffusion model to find noise."""

    def __init__(self, image_encoder, text_encoder, unet):
        super().__init__()
        self.image_encoder, self.text_encoder, self.unet = image_encoder, text_encoder, unet
        self.seed_generator = keras.random.SeedGenerator(2)

    def train_step(self, images, tokens, draws=None):
        """One batch and, in numeric mode, its draws."""
        latent_noise, noise, levels = part_1.draw(self.seed_generator) if draws is None else draws
        noisy = part_1.diffused(self.image_encoder, images, latent_noise, noise, levels)
        with ts.GradientTape() as tape:
            found = self.unet([noisy, ops.map(part_1.embedded_level, levels), self.text_encoder(tokens)])
            loss = self.compute_loss(y=noise, y_pred=found)
            scaled_loss = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled_loss, self.unet.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.unet.trainable_weights, strict=True))
        for metric in self.metrics:
            metric.update_state(loss)
        return {metric.name: metric for metric in self.metrics}


def build(*, native: bool) -> Page:
    """The networks under the policy `mixed_float16`, and AdamW, which `compile` wraps in an optimizer that scales the loss."""
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    try:
        networks = part_1.make_networks()
        networks["image_encoder"].trainable = networks["text_encoder"].trainable = False
        model = FineTuner(**networks)
        model.compile(optimizer=keras.optimizers.AdamW(1e-3, weight_decay=1e-2, clipnorm=1.0), loss="mse")
    finally:
        keras.config.set_dtype_policy(policy)
    model.optimizer.build(model.unet.trainable_weights)
    (loss,) = model.metrics
    return Page(
        tracked={**networks, "optimizer": model.optimizer, "loss": loss, "model": model}, data=part_1.make_data(), native=native
    )


def steps(page: Page, *, compile: bool) -> Steps:
    """The page's step, on trainstep."""
    train_step, t = ts.step(page.model.train_step, compile=compile), 0
    while True:
        images, tokens = batch(t, part_1.BATCH_SIZE, page.images, page.tokens)
        yield train_step(images, tokens) if page.native else train_step(images, tokens, part_1.given_draws(t))
        t += 1
