"""The benchmarks compare what is the same: every peer has the losses of Keras' `fit`, on few and small batches."""

import dataclasses
import functools
import warnings

import keras
import pytest
from benchmarks.options import selected
from benchmarks.peers import BASELINE, OURS, peers
from benchmarks.products import MatMul
from benchmarks.products._shapes import Conv
from benchmarks.workloads import ALL_WORKLOADS, WORKLOADS

BACKEND = keras.config.backend()
BY_KEY = {workload.key: workload for workload in ALL_WORKLOADS}
# On PyTorch the models are written anew for the loops by hand; where nothing is drawn in the step, which PyTorch does otherwise.
HAND_WRITTEN = [w.key for w in WORKLOADS if w.has_stock_step] if BACKEND == "torch" else ["linear", "dense"]
SMALLER = {
    "transformer": {"length": 5, "width": 16, "num_blocks": 1, "num_heads": 2},
    "lstm": {"length": 3, "units": 8},
}


def small(key):
    workload = BY_KEY[key].shortened(3, batch_size=8)
    return dataclasses.replace(workload, **SMALLER.get(key, {}))


def losses(peer, workload, variant=""):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return peer.variants[variant](workload, shuffle=False)(2)


@pytest.fixture(autouse=True)
def _settings_of_the_process_kept():
    """The expert's loop on PyTorch sets the number of threads and the handling of denormals."""
    if BACKEND != "torch":
        yield
        return
    from benchmarks.peers._torch_settings import Settings

    with Settings().active():
        yield


@pytest.fixture(autouse=True)
def _quick_compilation():
    """Most of the time would go into making programs fast that run a few times."""
    if BACKEND != "jax":
        yield
        return
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@functools.cache
def losses_of_keras_fit(key):
    (peer,) = [peer for peer in peers(BACKEND)[0] if peer.name == BASELINE]
    return losses(peer, small(key))


@pytest.fixture(scope="module")
def by_name():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Of Lightning's imports.
        return {peer.name: peer for peer in peers(BACKEND)[0]}


@pytest.mark.parametrize("key", BY_KEY)
def test_ours_and_keras_fit_train_the_same(by_name, key):
    ours = losses(by_name[OURS], small(key))
    assert ours == pytest.approx(losses_of_keras_fit(key), rel=2e-4)
    assert ours[0] != ours[1]


@pytest.mark.parametrize("key", HAND_WRITTEN)
def test_the_loops_by_hand_train_the_same(by_name, key):
    expected = losses_of_keras_fit(key)
    for name in set(by_name) & {"plain loop", "Lightning"}:
        assert losses(by_name[name], small(key)) == pytest.approx(expected, rel=5e-4), name


def test_the_experts_loop_trains_the_same(by_name):
    peer = by_name["expert's loop"]
    expected = losses_of_keras_fit("dense")
    for variant in set(peer.variants) - peer.slow_to_compile:
        assert losses(peer, small("dense"), variant) == pytest.approx(expected, rel=5e-4), variant


def test_names_are_unique():
    assert len(BY_KEY) == len(ALL_WORKLOADS)
    assert len({workload.name for workload in ALL_WORKLOADS}) == len(ALL_WORKLOADS)
    available, _ = peers(BACKEND)
    assert len({peer.name for peer in available}) == len(available)


def test_the_products_of_a_dense_layer_are_counted_forward_and_backward():
    products = BY_KEY["dense"].products()
    assert sum(product.num_operations for product in products) == 2 * 32 * (2 * 784 * 32 + 3 * 32 * 10)
    assert MatMul(2, 3, 5, stack=7, in_a_row=11).num_operations == 2 * 2 * 3 * 5 * 7 * 11
    assert Conv(1, 3, 1, 3, 1).num_operations == 3 * 2 * 9


def test_a_selection_that_matches_nothing_is_an_error():
    assert selected(["linear", "dense"], "li", str) == ["linear"]
    with pytest.raises(SystemExit, match="there is no 'dance' among linear, dense"):
        selected(["linear", "dense"], "dance", str)
