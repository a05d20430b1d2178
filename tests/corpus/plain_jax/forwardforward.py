"""The forward-forward algorithm in plain JAX."""

import jax
import jax.numpy as jnp

from ..conventions import Page, permutation
from ..pages.forwardforward import NUM_EPOCHS_OF_A_LAYER, NUM_LABELS, NUM_SAMPLES, THRESHOLD
from ..pages.forwardforward import build as build
from . import Run, initial_state


def overlay(sample: jax.Array, label: jax.Array) -> jax.Array:
    """One flat sample with its label written over its first entries."""
    return jnp.concatenate([jnp.max(sample) * jax.nn.one_hot(label, NUM_LABELS), sample[NUM_LABELS:]])


def forward(weights: list, x: jax.Array) -> jax.Array:
    """A layer, from its kernel and bias."""
    kernel, bias = weights
    return jax.nn.relu(x / (jnp.linalg.norm(x, axis=1, keepdims=True) + 1e-4) @ kernel + bias)


def loss_fn(weights: list, positive: jax.Array, negative: jax.Array) -> jax.Array:
    """What a layer makes small."""
    loud, quiet = (jnp.mean(forward(weights, x) ** 2, axis=1) for x in (positive, negative))
    return jnp.mean(jnp.log(1 + jnp.exp(jnp.concatenate([THRESHOLD - loud, quiet - THRESHOLD]))))


def steps(page: Page) -> Run:
    """The page's step, in one `jax.jit`."""
    names = ("L1", "L2")
    for name in names:
        page.tracked[f"{name}_optimizer"].build(page.tracked[name].trainable_variables)

    def train_step(state, x, y, order):
        x = jnp.reshape(x, (NUM_SAMPLES, -1))
        positive = jax.vmap(overlay)(x, y)
        negative = jax.vmap(overlay)(positive, y[order])
        new = dict(state)
        ([total], [count]) = state["loss_sum"], state["loss_count"]
        for name in names:
            optimizer, mean = page.tracked[f"{name}_optimizer"], page.tracked[f"{name}_loss"]
            weights, slots, tracked = (state[key] for key in (name, f"{name}_optimizer", f"{name}_loss"))
            for _ in range(NUM_EPOCHS_OF_A_LAYER):
                loss, gradients = jax.value_and_grad(loss_fn)(weights, positive, negative)
                tracked = mean.stateless_update_state(tracked, loss)
                weights, slots = optimizer.stateless_apply(slots, gradients, weights)
            positive, negative = forward(weights, positive), forward(weights, negative)
            total, count = total + mean.stateless_result(tracked), count + 1
            new |= {name: weights, f"{name}_optimizer": slots, f"{name}_loss": tracked}
        return {"FinalLoss": total / count}, new | {"loss_sum": [total], "loss_count": [count]}

    train_step = jax.jit(train_step, donate_argnums=0)
    state, t = initial_state(page), 0
    while True:
        logs, state = train_step(state, page.x, page.y, permutation(t, 0, NUM_SAMPLES))
        yield logs, state
        t += 1
