"""Many steps in one TensorFlow graph: a loop around the graph of one step."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import tensorflow as tf

from .._abstract import AbstractLoop, Tensor
from . import _private


@final
class Looped(AbstractLoop):
    """A `tf.while_loop` over the graph of one step.

    Args:
        graph: The step's graph, for a batch of fixed shapes.
        by_xla: Whether XLA compiles the whole loop.
    """

    multiple_of = 1

    def __init__(self, graph: Any, *, by_xla: bool):
        self._graph = graph
        self._by_xla = by_xla
        self.kind = f"a loop over the steps in one {'XLA program' if by_xla else 'TensorFlow graph'}, batches gathered inside"
        self.relative_cost = 5.0 if by_xla else 0.5
        self._call: Any = None
        self._captured: Any = ()
        self._max_steps = 0

    def prepare(self, columns: Sequence[Tensor], batch_size: int, max_steps: int) -> None:
        self._max_steps = max_steps
        specs = [tf.TensorSpec((max_steps, batch_size), tf.int32), tf.TensorSpec((), tf.int32)]
        specs += [tf.TensorSpec(column.shape, column.dtype) for column in columns]
        run_steps = tf.function(self._run_steps, autograph=False, jit_compile=self._by_xla or None)
        loop = run_steps.get_concrete_function(*specs)
        if self._by_xla:  # An operation that XLA does not know is an error here, and not in the middle of a training.
            run_steps.experimental_get_compiler_ir(*specs)(stage="hlo")
        self._captured, self._call = loop.captured_inputs, _private.flat_call(loop)

    def __call__(self, columns: Sequence[Tensor], rows: np.ndarray) -> list[Tensor]:
        num_steps = len(rows)
        if num_steps < self._max_steps:
            rows = np.concatenate([rows, np.zeros((self._max_steps - num_steps, rows.shape[1]), rows.dtype)])
        inputs = tf.constant(rows), tf.constant(num_steps, tf.int32)
        return list(self._call(*inputs, *columns, *self._captured) or ())

    def _run_steps(self, rows: tf.Tensor, num_steps: tf.Tensor, *columns: tf.Tensor) -> list[tf.Tensor]:
        outputs = [tf.zeros(output.shape, output.dtype) for output in self._graph.outputs]

        def body(i: tf.Tensor, *_: tf.Tensor) -> tuple[tf.Tensor, ...]:
            batch = [tf.gather(column, rows[i]) for column in columns]
            return (i + 1, *_flat(self._graph(*batch)))

        _, *outputs = tf.while_loop(lambda i, *_: i < num_steps, body, (tf.constant(0), *outputs), parallel_iterations=1)
        return outputs


def _flat(outputs: Any) -> list[tf.Tensor]:
    return tf.nest.flatten(outputs) if outputs is not None else []
