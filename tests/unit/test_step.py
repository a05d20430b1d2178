"""`ts.step`: signatures, logs, methods, state, errors before the first update."""

import keras
import numpy as np
import pytest

import trainstep as ts

X = np.arange(6, dtype="float32").reshape(3, 2)


def counting_step(compile=True):
    """A step that adds one to a variable, and a list with the rows of each time its Python code ran."""
    w, runs = keras.Variable(0.0), {"count": 0}

    @ts.step(compile=compile)
    def train_step(x):
        runs["count"] += 1
        w.assign_add(1.0)
        return {"loss": keras.ops.mean(x)}

    return train_step, w, runs


def test_captured_once_for_each_signature():
    train_step, w, runs = counting_step()
    for rows in (X, X[:1], X, X[:1], X.astype("float64"), list(X)):
        train_step(rows)
    assert train_step.num_traces == runs["count"] == 3  # A list of arrays is another structure: three inputs.
    assert float(w.numpy()) == 6.0


def test_python_numbers_are_inputs():
    @ts.step(compile=True)
    def train_step(x, scale):
        return {"loss": scale * keras.ops.sum(x)}

    assert [float(train_step(X, s)["loss"]) for s in (1.0, 2.0, -1.0)] == [15.0, 30.0, -15.0]
    assert train_step.num_traces == 1


def test_everything_unbuilt_is_built_while_it_is_captured_once():
    model = keras.Sequential(
        [keras.layers.Dense(4), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5), keras.layers.Dense(1)]
    )
    optimizer, runs = keras.optimizers.Adam(), {"count": 0}

    @ts.step(compile=True)
    def train_step(x):
        runs["count"] += 1
        with ts.GradientTape() as tape:
            loss = keras.ops.mean(keras.ops.square(model(x, training=True) - 1.0))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights, strict=True))
        return {"loss": loss}

    first, second = train_step(X), train_step(X)
    assert runs["count"] == 1
    assert float(first["loss"]) != float(second["loss"])
    assert int(optimizer.iterations.numpy()) == 2
    assert {v.path for v in model.weights} <= {v.path for v in train_step.variables}


def test_logs_keep_the_nest_and_give_values_for_metrics():
    metric = keras.metrics.Mean(name="m")

    @ts.step
    def train_step(x):
        metric.update_state(x)
        return {"metric": metric, "result": metric.result(), "inner": {"raw": keras.ops.max(x), "number": 3}}

    train_step(X)
    logs = train_step(X + 6)
    assert float(logs["metric"]) == float(logs["result"]) == 5.5
    assert (float(logs["inner"]["raw"]), int(logs["inner"]["number"])) == (11.0, 3)
    reported = {k: float(v) for k, v in train_step.run(X).items()}
    assert reported == {"metric": pytest.approx(4.5), "result": pytest.approx(4.5), "inner/raw": 7.0, "inner/number": 3.0}
    assert train_step.metrics == [metric]
    train_step.reset_metrics()
    assert float(train_step.run(X)["inner/raw"]) == 5.0
    assert float(metric.result()) == 2.5


def test_none_is_a_step_without_logs():
    assert ts.step(lambda x: None)(X) == {}


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        (lambda x: {"loss": x}, r"float32 tensor of shape \(3, 2\) as 'loss'"),
        (lambda x: {"a": {"b": "text"}}, r"a str as 'a/b'"),
        (lambda x: x, r"must return None or a dict.*float32 tensor"),
        (lambda x: [keras.ops.mean(x)], r"must return None or a dict.*list of 1"),
    ],
)
def test_a_wrong_result_is_an_error_before_anything_has_changed(wrong, match, compile):
    w = keras.Variable(1.0)

    @ts.step(compile=compile)
    def train_step(x):
        w.assign(7.0)
        return wrong(x)

    with pytest.raises(ts.StepError, match=match):
        train_step(X)
    assert float(w.numpy()) == 1.0


@pytest.mark.parametrize(
    ("needs_value", "compile"),
    [
        (lambda x: 1.0 if keras.ops.sum(x) > 0 else 2.0, True),
        (lambda x: float(keras.ops.sum(x)), True),
        (lambda x: int(keras.ops.sum(x)), "auto"),
        (lambda x: np.asarray(x).sum(), True),
        (lambda x: keras.ops.convert_to_numpy(x).sum(), True),
    ],
)
def test_python_that_needs_a_value_is_an_error_with_the_way_out(needs_value, compile):
    w = keras.Variable(1.0)

    @ts.step(compile=compile)
    def train_step(x):
        w.assign(7.0)
        return {"loss": needs_value(x * w)}

    with pytest.raises(ts.CaptureError, match=r"train_step.*keras\.ops\.cond.*compile=False"):
        train_step(X)
    assert float(w.numpy()) == 1.0
    assert ts.step(compile=False)(train_step.__wrapped__)(X)["loss"] is not None


def test_a_method_is_a_step_of_its_own_for_each_instance():
    class Counter:
        def __init__(self, start):
            self.total = keras.Variable(start)

        @ts.step
        def add(self, x):
            self.total.assign_add(keras.ops.sum(x))
            return {"total": self.total.value}

    first, second = Counter(0.0), Counter(100.0)
    assert float(first.add(X)["total"]) == 15.0
    assert float(second.add(X)["total"]) == 115.0
    assert float(first.add(X)["total"]) == 30.0
    assert first.add is first.add
    assert first.add is not second.add


def test_stateless_leaves_the_variables_alone():
    train_step, w, _ = counting_step()
    train_step(X)
    state = start = train_step.state
    for _ in range(3):
        logs, state = train_step.stateless(state, X)
    position = [v is w for v in train_step.variables].index(True)
    assert (float(start[position]), float(state[position])) == (1.0, 4.0)
    assert float(w.numpy()) == 1.0
    assert float(logs["loss"]) == 2.5
    with pytest.raises(ts.StepError, match="one for each of `variables`"):
        train_step.stateless(state[:-1], X)


def test_the_user_s_arrays_and_tensors_are_safe():
    @ts.step
    def train_step(x):
        return {"loss": keras.ops.sum(x)}

    tensor, array = keras.ops.convert_to_tensor(X), X.copy()
    first = train_step(array)
    array[:] = 100.0
    assert float(first["loss"]) == 15.0
    for _ in range(2):
        assert float(train_step(tensor)["loss"]) == 15.0
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(tensor), X)


def test_two_variables_that_share_one_value():
    a, b = keras.Variable(np.ones(3, "float32")), keras.Variable(np.zeros(3, "float32"))
    b.assign(a)

    @ts.step
    def train_step(x):
        with ts.GradientTape() as tape:
            loss = keras.ops.sum(2.0 * a + 3.0 * b)
        for v, g in zip((a, b), tape.gradient(loss, [a, b]), strict=True):
            v.assign_sub(g)
        return {"loss": loss}

    train_step(X)
    np.testing.assert_array_equal(a.numpy(), [-1, -1, -1])
    np.testing.assert_array_equal(b.numpy(), [-2, -2, -2])


def test_xla_compiles_once():
    w = keras.Variable(1.0)

    @ts.step(compile=True)
    def train_step(x):
        w.assign(w * 0.5 + 1)
        return {"w": w.value}

    if keras.config.backend() != "jax":
        pytest.skip("weak types are JAX' own")
    for _ in range(3):
        train_step(X)
    (captured,) = train_step._captured.values()
    assert captured.program._run._cache_size() == 1


def test_report_says_what_ran():
    train_step, _, _ = counting_step()
    train_step(X)
    train_step(X[:1])
    report = train_step.report()
    assert "2 capture(s)" in report
    assert "float32[3, 2]" in report
    assert "float32[1, 2]" in report
    eager, _, _ = counting_step(compile=False)
    eager(X)
    assert "eager" in eager.report()
    assert eager.num_traces == 0


@pytest.mark.parametrize("wrong", [np.array(["a", "b"]), np.array([object()]), "text"])
def test_values_that_are_no_numbers(wrong):
    train_step, w, _ = counting_step()
    with pytest.raises(ts.DataError, match="numeric"):
        train_step(wrong)
    assert float(w.numpy()) == 0.0


def test_unknown_compile_choice():
    with pytest.raises(ts.StepError, match="'fast'"):
        ts.step(compile="fast")(lambda x: None)


@pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])
def test_the_entries_of_a_dict_reach_the_step_under_their_names_in_whatever_order(compile):
    @ts.step(compile=compile)
    def total(batch):
        return {"small": keras.ops.sum(batch["small"]), "big": keras.ops.sum(batch["nested"]["big"])}

    logs = total({"small": np.ones(2, "float32"), "nested": {"z": None, "big": np.full(2, 100, "float32")}})
    assert (float(logs["small"]), float(logs["big"])) == (2, 200)
