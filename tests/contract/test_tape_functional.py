"""`ts.grad` and `ts.value_and_grad`: the tape in functional form."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts

Run = Callable[..., Any]
X = np.array([1.0, 2.0, 3.0], "float32")
Y = np.array([0.5, -1.0, 4.0], "float32")


def weighted_cube(x: Any, y: Any) -> Any:
    return ops.sum(x**3 * y)


def test_grad_of_the_first_argument(run: Run) -> None:
    np.testing.assert_allclose(run(ts.grad(weighted_cube), X, Y), 3 * X**2 * Y, rtol=1e-5)


def test_value_and_grad(run: Run) -> None:
    value, gradient = run(ts.value_and_grad(weighted_cube), X, Y)
    np.testing.assert_allclose(value, np.sum(X**3 * Y), rtol=1e-5)
    np.testing.assert_allclose(gradient, 3 * X**2 * Y, rtol=1e-5)


@pytest.mark.parametrize("argnums", [1, -1])
def test_argnums_as_a_number(run: Run, argnums: int) -> None:
    np.testing.assert_allclose(run(ts.grad(weighted_cube, argnums=argnums), X, Y), X**3, rtol=1e-5)


def test_argnums_as_a_tuple(run: Run) -> None:
    answer = run(ts.grad(weighted_cube, argnums=(1, 0)), X, Y)
    assert isinstance(answer, tuple)
    np.testing.assert_allclose(answer[0], X**3, rtol=1e-5)
    np.testing.assert_allclose(answer[1], 3 * X**2 * Y, rtol=1e-5)


def test_an_argument_may_be_a_nest(run: Run) -> None:
    def gradient(x: Any, y: Any) -> Any:
        return ts.grad(lambda p: ops.sum(p["x"] ** 2 * p["y"][0]))({"x": x, "y": [y]})

    answer = run(gradient, X, Y)
    np.testing.assert_allclose(answer["x"], 2 * X * Y, rtol=1e-5)
    np.testing.assert_allclose(answer["y"][0], X**2, rtol=1e-5)


def test_variables(run: Run) -> None:
    w, unread = keras.Variable(X), keras.Variable(Y)
    value, gradients = run(ts.value_and_grad(lambda x: ops.sum(w**2 * x), variables={"w": w, "more": [unread]}), Y)
    np.testing.assert_allclose(value, np.sum(X**2 * Y), rtol=1e-5)
    np.testing.assert_allclose(gradients["w"], 2 * X * Y, rtol=1e-5)
    np.testing.assert_array_equal(gradients["more"][0], np.zeros(3))


def test_has_aux(run: Run) -> None:
    def with_aux(x: Any, y: Any) -> Any:
        return weighted_cube(x, y), {"doubled": 2.0 * x}

    gradient, aux = run(ts.grad(with_aux, has_aux=True), X, Y)
    np.testing.assert_allclose(gradient, 3 * X**2 * Y, rtol=1e-5)
    np.testing.assert_array_equal(aux["doubled"], 2 * X)
    (value, aux), gradient = run(ts.value_and_grad(with_aux, has_aux=True), X, Y)
    np.testing.assert_allclose(value, np.sum(X**3 * Y), rtol=1e-5)
    np.testing.assert_array_equal(aux["doubled"], 2 * X)
    np.testing.assert_allclose(gradient, 3 * X**2 * Y, rtol=1e-5)


def test_an_argument_without_influence_gets_zeros(run: Run) -> None:
    of_x, of_y = run(ts.grad(lambda x, y: ops.sum(x**2), argnums=(0, 1)), X, Y)
    np.testing.assert_allclose(of_x, 2 * X, rtol=1e-5)
    np.testing.assert_array_equal(of_y, np.zeros(3))


def test_grad_of_grad_of_grad(run: Run) -> None:
    np.testing.assert_allclose(run(ts.grad(ts.grad(ts.grad(lambda x: x**5))), np.float32(2.0)), 60 * 4.0, rtol=1e-5)


def test_numbers_and_arrays_are_converted() -> None:
    assert float(ts.grad(lambda x: x**2)(3.0)) == 6.0
    np.testing.assert_allclose(ops.convert_to_numpy(ts.grad(weighted_cube, argnums=(0, 1))(X, Y)[0]), 3 * X**2 * Y, rtol=1e-5)


def test_a_function_that_returns_a_vector(run: Run) -> None:
    with pytest.raises(ts.TapeError, match=r"returns a scalar.*float32 tensor of shape \(3,\)"):
        run(ts.grad(lambda x: x**2), X)


def test_a_function_that_returns_a_pair_without_has_aux(run: Run) -> None:
    with pytest.raises(ts.TapeError, match=r"a tuple of 2.*has_aux=True"):
        run(ts.grad(lambda x: (ops.sum(x), x)), X)


def test_an_argument_that_is_not_there(run: Run) -> None:
    with pytest.raises(ts.TapeError, match="argument 2, but the call has 1"):
        run(ts.grad(lambda x: ops.sum(x), argnums=2), X)


def test_an_integer_argument(run: Run) -> None:
    with pytest.raises(ts.TapeError, match="floating-point"):
        run(ts.grad(lambda i: ops.sum(i)), np.array([1, 2], "int32"))
