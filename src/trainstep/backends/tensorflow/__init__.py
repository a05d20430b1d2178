"""The TensorFlow room: a tape on top of TensorFlow's own, a step as one `tf.function` graph with its state updated in place."""

import pathlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, final

import keras
import numpy as np
import tensorflow as tf

from ... import _keras
from ..._errors import TrainStepWarning
from .._abstract import AbstractBackend, AbstractProgram, AbstractRecorder, Tensor
from . import _devices, _private, _program
from ._tape import TensorFlowRecorder


@final
class TensorFlowBackend(AbstractBackend):
    """Steps run as one graph, whose state stays in the `tf.Variable`s of Keras; the tape is TensorFlow's."""

    name = "tensorflow"

    def new_recorder(self) -> AbstractRecorder:
        return TensorFlowRecorder()

    def capture(
        self, function: Callable[[Sequence[Tensor]], list[Tensor]], batch: Sequence[Tensor], *, name: str
    ) -> AbstractProgram:
        return _program.capture(function, batch, name=name)

    def run_eagerly(self, function: Callable[[Sequence[Tensor]], list[Tensor]], batch: Sequence[Tensor]) -> list[Tensor]:
        return function(batch)

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, (tf.Tensor, tf.Variable))

    def as_input(self, array: np.ndarray | Tensor) -> Tensor:
        return _devices.as_input(array)

    def as_column(self, array: np.ndarray | Tensor) -> Tensor:
        return _devices.as_input(array)

    def assigner(self, variables: Sequence[keras.Variable], values: Sequence[np.ndarray]) -> Callable[[], None]:
        def assign() -> None:
            for variable, value in zip(variables, values, strict=True):
                _keras.raw_value(variable).assign(tf.constant(value, variable.dtype))

        graph = tf.function(assign, autograph=False).get_concrete_function()
        call, captured = _private.flat_call(graph), graph.captured_inputs
        return lambda: call(*captured)

    def to_numpy(self, tensor: Tensor) -> np.ndarray:
        return _devices.to_numpy(tensor)

    def synchronize(self) -> None:
        tf.test.experimental.sync_devices()

    def keep_programs(self, folder: pathlib.Path | None) -> None:
        if folder is not None:
            warnings.warn(f"TensorFlow keeps no compiled programs: nothing will be in {folder}.", TrainStepWarning, stacklevel=3)

    def devices(self) -> list[str]:
        return _devices.describe_devices()

    def compiler(self) -> str:
        return "TensorFlow's graph optimizer (Grappler), part of tensorflow"


def create() -> AbstractBackend:
    """The backend of this room."""
    return TensorFlowBackend()
