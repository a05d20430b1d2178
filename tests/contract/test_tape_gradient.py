"""`tape.gradient`: which sources, targets and weights it takes, and what it answers. Judged by derivatives on paper."""

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


def test_one_variable(run: Run) -> None:
    w = keras.Variable([1.0, 2.0, 3.0])

    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            loss = ops.sum(w * w * x)
        return loss, tape.gradient(loss, w)

    loss, answer = run(gradient, Y)
    np.testing.assert_allclose(loss, 0.5 - 4.0 + 36.0, rtol=1e-6)
    np.testing.assert_allclose(answer, 2 * X * Y, rtol=1e-6)


def test_a_watched_tensor(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = ops.sum(x**3)
        return tape.gradient(y, x)

    np.testing.assert_allclose(run(gradient, X), 3 * X**2, rtol=1e-6)


def test_a_tensor_that_is_not_watched_gets_none(run: Run) -> None:
    def gradient(x: Any, y: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(y)
            z = ops.sum(x * y)
        return tape.gradient(z, [x, y])

    dx, dy = run(gradient, X, Y)
    assert dx is None
    np.testing.assert_allclose(dy, X, rtol=1e-6)


def test_watch_takes_a_nest(run: Run) -> None:
    def gradient(x: Any, y: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch({"x": x, "more": [y]})
            z = ops.sum(x * y * y)
        return tape.gradient(z, {"x": x, "y": y})

    answer = run(gradient, X, Y)
    np.testing.assert_allclose(answer["x"], Y**2, rtol=1e-6)
    np.testing.assert_allclose(answer["y"], 2 * X * Y, rtol=1e-6)


def test_the_answer_has_the_nest_of_the_sources(run: Run) -> None:
    a, b = keras.Variable(2.0), keras.Variable([3.0, 4.0])

    def gradient() -> Any:
        with ts.GradientTape() as tape:
            loss = a * a * ops.sum(b)
        return tape.gradient(loss, {"a": a, "deep": [[], (b, a), {}], "b": b})

    answer = run(gradient)
    assert set(answer) == {"a", "deep", "b"}
    assert answer["deep"][0] == []
    assert answer["deep"][2] == {}
    assert isinstance(answer["deep"][1], tuple)
    np.testing.assert_allclose(answer["a"], 28.0, rtol=1e-6)
    np.testing.assert_allclose(answer["b"], [4.0, 4.0], rtol=1e-6)
    np.testing.assert_allclose(answer["deep"][1][0], [4.0, 4.0], rtol=1e-6)
    np.testing.assert_allclose(answer["deep"][1][1], 28.0, rtol=1e-6)


def test_no_sources_give_an_empty_nest(run: Run) -> None:
    w = keras.Variable(2.0)

    def gradient() -> Any:
        with ts.GradientTape() as tape:
            loss = w * w
        return tape.gradient(loss, []), loss

    answer, loss = run(gradient)
    assert answer == []
    np.testing.assert_allclose(loss, 4.0)


def test_a_vector_target_counts_as_its_sum(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = x**2
        return tape.gradient(y, x)

    np.testing.assert_allclose(run(gradient, X), 2 * X, rtol=1e-6)


def test_several_targets_count_as_their_sum(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            targets = {"square": x**2, "total": [ops.sum(3.0 * x)]}
        return tape.gradient(targets, x)

    np.testing.assert_allclose(run(gradient, X), 2 * X + 3, rtol=1e-6)


def test_the_same_target_twice_counts_twice(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = x**2
        return tape.gradient([y, y], x)

    np.testing.assert_allclose(run(gradient, X), 4 * X, rtol=1e-6)


def test_a_target_without_a_gradient_adds_nothing(run: Run) -> None:
    def gradient(x: Any, y: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            product, constant, index = x * y, y * y, ops.argmax(x)
        return tape.gradient([product, constant, index], x)

    np.testing.assert_allclose(run(gradient, X, Y), Y, rtol=1e-6)


def test_output_gradients_weigh_the_target(run: Run) -> None:
    def gradient(x: Any, weights: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = x**2
        return tape.gradient(y, x, output_gradients=weights)

    np.testing.assert_allclose(run(gradient, X, Y), 2 * X * Y, rtol=1e-6)


def test_output_gradients_may_leave_some_targets_as_they_are(run: Run) -> None:
    def gradient(x: Any, weights: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y, z = x**2, 5.0 * x
        return tape.gradient([y, z], x, output_gradients=[weights, None])

    np.testing.assert_allclose(run(gradient, X, Y), 2 * X * Y + 5, rtol=1e-6)


def test_unconnected_sources_get_none_or_zeros(run: Run) -> None:
    used, unused = keras.Variable([1.0, 2.0]), keras.Variable(np.ones((2, 3)), dtype="float16")

    def gradient(choice: str) -> Callable[[], Any]:
        def of_both() -> Any:
            with ts.GradientTape() as tape:
                loss = ops.sum(used**2)
                ops.sum(unused * 2)
            return tape.gradient(loss, [used, unused], unconnected_gradients=choice)

        return of_both

    of_used, of_unused = run(gradient("none"))
    np.testing.assert_allclose(of_used, [2.0, 4.0], rtol=1e-6)
    assert of_unused is None
    of_used, of_unused = run(gradient("zero"))
    np.testing.assert_allclose(of_used, [2.0, 4.0], rtol=1e-6)
    np.testing.assert_array_equal(of_unused, np.zeros((2, 3)))
    assert of_unused.dtype == np.float16


def test_a_variable_never_read_is_unconnected(run: Run) -> None:
    used, unread = keras.Variable(3.0), keras.Variable([1.0, 2.0])

    def gradient() -> Any:
        with ts.GradientTape() as tape:
            loss = used * used
        return tape.gradient(loss, (used, unread))

    of_used, of_unread = run(gradient)
    np.testing.assert_allclose(of_used, 6.0)
    assert of_unread is None


def test_sources_may_repeat(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = x**2
        return tape.gradient(y, [x, x])

    first, second = run(gradient, X)
    np.testing.assert_allclose(first, 2 * X, rtol=1e-6)
    np.testing.assert_allclose(second, 2 * X, rtol=1e-6)


def test_sources_may_be_intermediate_values(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = x**2
            z = ops.sum(y**3 + x)
        return tape.gradient(z, [x, y])

    dx, dy = run(gradient, X)
    np.testing.assert_allclose(dx, 6 * X**5 + 1, rtol=1e-5)
    np.testing.assert_allclose(dy, 3 * X**4, rtol=1e-5)


def test_the_target_may_be_its_own_source(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = x**2
        return tape.gradient(y, [y, x])

    dy, dx = run(gradient, X)
    np.testing.assert_array_equal(dy, np.ones(3))
    np.testing.assert_allclose(dx, 2 * X, rtol=1e-6)


def test_a_variable_may_be_the_target(run: Run) -> None:
    w = keras.Variable([1.0, 2.0])

    def gradient() -> Any:
        with ts.GradientTape() as tape:
            tape.watch(w)
        return tape.gradient(w, w)

    np.testing.assert_array_equal(run(gradient), [1.0, 1.0])


def test_an_untracked_target_is_not_its_own_gradient(run: Run) -> None:
    def gradient(x: Any, y: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            z = x * 2.0
        return tape.gradient([y, z], [x, y])

    dx, dy = run(gradient, X, Y)
    np.testing.assert_array_equal(dx, [2.0, 2.0, 2.0])
    assert dy is None


def test_a_persistent_tape_answers_again(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = x**2
            z = y**2
        return tape.gradient(z, x), tape.gradient(y, x), tape.gradient(z, y), tape.gradient(z, x)

    dz_dx, dy_dx, dz_dy, again = run(gradient, X)
    np.testing.assert_allclose(dz_dx, 4 * X**3, rtol=1e-6)
    np.testing.assert_allclose(dy_dx, 2 * X, rtol=1e-6)
    np.testing.assert_allclose(dz_dy, 2 * X**2, rtol=1e-6)
    np.testing.assert_array_equal(again, dz_dx)


def test_a_persistent_tape_records_its_own_gradient_inside_the_block(run: Run) -> None:
    def gradients(x: Any) -> Any:
        with ts.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = ops.sum(x**3)
            dy = tape.gradient(y, x)
        return dy, tape.gradient(dy, x)

    first, second = run(gradients, X)
    np.testing.assert_allclose(first, 3 * X**2, rtol=1e-6)
    np.testing.assert_allclose(second, 6 * X, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_gradients_have_the_shape_and_dtype_of_their_source(run: Run, dtype: str) -> None:
    w = keras.Variable(np.ones((2, 1)), dtype=dtype)

    def gradient() -> Any:
        with ts.GradientTape() as tape:
            loss = ops.sum(ops.cast(w, "float32") * ops.ones((2, 3)))
        answer = tape.gradient(loss, w)
        assert keras.backend.standardize_dtype(answer.dtype) == dtype
        return ops.cast(answer, "float32")

    np.testing.assert_array_equal(run(gradient), np.full((2, 1), 3.0))


def test_a_layer_that_takes_a_gradient_is_built_for_a_batch_of_unknown_size() -> None:
    class Slope(keras.layers.Layer):
        def call(self, x: Any, y: Any) -> Any:
            with ts.GradientTape() as tape:
                tape.watch([x, y])
                z = ops.sum(x**3, axis=1)
            return ops.concatenate(tape.gradient(z, [x, y], unconnected_gradients="zero"), axis=1)

    inputs = [keras.Input((2,)), keras.Input((3,))]
    model = keras.Model(inputs, Slope()(*inputs))
    assert tuple(model.output.shape) == (None, 5)
    x = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
    answer = ops.convert_to_numpy(model([x, np.ones((2, 3), "float32")]))
    np.testing.assert_allclose(answer, np.concatenate([3 * x**2, np.zeros((2, 3))], axis=1), rtol=1e-6)
