"""AdaMatch in plain JAX."""

import jax
import jax.numpy as jnp

from ..conventions import Page, uniform
from ..pages.adamatch import NUM_LABELS, TAU, TOTAL_STEPS, cross_entropy, nested_batch
from ..pages.adamatch import build as build
from . import Run, initial_state, merged, split


def unreduced_cross_entropy(labels: jax.Array, logits: jax.Array) -> jax.Array:
    """Of each sample (b,), for labels that need not sum to 1."""
    return -jnp.sum(labels * jax.nn.log_softmax(logits), axis=1)


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`."""
    model, optimizer, tracker = page.model, page.optimizer, page.loss
    optimizer.build(model.trainable_variables)

    def loss_fn(trainable, others, counter, source, target, mixing):
        (source_weak, labels), (source_strong, _) = source
        (target_weak, _), (target_strong, _) = target
        b = len(labels)
        source_images = jnp.concatenate([source_weak, source_strong])
        images = jnp.concatenate([source_images, target_weak, target_strong])
        logits, new_others = model.stateless_call(trainable, others, images, training=True)
        new_others = jax.lax.stop_gradient(new_others)  # The moving statistics come from the weights, but are no way back to them.
        inferred, _ = model.stateless_call(trainable, new_others, source_images, training=False)
        source_logits = mixing * logits[: 2 * b] + (1 - mixing) * inferred
        source_p, target_p = jax.nn.softmax(source_logits[:b]), jax.nn.softmax(logits[2 * b : 3 * b])
        aligned = target_p * (jnp.mean(source_p) / jnp.mean(target_p))
        pseudo = aligned / jnp.linalg.norm(aligned, axis=1, keepdims=True)
        is_sure = jnp.max(pseudo, axis=1) >= TAU * jnp.mean(jnp.max(source_p, axis=1))
        source_loss = cross_entropy(labels, source_logits[:b]) + cross_entropy(labels, source_logits[b:])
        target_loss = jnp.mean(is_sure * unreduced_cross_entropy(jax.lax.stop_gradient(pseudo), logits[3 * b :]))
        weight = 0.5 - jnp.cos(jnp.minimum(jnp.pi, 2 * jnp.pi * counter / TOTAL_STEPS)) / 2
        return source_loss + weight * target_loss, new_others

    def train_step(state, source, target, mixing):
        trainable, others = split(model, state["model"])
        [counter] = state["counter"]
        arguments = trainable, others, counter, source, target, mixing
        (loss, others), gradients = jax.value_and_grad(loss_fn, has_aux=True)(*arguments)
        trainable, optimizer_state = optimizer.stateless_apply(state["optimizer"], gradients, trainable)
        tracked = tracker.stateless_update_state(state["loss"], loss)
        new = {
            "model": merged(model, trainable, others),
            "optimizer": optimizer_state,
            "loss": tracked,
            "counter": [counter + 1],
        }
        return {"loss": tracker.stateless_result(tracked)}, new

    train_step = jax.jit(train_step, donate_argnums=0)
    state, t = initial_state(page), 0
    while True:
        logs, state = train_step(state, *nested_batch(page, t), uniform(t, 0, (8, NUM_LABELS)))
        yield logs, state
        t += 1
