"""The listing as written by hand for JAX: `jax.jit`, `jax.value_and_grad`, explicit state."""

import jax
import jax.numpy as jnp
import numpy as np


def losses(weights, images, labels, *, batch_size, num_steps, learning_rate=0.001, rho=0.9, epsilon=1e-7):
    """The loss of each of the first steps."""

    def loss_of(weights, x, y):
        w1, b1, w2, b2 = weights
        logits = jax.nn.relu(x @ w1 + b1) @ w2 + b2
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], axis=1))

    @jax.jit
    def step(weights, averages, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
        averages = [rho * a + (1 - rho) * g * g for a, g in zip(averages, gradients, strict=True)]
        weights = [w - learning_rate * g / jnp.sqrt(a + epsilon) for w, a, g in zip(weights, averages, gradients, strict=True)]
        return loss, weights, averages

    weights = [jnp.asarray(w) for w in weights]
    averages = [jnp.zeros_like(w) for w in weights]
    history = []
    for i in range(0, num_steps * batch_size, batch_size):
        loss, weights, averages = step(weights, averages, images[i : i + batch_size], labels[i : i + batch_size])
        history.append(loss)
    return np.array(history)
