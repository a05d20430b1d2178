"""What a tape refuses, and how it says so. Each error comes eagerly and while a step is compiled."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts

Run = Callable[..., Any]
X = np.array([1.0, 2.0, 3.0], "float32")


def test_a_second_question(run: Run) -> None:
    def twice(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = ops.sum(x**2)
        tape.gradient(y, x)
        return tape.gradient(y, x)

    with pytest.raises(ts.TapeError, match=r"`tape.gradient` .*answered already.*persistent=True"):
        run(twice, X)


def test_a_tape_never_entered() -> None:
    with pytest.raises(ts.TapeError, match="before the tape recorded anything"):
        ts.GradientTape().gradient(ops.ones(()), ops.ones(()))


def test_a_tape_entered_inside_itself() -> None:
    tape = ts.GradientTape()
    with tape, pytest.raises(ts.TapeError, match="recording already"):
        tape.__enter__()


def test_a_target_computed_outside_the_block(run: Run) -> None:
    w = keras.Variable(X, name="my_weight")

    def gradient(x: Any) -> Any:
        loss = ops.sum(w * x)
        with ts.GradientTape() as tape:
            ops.sum(w)
        return tape.gradient(loss, w)

    with pytest.raises(ts.TapeError, match=r"inside the tape.*float32 tensor of shape \(\).*my_weight.*Move the forward"):
        run(gradient, X)


def test_a_target_after_argmax(run: Run) -> None:
    w = keras.Variable(X, name="my_weight")

    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            loss = ops.cast(ops.argmax(w * x), "float32")
        return tape.gradient(loss, w)

    with pytest.raises(ts.TapeError, match=r"my_weight.*argmax"):
        run(gradient, X)


def test_an_integer_target(run: Run) -> None:
    w = keras.Variable(X, name="my_weight")

    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            index = ops.argmax(w * x)
        return tape.gradient(index, w)

    with pytest.raises(ts.TapeError, match="my_weight"):
        run(gradient, X)


def test_a_target_after_stop_gradient(run: Run) -> None:
    w = keras.Variable(X, name="my_weight")

    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            loss = ops.stop_gradient(ops.sum(w * x))
        return tape.gradient(loss, w)

    with pytest.raises(ts.TapeError, match=r"my_weight.*stop_gradient"):
        run(gradient, X)


@pytest.mark.parametrize("question", ["jacobian", "batch_jacobian"])
def test_a_jacobian_of_something_outside(run: Run, question: str) -> None:
    def jacobian(x: Any) -> Any:
        y = x**2
        with ts.GradientTape() as tape:
            tape.watch(x)
        return getattr(tape, question)(y, x)

    with pytest.raises(ts.TapeError, match=f"`tape.{question}` needs a target computed inside the tape"):
        run(jacobian, X)


def test_batch_jacobian_of_different_batches(run: Run) -> None:
    def jacobian(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = ops.reshape(x, (1, 3)) * 2.0
        return tape.batch_jacobian(y, x)

    with pytest.raises(ts.TapeError, match=r"same first dimension.*\(1, 3\).*\(3,\)"):
        run(jacobian, X)


def test_watching_integers(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
        return x

    with pytest.raises(ts.TapeError, match=r"floating-point.*int32 tensor of shape \(2,\)"):
        run(gradient, np.array([1, 2], "int32"))


def test_watching_a_numpy_array() -> None:
    with ts.GradientTape() as tape, pytest.raises(ts.TapeError, match=r"NumPy array of shape \(3,\).*convert_to_tensor"):
        tape.watch(X)


def test_a_target_that_is_no_tensor() -> None:
    w = keras.Variable(3.0)
    with ts.GradientTape() as tape:
        loss = ops.convert_to_numpy(ops.stop_gradient(w * w))
    with pytest.raises(ts.TapeError, match=r"NumPy array of shape \(\), which is not a tensor"):
        tape.gradient(loss, w)


def test_no_target() -> None:
    w = keras.Variable(3.0)
    with ts.GradientTape() as tape:
        w * w
    with pytest.raises(ts.TapeError, match="empty nest"):
        tape.gradient([], w)


def test_a_source_that_is_no_tensor(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = ops.sum(x**2)
        return tape.gradient(y, [x, "kernel"])

    with pytest.raises(ts.TapeError, match=r"as sources\. Got a str"):
        run(gradient, X)


def test_output_gradients_of_another_shape_or_number(run: Run) -> None:
    def gradient(weights: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def of_square(x: Any) -> Any:
            with ts.GradientTape() as tape:
                tape.watch(x)
                y = x**2
            return tape.gradient(y, x, output_gradients=weights(x))

        return of_square

    with pytest.raises(ts.TapeError, match=r"\(2,\) for .*\(3,\)"):
        run(gradient(lambda x: x[:2]), X)
    with pytest.raises(ts.TapeError, match="1 targets and 2 output gradients"):
        run(gradient(lambda x: [x, x]), X)


def test_an_unknown_choice_for_unconnected_sources(run: Run) -> None:
    def gradient(x: Any) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = x**2
        return tape.gradient(y, x, unconnected_gradients="ignore")

    with pytest.raises(ts.TapeError, match=r"'none' and 'zero'\. Got 'ignore'"):
        run(gradient, X)


def test_stop_recording_outside_the_block() -> None:
    with ts.GradientTape() as tape:
        pass
    with pytest.raises(ts.TapeError, match="outside the tape's `with` block"), tape.stop_recording():
        pass
