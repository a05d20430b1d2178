"""Case 25: a step is captured once for each shape and never again, whatever changes around it; and memory stays flat."""

import os
import pathlib
import subprocess
import sys
import textwrap

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts
from one_weight import OneWeight, column

ROOT = pathlib.Path(__file__).parents[2]
MOST_DRIFT = 5.0
"""Megabytes."""

KEPT_BY_TENSORFLOW = 8.0
"""Megabytes over 10 models: TensorFlow keeps some 0.35 of each traced graph when nobody holds it (Keras' own `fit`: 3.9)."""


class ChangeLearningRate(keras.callbacks.Callback):
    """At every step."""

    def __init__(self, optimizer):
        super().__init__()
        self.optimizer = optimizer

    def on_train_batch_begin(self, batch, logs=None):
        self.optimizer.learning_rate = 0.01 / (1 + batch)


@pytest.mark.parametrize("with_callback", [True, False], ids=["batch by batch", "many at once"])
def test_one_capture_for_each_shape_whatever_changes(with_callback):
    w1 = OneWeight(learning_rate=0.01)
    x = np.arange(399, dtype="float32").reshape(-1, 1)
    callbacks = [ChangeLearningRate(w1.optimizer)] if with_callback else []
    trainer = w1.trainer(predict_step=lambda x: w1.w * x)
    for _ in range(2):
        trainer.fit(x, 0 * x, batch_size=4, epochs=5, validation_data=(x[:7], 0 * x[:7]), callbacks=callbacks, verbose=0)
    trainer.evaluate(x[:7], 0 * x[:7], batch_size=4, verbose=0)
    trainer.predict(x, batch_size=4, verbose=0)
    (predict_step,) = [step for name, step in trainer._steps.items() if name == "predict_step"]
    assert (w1.train_step.num_traces, w1.test_step.num_traces, predict_step.num_traces) == (2, 2, 2)


def test_five_lengths_in_random_order_are_five_captures():
    num_runs = 0

    @ts.step
    def step(x):
        nonlocal num_runs
        num_runs += 1
        return {"mean": ops.mean(x)}

    lengths = np.random.default_rng(0).permutation([3, 5, 7, 9, 11] * 6)
    batches = [(np.full((2, length), 1.0, "float32"),) for length in lengths]
    history = ts.Trainer(step).fit(batches, epochs=3, verbose=0).history
    assert step.num_traces == 5
    assert num_runs == 5
    assert history["mean"] == [pytest.approx(1.0)] * 3


def test_many_kinds_of_batches_bring_a_warning_that_names_them():
    @ts.step
    def step(x):
        return {"mean": ops.mean(x)}

    def run():
        for length in range(1, 20):
            step(column(*range(length)).T)

    with pytest.warns(ts.TrainStepWarning, match=r"captured for 16 kinds of batches.*float32\[1, 15\] and float32\[1, 16\]"):
        run()


EPOCHS = """
    sizes = []

    class Size(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            sizes.append(held_megabytes())

    make_trainer().fit(x, y, batch_size=32, epochs=40, validation_data=(x[:70], y[:70]), callbacks=[Size()], verbose=0)
    print(min(sizes[-10:]) - min(sizes[10:20]))
"""

FITS = """
    sizes = []
    for _ in range(20):
        make_trainer().fit(x, y, batch_size=32, epochs=2, verbose=0)
        sizes.append(held_megabytes())
    print(min(sizes[-5:]) - min(sizes[5:10]))
"""

MODEL = """
    import ctypes, ctypes.util, gc, threading
    import keras, numpy as np, trainstep as ts
    from benchmarks.memory import resident_megabytes

    libc = ctypes.CDLL(ctypes.util.find_library("c"))

    def held_megabytes():
        for thread in threading.enumerate():
            if thread.name.startswith("trainstep"):  # It compiles: that takes memory for a moment.
                thread.join()
        gc.collect()
        if hasattr(libc, "malloc_trim"):
            libc.malloc_trim(0)  # What is free already is not held; glibc keeps it for a while.
        return resident_megabytes()

    x = np.random.default_rng(0).normal(size=(1000, 20)).astype("float32")
    y = np.zeros(1000, "int32")

    def make_trainer():
        model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(3)])
        optimizer, loss_fn = keras.optimizers.Adam(), keras.losses.SparseCategoricalCrossentropy(from_logits=True)

        @ts.step
        def train_step(x, y):
            with ts.GradientTape() as tape:
                loss = loss_fn(y, model(x, training=True))
            weights = model.trainable_weights
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return {"loss": loss}

        @ts.step
        def test_step(x, y):
            return {"loss": loss_fn(y, model(x, training=False))}

        return ts.Trainer(train_step, test_step, model=model)
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="the system does not say how much memory is resident")
@pytest.mark.parametrize("training", [EPOCHS, FITS], ids=["over epochs", "over fits on fresh models"])
def test_memory_is_flat(training):
    program = textwrap.dedent(MODEL) + textwrap.dedent(training)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    is_kept = training == FITS and keras.config.backend() == "tensorflow"
    assert float(run.stdout.split()[-1]) < (KEPT_BY_TENSORFLOW if is_kept else MOST_DRIFT)
