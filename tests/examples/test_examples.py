"""Each listing in `examples/` runs, eagerly and compiled, and gives the numbers that NumPy gives."""

import math

import keras
import numpy as np
import pytest

from load_example import load_example
from trainstep import digits

pytestmark = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


def test_update_by_hand(compile):
    by_hand, with_optimizer = load_example("update_by_hand").main(compile, num_samples=1_000)
    expected = _softmax_regression_losses(num_samples=1_000, batch_size=128, learning_rate=0.1)
    np.testing.assert_allclose(by_hand, expected, rtol=1e-5)
    np.testing.assert_allclose(with_optimizer, expected, rtol=1e-5)


def test_loops_by_hand(compile, capsys):
    pytest.importorskip("tensorflow", reason="the listing feeds its loops from a tf.data pipeline")
    history, evaluation, model = load_example("loops_by_hand").main(compile, num_samples=650, epochs=3)

    assert [sorted(logs) for logs in history] == [["accuracy", "loss"]] * 3
    assert history[2]["loss"] < history[0]["loss"]
    _, (images, labels) = digits.load()
    probabilities = model.predict(images[:650].reshape(-1, 784).astype("float32") / 255, verbose=0)
    assert evaluation["val_accuracy"] == pytest.approx(np.mean(probabilities.argmax(axis=-1) == labels[:650]), abs=1e-6)
    assert evaluation["val_loss"] == pytest.approx(_mean_of_batch_losses(probabilities, labels[:650], batch_size=32), rel=1e-4)
    assert f"...val_loss: {evaluation['val_loss']:.4f}\n" in capsys.readouterr().out


def test_linear_classifier(compile):
    by_gradients, least_squares = load_example("linear_classifier").main(compile)
    np.testing.assert_allclose(by_gradients, least_squares, atol=1e-5)


def test_fit_with_callbacks(compile):
    history, batch_losses, evaluation = load_example("fit_with_callbacks").main(compile, num_samples=1_000, epochs=4)

    num_epochs = len(history.history["loss"])
    assert set(history.history) == {"loss", "accuracy", "val_loss", "val_accuracy"}
    assert len(batch_losses.values) == num_epochs * math.ceil(800 / 64)
    assert history.history["loss"][-1] < history.history["loss"][0]
    assert batch_losses.values[-1] == pytest.approx(history.history["loss"][-1], rel=1e-5)
    assert evaluation["loss"] == pytest.approx(min(history.history["val_loss"]), rel=1e-5)


def test_gradient_ascent(compile):
    model, images, gradients, moved = load_example("gradient_ascent").main(compile, num_samples=200, num_steps=5)

    hidden, output = (keras.ops.convert_to_numpy(layer.kernel) for layer in model.layers[-2:])
    bias = keras.ops.convert_to_numpy(model.layers[-2].bias)
    is_active = images.reshape(5, 784) @ hidden + bias > 0
    expected = (is_active * output[:, 3] @ hidden.T).reshape(5, 28, 28)
    np.testing.assert_allclose(gradients, expected, rtol=1e-4, atol=1e-6)
    norms = np.sqrt(np.sum(expected**2, axis=(1, 2), keepdims=True))
    np.testing.assert_allclose(moved, images + expected / norms, rtol=1e-4, atol=1e-6)


def _softmax_regression_losses(num_samples: int, batch_size: int, learning_rate: float) -> list[float]:
    (images, labels), _ = digits.load()
    x, y = images[:num_samples].reshape(-1, 784) / 255.0, np.eye(10)[labels[:num_samples]]
    kernel, bias, losses = np.zeros((784, 10)), np.zeros(10), []
    for start in range(0, num_samples, batch_size):
        inputs, targets = x[start : start + batch_size], y[start : start + batch_size]
        exponentials = np.exp(inputs @ kernel + bias)
        probabilities = exponentials / exponentials.sum(axis=1, keepdims=True)
        losses.append(-np.mean(np.sum(targets * np.log(probabilities), axis=1)))
        error = (probabilities - targets) / len(inputs)
        kernel -= learning_rate * inputs.T @ error
        bias -= learning_rate * error.sum(axis=0)
    return losses


def _mean_of_batch_losses(probabilities: np.ndarray, labels: np.ndarray, batch_size: int) -> float:
    """What a `Mean` of the losses of the batches holds: each batch counts the same, the short last one too."""
    losses = -np.log(probabilities[np.arange(len(labels)), labels])
    return float(np.mean([losses[start : start + batch_size].mean() for start in range(0, len(labels), batch_size)]))
