"""Case 24: what a step returns is averaged over the epoch by samples, the same in the bar, batch logs, history and `val_` names."""

import keras
import numpy as np
import pytest

import trainstep as ts
from one_weight import Record

X = np.array([1, 2, 6], "float32")


def values_everywhere(step_function, capsys, *, batch_size=1, compile=True):
    """What is reported at the end of an epoch: in history, the last batch logs, the validation, `evaluate` and the bar's line."""
    record = Record()
    trainer = ts.Trainer(ts.step(step_function, compile=compile), ts.step(step_function, compile=compile))
    history = trainer.fit(
        X, batch_size=batch_size, epochs=2, shuffle=False, validation_data=X, callbacks=[record], verbose=2
    ).history
    num_batches = -(-len(X) // batch_size)
    last = {name: values[-1] for name, values in history.items() if not name.startswith("val_")}
    assert all(values == [values[-1]] * 2 for values in history.values())
    assert record.batches[num_batches - 1] == record.batches[-1] == last
    assert {name.removeprefix("val_"): values[-1] for name, values in history.items() if name.startswith("val_")} == last
    assert trainer.evaluate(X, batch_size=batch_size, verbose=0) == last
    for line in capsys.readouterr().out.splitlines():
        assert all(f"{name}: {value:.4f}" in line for name, value in last.items())
    return last


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("name", ["my", "loss"])
def test_a_scalar_is_the_mean_over_the_samples(name, batch_size, compile, capsys):
    values = values_everywhere(lambda x: {name: keras.ops.mean(x)}, capsys, batch_size=batch_size, compile=compile)
    assert values == {name: pytest.approx(3.0)}  # 6.0 is the last batch, 3.75 the mean of the batches


@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_nested_dict_is_flattened(batch_size, capsys):
    def function(x):
        return {"loss": keras.ops.mean(x), "parts": {"double": keras.ops.mean(2 * x), "deep": {"half": keras.ops.mean(x / 2)}}}

    values = values_everywhere(function, capsys, batch_size=batch_size)
    assert values == pytest.approx({"loss": 3.0, "parts/double": 6.0, "parts/deep/half": 1.5})


def test_an_integer_is_averaged_too(capsys):
    def function(x):
        return {"count": keras.ops.cast(keras.ops.sum(x), "int32"), "constant": 4}

    assert values_everywhere(function, capsys) == pytest.approx({"count": 3.0, "constant": 4.0})


@pytest.mark.parametrize("as_object", [True, False])
@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_metric_says_its_result(as_object, batch_size, capsys):
    total = keras.metrics.Sum(name="total")

    def function(x):
        total.update_state(x)
        return {"total": total if as_object else total.result()}

    assert values_everywhere(function, capsys, batch_size=batch_size) == {"total": 9.0}  # not an average of 1, 3, 9


def test_running_values_in_the_batch_logs():
    record = Record()
    ts.Trainer(lambda x: {"my": keras.ops.mean(x)}).fit(X, batch_size=2, shuffle=False, callbacks=[record], verbose=0)
    assert [logs["my"] for logs in record.batches] == [1.5, 3.0]


def test_a_vector_is_an_error_that_names_the_key():
    with pytest.raises(ts.StepError, match="'vector'"):
        ts.Trainer(lambda x: {"loss": keras.ops.mean(x), "vector": x}).fit(X, verbose=0)


def test_a_step_that_returns_nothing_trains_and_reports_nothing():
    w = keras.Variable(0.0)

    def train_step(x):
        w.assign_add(keras.ops.sum(x))

    assert ts.Trainer(train_step).fit(X, batch_size=2, verbose=0).history == {}
    assert float(w.numpy()) == 9.0
