"""The image captioner in plain JAX: five updates in one program."""

import jax
import jax.numpy as jnp
import keras

from ..conventions import Page, batch
from ..pages.image_captioning import BATCH_SIZE
from ..pages.image_captioning import build as build
from . import Run, initial_state


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`; the frozen feature network is not part of the donated state."""
    encoder, decoder, optimizer = page.encoder, page.decoder, page.optimizer
    optimizer.build(encoder.trainable_variables + decoder.trainable_variables)
    num_of_encoder = len(encoder.trainable_variables)

    def loss_and_accuracy(weights, features, caption):
        words, next_words = caption[:, :-1], caption[:, 1:]
        mask = next_words != 0
        encoded, _ = encoder.stateless_call(weights[:num_of_encoder], [], features, training=True)
        probabilities, _ = decoder.stateless_call(weights[num_of_encoder:], [], words, encoded, mask, training=True)
        losses = keras.losses.sparse_categorical_crossentropy(next_words, probabilities)
        hits = jnp.argmax(probabilities, axis=-1) == next_words
        count = jnp.sum(mask)
        return jnp.sum(losses * mask) / count, jnp.sum(hits & mask) / count

    def train_step(state, frozen, images, captions):
        features, _ = page.features.stateless_call([], frozen, images)
        weights, slots = state["encoder"] + state["decoder"], state["optimizer"]
        total_loss = total_accuracy = 0.0
        for i in range(captions.shape[1]):
            value_and_grad = jax.value_and_grad(loss_and_accuracy, has_aux=True)
            (loss, accuracy), gradients = value_and_grad(weights, features, captions[:, i])
            weights, slots = optimizer.stateless_apply(slots, gradients, weights)
            total_loss, total_accuracy = total_loss + loss, total_accuracy + accuracy
        new = {
            "encoder": weights[:num_of_encoder],
            "decoder": weights[num_of_encoder:],
            "optimizer": slots,
            "loss": page.loss.stateless_update_state(state["loss"], total_loss),
            "accuracy": page.accuracy.stateless_update_state(state["accuracy"], total_accuracy / captions.shape[1]),
        }
        return {"loss": page.loss.stateless_result(new["loss"]), "acc": page.accuracy.stateless_result(new["accuracy"])}, new

    train_step = jax.jit(train_step, donate_argnums=0)
    state = initial_state(page, "encoder", "decoder", "optimizer", "loss", "accuracy")
    frozen, t = initial_state(page, "features"), 0
    while True:
        logs, state = train_step(state, frozen["features"], *batch(t, BATCH_SIZE, page.img, page.cap))
        yield logs, state | frozen
        t += 1
