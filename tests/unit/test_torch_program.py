"""A step captured by PyTorch: what it computes, and what it leaves behind."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import trainstep as ts

if keras.config.backend() != "torch":
    pytest.skip("the PyTorch room", allow_module_level=True)

import torch
from keras import layers

from trainstep import backends
from trainstep.backends.torch import _inductor, _private

RNG = np.random.default_rng(0)
X = RNG.random((64, 6)).astype("float32")
Y = RNG.integers(0, 3, 64).astype("int32")


def _classifier(optimizer: keras.optimizers.Optimizer, compile: bool) -> tuple[keras.Model, ts.Step]:
    model = keras.Sequential([keras.Input((6,)), layers.Dense(5, activation="tanh"), layers.Dense(3)])
    loss_fn = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @ts.step(compile=compile)
    def step(x: Any, y: Any) -> dict[str, Any]:
        with ts.GradientTape() as tape:
            loss = optimizer.scale_loss(loss_fn(y, model(x, training=True)))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights, strict=True))
        return {"loss": loss}

    return model, step


def _raw_losses(weights: list[np.ndarray], num_steps: int) -> list[float]:
    """The same training in plain PyTorch, RMSprop as Keras defines it."""
    w1, b1, w2, b2 = parameters = [torch.tensor(w, requires_grad=True) for w in weights]
    averages = [torch.zeros_like(p) for p in parameters]
    losses = []
    for i in range(num_steps):
        x, y = (torch.tensor(a[(8 * i) % 64 :][:8]) for a in (X, Y))
        loss = torch.nn.functional.cross_entropy(torch.tanh(x @ w1 + b1) @ w2 + b2, y.long())
        losses.append(float(loss.detach()))
        with torch.no_grad():
            for p, average, g in zip(parameters, averages, torch.autograd.grad(loss, parameters), strict=True):
                average.mul_(0.9).add_(0.1 * g * g)
                p.sub_(0.01 * g / torch.sqrt(average + 1e-7))
    return losses


@pytest.mark.parametrize("compile", [False, True], ids=["eager", "captured"])
def test_thirty_steps_agree_with_plain_pytorch(compile: bool) -> None:
    model, step = _classifier(keras.optimizers.RMSprop(0.01), compile)
    expected = _raw_losses([w.numpy() for w in model.trainable_weights], 30)
    losses = [step(X[(8 * i) % 64 :][:8], Y[(8 * i) % 64 :][:8])["loss"].item() for i in range(30)]
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    assert step.num_traces == (1 if compile else 0)


OPTIMIZERS: dict[str, Callable[[], keras.optimizers.Optimizer]] = {
    "sgd": lambda: keras.optimizers.SGD(0.1),
    "sgd momentum": lambda: keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda: keras.optimizers.Adam(0.1),
    "nadam": lambda: keras.optimizers.Nadam(0.1),
    "adadelta": lambda: keras.optimizers.Adadelta(1.0),
    "ftrl": lambda: keras.optimizers.Ftrl(0.1),
    "loss scale": lambda: keras.optimizers.LossScaleOptimizer(
        keras.optimizers.Adam(0.1), initial_scale=8.0, dynamic_growth_steps=2
    ),
    "accumulation": lambda: keras.optimizers.Adam(0.1, gradient_accumulation_steps=2),
    "ema": lambda: keras.optimizers.Adam(0.1, use_ema=True, ema_overwrite_frequency=2),
    "warmup": lambda: keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(0.0, 10, warmup_target=0.2, warmup_steps=2)),
    "clipped": lambda: keras.optimizers.Adam(0.1, global_clipnorm=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_does_the_same_captured_as_in_keras(name: str) -> None:
    optimizer = OPTIMIZERS[name]()
    model, step = _classifier(optimizer, True)
    before = [w.numpy().copy() for w in model.trainable_weights]
    for _ in range(5):
        step(X[:16], Y[:16])
    captured = [w.numpy() for w in model.trainable_weights]

    reference, loss_fn = OPTIMIZERS[name](), keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    for w, value in zip(model.trainable_weights, before, strict=True):
        w.assign(value)
    for _ in range(5):
        loss = reference.scale_loss(loss_fn(torch.tensor(Y[:16]), model(torch.tensor(X[:16]))))
        gradients = torch.autograd.grad(loss, [w.value for w in model.trainable_weights])
        reference.apply(gradients, model.trainable_weights)
    for w, value, old in zip(model.trainable_weights, captured, before, strict=True):
        np.testing.assert_allclose(value, w.numpy(), rtol=2e-5, atol=1e-6)
        assert not np.allclose(value, old)
    for ours, theirs in zip(optimizer.variables, reference.variables, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-5, atol=1e-6)


def _attention() -> keras.Model:
    inputs = keras.Input((5, 6))
    return keras.Model(inputs, layers.MultiHeadAttention(2, 3, dropout=0.2)(inputs, inputs))


SEQUENCE = RNG.random((4, 5, 6)).astype("float32")
IMAGES = RNG.random((4, 8, 8, 3)).astype("float32")
IDS = RNG.integers(0, 9, (4, 5)).astype("int32")

MODELS: dict[str, tuple[Callable[[], keras.Model], np.ndarray]] = {
    "batch normalization": (lambda: keras.Sequential([layers.Dense(4), layers.BatchNormalization()]), X[:4]),
    "layer normalization": (lambda: keras.Sequential([layers.Dense(4), layers.LayerNormalization()]), X[:4]),
    "convolution": (lambda: keras.Sequential([layers.Conv2D(4, 3), layers.MaxPooling2D(), layers.Dropout(0.3)]), IMAGES),
    "lstm": (lambda: keras.Sequential([layers.LSTM(3, dropout=0.2, recurrent_dropout=0.2)]), SEQUENCE),
    "gru": (lambda: keras.Sequential([layers.Bidirectional(layers.GRU(3))]), SEQUENCE),
    "embedding": (lambda: keras.Sequential([layers.Embedding(9, 4, mask_zero=True), layers.LSTM(3)]), IDS),
    "attention": (_attention, SEQUENCE),
    "augmentation": (
        lambda: keras.Sequential([layers.RandomFlip(), layers.RandomRotation(0.1), layers.GaussianNoise(0.1)]),
        IMAGES,
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_layers_do_the_same_captured_and_eager(name: str) -> None:
    """The models are built inside the step."""
    make, x = MODELS[name]

    def outputs(compile: bool) -> list[np.ndarray]:
        keras.utils.set_random_seed(2)
        model = make()

        def step(inputs: Any) -> Any:
            with ts.GradientTape() as tape:
                y = model(inputs, training=True)
                loss = keras.ops.sum(y**2)
            gradients = tape.gradient(loss, model.trainable_weights) if model.trainable_weights else []
            for w, g in zip(model.trainable_weights, gradients, strict=True):
                w.assign_sub(0.01 * g)
            return y

        runner = ts.step(step, compile=compile)
        return [runner.predict(x).numpy() for _ in range(3)] + [v.numpy() for v in model.variables]

    for captured, eager in zip(outputs(True), outputs(False), strict=True):
        np.testing.assert_allclose(captured, eager, rtol=1e-5, atol=1e-6)


def test_capturing_changes_no_variable_and_what_it_creates_has_its_initial_value() -> None:
    model, step = _classifier(keras.optimizers.Adam(0.1), True)
    before = [w.numpy().copy() for w in model.variables]
    step.prepare((X[:8], Y[:8]))
    for w, value in zip(model.variables, before, strict=True):
        np.testing.assert_array_equal(w.numpy(), value)
    momenta = [v for v in step.variables if "momentum" in v.path]
    assert len(momenta) == 4
    assert not any(v.numpy().any() for v in momenta)


def test_a_failed_capture_changes_no_variable() -> None:
    w = keras.Variable([1.0, 2.0])

    def step(x: Any) -> dict[str, Any]:
        w.assign_add(x)
        return {"w": keras.ops.sum(w) if float(keras.ops.sum(w)) > 0 else x[0]}

    with pytest.raises(ts.CaptureError):
        ts.step(step, compile=True)(np.ones(2, "float32"))
    np.testing.assert_array_equal(w.numpy(), [1.0, 2.0])


def test_a_batch_is_never_changed_although_the_step_changes_it() -> None:
    x = torch.ones(3)
    step = ts.step(lambda t: t.mul_(2.0), compile=True)
    np.testing.assert_array_equal(step.predict(x).numpy(), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(step.predict(x).numpy(), [2.0, 2.0, 2.0])
    np.testing.assert_array_equal(x.numpy(), [1.0, 1.0, 1.0])


@pytest.mark.parametrize("compile", [False, True], ids=["eager", "captured"])
def test_an_output_that_is_a_variable_stays_when_the_variable_goes_on(compile: bool) -> None:
    w = keras.Variable([0.0, 0.0])

    def step() -> Any:
        w.assign_add([1.0, 1.0])
        return w.value

    runner = ts.step(step, compile=compile)
    first, second = runner.predict(()), runner.predict(())
    np.testing.assert_array_equal(first.numpy(), [1.0, 1.0])
    np.testing.assert_array_equal(second.numpy(), [2.0, 2.0])


def test_stateless_leaves_the_variables_and_the_given_state_alone() -> None:
    w = keras.Variable(5.0)

    def step(x: Any) -> list[Any]:
        w.assign_add(x[0])
        return [w * 2]

    program = backends.active().capture(lambda batch: step(*batch), [torch.ones(1)], name="step")
    state = [torch.tensor(10.0)]
    outputs, new = program.stateless(state, [torch.tensor([3.0])])
    assert (float(outputs[0]), float(new[0]), float(state[0]), float(w.numpy())) == (26.0, 13.0, 10.0, 5.0)


def test_a_batch_with_other_strides_is_the_same_batch() -> None:
    step = ts.step(lambda t: t @ torch.arange(3.0), compile=True)
    x = torch.arange(6.0).reshape(3, 2)
    np.testing.assert_array_equal(step.predict(x.T).numpy(), x.T.numpy() @ np.arange(3.0, dtype="float32"))


def test_a_step_inside_a_step_becomes_part_of_it() -> None:
    w = keras.Variable(2.0)

    @ts.step(compile=True)
    def inner(x: Any) -> dict[str, Any]:
        w.assign_add(1.0)
        return {"y": keras.ops.sum(x) * w}

    outer = ts.step(lambda x: inner.predict(x)["y"] * 10.0, compile=True)
    assert [float(outer.predict(np.full(2, v, "float32"))) for v in (1.0, 2.0)] == [60.0, 160.0]


@pytest.mark.parametrize("compile", [False, True], ids=["eager", "captured"])
def test_a_gradient_taken_after_an_update_is_that_of_the_old_weights(compile: bool) -> None:
    w, x = keras.Variable([2.0, 3.0]), np.array([1.0, 4.0], "float32")

    def step(x: Any) -> Any:
        with ts.GradientTape() as first, ts.GradientTape() as second:
            y = keras.ops.sum(w**2 * x)
            z = keras.ops.sum(w**3)
        w.assign_sub(first.gradient(y, w))
        return second.gradient(z, w)

    np.testing.assert_allclose(ts.step(step, compile=compile).predict(x).numpy(), [12.0, 27.0])
    np.testing.assert_allclose(w.numpy(), [-2.0, -21.0])


def test_without_a_compiler_steps_run_as_captured_graphs_and_say_so_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRAINSTEP_INDUCTOR", raising=False)

    def find_none() -> str:
        raise RuntimeError("no C++ compiler")

    monkeypatch.setattr(_private, "find_cpp_compiler", find_none)
    monkeypatch.setattr(_inductor, "_has_warned", False)
    step, another = (ts.step(lambda x, factor=factor: x * factor, compile=True) for factor in (2.0, 3.0))
    with pytest.warns(ts.TrainStepWarning, match=r"No C\+\+ compiler.*g\+\+"):
        np.testing.assert_allclose(step.predict(X).numpy(), X * 2)
    np.testing.assert_allclose(another.predict(X).numpy(), X * 3)  # a second warning would be an error
    assert "captured graph, not compiled: no C++ compiler found" in step.report()
