"""The TensorFlow room's own promises: one trace, variables made outside the graph, and what happens when a value is asked for."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts
from trainstep import backends

pytestmark = pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="the TensorFlow room is not in use")


class BuiltOnCall(keras.Model):
    """A model whose layers have no shapes until it is called, and which Keras builds by calling it symbolically."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = keras.layers.Dense(8, activation="relu")
        self.dropout = keras.layers.Dropout(0.5, seed=3)
        self.out = keras.layers.Dense(3)

    def call(self, x: Any, training: bool = False) -> Any:
        return self.out(self.dropout(self.hidden(x), training=training))


def sequential() -> keras.Model:
    return keras.Sequential([keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.5, seed=3), keras.layers.Dense(3)])


def new_batch() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(16, 5)).astype("float32"), rng.integers(0, 3, 16)


@pytest.mark.parametrize("make_model", [sequential, BuiltOnCall])
def test_a_step_that_builds_everything_runs_its_python_code_once(make_model: Callable[[], keras.Model]) -> None:
    model, optimizer = make_model(), keras.optimizers.Adam(0.01)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    metrics = [keras.metrics.Mean(name="loss"), keras.metrics.SparseCategoricalAccuracy(name="accuracy")]
    num_executions = 0

    @ts.step(compile=True)
    def train_step(x: Any, y: Any) -> dict[str, Any]:
        nonlocal num_executions
        num_executions += 1
        with ts.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_fn(y, logits)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights, strict=True))
        metrics[0].update_state(loss)
        metrics[1].update_state(y, logits)
        return {m.name: m for m in metrics}

    losses = [float(train_step(*new_batch())["loss"]) for _ in range(30)]
    assert num_executions == 1
    assert train_step.num_traces == 1
    assert losses[-1] < losses[0]
    assert int(optimizer.iterations.numpy()) == 30
    found = {id(v) for v in train_step.variables}
    assert {id(v) for v in [*model.variables, *optimizer.variables]} <= found


def test_capturing_leaves_existing_variables_alone() -> None:
    counter, loose = keras.Variable(5, dtype="int32", trainable=False), keras.Variable([1.5, -2.5])

    @ts.step(compile=True)
    def step(x: Any) -> None:
        counter.assign_add(1)
        loose.assign(loose * ops.sum(x))

    step.prepare((np.ones(3, "float32"),))
    assert int(counter.numpy()) == 5
    np.testing.assert_array_equal(loose.numpy(), [1.5, -2.5])
    step(np.ones(3, "float32"))
    assert int(counter.numpy()) == 6
    np.testing.assert_array_equal(loose.numpy(), [4.5, -7.5])


def test_stateless_leaves_variables_alone() -> None:
    w = keras.Variable([2.0, 3.0])

    def step(batch: Any) -> list[Any]:
        w.assign_add(batch[0])
        return [ops.sum(w)]

    backend = backends.active()
    x = backend.as_input(np.array([1.0, 1.0], "float32"))
    program = backend.capture(step, [x], name="step")
    outputs, state = program.stateless([backend.as_input(np.array([10.0, 20.0], "float32"))], [x])
    assert float(outputs[0]) == 32.0
    np.testing.assert_array_equal(backend.to_numpy(state[0]), [11.0, 21.0])
    np.testing.assert_array_equal(w.numpy(), [2.0, 3.0])


def test_a_tensor_does_not_follow_later_changes_of_its_array() -> None:
    backend = backends.active()
    array = np.arange(64, dtype="float32")
    tensor = backend.as_input(array)
    array[:] = -1
    np.testing.assert_array_equal(backend.to_numpy(tensor), np.arange(64))
    assert backend.as_input(np.zeros(2, "float64")).dtype == "float32"
    assert backend.as_input(np.zeros(2, "int64")).dtype == "int64"


VALUE_QUESTIONS = {
    "if": (lambda t: t if t > 0 else -t, "truth value"),
    "float": (lambda t: t * float(t), "Python number"),
    "int": (lambda t: t * int(t), "Python number"),
    "range": (lambda t: t * len(range(ops.cast(t, "int32"))), "Python number"),
    "format": (lambda t: t * len(f"{t:.3f}"), "needs the value"),
    "array": (lambda t: t * np.asarray(t), "NumPy array"),
    "numpy": (lambda t: t * t.numpy(), "NumPy array"),
    "iterate": (lambda t: sum(list(ops.reshape(t, (1,)))), "iterate"),
}


@pytest.mark.parametrize("question", VALUE_QUESTIONS)
def test_asking_for_a_value_while_capturing(question: str) -> None:
    ask, said = VALUE_QUESTIONS[question]
    w = keras.Variable(1.0)

    @ts.step(compile=True)
    def my_step(x: Any) -> dict[str, Any]:
        w.assign_add(1.0)
        return {"loss": ask(ops.mean(x))}

    with pytest.raises(ts.CaptureError, match=said) as caught:
        my_step(np.ones(3, "float32"))
    message = str(caught.value)
    for expected in ("'my_step'", f"{__file__}:", "keras.ops.where", "keras.ops.cond", "keras.ops.while_loop", "compile=False"):
        assert expected in message
    assert caught.value.__cause__ is not None
    assert float(w.numpy()) == 1.0


def test_an_error_of_the_users_own_is_left_as_it_is() -> None:
    @ts.step(compile=True)
    def my_step(x: Any) -> dict[str, Any]:
        return {"loss": ops.mean(x) + float({"a": 1})}

    with pytest.raises(TypeError, match="not 'dict'"):
        my_step(np.ones(3, "float32"))


def test_embedding_gradients_reach_the_optimizer_from_a_step() -> None:
    embedding = keras.layers.Embedding(4, 2, embeddings_initializer="zeros")
    optimizer = keras.optimizers.SGD(1.0)

    @ts.step(compile=True)
    def step(rows: Any) -> None:
        with ts.GradientTape() as tape:
            loss = ops.sum(embedding(rows))
        optimizer.apply_gradients(zip(tape.gradient(loss, embedding.trainable_weights), embedding.trainable_weights, strict=True))

    step(np.array([1, 1, 3], "int32"))
    np.testing.assert_array_equal(embedding.embeddings.numpy(), [[0, 0], [-2, -2], [0, 0], [-1, -1]])
