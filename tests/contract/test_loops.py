"""Every way to run many steps at once leaves the numbers that steps one at a time leave."""

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts
from trainstep import backends
from trainstep.data._columns import as_columns
from trainstep.data._rows import Table

NUM_ROWS, BATCH_SIZE, NUM_STEPS = 40, 4, 16


def make_step(rate):
    keras.utils.set_random_seed(3)
    hidden = [keras.layers.Dense(8, activation="relu"), keras.layers.BatchNormalization(), keras.layers.Dropout(rate)]
    model = keras.Sequential([keras.Input((6,)), *hidden, keras.layers.Dense(3)])
    optimizer = keras.optimizers.Adam(0.01)
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    @ts.step
    def train_step(x, y):
        with ts.GradientTape() as tape:
            logits = model(x["image"], training=True)
            loss = loss_fn(y, logits) + 0.1 * ops.mean(x["scale"] * logits)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        accuracy.update_state(y, logits)
        return {"loss": loss, "accuracy": accuracy}

    return train_step


def make_table():
    random = np.random.default_rng(0)
    image, scale = random.normal(size=(NUM_ROWS, 6)), random.random((NUM_ROWS, 1)).astype("float32")
    columns = {"x": {"image": image, "scale": scale}, "y": random.integers(0, 3, NUM_ROWS).astype("int32")}
    return Table(tuple(as_columns(nest, call="fit", name=name) for name, nest in columns.items()))


def program_of(step, table, rows):
    step.run(table.batch(rows))
    (captured,) = step._captured.values()
    return captured.program


def values(step):
    return [ops.convert_to_numpy(variable) for variable in step.variables]


@pytest.mark.parametrize("rate", [0.0, 0.5], ids=["", "dropout"])
@pytest.mark.parametrize("number", range(2))
def test_a_loop_does_what_its_steps_do(number, rate):
    table = make_table()
    rows = np.random.default_rng(1).integers(0, NUM_ROWS, (NUM_STEPS, BATCH_SIZE)).astype("int32")
    one_by_one, at_once = make_step(rate), make_step(rate)
    loops = program_of(at_once, table, rows[0]).loops()
    if number >= len(loops):
        pytest.skip(f"this step has {len(loops)} such loops here")
    loop = loops[number]
    loop.prepare(table.on_device(), BATCH_SIZE, NUM_STEPS + 3)

    one_by_one.run(table.batch(rows[0]))
    for batch in rows:
        expected = one_by_one._run((*table.batch(batch),), "train")[1]
    outputs = loop(table.on_device(), rows[: NUM_STEPS // 2])
    outputs = loop(table.on_device(), rows[NUM_STEPS // 2 :])

    for ours, theirs in zip(values(at_once), values(one_by_one), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)
    for ours, theirs in zip(outputs, expected, strict=True):
        np.testing.assert_allclose(backends.active().to_numpy(ours), backends.active().to_numpy(theirs), rtol=1e-4, atol=1e-6)
