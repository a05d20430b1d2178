"""What must hold of the diffusion model beyond its numbers."""

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts

from . import conventions
from .pages import ddim

both_ways = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


@both_ways
def test_all_but_one_element_in_a_thousand_agree_closely(compile, expected):
    judge = expected("ddim")
    numbers = conventions.record(ddim.build(native=False), ddim.steps, ddim.NUM_STEPS, compile=compile)
    is_close = [np.isclose(value, judge[key], rtol=1e-4, atol=1e-5) for key, value in numbers.items()]
    assert np.mean(np.concatenate([elements.ravel() for elements in is_close])) > 0.999
    for key in (k for k in numbers if "/logs/" in k or k.startswith("0/")):
        np.testing.assert_allclose(numbers[key], judge[key], rtol=1e-4, atol=1e-5, err_msg=key)


@both_ways
def test_the_first_loss_is_the_mean_of_a_normal_distributions_magnitude(compile):
    """The network says 0 at first, so the loss is `E|N| = sqrt(2 / pi)`."""
    page = ddim.build(native=True)
    assert float(next(ddim.steps(page, compile=compile))["n_loss"]) == pytest.approx(np.sqrt(2 / np.pi), rel=0.05)


@both_ways
def test_the_moving_average_takes_the_statistics_of_batches_along(compile):
    page = ddim.build(native=True)
    before = page.ema.get_weights()
    next(ddim.steps(page, compile=compile))
    moved = [v for v in page.ema.weights if "moving_" in v.path]
    assert len(moved) == 6
    for old, average, weight in zip(before, page.ema.weights, page.net.weights, strict=True):
        expected = 0.9 * old + 0.1 * ops.convert_to_numpy(weight.value)
        np.testing.assert_allclose(ops.convert_to_numpy(average.value), expected, rtol=1e-5, atol=1e-7)
        if "moving_" in average.path:
            assert not np.array_equal(ops.convert_to_numpy(average.value), old)


def test_fit_and_evaluate():
    """Training leaves the metric with the network alone; evaluation leaves all networks alone; every draw is another."""
    page = ddim.build(native=True)
    model = ddim.diffusion_model(page)
    train_step, test_step = ts.step(model.train_step), ts.step(model.test_step)
    trainer = ts.Trainer(train_step, test_step)
    history = trainer.fit(page.x, batch_size=8, epochs=2, validation_data=page.x[16:], verbose=0).history
    assert set(history) == {"n_loss", "i_loss", "val_n_loss", "val_i_loss", "val_kid"}
    assert np.isfinite(list(history.values())).all()
    assert (train_step.num_traces, test_step.num_traces) == (1, 1)

    before = conventions.state(page)
    first, second = (trainer.evaluate(page.x[16:], batch_size=8, verbose=0) for _ in range(2))
    after = conventions.state(page)
    changed = {key.split("/")[0] for key in after if not np.array_equal(before[key], after[key])}
    assert changed == {"n_loss", "i_loss", "kid"}
    assert first["n_loss"] != second["n_loss"]
    assert first["kid"] != second["kid"]


def test_the_distance_by_numpy():
    page = ddim.build(native=False)
    real, generated = np.random.default_rng(3).random((2, 2, 5, 8, 8, 3)).astype("float32")

    @ts.step(compile=True)
    def measure(real, generated):
        page.kid.update_state(real, generated)
        return {"kid": page.kid}

    expected = []
    for a, b in zip(real, generated, strict=True):
        fa, fb = (ops.convert_to_numpy(page.features(images)).astype("float64") for images in (a, b))
        k = {name: (p @ q.T / 6 + 1) ** 3 for name, p, q in (("aa", fa, fa), ("bb", fb, fb), ("ab", fa, fb))}
        off_diagonal = sum((k[name].sum() - np.trace(k[name])) / 20 for name in ("aa", "bb"))
        expected.append(off_diagonal - 2 * k["ab"].mean())
        logs = measure(a, b)
    assert float(logs["kid"]) == pytest.approx(np.mean(expected), rel=1e-3, abs=1e-5)
    page.kid.reset_state()
    assert float(page.kid.result()) == 0


def test_the_sampler_by_numpy(run):
    """A network that says 0 leaves the noise what it is: each step divides by the rate of the signal, and goes on to the next."""
    page = ddim.build(native=False)
    model = ddim.diffusion_model(page)
    noise = np.random.default_rng(4).normal(size=(2, 8, 8, 3)).astype("float32")
    sampled = run(model.sample, noise)
    signal = np.cos(np.arccos(0.95) + np.array([1, 2 / 3, 1 / 3]) * (np.arccos(0.02) - np.arccos(0.95)))
    images = noise / signal[0]
    for now in signal[1:]:
        images = now * images / now  # The noise seen is 0, so what is noisy next is `now` times the image.
    mean, deviation = page.x.mean(axis=(0, 1, 2)), page.x.std(axis=(0, 1, 2))
    np.testing.assert_allclose(sampled, np.clip(mean + images * deviation, 0, 1), rtol=1e-3, atol=1e-4)


def test_normalisation_is_adapted_to_the_training_data():
    page = ddim.build(native=False)
    normalised = ops.convert_to_numpy(page.norm(page.x))
    np.testing.assert_allclose(normalised.mean(axis=(0, 1, 2)), 0, atol=1e-5)
    np.testing.assert_allclose(normalised.std(axis=(0, 1, 2)), 1, rtol=1e-4)
    assert not any(isinstance(layer, keras.layers.Normalization) for layer in page.net.layers)
