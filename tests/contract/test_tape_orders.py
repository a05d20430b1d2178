"""Gradients of gradients, Jacobians and Hessians, judged by derivatives on paper."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

import trainstep as ts

Run = Callable[..., Any]
X = np.array([1.0, 2.0, 3.0], "float32")
M = np.arange(6, dtype="float32").reshape(2, 3) + 1


def test_second_order(run: Run) -> None:
    def gradients(x: Any) -> Any:
        with ts.GradientTape() as outer:
            outer.watch(x)
            with ts.GradientTape() as inner:
                inner.watch(x)
                y = ops.sum(x**3)
            first = inner.gradient(y, x)
        return first, outer.gradient(first, x)

    first, second = run(gradients, X)
    np.testing.assert_allclose(first, 3 * X**2, rtol=1e-5)
    np.testing.assert_allclose(second, 6 * X, rtol=1e-5)


def test_third_order(run: Run) -> None:
    def gradients(x: Any) -> Any:
        with ts.GradientTape() as third_tape:
            third_tape.watch(x)
            with ts.GradientTape() as second_tape:
                second_tape.watch(x)
                with ts.GradientTape() as first_tape:
                    first_tape.watch(x)
                    y = ops.sum(ops.sin(x))
                first = first_tape.gradient(y, x)
            second = second_tape.gradient(first, x)
        return first, second, third_tape.gradient(second, x)

    first, second, third = run(gradients, X)
    np.testing.assert_allclose(first, np.cos(X), rtol=1e-5)
    np.testing.assert_allclose(second, -np.sin(X), rtol=1e-5)
    np.testing.assert_allclose(third, -np.cos(X), rtol=1e-5)


def test_second_order_of_a_variable(run: Run) -> None:
    w = keras.Variable(X)

    def gradients() -> Any:
        with ts.GradientTape() as outer:
            with ts.GradientTape() as inner:
                loss = ops.sum(w**4)
            first = inner.gradient(loss, w)
            penalty = ops.sum(first**2)
        return outer.gradient(penalty, w)

    np.testing.assert_allclose(run(gradients), 96 * X**5, rtol=1e-5)


def test_a_gradient_penalty_reaches_the_weights(run: Run) -> None:
    w = keras.Variable(X)

    def gradients(x: Any) -> Any:
        with ts.GradientTape() as outer:
            with ts.GradientTape() as inner:
                inner.watch(x)
                y = ops.sum(w * x**2)
            slope = inner.gradient(y, x)
            penalty = ops.sum(slope**2)
        return outer.gradient(penalty, w)

    np.testing.assert_allclose(run(gradients, X), 8 * X * X**2, rtol=1e-5)


def test_a_gradient_taken_after_the_outer_block_is_not_recorded_by_it(run: Run) -> None:
    def gradients(x: Any) -> Any:
        with ts.GradientTape() as outer, ts.GradientTape() as inner:
            outer.watch(x)
            inner.watch(x)
            y = ops.sum(x**3)
        first = inner.gradient(y, x)
        return outer.gradient([y, first], x)

    np.testing.assert_allclose(run(gradients, X), 3 * X**2, rtol=1e-5)


def test_second_order_through_a_layer(run: Run) -> None:
    dense = keras.layers.Dense(2, activation="tanh")
    dense.build((None, 3))
    kernel, bias = (ops.convert_to_numpy(v.value).astype("float64") for v in (dense.kernel, dense.bias))

    def gradients(x: Any) -> Any:
        with ts.GradientTape() as outer:
            outer.watch(x)
            with ts.GradientTape() as inner:
                inner.watch(x)
                y = ops.sum(dense(x))
            first = inner.gradient(y, x)
        return first, outer.gradient(first, x)

    first, second = run(gradients, M / 6)
    t = np.tanh(M / 6 @ kernel + bias)
    np.testing.assert_allclose(first, (1 - t**2) @ kernel.T, rtol=1e-4)
    curvature = -2 * t * (1 - t**2)
    np.testing.assert_allclose(second, (curvature * kernel.sum(axis=0)) @ kernel.T, rtol=1e-4, atol=1e-6)


def test_jacobian(run: Run) -> None:
    w = keras.Variable(X)

    def jacobian(m: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(m)
            y = ops.matmul(m, ops.reshape(w**2, (3, 1)))
        return tape.jacobian(y, {"w": w, "m": m})

    answer = run(jacobian, M)
    assert answer["w"].shape == (2, 1, 3)
    np.testing.assert_allclose(answer["w"][:, 0], M * 2 * X, rtol=1e-5)
    expected = np.zeros((2, 1, 2, 3))
    expected[0, 0, 0] = expected[1, 0, 1] = X**2
    np.testing.assert_allclose(answer["m"], expected, rtol=1e-5)


def test_jacobian_of_a_scalar_is_its_gradient(run: Run) -> None:
    def jacobian(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = ops.sum(x**2)
        return tape.jacobian(y, x)

    np.testing.assert_allclose(run(jacobian, X), 2 * X, rtol=1e-5)


def test_jacobian_of_unconnected_sources(run: Run) -> None:
    unused = keras.Variable([1.0, 2.0])

    def jacobian(choice: str) -> Callable[..., Any]:
        def of_both(x: Any) -> Any:
            with ts.GradientTape() as tape:
                tape.watch(x)
                y = 2.0 * x
                ops.sum(unused * 3.0)
            return tape.jacobian(y, [x, unused], unconnected_gradients=choice)

        return of_both

    of_x, of_unused = run(jacobian("none"), X)
    np.testing.assert_allclose(of_x, 2 * np.eye(3))
    assert of_unused is None
    _, of_unused = run(jacobian("zero"), X)
    np.testing.assert_array_equal(of_unused, np.zeros((3, 2)))


def test_hessian_by_a_jacobian_of_a_gradient(run: Run) -> None:
    w = keras.Variable(X)

    def hessian() -> Any:
        with ts.GradientTape() as outer:
            with ts.GradientTape() as inner:
                loss = ops.sum(w) ** 3 + ops.sum(w**2)
            gradient = inner.gradient(loss, w)
        return outer.jacobian(gradient, w)

    np.testing.assert_allclose(run(hessian), 6 * X.sum() * np.ones((3, 3)) + 2 * np.eye(3), rtol=1e-5)


def test_gradient_of_a_jacobian(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as outer:
            outer.watch(x)
            with ts.GradientTape() as inner:
                inner.watch(x)
                y = x**3
            diagonal = inner.jacobian(y, x)
        return outer.gradient(diagonal, x)

    np.testing.assert_allclose(run(gradient, X), 6 * X, rtol=1e-5)


def test_batch_jacobian(run: Run) -> None:
    w = keras.Variable(np.arange(12, dtype="float32").reshape(3, 4))

    def jacobian(m: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(m)
            y = ops.matmul(m**2, w)
        return tape.batch_jacobian(y, m)

    answer = run(jacobian, M)
    weights = np.arange(12).reshape(3, 4)
    assert answer.shape == (2, 4, 3)
    np.testing.assert_allclose(answer, 2 * M[:, None, :] * weights.T[None], rtol=1e-5)


def test_batch_jacobian_of_vectors_and_higher_ranks(run: Run) -> None:
    def jacobians(x: Any, m: Any) -> Any:
        with ts.GradientTape(persistent=True) as tape:
            tape.watch([x, m])
            y = x**2
            z = ops.reshape(m**2, (2, 3, 1))
        return tape.batch_jacobian(y, x), tape.batch_jacobian(z, m)

    of_vector, of_matrix = run(jacobians, X, M)
    np.testing.assert_allclose(of_vector, 2 * X, rtol=1e-5)
    assert of_matrix.shape == (2, 3, 1, 3)
    np.testing.assert_allclose(of_matrix[:, :, 0], 2 * M[:, :, None] * np.eye(3), rtol=1e-5)


def test_batch_jacobian_of_an_unconnected_source(run: Run) -> None:
    def jacobian(choice: str) -> Callable[..., Any]:
        def of_second(m: Any, other: Any) -> Any:
            with ts.GradientTape() as tape:
                tape.watch([m, other])
                y = m[:, :2] * 2.0
                ops.sum(other * 2.0)
            return tape.batch_jacobian(y, other, unconnected_gradients=choice)

        return of_second

    assert run(jacobian("none"), M, M) is None
    np.testing.assert_array_equal(run(jacobian("zero"), M, M), np.zeros((2, 2, 3)))
