"""Gradients through every kind of layer, against the raw framework, eager and compiled."""

import importlib
import pathlib
import sys

import keras
import numpy as np
import pytest
from keras import layers

import trainstep as ts

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def attention():
    inputs = keras.Input((6, 8))
    return keras.Model(inputs, layers.MultiHeadAttention(2, 4)(inputs, inputs))


def mixed():
    return keras.Sequential([layers.Dense(5, activation="gelu", dtype="mixed_float16"), layers.Dense(2, dtype="mixed_float16")])


MODELS = {
    "dense": (lambda: keras.Sequential([layers.Dense(5, activation="relu"), layers.Dense(3, activation="softmax")]), (4,)),
    "convolution and batch normalisation": (
        lambda: keras.Sequential([layers.Conv2D(3, 3, activation="elu"), layers.BatchNormalization(), layers.MaxPooling2D(2)]),
        (8, 8, 2),
    ),
    "separable convolution and group normalisation": (
        lambda: keras.Sequential([layers.SeparableConv2D(4, 3, padding="same"), layers.GroupNormalization(2), layers.Flatten()]),
        (5, 5, 2),
    ),
    "transposed convolution": (lambda: keras.Sequential([layers.Conv2DTranspose(2, 3, strides=2), layers.LeakyReLU()]), (4, 4, 3)),
    "lstm": (lambda: keras.Sequential([layers.LSTM(4)]), (5, 3)),
    "bidirectional gru": (lambda: keras.Sequential([layers.Bidirectional(layers.GRU(3, return_sequences=True))]), (5, 3)),
    "attention": (attention, (6, 8)),
    "layer normalisation": (lambda: keras.Sequential([layers.LayerNormalization(), layers.Dense(2, "tanh")]), (7,)),
    "mixed precision": (mixed, (4,)),
}


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_equal_the_raw_framework(name, compile):
    build, shape = MODELS[name]
    keras.utils.set_random_seed(0)
    model, x = build(), np.random.default_rng(0).normal(size=(3, *shape)).astype("float32")
    model(x)
    expected = importlib.import_module(f"gradients_{keras.config.backend()}").gradients(model, x)

    @ts.step(compile=compile)
    def predict_step(x):
        with ts.GradientTape() as tape:
            outputs = model(x, training=False)
            loss = keras.ops.mean(keras.ops.square(keras.ops.cast(outputs, "float32")))
        return tape.gradient(loss, model.trainable_variables)

    ours = predict_step.predict(x)
    tolerance = 2e-2 if "mixed" in name else 1e-5
    for gradient, raw, variable in zip(ours, expected, model.trainable_variables, strict=True):
        assert keras.backend.standardize_dtype(gradient.dtype) == "float32"
        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(gradient), np.asarray(raw), rtol=tolerance, atol=tolerance / 10, err_msg=variable.path
        )
