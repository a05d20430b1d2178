"""What the page `wgan_gp` wants checked besides its numbers."""

import keras
import numpy as np
import pytest

import trainstep as ts

from .conventions import state
from .pages import wgan_gp

both_ways = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


def numpy(tensor):
    return keras.ops.convert_to_numpy(tensor)


def penalty_inputs():
    fake = np.random.default_rng(1).normal(size=(4, 8, 8, 1)).astype("float32")
    return wgan_gp.build(native=False).x[:4], fake, wgan_gp.normal(0, 1, (4, 1, 1, 1))


@both_ways
def test_each_step_updates_the_moving_statistics_four_times_and_the_critic_three_times(compile):
    page = wgan_gp.build(native=False)
    dense, normalization = page.generator.layers[:2]
    kernel, moving_mean = numpy(dense.kernel), np.zeros(64)
    codes, _, last_code = wgan_gp.noise_of_step(0)
    for code in (*codes, last_code):  # the generator's weights change after the last of them only
        moving_mean = 0.99 * moving_mean + 0.01 * (code @ kernel).mean(axis=0)
    next(wgan_gp.steps(page, compile=compile))
    np.testing.assert_allclose(numpy(normalization.moving_mean), moving_mean, rtol=1e-4, atol=1e-6)
    assert (int(page.critic_optimizer.iterations), int(page.generator_optimizer.iterations)) == (3, 1)


@both_ways
def test_the_penalty_reaches_the_last_kernel_through_the_inner_gradient(compile):
    critic = wgan_gp.build(native=False).critic
    kernel, inputs = critic.layers[-1].kernel, penalty_inputs()

    def penalty_and_gradient(real, fake, mix):
        with ts.GradientTape() as tape:
            penalty = wgan_gp.gradient_penalty(critic, real, fake, mix)
        return penalty, tape.gradient(penalty, kernel)

    ask = ts.step(penalty_and_gradient, compile=compile)
    start, gradient = numpy(kernel), numpy(ask.predict(inputs)[1])
    direction = gradient / np.linalg.norm(gradient)
    values = []
    for step_size in (1e-2, -1e-2):
        kernel.assign(start + step_size * direction)
        values.append(float(ask.predict(inputs)[0]))
    assert np.linalg.norm(gradient) > 1e-2
    np.testing.assert_allclose((values[0] - values[1]) / 2e-2, np.linalg.norm(gradient), rtol=1e-2)


def test_the_critic_is_updated_otherwise_without_the_penalty(monkeypatch):
    def critic_after_one_step():
        page = wgan_gp.build(native=False)
        next(wgan_gp.steps(page, compile=True))
        return state(page)["critic/0"]

    with_penalty = critic_after_one_step()
    monkeypatch.setattr(wgan_gp, "PENALTY_WEIGHT", 0.0)
    assert np.abs(with_penalty - critic_after_one_step()).max() > 1e-4


@both_ways
def test_a_critic_without_slope_gives_nan_since_the_root_has_no_epsilon(compile):
    critic = wgan_gp.build(native=False).critic
    critic.layers[-1].kernel.assign(np.zeros((144, 1), "float32"))

    def gradient_of_penalty(real, fake, mix):
        with ts.GradientTape() as tape:
            penalty = wgan_gp.gradient_penalty(critic, real, fake, mix)
        return tape.gradient(penalty, critic.layers[-1].kernel)

    assert np.isnan(numpy(ts.step(gradient_of_penalty, compile=compile).predict(penalty_inputs()))).all()


@both_ways
def test_each_pass_through_the_critic_draws_its_own_dropout_mask(compile):
    critic = wgan_gp.build(native=True).critic

    @ts.step(compile=compile)
    def three_passes(x):
        return [critic(x, training=True) for _ in range(3)]

    first, second, third = map(numpy, three_passes.predict(wgan_gp.build(native=True).x[:4]))
    assert not np.allclose(first, second)
    assert not np.allclose(second, third)


def test_a_batch_may_be_a_tensor_or_a_tuple_of_one_and_the_step_is_traced_once():
    page = wgan_gp.build(native=True)
    train_step = ts.step(wgan_gp.WGAN(page).train_step, compile=True)
    batches = [page.x[:4], (page.x[4:8],), keras.ops.convert_to_tensor(page.x[8:12])]
    logs = [train_step.run(x) for x in batches]
    assert train_step.num_traces == 1
    assert len({float(entry["d_loss"]) for entry in logs}) == 3
