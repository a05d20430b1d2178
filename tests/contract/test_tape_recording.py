"""What a tape records, and when: inside its block only, except where it is told to pause or to begin again."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts

Run = Callable[..., Any]
X = np.array([1.0, 2.0, 3.0], "float32")


def test_operations_before_the_block_are_not_recorded(run: Run) -> None:
    def gradient(x: Any) -> Any:
        before = x**2
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = ops.sum(before * x)
        return tape.gradient(y, x)

    np.testing.assert_allclose(run(gradient, X), X**2, rtol=1e-6)


def test_a_weight_used_only_before_the_block_gets_none(run: Run) -> None:
    early, late = keras.Variable(X), keras.Variable(X)

    def gradient() -> Any:
        before = early * 2.0
        with ts.GradientTape() as tape:
            loss = ops.sum(before * late)
        return tape.gradient(loss, [early, late])

    of_early, of_late = run(gradient)
    assert of_early is None
    np.testing.assert_allclose(of_late, 2 * X, rtol=1e-6)


def test_a_weight_used_before_and_inside_the_block_counts_inside_only(run: Run) -> None:
    w = keras.Variable(X)

    def gradient() -> Any:
        before = w * 2.0
        with ts.GradientTape() as tape:
            loss = ops.sum(before * w)
        return tape.gradient(loss, w)

    np.testing.assert_allclose(run(gradient), 2 * X, rtol=1e-6)


def test_operations_after_the_block_are_not_recorded(run: Run) -> None:
    w, v = keras.Variable(X), keras.Variable(X)

    def gradient() -> Any:
        with ts.GradientTape() as tape:
            loss = ops.sum(w**2)
        later = ops.sum(v * w)
        return tape.gradient([loss, later], [w, v])

    of_w, of_v = run(gradient)
    np.testing.assert_allclose(of_w, 2 * X, rtol=1e-6)
    assert of_v is None


def test_stop_recording(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = x**2
            with tape.stop_recording():
                unrecorded = x * 10.0
            z = ops.sum(y * unrecorded)
        return tape.gradient(z, x)

    np.testing.assert_allclose(run(gradient, X), 2 * X * 10 * X, rtol=1e-6)


def test_stop_recording_pauses_one_tape_only(run: Run) -> None:
    def gradients(x: Any) -> Any:
        with ts.GradientTape() as outer, ts.GradientTape() as inner:
            outer.watch(x)
            inner.watch(x)
            with outer.stop_recording():
                y = x**2
            z = ops.sum(x * y)
        return outer.gradient(z, x), inner.gradient(z, x)

    of_outer, of_inner = run(gradients, X)
    np.testing.assert_allclose(of_outer, X**2, rtol=1e-6)
    np.testing.assert_allclose(of_inner, 3 * X**2, rtol=1e-6)


def test_reset_forgets_what_was_recorded(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            before = x**2
            tape.reset()
            tape.watch(x)
            y = ops.sum(before + 3.0 * x)
        return tape.gradient(y, x)

    np.testing.assert_array_equal(run(gradient, X), [3.0, 3.0, 3.0])


def test_reset_lets_a_tape_that_has_answered_begin_again(run: Run) -> None:
    w = keras.Variable(X)

    def gradient() -> Any:
        tape = ts.GradientTape(persistent=True)
        with tape:
            loss = ops.sum(w**2)
        first = tape.gradient(loss, w)
        tape.reset()
        with tape:
            loss = ops.sum(w**3)
        return first, tape.gradient(loss, w)

    first, second = run(gradient)
    np.testing.assert_allclose(first, 2 * X, rtol=1e-6)
    np.testing.assert_allclose(second, 3 * X**2, rtol=1e-6)


def test_a_tape_entered_again_goes_on_recording(run: Run) -> None:
    w = keras.Variable(X)

    def gradient() -> Any:
        tape = ts.GradientTape()
        with tape:
            y = w**2
        between = w * 10.0
        with tape:
            loss = ops.sum(y * w + between)
        return tape.gradient(loss, w)

    np.testing.assert_allclose(run(gradient), 3 * X**2, rtol=1e-6)


def test_watched_variables_are_the_trainable_ones_that_were_read(run: Run) -> None:
    first, second, unread = keras.Variable(1.0), keras.Variable(2.0), keras.Variable(3.0)
    counter = keras.Variable(0.0, trainable=False)
    watched: list[keras.Variable] = []

    def gradient() -> Any:
        with ts.GradientTape() as tape:
            loss = second * counter + first * second
        watched[:] = tape.watched_variables()
        return tape.gradient(loss, [first, second, unread])

    answers = run(gradient)
    assert [id(v) for v in watched] == [id(second), id(first)]
    np.testing.assert_allclose(answers[:2], [2.0, 1.0])
    assert answers[2] is None


def test_watch_accessed_variables_false_watches_what_it_is_told(run: Run) -> None:
    told, untold = keras.Variable(X), keras.Variable(X)

    def gradient() -> Any:
        with ts.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(told)
            loss = ops.sum(told * untold)
        assert [id(v) for v in tape.watched_variables()] == [id(told)]
        return tape.gradient(loss, [told, untold])

    of_told, of_untold = run(gradient)
    np.testing.assert_allclose(of_told, X, rtol=1e-6)
    assert of_untold is None


def test_a_variable_is_followed_from_the_watch_on(run: Run) -> None:
    w = keras.Variable(X)

    def gradient() -> Any:
        with ts.GradientTape(watch_accessed_variables=False) as tape:
            before = w * 10.0
            tape.watch(w)
            loss = ops.sum(before * w)
        return tape.gradient(loss, w)

    np.testing.assert_allclose(run(gradient), 10 * X, rtol=1e-6)


def test_a_variable_that_is_not_trainable_gets_none_unless_watched(run: Run) -> None:
    weight, fixed = keras.Variable(X), keras.Variable(X, trainable=False)

    def gradient(watches: bool) -> Callable[[], Any]:
        def of_both() -> Any:
            with ts.GradientTape() as tape:
                if watches:
                    tape.watch(fixed)
                loss = ops.sum(weight * fixed)
            return tape.gradient(loss, [weight, fixed])

        return of_both

    of_weight, of_fixed = run(gradient(watches=False))
    np.testing.assert_allclose(of_weight, X, rtol=1e-6)
    assert of_fixed is None
    _, of_fixed = run(gradient(watches=True))
    np.testing.assert_allclose(of_fixed, X, rtol=1e-6)


def test_a_frozen_layer_lets_gradients_through_and_still_is_a_source(run: Run) -> None:
    first, frozen = keras.layers.Dense(2, use_bias=False), keras.layers.Dense(1, use_bias=False)
    model = keras.Sequential([keras.Input((3,)), first, frozen])
    frozen.trainable = False
    kernels = [np.array(layer.kernel) for layer in (first, frozen)]

    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            loss = ops.sum(model(x))
        return tape.gradient(loss, [first.kernel, frozen.kernel])

    of_first, of_frozen = run(gradient, X[None])
    np.testing.assert_allclose(of_first, X[:, None] @ kernels[1].T, rtol=1e-5)
    np.testing.assert_allclose(of_frozen, kernels[0].T @ X[:, None], rtol=1e-5)


def test_sibling_tapes_over_one_forward_pass(run: Run) -> None:
    shared, left, right = keras.Variable(X), keras.Variable(X + 1), keras.Variable(X + 2)

    def gradients() -> Any:
        with ts.GradientTape() as left_tape, ts.GradientTape() as right_tape:
            hidden = shared**2
            left_loss, right_loss = ops.sum(hidden * left), ops.sum(hidden * right * 3.0)
        return left_tape.gradient(left_loss, [shared, left]), right_tape.gradient(right_loss, [shared, right])

    of_left, of_right = run(gradients)
    np.testing.assert_allclose(of_left[0], 2 * X * (X + 1), rtol=1e-6)
    np.testing.assert_allclose(of_left[1], X**2, rtol=1e-6)
    np.testing.assert_allclose(of_right[0], 6 * X * (X + 2), rtol=1e-6)
    np.testing.assert_allclose(of_right[1], 3 * X**2, rtol=1e-6)


def test_an_update_between_two_questions_does_not_change_the_second_answer(run: Run) -> None:
    w, v = keras.Variable(X), keras.Variable(X)

    def gradients() -> Any:
        with ts.GradientTape() as first_tape, ts.GradientTape() as second_tape:
            loss = ops.sum(w**3 * v)
        of_w = first_tape.gradient(loss, w)
        w.assign_sub(0.1 * of_w)
        of_v = second_tape.gradient(loss, [w, v])
        return of_w, of_v, ops.convert_to_tensor(w.value) + 0.0

    of_w, (again, of_v), updated = run(gradients)
    np.testing.assert_allclose(of_w, 3 * X**3, rtol=1e-6)
    np.testing.assert_allclose(again, 3 * X**3, rtol=1e-6)
    np.testing.assert_allclose(of_v, X**3, rtol=1e-6)
    np.testing.assert_allclose(updated, X - 0.3 * X**3, rtol=1e-5)


@pytest.mark.parametrize("compile", [True, False], ids=["compiled", "eager"])
@pytest.mark.parametrize("optimizer", [keras.optimizers.SGD, keras.optimizers.Adam])
def test_a_tape_after_an_update_sees_the_new_value_while_the_last_tapes_values_live(
    optimizer: type[keras.optimizers.Optimizer], compile: bool
) -> None:
    w = keras.Variable([1.0, 2.0])
    update = optimizer(0.5)

    @ts.step(compile=compile)
    def two_updates() -> list[Any]:
        tapes, answers = [], []
        for _ in range(2):
            with ts.GradientTape(persistent=True) as tape:
                loss = ops.sum(w**3)
            gradient = tape.gradient(loss, w)
            tapes.append((tape, loss))
            answers += [w + 0.0, gradient]
            update.apply([gradient], [w])
        return answers

    first, first_gradient, second, second_gradient = map(ops.convert_to_numpy, two_updates.predict(()))
    assert np.abs(second - first).max() > 0.1
    np.testing.assert_allclose(first_gradient, 3 * first**2, rtol=1e-5)
    np.testing.assert_allclose(second_gradient, 3 * second**2, rtol=1e-5)


def test_a_variable_assigned_inside_the_block_is_read_anew(run: Run) -> None:
    w = keras.Variable(X)

    def gradient() -> Any:
        with ts.GradientTape() as tape:
            before = ops.sum(w**2)
            w.assign(w + 1.0)
            after = ops.sum(w**2)
        return tape.gradient(before, w), after

    of_before, after = run(gradient)
    np.testing.assert_allclose(of_before, 2 * X, rtol=1e-6)
    np.testing.assert_allclose(after, np.sum((X + 1) ** 2), rtol=1e-6)


def test_values_inside_an_eager_block_are_numbers() -> None:
    w = keras.Variable(3.0)
    with ts.GradientTape() as tape:
        loss = w * w
        assert ops.convert_to_numpy(loss) == 9.0
    assert float(tape.gradient(loss, w)) == 6.0


def test_the_block_ends_with_an_exception_too() -> None:
    w = keras.Variable(3.0)
    tape = ts.GradientTape()
    try:
        with tape:
            loss = w * w
            raise KeyError("the user's own")
    except KeyError:
        later = w * 5.0
    assert float(tape.gradient([loss, later], w)) == 6.0


def test_a_tensor_in_a_variables_place_leads_to_what_it_was_computed_from(run: Run) -> None:
    """`stateless_call` with weights computed in the block, and with one that is the variable's own."""
    layer = keras.layers.Dense(1, use_bias=True)
    layer.build((None, 3))
    kernel = np.array([[0.5], [-1.0], [2.0]], "float32")
    layer.kernel.assign(kernel)

    def gradient(x: Any, scale: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(scale)
            before = ops.sum(layer(x))
            y, _ = layer.stateless_call([scale * layer.kernel, layer.bias], [], x)
            loss = before + ops.sum(y**2)
        return tape.gradient(loss, [scale, layer.kernel, layer.bias])

    x, scale = np.array([X, 2 * X], "float32"), np.float32(3.0)
    of_scale, of_kernel, of_bias = run(gradient, x, scale)
    y = x @ (scale * kernel)
    of_scaled_kernel = x.T @ (2 * y)
    np.testing.assert_allclose(of_scale, np.sum(of_scaled_kernel * kernel), rtol=1e-5)
    np.testing.assert_allclose(of_kernel, x.sum(axis=0)[:, None] + scale * of_scaled_kernel, rtol=1e-5)
    np.testing.assert_allclose(of_bias, [2 + np.sum(2 * y)], rtol=1e-5)


def test_a_constant_in_a_variables_place_has_nothing_to_do_with_it(run: Run) -> None:
    layer = keras.layers.Dense(1, use_bias=False)
    layer.build((None, 3))

    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            before = ops.sum(layer(x))
            y, _ = layer.stateless_call([ops.ones((3, 1))], [], x)
            after = ops.sum(y**2)
        return tape.gradient([before, after], [layer.kernel, x])

    of_kernel, of_x = run(gradient, X[None])
    np.testing.assert_allclose(of_kernel, X[:, None], rtol=1e-6)
    np.testing.assert_allclose(of_x, ops.convert_to_numpy(layer.kernel).T + 2 * X.sum(), rtol=1e-5)
