"""The listings that newcomers look for learn something, and do the same eagerly and compiled, at settings that take seconds."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts
from load_example import load_example
from trainstep import digits


@pytest.fixture
def picture(tmp_path):
    """Where a listing draws its picture; it is looked for after the test."""
    pytest.importorskip("matplotlib", reason="the listing draws what it has learned")
    path = tmp_path / "picture.png"
    yield str(path)
    assert path.read_bytes().startswith(b"\x89PNG")


# An eager step on JAX compiles each operation by itself, and these have hundreds.
many_operations = pytest.mark.skipif(keras.backend.backend() == "jax", reason="hundreds of operations, each compiled by itself")
A_FEW_STEPS = {
    "actor_critic": {"num_updates": 10},
    "dcgan": {"num_samples": 100, "epochs": 1},
    "diffusion": {"num_samples": 200, "epochs": 1, "num_units": 32},
    "grad_cam": {"num_samples": 100, "epochs": 1},
    "knowledge_distillation": {"num_samples": 200, "epochs": 1},
    "physics_informed": {"num_steps": 3},
    "variational_autoencoder": {"num_samples": 200, "epochs": 1},
    "wgan_gp": {"num_points": 512, "epochs": 1},
}
HAVE_FEW_OPERATIONS = {"actor_critic", "physics_informed", "wgan_gp"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in HAVE_FEW_OPERATIONS else many_operations) for name in A_FEW_STEPS]
)
def test_eager_and_compiled_agree(name):
    eager, compiled = (_numbers(load_example(name).main(compile, **A_FEW_STEPS[name])) for compile in (False, True))
    for one, other in zip(eager, compiled, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_variational_autoencoder(picture):
    main = load_example("variational_autoencoder").main
    history, evaluation, _ = main(True, num_samples=1_000, epochs=20, picture=picture)

    losses, reconstructions, kls = (np.array(history.history[name]) for name in ("loss", "reconstruction", "kl"))
    np.testing.assert_allclose(losses, reconstructions + kls, rtol=1e-5)
    assert evaluation["kl"] > 1
    assert evaluation["reconstruction"] + evaluation["kl"] < 0.95 * _nats_of_the_mean_image(num_samples=1_000)


def test_dcgan(picture):
    example = load_example("dcgan")
    _, generated = example.main(True, num_samples=500, epochs=8, picture=picture)

    real = example.load_images(500)[..., 0]
    assert _correlation(generated.mean(axis=0), real.mean(axis=0)) > 0.7


def test_wgan_gp(picture):
    history, points = load_example("wgan_gp").main(True, num_points=2_560, epochs=10, picture=picture)

    spots = np.exp(2j * np.pi * np.arange(8) / 8)
    distances = abs(points[:, :1] + 1j * points[:, 1:] - spots)
    assert distances.min(axis=1).mean() < 0.6  # A point at the centre is at 1.
    assert np.bincount(distances.argmin(axis=1), minlength=8).min() > 0.04 * len(points)
    assert history.history["penalty"][-1] < 0.1


def test_knowledge_distillation():
    losses, accuracies = load_example("knowledge_distillation").main(True, num_samples=1_000, epochs=15)

    assert losses[-1] < 0.1 * losses[0]
    assert accuracies["teacher"][0] > 0.8
    assert accuracies["student"][0] > 0.7
    assert accuracies["student"][1] > accuracies["alone"][1] == 0  # No label has ever told either of them of a three.


def test_diffusion(picture):
    example = load_example("diffusion")
    history, drawn = example.main(True, num_samples=500, epochs=40, num_units=128, picture=picture)

    images = example.load_images(500)
    error_of_the_mean_image = images.var(axis=0).mean()
    assert np.mean(history.history["loss"][-5:]) < 0.92 * error_of_the_mean_image
    assert _correlation(drawn.mean(axis=0).ravel(), images.mean(axis=0)) > 0.9


def test_diffusion_samples_a_normal_distribution():
    """For images from one, what is behind the noise is known in closed form, and so is where each noise leads."""
    example = load_example("diffusion")
    mean, deviation = np.array([0.5, -0.3], "float32"), 0.2
    centre = ops.convert_to_tensor(mean)

    def predict_image(noisy, time):
        image_share, noise_share = example.shares(time)
        gain = image_share * deviation**2 / (image_share**2 * deviation**2 + noise_share**2)
        return centre + gain * (noisy - image_share * centre)

    @ts.step(compile=True)
    def draw_images(noise):
        return example.sample(predict_image, noise, num_steps=40)

    noise = np.random.default_rng(0).normal(size=(50, 2)).astype("float32")
    images = ops.convert_to_numpy(draw_images.predict(noise))
    np.testing.assert_allclose(images, mean + deviation * noise, atol=0.05)


def test_actor_critic():
    num_moves = load_example("actor_critic").main(True, num_updates=40)
    assert num_moves[0] < 40  # Chance balances a pole for about 22 moves.
    assert num_moves[-1] > 50


def test_actor_critic_returns():
    example = load_example("actor_critic")
    returns = example.discounted_returns(np.array([[False, True], [False, False]]), last_values=np.array([1.0, 0.5], "float32"))
    np.testing.assert_allclose(returns, [[1, 0.01], [1, 0.01 + 0.99 * 0.5]], rtol=1e-6)


def test_grad_cam(picture):
    example = load_example("grad_cam")
    head, maps, heat, corners = example.main(True, num_samples=500, epochs=6, picture=picture)

    kernel, bias = (ops.convert_to_numpy(weight) for weight in head.weights)
    classes = (maps.max(axis=(1, 2)) @ kernel + bias).argmax(axis=1)
    expected = np.maximum(np.einsum("bhwc,cb->bhw", maps, kernel[:, classes]) / (14 * 14), 0)
    np.testing.assert_allclose(heat, expected, rtol=1e-3, atol=1e-5)

    share_of_the_cells = example.share_on_digits(np.ones_like(heat), corners)
    assert example.share_on_digits(heat, corners) > 1.2 * share_of_the_cells


def test_physics_informed(picture):
    losses, learned, exact = load_example("physics_informed").main(True, num_steps=200, picture=picture)

    assert losses[-1] < 0.05 * losses[0]
    np.testing.assert_allclose(learned, exact, atol=0.04)
    x = np.linspace(0, 1, 51)
    np.testing.assert_allclose(exact[0], np.sin(np.pi * x), atol=1e-12)
    decay = np.exp(-0.1 * np.pi**2 * 0.5)  # Half-way in time.
    np.testing.assert_allclose(exact[5], decay * np.sin(np.pi * x), atol=1e-12)


def _numbers(result: Any) -> list[Any]:
    """All that a listing gives, as arrays: a history is its logs, a model its weights."""

    def of(leaf: Any) -> Any:
        if isinstance(leaf, keras.callbacks.History):
            return leaf.history
        return leaf.get_weights() if isinstance(leaf, keras.Model) else leaf

    return [np.asarray(leaf) for leaf in keras.tree.flatten(keras.tree.map_structure(of, result))]


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.corrcoef(first.ravel(), second.ravel())[0, 1])


def _nats_of_the_mean_image(num_samples: int) -> float:
    """The cross-entropy of the test images when the mean of the training images is all that is known."""
    (training, _), (test, _) = digits.load()
    p = np.clip((training[:num_samples] / 255).mean(axis=0), 1e-6, 1 - 1e-6)
    return float(-np.mean(np.sum(test / 255 * np.log(p) + (1 - test / 255) * np.log(1 - p), axis=(1, 2))))
