"""Grad-CAM in plain JAX: the gradient with respect to an activation by the part of the network that comes after it."""

import jax
import jax.numpy as jnp
import keras

from ..conventions import Page
from ..pages.grad_cam import build as build
from . import Run, initial_state


def steps(page: Page) -> Run:
    """The heatmaps of each image. Nothing is trained, so the weights are handed in and not donated."""
    classifier = page.classifier
    target = classifier.get_layer("target").output
    before, after = keras.Model(classifier.inputs, target), keras.Model(target, classifier.outputs[0])
    num_before = len(before.variables)

    @jax.jit
    def heat(weights, image, class_index=None):
        activation, _ = before.stateless_call(weights[:num_before], [], image)

        def score(activation):
            logits, _ = after.stateless_call(weights[num_before:], [], activation)
            return jnp.sum(logits[:, jnp.argmax(logits[0]) if class_index is None else class_index])

        channels = jnp.mean(jax.grad(score)(activation), axis=(0, 1, 2))
        heat = jnp.squeeze(activation[0] @ channels[:, None])
        return jnp.maximum(heat, 0) / jnp.max(heat)

    state = initial_state(page)
    while True:
        logs = {}
        for i in range(len(page.x)):
            image = page.x[i : i + 1]
            logs[f"heatmap/{i}"] = heat(state["classifier"], image)
            logs[f"heatmap of class 2/{i}"] = heat(state["classifier"], image, 2)
        yield logs, state
