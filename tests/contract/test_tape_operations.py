"""Gradients through what models are made of: layers, control flow, embeddings, mixed precision, custom gradients."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts

Run = Callable[..., Any]
X = np.array([1.0, 2.0, 3.0], "float32")
M = np.arange(6, dtype="float32").reshape(2, 3) / 6


def test_a_dense_network_with_cross_entropy(run: Run) -> None:
    hidden, output = keras.layers.Dense(4, activation="relu"), keras.layers.Dense(3)
    model = keras.Sequential([keras.Input((3,)), hidden, output])
    w1, b1, w2, b2 = (ops.convert_to_numpy(v.value).astype("float64") for v in model.trainable_variables)
    labels = np.array([2, 0], "int32")
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def gradients(x: Any, y: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            activation = hidden(x)
            loss = loss_fn(y, output(activation))
        return tape.gradient(loss, [*model.trainable_weights, x, activation])

    a = np.maximum(M @ w1 + b1, 0)
    logits = a @ w2 + b2
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    d_logits = (probabilities - np.eye(3)[labels]) / 2
    d_a = d_logits @ w2.T
    d_z = d_a * (a > 0)
    expected = [M.T @ d_z, d_z.sum(axis=0), a.T @ d_logits, d_logits.sum(axis=0), d_z @ w1.T, d_a]
    for answer, number in zip(run(gradients, M, labels), expected, strict=True):
        np.testing.assert_allclose(answer, number, rtol=1e-4, atol=1e-6)


def test_a_model_built_inside_the_block(run: Run) -> None:
    model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="ones")])

    def gradients(x: Any) -> Any:
        with ts.GradientTape() as tape:
            loss = ops.sum(model(x) ** 2)
        return tape.gradient(loss, model.trainable_weights)

    of_kernel, of_bias = run(gradients, M)
    prediction = M.sum(axis=1)
    np.testing.assert_allclose(of_kernel[:, 0], 2 * prediction @ M, rtol=1e-5)
    np.testing.assert_allclose(of_bias, [2 * prediction.sum()], rtol=1e-5)


def test_embeddings_have_dense_gradients(run: Run) -> None:
    embedding = keras.layers.Embedding(5, 2)
    embedding.build((None, 3))
    rows = np.array([[1, 3, 1]], "int32")
    weights = np.array([[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]], "float32")

    def gradient(indices: Any, w: Any) -> Any:
        with ts.GradientTape() as tape:
            loss = ops.sum(embedding(indices) * w)
        return tape.gradient(loss, embedding.trainable_weights)

    (answer,) = run(gradient, rows, weights)
    np.testing.assert_allclose(answer, [[0, 0], [6, 8], [0, 0], [3, 4], [0, 0]], rtol=1e-6)


def test_mixed_precision_gives_float32_gradients_of_float32_weights(run: Run) -> None:
    dense = keras.layers.Dense(2, use_bias=False, dtype="mixed_float16")
    dense.build((None, 3))

    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            prediction = dense(x)
            loss = ops.sum(ops.cast(prediction, "float32"))
        assert keras.backend.standardize_dtype(prediction.dtype) == "float16"
        return tape.gradient(loss, dense.trainable_weights)

    (answer,) = run(gradient, M)
    assert answer.dtype == np.float32
    np.testing.assert_allclose(answer, np.repeat(M.sum(axis=0)[:, None], 2, axis=1), rtol=2e-3)


def test_stop_gradient(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = ops.sum(x * ops.stop_gradient(x**2))
        return tape.gradient(y, x)

    np.testing.assert_allclose(run(gradient, X), X**2, rtol=1e-6)


def test_custom_gradient(run: Run) -> None:
    @ops.custom_gradient
    def tenfold(x: Any) -> Any:
        def backward(*args: Any, upstream: Any = None) -> Any:
            return 10.0 * (upstream if upstream is not None else args[0])

        return x**2, backward

    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = ops.sum(3.0 * tenfold(x))
        return y, tape.gradient(y, x)

    value, answer = run(gradient, X)
    np.testing.assert_allclose(value, 3 * np.sum(X**2), rtol=1e-6)
    np.testing.assert_allclose(answer, [30.0, 30.0, 30.0], rtol=1e-6)


@pytest.mark.parametrize("threshold", [0.0, 100.0])
def test_cond(run: Run, threshold: float) -> None:
    w = keras.Variable(X)

    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            loss = ops.cond(ops.sum(x) > threshold, lambda: ops.sum(w * x**2), lambda: ops.sum(5.0 * w * x))
        return loss, tape.gradient(loss, [w, x])

    loss, (of_w, of_x) = run(gradient, X)
    is_above = X.sum() > threshold
    np.testing.assert_allclose(loss, np.sum(X * X**2) if is_above else np.sum(5 * X * X), rtol=1e-5)
    np.testing.assert_allclose(of_w, X**2 if is_above else 5 * X, rtol=1e-5)
    np.testing.assert_allclose(of_x, 2 * X * X if is_above else 5 * X, rtol=1e-5)


def test_scan(run: Run) -> None:
    w = keras.Variable(2.0)

    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)

            def body(carry: Any, element: Any) -> Any:
                carry = carry * w + element
                return carry, carry

            last, _ = ops.scan(body, ops.zeros(()), x)
        return last, tape.gradient(last, [w, x])

    last, (of_w, of_x) = run(gradient, X)
    np.testing.assert_allclose(last, 4 * X[0] + 2 * X[1] + X[2], rtol=1e-6)
    np.testing.assert_allclose(of_w, 2 * 2 * X[0] + X[1], rtol=1e-6)
    np.testing.assert_allclose(of_x, [4.0, 2.0, 1.0], rtol=1e-6)


def test_while_loop_that_the_target_does_not_need(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            (count,) = ops.while_loop(lambda i: i < 5, lambda i: (i + 1,), (ops.convert_to_tensor(0),))
            y = ops.sum(x**2) * ops.cast(count, "float32")
        return tape.gradient(y, x)

    np.testing.assert_allclose(run(gradient, X), 10 * X, rtol=1e-6)


def test_while_loop_in_the_forward_pass(run: Run) -> None:
    """Its gradient is given where the framework can: JAX has no reverse mode for a loop of unknown length."""
    if keras.config.backend() == "jax":
        pytest.skip("JAX has no reverse mode for a loop of unknown length")

    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            _, power = ops.while_loop(lambda i, p: i < 3, lambda i, p: (i + 1, p * x), (ops.convert_to_tensor(0), ops.ones((3,))))
            y = ops.sum(power)
        return y, tape.gradient(y, x)

    y, answer = run(gradient, X)
    np.testing.assert_allclose(y, np.sum(X**3), rtol=1e-5)
    np.testing.assert_allclose(answer, 3 * X**2, rtol=1e-5)


def test_second_order_through_scan(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as outer:
            outer.watch(x)
            with ts.GradientTape() as inner:
                inner.watch(x)
                product, _ = ops.scan(lambda carry, _: (carry * x, carry), ops.ones(()), ops.zeros((3,)))
            first = inner.gradient(product, x)
        return first, outer.gradient(first, x)

    first, second = run(gradient, np.float32(2.0))
    np.testing.assert_allclose(first, 12.0, rtol=1e-5)
    np.testing.assert_allclose(second, 12.0, rtol=1e-5)


def test_dropout_and_its_gradient_use_one_mask(run: Run) -> None:
    dropout = keras.layers.Dropout(0.5, seed=7)

    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            dropped = dropout(x, training=True)
            loss = ops.sum(dropped)
        return dropped, tape.gradient(loss, x)

    dropped, answer = run(gradient, np.ones((8, 16), "float32"))
    assert 0 < np.count_nonzero(dropped) < dropped.size
    np.testing.assert_array_equal(answer, dropped)


def test_batch_normalization_and_its_moving_averages(run: Run) -> None:
    layer = keras.layers.BatchNormalization(momentum=0.9, epsilon=1e-3)
    layer.build((None, 3))

    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            loss = ops.sum(layer(x, training=True) ** 2 * x)
        return tape.gradient(loss, [layer.gamma, layer.moving_mean])

    of_gamma, of_moving_mean = run(gradient, M)
    normalized = (M - M.mean(axis=0)) / np.sqrt(M.var(axis=0) + 1e-3)
    np.testing.assert_allclose(of_gamma, np.sum(2 * normalized**2 * M, axis=0), rtol=1e-4)
    assert of_moving_mean is None
    np.testing.assert_allclose(ops.convert_to_numpy(layer.moving_mean.value), 0.1 * M.mean(axis=0), rtol=1e-5)
