"""Case 07: a Python number that changes is not ignored by the compiled step."""

import keras
import numpy as np
import pytest

import trainstep as ts


def w1():
    return keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])


class Weighted:
    """A step with a plain Python attribute."""

    def __init__(self, compile, k):
        self.k = k
        self.model = w1()
        self.optimizer = keras.optimizers.SGD(0.0)
        self.losses = []
        self.train_step = ts.step(self.run, compile=compile)

    def run(self, x):
        """`k` times the mean prediction."""
        with ts.GradientTape() as tape:
            loss = self.k * keras.ops.mean(self.model(x))
        weights = self.model.trainable_weights
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}


X = np.ones((4, 1), "float32")


@pytest.mark.parametrize("how", ["fit", "calls"])
@pytest.mark.parametrize("compile", [True, False])
def test_an_attribute_that_a_callback_changes(compile, how, recwarn):
    steps = Weighted(compile, k=0)
    if how == "fit":
        change = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: setattr(steps, "k", epoch + 1))
        losses = ts.Trainer(steps.train_step).fit(X, batch_size=2, epochs=3, callbacks=[change], verbose=0).history["loss"]
    else:
        losses = []
        for k in (1, 2, 3):
            steps.k = k
            losses.append(float(steps.train_step(X)["loss"]))
    np.testing.assert_allclose(losses, [1, 2, 3], rtol=1e-5)
    warnings = [w for w in recwarn if issubclass(w.category, ts.TrainStepWarning)]
    assert len(warnings) == (1 if compile else 0)
    if compile:
        assert "`self.k` changed from" in str(warnings[0].message)
        assert "keras.Variable" in str(warnings[0].message)


@pytest.mark.parametrize("compile", [True, False])
def test_a_variable(compile, recwarn):
    steps = Weighted(compile, k=keras.Variable(0.0, trainable=False))
    change = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: steps.k.assign(epoch + 1.0))
    losses = ts.Trainer(steps.train_step).fit(X, batch_size=2, epochs=3, callbacks=[change], verbose=0).history["loss"]
    np.testing.assert_allclose(losses, [1, 2, 3], rtol=1e-5)
    assert steps.train_step.num_traces == (1 if compile else 0)
    assert not [w for w in recwarn if issubclass(w.category, ts.TrainStepWarning)]


def test_a_value_that_the_step_itself_counts_up_is_no_change():
    counts = {"python": 0}

    @ts.step(compile=True)
    def train_step(x):
        counts["python"] += 1
        return {"loss": keras.ops.mean(x)}

    for rows in (X, X[:3], X, X[:3], X):
        train_step(rows)
    assert counts["python"] == train_step.num_traces == 2


def test_a_list_that_the_compiled_step_appends_to():
    steps = Weighted(True, k=1.0)

    @ts.step(compile=True)
    def train_step(x):
        logs = steps.run(x)
        steps.losses.append(logs["loss"])
        return logs

    with pytest.raises(ts.CaptureError, match=r"steps\.losses.*only while it is captured.*compile=False"):
        train_step(X)
    assert steps.losses == []


def test_a_list_that_the_eager_step_appends_to():
    steps = Weighted(False, k=1.0)

    @ts.step(compile=False)
    def train_step(x):
        logs = steps.run(x)
        steps.losses.append(logs["loss"])
        return logs

    train_step(X)
    train_step(2 * X)
    np.testing.assert_allclose([keras.ops.convert_to_numpy(loss) for loss in steps.losses], [1, 2], rtol=1e-5)


@pytest.mark.parametrize("compile", [True, False])
def test_a_step_that_prints_leaves_nothing_behind(compile, capsys):
    steps = Weighted(compile, k=1.0)

    @ts.step(compile=compile)
    def train_step(x):
        logs = steps.run(x)
        print("loss is", logs["loss"])
        return logs

    losses = [float(train_step(i * X)["loss"]) for i in (1.0, 2.0)]
    np.testing.assert_allclose(losses, [1, 2], rtol=1e-5)
    assert capsys.readouterr().out.count("loss is") == (1 if compile else 2)


@pytest.mark.parametrize("compile", [True, False])
def test_freezing_a_layer_takes_effect_without_a_warning(compile, recwarn):
    model = keras.Sequential([keras.Input((1,)), *(keras.layers.Dense(1, use_bias=False, kernel_initializer="ones") for _ in "ab")])
    optimizer = keras.optimizers.SGD(0.1)
    optimizer.build(model.trainable_weights)

    @ts.step(compile=compile)
    def train_step(x):
        with ts.GradientTape() as tape:
            loss = keras.ops.mean(keras.ops.square(model(x)))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights, strict=True))
        return {"loss": loss}

    train_step(X)
    np.testing.assert_allclose([float(w) for w in np.ravel(model.get_weights())], [0.8, 0.8], rtol=1e-5)
    model.layers[0].trainable = False
    train_step(X)
    np.testing.assert_allclose([float(w) for w in np.ravel(model.get_weights())], [0.8, 0.6976], rtol=1e-5)
    assert not [w for w in recwarn if issubclass(w.category, ts.TrainStepWarning)]
