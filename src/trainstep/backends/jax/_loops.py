"""Many steps in one XLA program: a loop around the step, or the step written out several times."""

from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import keras
import numpy as np

from ... import _keras
from .._abstract import AbstractLoop, Tensor
from ._running import run_and_store

StepFunction = Callable[[list[Any], list[Any], list[Any]], tuple[list[Any], list[Any]]]
"""`(written variables, read-only variables, batch) -> (outputs, new values)`."""

DistinctBuffers = Callable[[list[Any], Sequence[Any], Sequence[Any]], list[Any]]


class _XlaLoop(AbstractLoop):
    """What both ways share: the state is donated, and the batches are gathered inside the program."""

    def __init__(
        self, step: StepFunction, written: list[keras.Variable], read_only: list[keras.Variable], as_distinct: DistinctBuffers
    ):
        self._step = step
        self._written, self._read_only = written, read_only
        self._as_distinct = as_distinct
        self._run = jax.jit(self._run_steps, donate_argnums=0)
        self._max_steps = 0

    def _run_steps(
        self, written: list[Any], read_only: list[Any], columns: list[Any], rows: Any, num_steps: Any
    ) -> tuple[list[Any], list[Any]]:
        raise NotImplementedError

    def prepare(self, columns: Sequence[Tensor], batch_size: int, max_steps: int) -> None:
        self._max_steps = max_steps
        rows = jax.ShapeDtypeStruct((max_steps, batch_size), jnp.int32)
        num_steps = jax.ShapeDtypeStruct((), jnp.int32)
        state = _keras.raw_values(self._written), _keras.raw_values(self._read_only)
        shapes = jax.tree.map(_shape_and_place, (*state, list(columns)))
        # The call finds this program. It is not called itself, since it refuses variables that have moved to another device.
        self._run.lower(*shapes, rows, num_steps).compile()

    def __call__(self, columns: Sequence[Tensor], rows: np.ndarray) -> list[Tensor]:
        num_steps = len(rows)
        if num_steps < self._max_steps:
            rows = np.concatenate([rows, np.zeros((self._max_steps - num_steps, rows.shape[1]), rows.dtype)])
        written, read_only = _keras.raw_values(self._written), _keras.raw_values(self._read_only)
        donated = self._as_distinct(written, read_only, columns)
        return run_and_store(self._run, self._written, donated, read_only, list(columns), rows, np.int32(num_steps))

    def _one_step(self, written: list[Any], read_only: list[Any], columns: list[Any], rows: Any) -> tuple[list[Any], list[Any]]:
        batch = [jnp.take(column, rows, axis=0, mode="clip") for column in columns]
        outputs, new = self._step(written, read_only, batch)
        return list(outputs), [value.astype(old.dtype) for value, old in zip(new, written, strict=True)]


@final
class Looped(_XlaLoop):
    """The step inside an XLA loop."""

    kind = "one XLA program loops over the steps, batches gathered inside"
    relative_cost = 1.2
    multiple_of = 1

    def _run_steps(
        self, written: list[Any], read_only: list[Any], columns: list[Any], rows: Any, num_steps: Any
    ) -> tuple[list[Any], list[Any]]:
        outputs = jax.eval_shape(self._one_step, written, read_only, columns, rows[0])[0]
        start = [jnp.zeros(x.shape, x.dtype) for x in outputs], written

        def body(i: Any, carry: tuple[list[Any], list[Any]]) -> tuple[list[Any], list[Any]]:
            return self._one_step(carry[1], read_only, columns, rows[i])

        return jax.lax.fori_loop(0, num_steps, body, start)


@final
class Unrolled(_XlaLoop):
    """The step written out four times: on a CPU, XLA's fast convolutions stop at the door of a loop."""

    kind = "one XLA program of four steps in a row, batches gathered inside"
    relative_cost = 4.0
    multiple_of = 4

    def prepare(self, columns: Sequence[Tensor], batch_size: int, max_steps: int) -> None:
        super().prepare(columns, batch_size, self.multiple_of)

    def __call__(self, columns: Sequence[Tensor], rows: np.ndarray) -> list[Tensor]:
        outputs: list[Tensor] = []
        for start in range(0, len(rows), self.multiple_of):
            outputs = super().__call__(columns, rows[start : start + self.multiple_of])
        return outputs

    def _run_steps(
        self, written: list[Any], read_only: list[Any], columns: list[Any], rows: Any, num_steps: Any
    ) -> tuple[list[Any], list[Any]]:
        outputs: list[Any] = []
        for i in range(self.multiple_of):
            outputs, written = self._one_step(written, read_only, columns, rows[i])
        return outputs, written


def _shape_and_place(value: jax.Array) -> jax.ShapeDtypeStruct:
    """What a program is compiled for. Where a value lies is a part of that if it was put there, as by `keras.distribution`."""
    return jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=value.sharding if value.committed else None)
