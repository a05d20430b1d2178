"""`fit` and `evaluate` on one weight: what they report, against numbers worked out by hand."""

import keras
import numpy as np
import pytest

import trainstep as ts
from one_weight import OneWeight, Record, column

ZEROS = column(0, 0, 0)


@pytest.mark.parametrize("compile", [True, False])
def test_a_short_last_batch_counts_by_its_samples(compile):
    w1 = OneWeight(compile=compile)
    trainer, x = w1.trainer(), column(10, 10, 9)
    history = trainer.fit(x, ZEROS, batch_size=2, shuffle=False, validation_data=(x, ZEROS), verbose=0).history
    assert history == {name: [pytest.approx(29 / 3)] for name in ("loss", "error", "val_loss", "val_error")}
    assert trainer.evaluate(x, ZEROS, batch_size=2, verbose=0) == {"loss": pytest.approx(29 / 3), "error": pytest.approx(29 / 3)}
    assert trainer.evaluate(x, ZEROS, batch_size=2, verbose=0, return_dict=False) == [pytest.approx(29 / 3)] * 2


def test_a_step_is_traced_once_for_each_shape_and_never_again():
    w1 = OneWeight()
    for _ in range(2):
        w1.trainer().fit(column(1, 2, 3), ZEROS, batch_size=2, epochs=3, validation_data=(ZEROS, ZEROS), verbose=0)
    assert (w1.train_step.num_traces, w1.test_step.num_traces) == (2, 2)


def test_a_model_that_is_lent_the_optimizer_does_not_make_the_steps_be_captured_again():
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    optimizer = keras.optimizers.SGD(0.01)

    @ts.step
    def train_step(x, y):
        with ts.GradientTape() as tape:
            loss = keras.ops.mean((model(x, training=True) - y) ** 2)
        weights = model.trainable_weights
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}

    @ts.step
    def test_step(x, y):
        return {"loss": keras.ops.mean((model(x) - y) ** 2)}

    trainer = ts.Trainer(train_step, test_step, model=model)
    for _ in range(3):
        trainer.fit(column(1, 2, 3), ZEROS, batch_size=2, epochs=2, validation_data=(ZEROS, ZEROS), verbose=0)
        trainer.evaluate(column(1, 2, 3), ZEROS, batch_size=2, verbose=0)
    assert (train_step.num_traces, test_step.num_traces) == (2, 2)
    assert not hasattr(model, "optimizer")


def test_history_holds_python_floats_and_the_epochs():
    history = OneWeight().trainer().fit(column(1, 2), column(0, 0), epochs=4, initial_epoch=1, verbose=0)
    assert isinstance(history, keras.callbacks.History)
    assert history.epoch == [1, 2, 3]
    assert all(type(value) is float for values in history.history.values() for value in values)


def test_the_last_part_of_the_rows_is_validated_on():
    x = np.arange(10, dtype="float32").reshape(10, 1)
    history = OneWeight().trainer().fit(x, 0 * x, validation_split=0.3, verbose=0).history
    assert history["loss"] == [pytest.approx(3.0)]  # the mean of 0 .. 6
    assert history["val_loss"] == [pytest.approx(8.0)]  # the mean of 7 .. 9


def test_validation_comes_when_it_is_due():
    x = column(1, 2)
    fit = OneWeight().trainer().fit
    assert len(fit(x, 0 * x, epochs=5, validation_data=(x, x), validation_freq=2, verbose=0).history["val_loss"]) == 2
    assert len(fit(x, 0 * x, epochs=5, validation_data=(x, x), validation_freq=[1, 4, 5], verbose=0).history["val_loss"]) == 3


def test_validation_steps_take_the_same_first_batches_each_time():
    x = column(1, 2, 30)
    history = (
        OneWeight()
        .trainer()
        .fit(x, 0 * x, epochs=2, validation_data=(x, 0 * x), validation_batch_size=1, validation_steps=2, verbose=0)
    )
    assert history.history["val_loss"] == [pytest.approx(1.5)] * 2


def test_val_is_prefixed_once():
    trainer = ts.Trainer(lambda x: {"loss": keras.ops.mean(x)}, lambda x: {"val_a": keras.ops.mean(x), "b": keras.ops.max(x)})
    history = trainer.fit(column(1), validation_data=column(3), verbose=0).history
    assert history == {"loss": [1.0], "val_a": [3.0], "val_b": [3.0]}


def test_the_weight_moves_by_every_batch():
    w1 = OneWeight(learning_rate=0.1)
    w1.trainer().fit(np.ones((5, 1)), np.zeros((5, 1)), batch_size=2, epochs=2, verbose=0)
    assert float(w1.w.numpy()) == pytest.approx(1 - 6 * 0.1)


def test_an_evaluation_in_mid_epoch_leaves_the_training_metrics_alone():
    w1, seen, record = OneWeight(), [], Record()
    trainer = w1.trainer()

    class Evaluate(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 1:
                seen.append(trainer.evaluate(column(100, 100), column(0, 0), verbose=0)["error"])

        def on_epoch_end(self, epoch, logs=None):
            seen.append(trainer.evaluate(column(50), column(0), verbose=0)["error"])

    x, validation_data, callbacks = column(1, 1, 3, 3), (column(7), column(0)), [Evaluate(), record]
    history = trainer.fit(
        x, 0 * x, batch_size=1, epochs=2, shuffle=False, validation_data=validation_data, callbacks=callbacks, verbose=0
    ).history
    assert history["loss"] == history["error"] == [2.0, 2.0]
    assert history["val_error"] == [7.0, 7.0]
    assert seen == [100, 50, 100, 50]
    assert [logs["error"] for logs in record.batches[:4]] == pytest.approx([1, 1, 5 / 3, 2])


def test_metrics_shared_by_eager_steps_start_at_zero():
    w1 = OneWeight(compile=False)
    history = w1.trainer().fit(column(1, 1), column(0, 0), epochs=2, validation_data=(column(7), column(0)), verbose=0).history
    assert history["error"] == [1.0, 1.0]
    assert history["val_error"] == [7.0, 7.0]


def test_fit_of_x_alone_passes_it_whole():
    nest = {"a": column(1, 3), "b": (column(10, 30), np.array([100, 300]))}
    kept = []

    def train_step(batch):
        kept.append(keras.tree.map_structure(lambda leaf: tuple(leaf.shape), batch))
        return {"sum": keras.ops.mean(batch["a"]) + keras.ops.mean(batch["b"][0])}

    history = ts.Trainer(train_step).fit(nest, verbose=0).history
    assert history == {"sum": [22.0]}
    assert kept == [{"a": (2, 1), "b": ((2, 1), (2,))}]


def test_predict_keeps_the_nest_and_the_order():
    x = np.arange(70, dtype="float32").reshape(70, 1)
    trainer = ts.Trainer(predict_step=lambda x: {"double": 2 * x, "both": (x, x + 1)})
    result = trainer.predict(x, batch_size=32, verbose=0)
    np.testing.assert_array_equal(result["double"], 2 * x)
    np.testing.assert_array_equal(result["both"][1], x + 1)
    assert isinstance(result["double"], np.ndarray)
    assert len(trainer.predict(x, batch_size=32, steps=1, verbose=0)["double"]) == 32


def test_predict_by_the_model_runs_it_for_inference():
    model = keras.Sequential([keras.layers.Dropout(0.9)])
    x = column(*range(1, 50))
    np.testing.assert_array_equal(ts.Trainer(model=model).predict(x, verbose=0), x)
    np.testing.assert_array_equal(ts.Trainer(model=model).predict([(x, 0 * x), (x, 0 * x)], verbose=0), np.concatenate([x, x]))


def test_sample_weight_and_class_weight_are_the_third_argument():
    def train_step(x, y, weight):
        return {"weighted": keras.ops.mean(weight)}

    fit, x = ts.Trainer(train_step).fit, column(1, 1, 1, 1)
    labels, weights = np.array([0, 0, 1, 2]), {0: 10.0, 1: 2.0}
    expected = {"weighted": [pytest.approx((10 + 10 + 2 + 1) / 4)]}
    assert fit(x, x, sample_weight=column(1, 2, 3, 4), verbose=0).history == {"weighted": [2.5]}
    assert fit(x, labels, class_weight=weights, verbose=0).history == expected
    assert fit(x, labels.reshape(4, 1), class_weight=weights, batch_size=3, verbose=0).history == expected
    assert fit(x, np.eye(3)[labels], class_weight=weights, verbose=0).history == expected
    assert fit([(x, labels)], class_weight=weights, verbose=0).history == expected
