"""Several steps at once: a training with odd habits ends as it would batch by batch, and nothing that happens to it is lost."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts
from trainstep import _exploration

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(70, 4)).astype("float32")
Y = RANDOM.integers(0, 3, 70)


class BatchByBatch(keras.callbacks.Callback):
    """Wants to hear of each batch, and so keeps steps from going together."""

    def on_train_batch_end(self, batch, logs=None):
        pass


class WaitForCompilation(keras.callbacks.Callback):
    """So that a training of some milliseconds meets the loop that is compiled for it."""

    def on_epoch_end(self, epoch, logs=None):
        wait_for_compilation()


class Meddle(keras.callbacks.Callback):
    """Changes between epochs what the step reads: weights, the learning rate, which layers train; and evaluates meanwhile."""

    def __init__(self, trainer, optimizer):
        super().__init__()
        self.trainer, self.optimizer = trainer, optimizer

    def on_epoch_end(self, epoch, logs=None):
        logs["evaluated"] = self.trainer.evaluate({"a": X[:20], "b": [X[:20]]}, Y[:20], batch_size=8, verbose=0)["accuracy"]
        self.optimizer.learning_rate = 0.05 / (1 + epoch % 3)
        if epoch % 5 == 0:
            self.model.set_weights([0.9 * weight for weight in self.model.get_weights()])
        self.model.layers[0].trainable = epoch < 24


@pytest.fixture(autouse=True)
def _early(monkeypatch):
    """No training of a test is long enough to be worth another way of running it."""
    monkeypatch.setattr(_exploration.Exploration, "_is_worth", lambda *_: True)
    monkeypatch.setattr(_exploration, "NUM_SAMPLES_IF_CLOSE", 5)
    yield
    wait_for_compilation()


def wait_for_compilation():
    for thread in threading.enumerate():
        if thread.name == "trainstep compiles a loop":
            thread.join()


def make_classifier():
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(5, activation="tanh"), keras.layers.BatchNormalization(), keras.layers.Dropout(0.3)]
    model = keras.Sequential([keras.Input((4,)), *layers, keras.layers.Dense(3)])
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
    accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    @ts.step
    def train_step(x, y):
        with ts.GradientTape() as tape:
            logits = model(x["a"] - 2 * x["b"][0], training=True) + 0.1 * keras.random.normal((3,))
            loss = ops.mean((logits - ops.one_hot(y, 3)) ** 2)
        gradients = tape.gradient(loss, model.trainable_weights)
        optimizer.apply_gradients(zip(gradients, model.trainable_weights, strict=True))
        accuracy.update_state(y, logits)
        return {"loss": loss, "of": {"accuracy": accuracy}}

    @ts.step
    def test_step(x, y):
        accuracy.update_state(y, model(x["a"] - 2 * x["b"][0], training=False))
        return {"accuracy": accuracy}

    trainer = ts.Trainer(train_step, test_step, model=model)
    return trainer, train_step, Meddle(trainer, optimizer)


def make_descent():
    """The step of a linear model, and the array of its weights, read anew."""
    weights = keras.Variable(np.zeros((4, 3), "float32"))

    @ts.step
    def step(x, y):
        with ts.GradientTape() as tape:
            loss = ops.mean((ops.matmul(x, weights) - ops.one_hot(y, 3)) ** 2)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return {"loss": loss}

    return step, lambda: np.array(ops.convert_to_numpy(weights))


def test_a_training_with_odd_habits_ends_as_it_does_batch_by_batch():
    """Its epochs end inside a pass over the rows, and the last batch of a pass is short."""
    histories, states = [], []
    for way in (BatchByBatch(), WaitForCompilation()):
        trainer, step, meddle = make_classifier()
        callbacks = [way, meddle]
        fit = trainer.fit({"b": [X[::-1]], "a": X}, Y, 8, 45, verbose=0, callbacks=callbacks, steps_per_epoch=7)
        histories.append(fit.history)
        states.append([ops.convert_to_numpy(variable) for variable in step.variables])
    assert " us by " in step.report()
    for name, values in histories[0].items():
        np.testing.assert_allclose(histories[1][name], values, rtol=1e-3, atol=1e-4, err_msg=name)
    for ours, theirs in zip(*states, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "float16", "float64", "int64"])
@pytest.mark.parametrize("as_given", [np.asarray, ops.convert_to_tensor], ids=["array", "tensor"])
def test_rows_of_any_dtype_are_those_of_single_batches(dtype, as_given):
    x = as_given(np.abs(3 * X).astype(dtype))
    sums = keras.Variable(np.zeros(4, "float32"))

    @ts.step
    def step(x):
        sums.assign(0.9 * sums + ops.mean(ops.cast(x, "float32"), axis=0))

    answers = []
    for way in (BatchByBatch(), WaitForCompilation()):
        sums.assign(np.zeros(4))
        ts.Trainer(step).fit(x, batch_size=8, epochs=25, shuffle=False, verbose=0, callbacks=[way])
        answers.append(ops.convert_to_numpy(sums))
    assert " us by " in step.report()
    np.testing.assert_allclose(*answers, rtol=1e-3)


@pytest.fixture
def interrupts():
    """Ctrl-C is heard. A shell that starts a job in the background tells it to ignore that, and Python obeys."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("way", [BatchByBatch, WaitForCompilation])
def test_a_training_that_is_interrupted_keeps_its_weights(way):
    step, weights = make_descent()
    x, y = np.tile(X, (100, 1)), np.tile(Y, 100)
    ts.Trainer(step).fit(x, y, batch_size=10, epochs=15, verbose=0, callbacks=[way()])
    for i in range(6):
        before = weights()
        interrupt = threading.Timer(0.1 + 0.003 * i, signal.pthread_kill, (threading.get_ident(), signal.SIGINT))
        interrupt.start()
        with pytest.raises(KeyboardInterrupt):
            ts.Trainer(step).fit(x, y, batch_size=10, epochs=2000, verbose=0, callbacks=[way()])
        assert not np.array_equal(weights(), before)
        assert np.isfinite(weights()).all()


def test_a_training_goes_on_when_no_loop_can_be_compiled_and_its_data_have_changed_meanwhile(monkeypatch):
    may_fail = threading.Event()

    def preparation(*_):
        def fail():
            may_fail.wait(60)
            raise RuntimeError("no compiler today")

        return fail

    monkeypatch.setattr(_exploration, "preparation", preparation)
    step, weights = make_descent()
    ts.Trainer(step).fit(X.copy(), Y.copy(), batch_size=7, verbose=0)
    gc.collect()
    may_fail.set()
    wait_for_compilation()
    ts.Trainer(step).fit(X.copy(), Y.copy(), batch_size=7, epochs=6, verbose=0, callbacks=[WaitForCompilation()])
    assert "no compiler today" in step.report()
    assert np.isfinite(weights()).all()


def test_loops_follow_variables_to_other_devices():
    if keras.config.backend() != "jax":
        pytest.skip("a process of JAX can have several devices on a CPU")
    program = """
        import jax, keras, numpy as np, trainstep as ts
        from trainstep import _exploration
        _exploration.Exploration._is_worth = lambda *_: True
        from test_trainings_at_once import X, Y, BatchByBatch, WaitForCompilation, make_descent

        def fit(way):
            ts.Trainer(step).fit(X, Y, batch_size=8, epochs=25, verbose=0, shuffle=False, callbacks=[way()])

        assert len(jax.devices()) == 2
        answers = []
        for way in (BatchByBatch, WaitForCompilation):
            step, weights = make_descent()
            fit(way)
            for variable in step.variables:
                variable._value = jax.device_put(variable._value, jax.devices()[1])
            fit(way)
            keras.distribution.set_distribution(keras.distribution.DataParallel())
            for variable in step.variables:
                variable.assign(np.asarray(variable._value))
            fit(way)
            keras.distribution.set_distribution(None)
            answers.append(weights())
        assert " us by " in step.report()
        np.testing.assert_allclose(*answers, rtol=1e-4)
    """
    paths = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=2", "PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", textwrap.dedent(program)], env=environment, check=True, timeout=120)


def test_draws_are_the_same_on_tensorflow_whatever_runs_the_steps():
    tf = pytest.importorskip("tensorflow")
    if keras.config.backend() != "tensorflow":
        pytest.skip("of the TensorFlow room")
    draws = [
        lambda: tf.random.normal(()),
        lambda: keras.random.categorical(ops.zeros((1, 9)), 1)[0, 0],
        lambda: keras.random.truncated_normal(()),
    ]

    def train(draw, way):
        keras.utils.set_random_seed(3)
        drawn = keras.Variable(0.0)

        @ts.step
        def step(x):
            drawn.assign(0.9 * drawn + ops.cast(draw(), "float32"))

        ts.Trainer(step).fit(X, batch_size=8, epochs=25, verbose=0, callbacks=[way()])
        return float(ops.convert_to_numpy(drawn))

    for draw in draws:
        assert train(draw, WaitForCompilation) == pytest.approx(train(draw, BatchByBatch), rel=1e-4)
