"""What the page `eikonal` wants checked besides its numbers."""

import keras
import numpy as np
import pytest

import trainstep as ts

from .conventions import batch, state
from .pages import eikonal

both_ways = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])
numpy = keras.ops.convert_to_numpy


def travel_time(weights, sx, sy, rx, ry):
    """T in float64, by hand."""

    def slowness(*point):
        hidden = np.concatenate(point, axis=1)
        for w, b in zip(weights[:-2:2], weights[1:-2:2], strict=True):
            hidden = np.exp(-((hidden @ w + b) ** 2))
        return 1 / (1 + np.exp(-(hidden @ weights[-2] + weights[-1])))

    mean_slowness = (slowness(sx, sy, rx, ry) + slowness(rx, ry, sx, sy)) / 2
    return np.hypot(rx - sx, ry - sy) * ((1 - 1 / 3.5) * mean_slowness + 1 / 3.5)


@both_ways
def test_the_gradient_layer_agrees_with_central_differences(compile):
    page = eikonal.build(native=False)
    layer = next(x for x in page.residual.layers if isinstance(x, eikonal.ReceiverGradient))
    points = eikonal.inputs(page)[:4]
    gradient = numpy(ts.step(lambda *inputs: layer(list(inputs)), compile=compile).predict(tuple(points)))
    weights = [numpy(w).astype("float64") for w in page.travel_time.weights]
    sx, sy, rx, ry = (p.astype("float64") for p in points)
    h = 1e-5
    along_x = (travel_time(weights, sx, sy, rx + h, ry) - travel_time(weights, sx, sy, rx - h, ry)) / (2 * h)
    along_y = (travel_time(weights, sx, sy, rx, ry + h) - travel_time(weights, sx, sy, rx, ry - h)) / (2 * h)
    np.testing.assert_allclose(gradient, np.concatenate([along_x, along_y], axis=1), rtol=1e-4, atol=1e-4)


def test_travel_time_is_the_same_both_ways():
    page = eikonal.build(native=False)
    sx, sy, rx, ry = eikonal.inputs(page)[:4]
    there, back = (ts.Trainer(model=page.travel_time).predict(p, verbose=0) for p in ([sx, sy, rx, ry], [rx, ry, sx, sy]))
    np.testing.assert_allclose(there, back, rtol=1e-6)
    assert there.min() > 0


def test_the_model_is_built_without_numbers():
    residual = eikonal.build(native=False).residual
    symbolic = residual([keras.Input((1,)) for _ in range(5)])
    assert (tuple(symbolic.shape), symbolic.dtype) == ((None, 1), "float32")


@both_ways
def test_fit_agrees_with_the_steps_one_by_one(compile):
    by_hand, by_fit = eikonal.build(native=False), eikonal.build(native=False)
    before = state(by_fit)
    run = eikonal.steps(by_hand, compile=compile)
    *_, logs = (next(run) for _ in range(4))
    train_step = eikonal.make_train_step(by_fit, compile=compile)
    history = ts.Trainer(train_step).fit(
        eikonal.inputs(by_fit), by_fit.target, batch_size=eikonal.BATCH_SIZE, epochs=1, shuffle=False, verbose=0
    )
    np.testing.assert_allclose(history.history["loss"], [float(logs["loss"])], rtol=1e-5)
    for key, value in state(by_hand).items():
        np.testing.assert_allclose(state(by_fit)[key], value, rtol=1e-5, atol=1e-7, err_msg=key)
        if key.startswith("travel_time/"):
            assert np.abs(value - before[key]).max() > 1e-4
    assert train_step.num_traces == (1 if compile else 0)


def test_summary_and_saving_know_the_gradient_layer(tmp_path):
    page = eikonal.build(native=False)
    lines = []
    next(eikonal.steps(page, compile=True))
    page.residual.summary(print_fn=lambda line, **_: lines.append(line))
    assert "ReceiverGradient" in "".join(lines)
    page.residual.save(tmp_path / "residual.keras")
    loaded = keras.saving.load_model(tmp_path / "residual.keras")
    points = eikonal.inputs(page)
    np.testing.assert_allclose(numpy(loaded(points)), numpy(page.residual(points)), rtol=1e-6)


def test_the_residual_is_trained_towards_zero():
    page = eikonal.build(native=False)
    train_step = eikonal.make_train_step(page, compile=True)
    losses = []
    for t in range(60):
        *points, target = batch(t, 16, *eikonal.inputs(page), page.target)
        losses.append(float(train_step(points, target)["loss"]))
        page.mean_loss.reset_state()
    assert np.mean(losses[-4:]) < 0.7 * np.mean(losses[:4])
