"""The JAX room: a tape by a recording trace, a step as one donated `jax.jit` program."""

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from ... import _keras
from .._abstract import AbstractBackend, AbstractProgram, AbstractRecorder, Tensor
from . import _devices, _program
from ._control_flow import branches_taken_in_python
from ._tape import JaxRecorder


@final
class JaxBackend(AbstractBackend):
    """Steps run as one `jax.jit` program with donated state; the tape works on ordinary arrays and inside `jax.jit`."""

    name = "jax"

    def new_recorder(self) -> AbstractRecorder:
        return JaxRecorder()

    def capture(
        self, function: Callable[[Sequence[Tensor]], list[Tensor]], batch: Sequence[Tensor], *, name: str
    ) -> AbstractProgram:
        return _program.capture(function, batch, name=name)

    def run_eagerly(self, function: Callable[[Sequence[Tensor]], list[Tensor]], batch: Sequence[Tensor]) -> list[Tensor]:
        with branches_taken_in_python():
            return function([jnp.asarray(x) for x in batch])

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, jax.Array)

    def as_input(self, array: np.ndarray | Tensor) -> Tensor:
        return _devices.as_input(array)

    def as_column(self, array: np.ndarray | Tensor) -> Tensor:
        return jnp.array(_devices.as_input(array))

    def assigner(self, variables: Sequence[keras.Variable], values: Sequence[np.ndarray]) -> Callable[[], None]:
        before = _keras.raw_values(variables)
        places = [old.sharding if old.committed else None for old in before]
        dtypes = [old.dtype for old in before]
        # New arrays each time: a step takes over the memory of those that it is given.
        fresh = jax.jit(lambda: list(map(jnp.asarray, values, dtypes)), out_shardings=places)
        return lambda: _keras.set_raw_values(variables, fresh())

    def to_numpy(self, tensor: Tensor) -> np.ndarray:
        return _devices.to_numpy(tensor)

    def synchronize(self) -> None:
        jax.block_until_ready(jax.live_arrays())

    def keep_programs(self, folder: pathlib.Path | None) -> None:
        # Also programs that compile quickly: a step of a small model takes half a second.
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 1.0 if folder is None else 0.0)
        jax.config.update("jax_compilation_cache_dir", None if folder is None else str(folder))
        compilation_cache.reset_cache()  # It looks at its folder once, when the process compiles for the first time.

    def devices(self) -> list[str]:
        return _devices.describe_devices()

    def compiler(self) -> str:
        return "XLA, part of jaxlib"


def create() -> AbstractBackend:
    """The backend of this room."""
    return JaxBackend()
