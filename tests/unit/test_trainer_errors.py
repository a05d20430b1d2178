"""What `fit`, `evaluate` and `predict` refuse, before the first update."""

import itertools

import keras
import numpy as np
import pytest

import trainstep as ts
from one_weight import OneWeight, column

X = column(1, 2, 3)
TEXT = np.array(["a", "b", "c"])


def endless():
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((X, X)).batch(1).repeat()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": X, "y": X[:2]}, "`x` has 3, `y` has 2"),
        ({"x": {"image": X, "text": X[:2]}, "y": X}, r"`x\['image'\]` has 3, `x\['text'\]` has 2"),
        ({"x": X, "y": (X, X[:1])}, r"`x` has 3, `y\[1\]` has 1"),
        ({"x": X, "y": X, "sample_weight": np.ones(2)}, "`x` has 3, `sample_weight` has 2"),
        ({"x": X[:0], "y": X[:0]}, r"`x` has 0 rows: its shape is \(0, 1\)"),
        ({"x": [], "y": []}, "needs data"),
        ({"x": {}, "y": {}}, "needs data"),
        ({"x": iter([])}, "`x` gives no batches"),
        ({"x": lambda: iter([])}, "`x` gives no batches"),
        ({"x": lambda: 3}, "It returned an int"),
        ({"x": TEXT, "y": X}, "`x` is a <U1 NumPy array of shape .* Encode strings"),
        ({"x": np.array([1, None, "a"], object), "y": X}, "`x` is a object NumPy array"),
        ({"x": [[1.0], [1.0, 2.0]], "y": X}, "cannot make one array of `x`"),
        ({"x": np.float32(3), "y": X}, "first axis counts the samples"),
        ({"x": None}, "Got None"),
        ({"x": 3}, "Got an int"),
        ({"x": "abc"}, "Got a str"),
        ({"x": iter([(X, X)]), "y": X}, "as `y` beside"),
        ({"x": [(X, X)], "sample_weight": X}, "as `sample_weight` beside"),
        ({"x": X}, r"train_step\(x, y\)` on batches of 1 argument.*missing a required argument: 'y'"),
        ({"x": X, "y": X, "sample_weight": X}, "on batches of 3 argument.*too many positional arguments"),
        ({"x": X, "y": np.array([0, 1, 1]), "class_weight": {0: 2.0}}, "on batches of 3 argument"),
        ({"x": X, "y": X + 0.5, "class_weight": {0: 2.0}}, "needs integer labels"),
        ({"x": X, "y": X, "class_weight": {0: 2.0}, "sample_weight": X}, "not both"),
        ({"x": X, "class_weight": {0: 2.0}}, r"`class_weight` needs batches `\(x, y\)`"),
        ({"x": X, "y": X, "batch_size": 0}, "`batch_size` must be an integer of at least 1. Got 0"),
        ({"x": X, "y": X, "batch_size": 2.5}, "Got 2.5"),
        ({"x": X, "y": X, "epochs": -1}, "`epochs` must"),
        ({"x": X, "y": X, "epochs": True}, "`epochs` must"),
        ({"x": X, "y": X, "initial_epoch": -1}, "`initial_epoch` must"),
        ({"x": X, "y": X, "steps_per_epoch": "all"}, "`steps_per_epoch` must"),
        ({"x": X, "y": X, "validation_split": 1.0}, "between 0 and 1. Got 1.0"),
        ({"x": X, "y": X, "validation_split": -0.1}, "between 0 and 1"),
        ({"x": X, "y": X, "validation_split": 0.9}, "leaves 0 of 3 rows"),
        ({"x": [(X, X)], "validation_split": 0.5}, "`validation_split` needs arrays"),
        ({"x": X, "y": X, "validation_data": (X, X[:2])}, "`x` has 3, `y` has 2"),
        ({"x": X, "y": X, "validation_data": (X[:0], X[:0])}, "0 rows"),
        ({"x": X, "y": X, "validation_data": X}, r"test_step\(x, y\)` on batches of 1 argument"),
        ({"x": X, "y": X, "validation_data": (X, X), "validation_freq": 0}, "`validation_freq` must"),
        ({"x": X, "y": X, "validation_data": (X, X), "validation_steps": 0}, "`validation_steps` must"),
        ({"x": X, "y": X, "verbose": 3}, "`verbose` is"),
        ({"x": X, "y": X, "callbacks": [print]}, "Got a builtin_function_or_method"),
        ({"x": endless}, "that never ends. Say with `steps_per_epoch`"),
        ({"x": X, "y": X, "validation_data": endless}, "never ends"),
    ],
)
def test_bad_arguments_are_refused_before_the_first_update(arguments, message):
    w1 = OneWeight(learning_rate=0.1)
    w1.train_step.__name__, w1.test_step.__name__ = "train_step", "test_step"
    arguments = {name: value() if value is endless else value for name, value in arguments.items()}
    with pytest.raises(ts.TrainStepError, match=message):
        w1.trainer().fit(**{"verbose": 0, **arguments})
    assert float(w1.w.numpy()) == 1.0


@pytest.mark.parametrize(
    ("trainer", "call", "message"),
    [
        (lambda: ts.Trainer(), "fit", "`fit` needs a train_step"),
        (lambda: ts.Trainer(len), "evaluate", "`evaluate` needs a test_step"),
        (lambda: ts.Trainer(len, len), "predict", "`predict` needs a predict_step.*model=model"),
    ],
)
def test_a_step_that_is_missing_is_named(trainer, call, message):
    with pytest.raises(ts.TrainStepError, match=message):
        getattr(trainer(), call)(X)


def test_validation_needs_a_test_step():
    w1 = OneWeight(learning_rate=0.1)
    with pytest.raises(ts.TrainStepError, match="validation in `fit`` needs a test_step"):
        ts.Trainer(w1.train_step).fit(X, X, validation_data=(X, X), verbose=0)
    assert float(w1.w.numpy()) == 1.0


def test_a_model_is_no_step():
    with pytest.raises(ts.TrainStepError, match="takes steps"):
        ts.Trainer(keras.Sequential())
    with pytest.raises(ts.TrainStepError, match="Got an int as `test_step`"):
        ts.Trainer(len, 3)


def test_a_wrong_test_step_is_told_before_the_first_update():
    w1 = OneWeight(learning_rate=0.1)
    with pytest.raises(ts.StepError, match="reduce it"):
        ts.Trainer(w1.train_step, lambda x, y: {"vector": x}).fit(X, X, validation_data=(X, X), verbose=0)
    assert float(w1.w.numpy()) == 1.0


def test_a_prediction_without_rows_is_refused():
    with pytest.raises(ts.StepError, match="one row for each sample"):
        ts.Trainer(predict_step=keras.ops.mean).predict(X, verbose=0)


def test_batch_size_beside_batches_is_said_to_be_ignored():
    with pytest.warns(ts.TrainStepWarning, match="`fit` ignores `batch_size`"):
        OneWeight().trainer().fit([(X, X)], batch_size=2, verbose=0)


def test_an_endless_iterator_is_cut_by_steps():
    history = OneWeight().trainer().fit(((column(i), column(0)) for i in itertools.count()), steps_per_epoch=2, epochs=2, verbose=0)
    assert history.history["loss"] == [0.5, 2.5]
