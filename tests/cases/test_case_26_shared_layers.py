"""Case 26: a weight that is used twice is updated once."""

import keras
import numpy as np
import pytest

import trainstep as ts

X = np.ones((2, 1), "float32")


class Wrapper(keras.layers.Layer):
    """Holds a layer that somebody else may hold too."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, x):
        return self.inner(x)


def dense():
    return keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")


def shared_model():
    shared = dense()
    inputs = keras.Input((1,))
    return keras.Model(inputs, Wrapper(shared)(inputs) + Wrapper(shared)(inputs))


def run(model, optimizer, compile, num_steps=1):
    @ts.step(compile=compile)
    def train_step(x):
        with ts.GradientTape() as tape:
            loss = keras.ops.mean(model(x))
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        return {"gradient": keras.ops.sum(gradients[0])}

    return [float(train_step(X)["gradient"]) for _ in range(num_steps)]


VARIANTS = {
    "plain": ({}, 1, 0.8),
    "accumulation": ({"gradient_accumulation_steps": 2}, 2, 0.8),
    "clipping by the global norm": ({"global_clipnorm": 1.0}, 1, 0.9),
    "weight decay": ({"weight_decay": 0.1}, 1, 0.99 - 0.2),
}


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("variant", VARIANTS)
def test_one_variable_one_update(variant, compile):
    options, num_steps, expected = VARIANTS[variant]
    model = shared_model()
    assert len(model.trainable_weights) == 1
    gradients = run(model, keras.optimizers.SGD(0.1, **options), compile, num_steps)
    np.testing.assert_allclose(gradients, [2.0] * num_steps, rtol=1e-5)
    np.testing.assert_allclose(model.get_weights()[0], [[expected]], rtol=1e-5)


@pytest.mark.parametrize("compile", [True, False])
def test_a_variable_that_is_listed_twice_is_an_error(compile):
    w, optimizer = keras.Variable(1.0, name="w"), keras.optimizers.SGD(0.1)

    @ts.step(compile=compile)
    def train_step(x):
        with ts.GradientTape() as tape:
            loss = keras.ops.mean(w * x + w * x)
        optimizer.apply_gradients(zip(tape.gradient(loss, [w, w]), [w, w], strict=True))
        return {"loss": loss}

    with pytest.raises(ts.StepError, match=r"'w'.*given twice"):
        train_step(X)
    assert float(w.numpy()) == 1.0


@pytest.mark.parametrize("compile", [True, False])
def test_two_optimizers_share_an_encoder(compile):
    encoder, generator_head, critic_head = dense(), dense(), dense()
    generator = keras.Sequential([keras.Input((1,)), encoder, generator_head])
    critic = keras.Sequential([keras.Input((1,)), encoder, critic_head])
    generator_optimizer = keras.optimizers.SGD(0.1, global_clipnorm=1.0)
    critic_optimizer = keras.optimizers.SGD(0.1)

    @ts.step(compile=compile)
    def train_step(x):
        with ts.GradientTape() as tape, ts.GradientTape() as critic_tape:
            loss, critic_loss = keras.ops.mean(generator(x)), keras.ops.mean(critic(x))
        gradients = tape.gradient(loss, generator.trainable_weights)
        critic_gradients = critic_tape.gradient(critic_loss, critic.trainable_weights)
        generator_optimizer.apply_gradients(zip(gradients, generator.trainable_weights, strict=True))
        critic_optimizer.apply_gradients(zip(critic_gradients, critic.trainable_weights, strict=True))
        return {"loss": loss}

    train_step(X)
    # Both gradients of the encoder are 1. The generator's two gradients, (1, 1), are clipped to (1, 1) / sqrt(2).
    clipped = 0.1 / np.sqrt(2)
    np.testing.assert_allclose(encoder.kernel.numpy(), [[1 - clipped - 0.1]], rtol=1e-5)
    np.testing.assert_allclose(generator_head.kernel.numpy(), [[1 - clipped]], rtol=1e-5)
    np.testing.assert_allclose(critic_head.kernel.numpy(), [[0.9]], rtol=1e-5)
