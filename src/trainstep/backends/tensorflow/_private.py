"""The only door to private names of TensorFlow, each with its reason. `tests/unit/test_tensorflow_private.py` is the canary."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf
from keras.src.backend.tensorflow.optimizer import TFOptimizer

# The class behind `tf.Variable`, which has no public name: made by this class itself, a variable meets no creators.
from tensorflow.python.ops.resource_variable_ops import ResourceVariable as ResourceVariable


def flat_call(graph: Any) -> Callable[..., Any]:
    """A traced graph as a function of its flat inputs and what it captured.

    Calling the graph itself binds arguments by name and looks for tapes, in Python: a third of a small step's time.
    """
    return graph.inference_fn.call_flat


@contextlib.contextmanager
def gradients_not_reduced() -> Iterator[None]:
    """Leaves out the sum over replicas that Keras' optimizers make of their gradients, where there is one replica.

    The sum ties all gradients together by an `IdentityN`. TensorFlow's graph optimizer then drops the edges that keep an update
    after the reads it must follow, as implied, and after that the `IdentityN` that implied them: a gradient may see weights that
    were updated already (with two optimizers and a linear loss, about every third step is wrong).
    """
    if tf.distribute.has_strategy():
        yield
        return
    reduce = TFOptimizer._all_reduce_sum_gradients  # noqa: SLF001
    TFOptimizer._all_reduce_sum_gradients = lambda self, grads_and_vars: list(grads_and_vars)  # noqa: SLF001
    try:
        yield
    finally:
        TFOptimizer._all_reduce_sum_gradients = reduce  # noqa: SLF001
