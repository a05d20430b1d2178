"""Gradients of a Keras model by `jax.grad` alone."""

import jax
import jax.numpy as jnp


def gradients(model, x):
    """Of `mean(model(x)**2)` with respect to the trainable weights, in inference mode."""
    fixed = [v.value for v in model.non_trainable_variables]

    def loss_of(trainable):
        outputs, _ = model.stateless_call(trainable, fixed, x, training=False)
        return jnp.mean(jnp.square(outputs.astype("float32")))

    return jax.grad(loss_of)([v.value for v in model.trainable_variables])
