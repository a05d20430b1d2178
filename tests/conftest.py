"""What every test needs: the same random numbers each time, and no trace of the test before.

One backend a process: `KERAS_BACKEND=torch pytest`.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

# Inductor takes many seconds for each new step; the captured graph gives the same numbers without it.
os.environ.setdefault("TRAINSTEP_INDUCTOR", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras

import trainstep as ts


@pytest.fixture(autouse=True)
def _same_start() -> Iterator[None]:
    """Every test draws the same random numbers, and leaves Keras' dtype policy as it was."""
    policy = keras.config.dtype_policy()
    keras.utils.set_random_seed(1234)
    yield
    keras.config.set_dtype_policy(policy)


@pytest.fixture(autouse=True)
def _quick_compilation(request: pytest.FixtureRequest) -> Iterator[None]:
    """What takes a test's time on JAX is compiling, much of it making programs fast that run once or twice.

    Eager tests compile hundreds of single operations, and the pages of the corpus large programs.
    """
    callspec = getattr(request.node, "callspec", None)
    eager = callspec is not None and "eager" in callspec.id.split("-")
    if keras.config.backend() != "jax" or not (eager or "/corpus/" in request.node.nodeid):
        yield
        return
    import jax

    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(params=["eager", "compiled"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """`run(function, *arrays)`: what a function of tensors returns, eagerly and from inside one compiled step.

    The function returns tensors and `None`s in any nest; the answer has NumPy arrays in their place.
    """

    def run_function(function: Callable[..., Any], *arrays: Any) -> Any:
        has_value: list[Any] = []

        def tensors_only(*batch: Any) -> list[Any]:
            result = function(*batch)
            has_value[:] = [keras.tree.map_structure(lambda leaf: leaf is not None, result)]
            return [leaf for leaf in keras.tree.flatten(result) if leaf is not None]

        if request.param == "compiled":
            outputs = ts.step(tensors_only, compile=True).predict(arrays)
        else:
            outputs = tensors_only(*(keras.ops.convert_to_tensor(array) for array in arrays))
        remaining = iter(outputs)
        return keras.tree.map_structure(lambda has: keras.ops.convert_to_numpy(next(remaining)) if has else None, has_value[0])

    return run_function
