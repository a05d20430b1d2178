"""Which batches make an epoch: none is lost, none is trained on twice, and running dry is said."""

import keras
import numpy as np
import pytest

import trainstep as ts
from one_weight import OneWeight, column


def single_rows(n, pulled):
    for i in range(n):
        pulled.append(i)
        yield column(i), column(0)


def test_a_generator_is_split_into_epochs_exactly():
    pulled = []
    history = OneWeight().trainer().fit(single_rows(7, pulled), epochs=2, steps_per_epoch=3, verbose=0).history
    assert history["loss"] == [1.0, 4.0]
    assert pulled == [0, 1, 2, 3, 4, 5]


def test_steps_per_epoch_goes_on_where_the_last_epoch_stopped():
    x = column(0, 1, 2, 3)
    history = OneWeight().trainer().fit(x, 0 * x, batch_size=1, epochs=3, steps_per_epoch=3, shuffle=False, verbose=0).history
    assert history["loss"] == pytest.approx([1, 4 / 3, 5 / 3])


def test_going_on_sees_every_row_once_in_each_pass():
    record = []
    x = np.arange(4, dtype="float32")
    row = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: record.append(logs["row"]))
    ts.Trainer(_row_step()).fit(x, batch_size=1, epochs=4, steps_per_epoch=3, callbacks=[row], verbose=0)
    assert [sorted(record[i : i + 4]) for i in (0, 4, 8)] == [[0, 1, 2, 3]] * 3


def _row_step():
    """Reports the row of the batch itself, not a mean over the epoch."""
    last = keras.metrics.Mean(name="row")

    def train_step(x):
        last.reset_state()
        last.update_state(x)
        return {"row": last}

    return train_step


def test_a_generator_that_runs_dry_is_never_replayed():
    w1, record = OneWeight(learning_rate=0.1), []
    epochs = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: record.append(logs["error"]))
    with pytest.raises(ts.DataError, match=r"In epoch 2, `x` has run dry: .* generator .* function that returns a fresh one"):
        w1.trainer().fit(single_rows(4, []), epochs=2, callbacks=[epochs], verbose=0)
    assert len(record) == 1
    assert float(w1.w.numpy()) == pytest.approx(1 - 0.1 * (0 + 1 + 2 + 3))


def test_a_validation_generator_that_runs_dry_is_named():
    with pytest.raises(ts.DataError, match="In epoch 2, `validation_data` has run dry"):
        OneWeight().trainer().fit(column(1), column(1), epochs=2, validation_data=single_rows(2, []), verbose=0)


def test_a_function_gives_a_fresh_iterator_for_every_epoch():
    pulled = []
    history = OneWeight().trainer().fit(lambda: single_rows(3, pulled), epochs=2, verbose=0).history
    assert history["loss"] == [1.0, 1.0]
    assert pulled == [0, 1, 2, 0, 1, 2]


def test_fewer_batches_than_steps_are_said():
    with pytest.warns(ts.TrainStepWarning, match="asked for 5 steps, and `x` has 2"):
        assert OneWeight().trainer().evaluate(column(1, 3), column(0, 0), batch_size=1, steps=5, verbose=0)["loss"] == 2.0


def rows_seen(epochs=3):
    record = []
    row = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: record.append(logs["row"]))
    ts.Trainer(_row_step()).fit(np.arange(8, dtype="float32"), batch_size=1, epochs=epochs, callbacks=[row], verbose=0)
    return [tuple(record[i : i + 8]) for i in range(0, 8 * epochs, 8)]


def test_every_epoch_and_every_fit_has_an_order_of_its_own_and_a_seed_repeats_them():
    keras.utils.set_random_seed(7)
    first, second = rows_seen(), rows_seen()
    keras.utils.set_random_seed(7)
    assert rows_seen() == first
    assert len({*first, *second}) == 6
    assert all(sorted(order) == list(range(8)) for order in first)
    keras.utils.set_random_seed(8)
    assert rows_seen() != first


def test_fit_leaves_the_callers_random_numbers_alone():
    import random

    keras.utils.set_random_seed(7)
    before = np.random.get_state(), random.getstate()
    rows_seen(epochs=1)
    np.testing.assert_equal((np.random.get_state(), random.getstate()), before)
