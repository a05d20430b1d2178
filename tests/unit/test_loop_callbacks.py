"""Keras callbacks around steps: with a model, and with the stand-in where there is none."""

import keras
import numpy as np
import pytest

import trainstep as ts
from one_weight import OneWeight, Record, column
from trainstep.loop._reading import LazyLogs

ONE, ZERO = column(1), column(0)


def fit(w1, callbacks, *, epochs=1, rows=1, **others):
    ones = np.ones((rows, 1), "float32")
    return w1.trainer().fit(ones, 0 * ones, batch_size=1, epochs=epochs, callbacks=callbacks, verbose=0, **others).history


def weight(w1):
    return float(w1.w.numpy())


def test_what_a_batch_hook_changes_counts_from_the_next_step():
    w1 = OneWeight(learning_rate=0.1)

    class Change(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            self.model.optimizer.learning_rate = [0.1, 0.0, 0.1][batch]

        def on_train_batch_end(self, batch, logs=None):
            self.model.set_weights([value / 2 for value in self.model.get_weights()])

    fit(w1, Change(), rows=3)
    assert weight(w1) == pytest.approx(((1 - 0.1) / 2 / 2 - 0.1) / 2)


def test_a_schedule_moves_and_callbacks_see_it():
    w1, seen = OneWeight(), []
    w1.optimizer = keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5))

    class See(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            seen.append((int(self.model.optimizer.iterations), float(self.model.optimizer.learning_rate)))

    fit(w1, See(), rows=3)
    assert weight(w1) == pytest.approx(0.825)
    assert [count for count, _ in seen] == [1, 2, 3]
    assert [rate for _, rate in seen] == pytest.approx([0.05, 0.025, 0.0125])


def test_a_callback_for_the_learning_rate_meets_a_schedule_at_the_start():
    w1 = OneWeight()
    w1.optimizer = keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.1, 1, 0.5))
    for callback in (keras.callbacks.ReduceLROnPlateau("loss"), keras.callbacks.LearningRateScheduler(lambda epoch: 0.1)):
        with pytest.raises(ts.TrainStepError, match="takes it from a schedule"):
            fit(w1, callback)
    assert weight(w1) == 1.0


def test_learning_rate_scheduler_and_plateau():
    w1 = OneWeight(learning_rate=0.1)
    history = fit(w1, keras.callbacks.LearningRateScheduler(lambda epoch: [0.5, 0.25][epoch]), epochs=2)
    assert weight(w1) == pytest.approx(0.25)
    assert history["learning_rate"] == pytest.approx([0.5, 0.25])
    w1 = OneWeight(learning_rate=0.0)
    w1.optimizer.learning_rate = 1e-8
    fit(w1, keras.callbacks.ReduceLROnPlateau("loss", factor=0.5, patience=1, min_delta=0.1), epochs=3)
    assert float(w1.optimizer.learning_rate) == pytest.approx(0.25e-8)


def test_early_stopping_puts_the_best_weights_back():
    w1 = OneWeight(learning_rate=0.1)
    # Predictions fall by 0.1 each epoch and pass 0.75 between the third and the fourth: |w - 0.75| is least at w = 0.7 or 0.8.
    history = (
        w1.trainer()
        .fit(
            ONE,
            column(0.75),
            epochs=10,
            validation_data=(ONE, column(0.72)),
            callbacks=keras.callbacks.EarlyStopping("val_loss", patience=2, restore_best_weights=True),
            verbose=0,
        )
        .history
    )
    assert history["val_loss"] == pytest.approx([0.18, 0.08, 0.02, 0.12, 0.22], abs=1e-6)
    assert weight(w1) == pytest.approx(0.7)


@pytest.mark.parametrize("with_model", [True, False])
def test_model_checkpoint_of_weights(tmp_path, with_model):
    path = tmp_path / "{epoch}.weights.h5"
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])
    optimizer = keras.optimizers.SGD(0.1)

    def train_step(x):
        with ts.GradientTape() as tape:
            loss = keras.ops.mean(model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        return {"loss": loss}

    seen = []
    see = keras.callbacks.LambdaCallback(on_train_end=lambda logs: seen.append(see.model))
    trainer = ts.Trainer(train_step, model=model if with_model else None)
    trainer.fit(ONE, epochs=3, callbacks=[keras.callbacks.ModelCheckpoint(path, save_weights_only=True), see], verbose=0)
    assert (seen[0] is model) == with_model
    assert float(model.get_weights()[0][0, 0]) == pytest.approx(0.7)
    seen[0].load_weights(str(path).format(epoch=1))
    assert float(model.get_weights()[0][0, 0]) == pytest.approx(0.9)
    trainer.fit(ONE, verbose=0)
    assert float(model.get_weights()[0][0, 0]) == pytest.approx(0.8)


def test_a_whole_model_cannot_be_saved_without_one(tmp_path):
    w1 = OneWeight(learning_rate=0.1)
    with pytest.raises(ts.TrainStepError, match="save_weights_only=True"):
        fit(w1, keras.callbacks.ModelCheckpoint(tmp_path / "m.keras"))
    assert weight(w1) == 1.0


def test_the_stand_in_has_the_weights_and_nothing_else():
    model = keras.Sequential([keras.layers.Dense(2), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)])
    optimizer, accuracy = keras.optimizers.Adam(), keras.metrics.Mean(name="seen")

    def train_step(x):
        with ts.GradientTape() as tape:
            loss = keras.ops.mean(model(x, training=True) ** 2)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        accuracy.update_state(loss)
        return {"loss": loss, "seen": accuracy}

    stand_ins = []
    see = keras.callbacks.LambdaCallback(on_train_begin=lambda logs: stand_ins.append(see.model))
    ts.Trainer(train_step).fit(np.ones((4, 3), "float32"), callbacks=[see], verbose=0)
    (stand_in,) = stand_ins
    assert isinstance(stand_in, keras.Model)
    assert {v.path for v in stand_in.weights} == {v.path for v in model.weights}
    assert {v.path for v in stand_in.trainable_variables} == {v.path for v in model.trainable_weights}
    assert stand_in.optimizer is optimizer
    assert stand_in.metrics_names == ["seen"]


def test_stop_training_is_heeded_after_a_batch_and_after_an_epoch():
    w1, record = OneWeight(learning_rate=0.1), Record()
    stop = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: setattr(stop.model, "stop_training", batch == 1))
    assert len(fit(w1, [stop, record], rows=5, epochs=3)["loss"]) == 1
    assert weight(w1) == pytest.approx(0.8)
    assert len(record.batches) == 2
    assert len(fit(w1, [record], rows=5, epochs=3)["loss"]) == 3  # the next fit starts afresh
    stop = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: setattr(stop.model, "stop_training", epoch == 1))
    assert len(fit(w1, [stop], epochs=5)["loss"]) == 2


def test_terminate_on_nan_stops_at_the_batch():
    w1, record = OneWeight(), Record()
    x = column(1, np.nan, 1, 1)
    w1.trainer().fit(x, 0 * x, batch_size=1, shuffle=False, callbacks=[keras.callbacks.TerminateOnNaN(), record], verbose=0)
    assert len(record.batches) == 2


def test_an_interrupt_passes_and_leaves_all_usable():
    w1 = OneWeight(learning_rate=0.1)

    def interrupt(batch, logs):
        if batch == 2:
            raise KeyboardInterrupt

    trainer, ones = w1.trainer(), np.ones((8, 1), "float32")
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=interrupt)
    with pytest.raises(KeyboardInterrupt):
        trainer.fit(ones, 0 * ones, batch_size=1, callbacks=[callback], verbose=0)
    assert weight(w1) == pytest.approx(0.7)
    assert trainer.evaluate(ones, 0 * ones, verbose=0)["error"] == pytest.approx(0.7)
    trainer.fit(ones, 0 * ones, batch_size=1, verbose=0)
    assert weight(w1) == pytest.approx(-0.1)
    assert int(w1.optimizer.iterations) == 11


def test_csv_logger_writes_what_history_holds(tmp_path):
    path = tmp_path / "log.csv"
    history = fit(OneWeight(learning_rate=0.25), keras.callbacks.CSVLogger(path), epochs=2, validation_data=(ONE, ZERO))
    rows = [line.split(",") for line in path.read_text().split()]
    columns = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    assert set(columns) == {"epoch", *history}
    assert [float(v) for v in columns["val_loss"]] == history["val_loss"] == [0.75, 0.5]


def test_backup_and_restore_goes_on_with_the_epoch_after_the_last(tmp_path):
    w1 = OneWeight(learning_rate=0.1)
    backup = keras.callbacks.BackupAndRestore(tmp_path)
    stop = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: 1 / (epoch - 2))
    with pytest.raises(ZeroDivisionError):
        fit(w1, [backup, stop], epochs=5)
    w1.w.assign(100.0)
    record = Record()
    fit(w1, [backup, record], epochs=5)
    assert len(record.epochs) == 3
    assert weight(w1) == pytest.approx(0.5)
    assert len(fit(w1, [], epochs=2)["loss"]) == 2


def test_what_a_callback_adds_to_the_logs_reaches_history():
    add = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update(mine=epoch * 2.0))
    assert fit(OneWeight(), add, epochs=2)["mine"] == [0.0, 2.0]


def test_every_hook_is_called_in_the_order_of_keras():
    calls = []

    class All(keras.callbacks.Callback):
        pass

    for name in (n for n in dir(keras.callbacks.Callback) if n.startswith("on_") and n not in ("on_batch_begin", "on_batch_end")):
        setattr(All, name, lambda self, *args, _name=name, **kwargs: calls.append(_name))
    fit(OneWeight(), All(), rows=2, validation_data=(ONE, ZERO))
    batch = ["on_train_batch_begin", "on_train_batch_end"]
    test = ["on_test_begin", "on_test_batch_begin", "on_test_batch_end", "on_test_end"]
    assert calls == ["on_train_begin", "on_epoch_begin", *batch, *batch, *test, "on_epoch_end", "on_train_end"]


LOOKS = {
    "dict": dict,
    "star": lambda logs: {**logs},
    "items": lambda logs: dict(logs.items()),
    "get": lambda logs: {"loss": logs.get("loss"), "b": logs.get("b")},
    "index": lambda logs: {name: logs[name] for name in logs},
    "values": lambda logs: dict(zip(logs, logs.values(), strict=True)),
    "copy": lambda logs: logs.copy(),
    "call": lambda logs: (lambda **named: named)(**logs),
    "update": lambda logs: {} | logs,
}


@pytest.mark.parametrize("look", LOOKS)
def test_lazy_logs_are_floats_whichever_way_one_looks(look):
    logs = LazyLogs({"loss": keras.ops.convert_to_tensor(1.5), "b": keras.ops.convert_to_tensor(2)})
    assert len(logs) == 2
    assert "loss" in logs
    seen = LOOKS[look](logs)
    assert seen == {"loss": 1.5, "b": 2.0}
    assert all(type(value) is float for value in seen.values())


def test_lazy_logs_read_nothing_until_somebody_looks():
    reads = []

    class Watched:
        dtype, shape, size = "float32", (), 1

        def __array__(self, dtype=None, copy=None) -> np.ndarray:
            reads.append(1)
            return np.array(1.0)

    logs = LazyLogs({"loss": Watched()})
    assert list(logs) == ["loss"]
    assert logs
    assert reads == []
