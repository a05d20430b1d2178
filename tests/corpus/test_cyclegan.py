"""What must hold of the CycleGAN beyond its numbers."""

import os
import pathlib

import numpy as np
import pytest

import trainstep as ts

from . import conventions
from .pages import cyclegan

both_ways = pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])


@both_ways
def test_the_order_of_the_updates_does_not_matter(compile):
    states = []
    for order in (cyclegan.NETWORKS, cyclegan.NETWORKS[::-1]):
        page = cyclegan.build(native=False)
        step = cyclegan.training_step(page, compile=compile, update_order=order)
        for t in range(2):
            step(*conventions.batch(t, cyclegan.BATCH_SIZE, page.x, page.y))
        states.append(conventions.state(page))
    for key, value in states[0].items():
        np.testing.assert_allclose(states[1][key], value, rtol=1e-5, atol=1e-7, err_msg=key)


@both_ways
def test_each_gradient_reaches_its_own_network_alone(compile):
    """`G_loss` depends on `F` and `D_Y` too; with only `G` updated they stay as they are."""
    page = cyclegan.build(native=False)
    before = conventions.state(page)
    cyclegan.training_step(page, compile=compile, update_order=["G"])(page.x[:2], page.y[:2])
    after = conventions.state(page)
    changed = {key.split("/")[0] for key in after if key not in before or not np.array_equal(before[key], after[key])}
    assert changed == {"G", "G_optimizer"}


@both_ways
def test_a_tape_that_is_not_persistent_answers_once(compile):
    page = cyclegan.build(native=False)

    @ts.step(compile=compile)
    def asks_twice(x):
        with ts.GradientTape() as tape:
            loss = cyclegan.mae(x, page.G(x, training=True))
        tape.gradient(loss, page.G.trainable_weights)
        tape.gradient(loss, page.G.trainable_weights)

    with pytest.raises(ts.TapeError, match="persistent=True"):
        asks_twice(page.x[:2])


@pytest.mark.skipif(not pathlib.Path("/proc/self/statm").exists(), reason="reads the memory of the process from /proc")
@both_ways
def test_memory_is_released_after_each_step(compile):
    """The activations of one step on 32 x 32 images are about 4 MB: 20 steps that keep them are 80 MB."""
    step = cyclegan.training_step(cyclegan.build(native=False), compile=compile)
    x, y = np.random.default_rng(0).random((2, 4, 32, 32, 3)).astype("float32")
    for _ in range(5):
        step(x, y)
    before = resident_megabytes()
    for _ in range(20):
        logs = step(x, y)
    assert np.isfinite(float(logs["G_loss"]))  # Waits for the device.
    assert resident_megabytes() - before < 40


def resident_megabytes():
    pages = int(pathlib.Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@both_ways
def test_one_trace_for_each_shape(compile):
    page = cyclegan.build(native=False)
    step = cyclegan.training_step(page, compile=compile)
    for t in range(4):
        step(*conventions.batch(t, cyclegan.BATCH_SIZE, page.x, page.y))
    assert step.num_traces == (1 if compile else 0)
    step(page.x[:1], page.y[:1])
    assert step.num_traces == (2 if compile else 0)
