"""Random draws in a step on PyTorch: the numbers are Keras' own, eager and captured, and differ from step to step."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import trainstep as ts

if keras.config.backend() != "torch":
    pytest.skip("the PyTorch room", allow_module_level=True)

import torch

random = keras.random
Draw = Callable[[Any], torch.Tensor]

DRAWS: dict[str, Draw] = {
    "normal": lambda seed: random.normal((3, 4), 1.0, 2.0, seed=seed),
    "truncated_normal": lambda seed: random.truncated_normal((50,), 1.0, 2.0, seed=seed),
    "uniform": lambda seed: random.uniform((3, 4), -1.0, 2.0, seed=seed),
    "uniform scalar": lambda seed: random.uniform((), seed=seed),
    "randint": lambda seed: random.randint((20,), 3, 9, seed=seed),
    "categorical": lambda seed: random.categorical(np.array([[0.0, 1.0, 2.0]], "float32"), 20, seed=seed),
    "dropout": lambda seed: random.dropout(torch.ones(5, 6), 0.4, seed=seed),
    "dropout noise_shape": lambda seed: random.dropout(torch.ones(5, 6), 0.4, noise_shape=(5, 1), seed=seed),
    "shuffle": lambda seed: random.shuffle(torch.arange(24).reshape(12, 2), seed=seed),
    "shuffle axis 1": lambda seed: random.shuffle(torch.arange(24).reshape(2, 12), axis=1, seed=seed),
    "gamma": lambda seed: random.gamma((7,), 2.5, seed=seed),
    "binomial": lambda seed: random.binomial((7,), 10.0, 0.3, seed=seed),
    "beta": lambda seed: random.beta((7,), 2.0, 3.0, seed=seed),
}


@pytest.mark.parametrize("compile", [False, True], ids=["eager", "captured"])
@pytest.mark.parametrize("name", DRAWS)
def test_draws_are_keras_own_and_go_on_from_step_to_step(name: str, compile: bool) -> None:
    draw = DRAWS[name]
    reference = random.SeedGenerator(7)
    expected = [draw(reference).numpy() for _ in range(3)]

    generator = random.SeedGenerator(7)
    step = ts.step(lambda: draw(generator), compile=compile)
    drawn = [step.predict(()).numpy() for _ in range(3)]

    for got, wanted in zip(drawn, expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)
    assert name in ("uniform scalar", "dropout noise_shape") or not np.array_equal(drawn[0], drawn[1])
    np.testing.assert_array_equal(generator.state.numpy(), reference.state.numpy())


@pytest.mark.parametrize("name", ["normal", "uniform", "randint", "dropout"])
def test_a_constant_seed_repeats_itself_in_a_step_too(name: str) -> None:
    step = ts.step(lambda: DRAWS[name](11), compile=True)
    np.testing.assert_array_equal(step.predict(()).numpy(), DRAWS[name](11).numpy())
    np.testing.assert_array_equal(step.predict(()).numpy(), DRAWS[name](11).numpy())


def _dropped(compile: bool) -> list[np.ndarray]:
    keras.utils.set_random_seed(5)
    layer = keras.layers.Dropout(0.25)
    step = ts.step(lambda x: layer(x, training=True), compile=compile)
    return [step.predict(torch.ones(400, 50)).numpy() for _ in range(3)]


def test_dropout_without_a_seed_is_the_same_eager_and_captured_and_repeats_with_the_same_seed() -> None:
    eager, captured, again = _dropped(False), _dropped(True), _dropped(True)
    np.testing.assert_array_equal(eager, captured)
    np.testing.assert_array_equal(captured, again)
    assert len({mask.tobytes() for mask in captured}) == 3
    assert np.mean(captured[0] > 0) == pytest.approx(0.75, abs=0.01)
    np.testing.assert_allclose(captured[0][captured[0] > 0], 1 / 0.75, rtol=1e-6)


def test_the_gradient_of_dropout_is_its_mask() -> None:
    layer = keras.layers.Dropout(0.5, seed=3)

    def both(x: torch.Tensor) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
        return y, tape.gradient(y, x)

    y, gradient = ts.step(both, compile=True).predict(torch.full((8, 8), 3.0))
    np.testing.assert_allclose(y.numpy(), 3.0 * gradient.numpy())
    assert set(gradient.numpy().ravel()) == {0.0, 2.0}


def test_keras_draws_as_before_outside_of_a_step() -> None:
    draw = keras.src.backend.torch.random.normal
    ts.step(lambda: DRAWS["normal"](1), compile=True).predict(())
    assert keras.src.backend.torch.random.normal is draw
