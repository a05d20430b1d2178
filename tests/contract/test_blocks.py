"""Batches as rows of a table: how they go together, and that running them together is running them."""

import gc
import time
import weakref

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts
from trainstep import data
from trainstep._exploration import Exploration
from trainstep.data._columns import as_columns
from trainstep.data._rows import Rows, Table

ROWS = np.arange(10, dtype="float32").reshape(10, 1)


def table_of(array):
    return Table((as_columns(array, call="fit", name="x"),))


def sizes(batches, max_size):
    return [[len(rows) for rows in b.indices] if isinstance(b, data.Block) else "alone" for b in data.in_blocks(batches, max_size)]


def test_batches_of_one_size_and_table_go_together_up_to_the_limit():
    one, other = table_of(ROWS), table_of(ROWS)
    batches = [Rows(one, range(i, i + 2)) for i in range(0, 8, 2)] + [Rows(one, range(8, 9)), Rows(other, range(1)), (ROWS,)]
    assert sizes(batches, lambda table, batch_size: 3) == [[2, 2, 2], [2], [1], [1], "alone"]
    assert sizes(batches, lambda table, batch_size: 4 // batch_size) == [[2, 2], [2, 2], [1], [1], "alone"]


def test_the_limit_is_asked_for_anew_when_a_block_has_run():
    table, limits = table_of(ROWS), iter([1, 2, 3])
    batches = [Rows(table, range(i, i + 1)) for i in range(6)]
    assert sizes(batches, lambda *_: next(limits)) == [[1], [1, 1], [1, 1, 1]]


@pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])
def test_a_block_runs_every_batch_in_order_and_reports_as_after_the_last(compile):
    last = keras.Variable(np.zeros((2, 1), "float32"))

    @ts.step(compile=compile)
    def step(x):
        last.assign(0.5 * last + x)
        return {"mean": ops.mean(x)}

    logs = step.run_block(table_of(ROWS), [range(2), np.array([7, 4]), range(8, 10)])
    expected = ROWS[:2] / 4 + ROWS[[7, 4]] / 2 + ROWS[8:]
    np.testing.assert_allclose(ops.convert_to_numpy(last), expected, rtol=1e-6)
    assert float(logs["mean"]) == pytest.approx(np.mean([ROWS[:2], ROWS[[7, 4]], ROWS[8:]]), rel=1e-6)


@pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])
def test_fit_draws_the_same_again_after_the_same_seed(compile):
    drawn = keras.Variable(0.0)

    @ts.step(compile=compile)
    def step(x):
        drawn.assign_add(keras.random.uniform(()) * ops.mean(x))

    def fit():
        drawn.assign(0.0)
        keras.utils.set_random_seed(7)
        ts.Trainer(step).fit(np.ones((6, 1), "float32"), batch_size=2, epochs=2, verbose=0)
        return float(ops.convert_to_numpy(drawn))

    assert fit() == fit() == fit()


def test_data_are_let_go_when_their_training_is_over():
    """Also while the step has not made up its mind yet how to run on rows of that shape."""
    seen = keras.Variable(0.0)

    @ts.step
    def step(x):
        seen.assign_add(ops.mean(x))

    def fit(num_rows):
        array = np.ones((num_rows, 1), "float32")
        ts.Trainer(step).fit(array, batch_size=4, verbose=0)
        return weakref.ref(array)

    arrays = [fit(num_rows) for num_rows in (40, 44)]
    gc.collect()
    assert [array() for array in arrays] == [None, None]


def test_a_step_to_be_compiled_as_it_is_chooses_nothing_by_measuring():
    total = keras.Variable(0.0)

    @ts.step(compile=True)
    def step(x):
        total.assign_add(ops.sum(x))

    ts.Trainer(step).fit(np.ones((40, 1), "float32"), batch_size=2, epochs=5, verbose=0)
    assert float(ops.convert_to_numpy(total)) == 200.0
    assert len(step.report().splitlines()) == 2  # No line on a pace.


def test_tables_that_grow_do_not_pile_up_programs():
    total = keras.Variable(0.0)

    @ts.step
    def step(x):
        total.assign_add(ops.sum(x))

    for num_rows in range(10, 40, 2):
        ts.Trainer(step).fit(np.ones((num_rows, 1), "float32"), batch_size=2, verbose=0)
    assert float(ops.convert_to_numpy(total)) == sum(range(10, 40, 2))
    (captured,) = step._captured.values()
    assert len(captured.paces) <= 4
    assert step.num_traces == 1


def test_arrays_that_a_callback_changes_in_place_are_seen_by_the_next_epoch(monkeypatch):
    """Also where their copy on the device is what the steps read."""
    monkeypatch.setattr(Exploration, "_is_worth", lambda *_: True)
    x, held_out = np.zeros((64, 1), "float32"), np.zeros((64, 1), "float32")

    class Change(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            time.sleep(0.02)
            x[:] = held_out[:] = epoch + 1

    @ts.step
    def step(x):
        return {"mean": ops.mean(x)}

    @ts.step
    def test_step(x):
        return {"mean": ops.mean(x)}

    trainer = ts.Trainer(step, test_step)
    history = trainer.fit(
        x, batch_size=2, epochs=40, shuffle=False, verbose=0, callbacks=[Change()], validation_data=held_out
    ).history
    assert history["mean"] == [float(epoch) for epoch in range(40)]
    assert history["val_mean"] == [float(epoch) for epoch in range(40)]
    if keras.config.backend() != "torch":
        assert " us by " in step.report()


def test_a_step_to_be_compiled_as_it_is_gives_the_same_bits_every_time():
    def train():
        keras.utils.set_random_seed(5)
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(1)])
        optimizer = keras.optimizers.Adam(0.01)

        @ts.step(compile=True)
        def step(x):
            with ts.GradientTape() as tape:
                loss = ops.mean((model(x, training=True) - ops.sum(x, axis=1, keepdims=True)) ** 2)
            weights = model.trainable_weights
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return {"loss": loss}

        x = np.random.default_rng(0).normal(size=(64, 6)).astype("float32")
        ts.Trainer(step).fit(x, batch_size=8, epochs=30, verbose=0)
        return model.get_weights()

    for ours, theirs in zip(train(), train(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
