"""SimCLR with a linear probe in plain JAX."""

import jax
import jax.numpy as jnp
import keras

from ..conventions import Page
from ..pages.semisupervised_simclr import LOGS, TEMPERATURE, given_draws, nested_batch
from ..pages.semisupervised_simclr import build as build
from . import Run, initial_state

NETWORKS = ("encoder", "projection", "probe")
OPTIMIZERS = ("contrastive_optimizer", "probe_optimizer")


def similarities_of(projections_1, projections_2):
    """Of each view of the one kind with each of the other, (n, n)."""
    lengths = (jnp.linalg.norm(p, axis=1, keepdims=True) for p in (projections_1, projections_2))
    projections_1, projections_2 = (p / n for p, n in zip((projections_1, projections_2), lengths, strict=True))
    return projections_1 @ projections_2.T / TEMPERATURE


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`."""
    encoder, projection, probe, model = page.encoder, page.projection, page.probe, page.model
    page.contrastive_optimizer.build(encoder.trainable_variables + projection.trainable_variables)
    page.probe_optimizer.build(probe.trainable_variables)
    num_of_encoder = len(encoder.trainable_variables)

    def contrastive_loss(weights, views):
        features = (encoder.stateless_call(weights[:num_of_encoder], [], v, training=True)[0] for v in views)
        projections = (projection.stateless_call(weights[num_of_encoder:], [], f, training=True)[0] for f in features)
        similarities = similarities_of(*projections)
        labels = jnp.arange(len(similarities))
        cross_entropy = keras.losses.sparse_categorical_crossentropy
        losses = [cross_entropy(labels, s, from_logits=True) for s in (similarities, similarities.T)]
        loss = (losses[0] + losses[1]) / 2
        return jnp.sum(loss), (loss, labels, similarities)

    def probe_loss(weights, features, labels):
        logits, _ = probe.stateless_call(weights, [], features, training=True)
        return model.probe_loss(labels, logits), logits

    def contrast(state, new, images, draws):
        views = [model.strong(images, *some, training=True) for some in draws]
        weights = state["encoder"] + state["projection"]
        (_, (loss, labels, similarities)), gradients = jax.value_and_grad(contrastive_loss, has_aux=True)(weights, views)
        apply = page.contrastive_optimizer.stateless_apply
        weights, new["contrastive_optimizer"] = apply(state["contrastive_optimizer"], gradients, weights)
        new["encoder"], new["projection"] = weights[:num_of_encoder], weights[num_of_encoder:]
        counts = page.c_acc.stateless_update_state(state["c_acc"], labels, similarities)
        new["c_acc"] = page.c_acc.stateless_update_state(counts, labels, similarities.T)
        new["c_loss"] = page.c_loss.stateless_update_state(state["c_loss"], loss)

    def learn_probe(state, new, images, labels, draws):
        features, _ = encoder.stateless_call(new["encoder"], [], model.weak(images, *draws, training=True), training=False)
        (loss, logits), gradients = jax.value_and_grad(probe_loss, has_aux=True)(state["probe"], features, labels)
        apply = page.probe_optimizer.stateless_apply
        new["probe"], new["probe_optimizer"] = apply(state["probe_optimizer"], gradients, state["probe"])
        new["p_loss"] = page.p_loss.stateless_update_state(state["p_loss"], loss)
        new["p_acc"] = page.p_acc.stateless_update_state(state["p_acc"], labels, logits)

    def train_step(state, unlabelled, labelled, draws):
        (unlabelled_images, _), (labelled_images, labels) = unlabelled, labelled
        new = {}
        contrast(state, new, jnp.concatenate([unlabelled_images, labelled_images]), draws[:2])
        learn_probe(state, new, labelled_images, labels, draws[2])
        return {name: page.tracked[name].stateless_result(new[name]) for name in LOGS}, new

    train_step = jax.jit(train_step, donate_argnums=0)
    state, t = initial_state(page, *NETWORKS, *OPTIMIZERS, *LOGS), 0
    while True:
        logs, state = train_step(state, *nested_batch(page, t), given_draws(t))
        yield logs, state
        t += 1
