"""The PyTorch room."""

import contextlib
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, final

import keras
import numpy as np
import torch

from ... import _keras
from .._abstract import AbstractBackend, Tensor
from . import _devices, _inductor, _program
from ._program import TorchProgram
from ._settings import denormals_flushed
from ._tape import TorchRecorder


@final
class TorchBackend(AbstractBackend):
    """PyTorch: autograd is the tape, a step is captured as one graph of ATen operations, and Inductor compiles it."""

    name = "torch"

    def new_recorder(self) -> TorchRecorder:
        """A recorder for one tape; persistent or not, autograd keeps what it recorded as long as it is asked to."""
        return TorchRecorder()

    def capture(self, function: Callable[[Sequence[Tensor]], list[Tensor]], batch: Sequence[Tensor], *, name: str) -> TorchProgram:
        """Captures the function as one program.

        Raises `CaptureError` where it needs the value of a tensor.
        """
        return _program.capture(function, batch, name=name)

    def run_eagerly(self, function: Callable[[Sequence[Tensor]], list[Tensor]], batch: Sequence[Tensor]) -> list[Tensor]:
        """Runs the function once, drawing the same random numbers as a captured program."""
        return _program.run_eagerly(function, batch)

    def is_tensor(self, value: Any) -> bool:
        """Whether this is a `torch.Tensor`."""
        return isinstance(value, torch.Tensor)

    def as_input(self, array: np.ndarray | Tensor) -> Tensor:
        """A tensor on the device."""
        return _devices.as_input(array)

    def as_column(self, array: np.ndarray | Tensor) -> Tensor:
        return _devices.as_input(array)

    def assigner(self, variables: Sequence[keras.Variable], values: Sequence[np.ndarray]) -> Callable[[], None]:
        """A function that copies these values into the variables."""
        raw = [_keras.raw_value(variable) for variable in variables]
        tensors = [torch.tensor(value, dtype=old.dtype, device=old.device) for old, value in zip(raw, values, strict=True)]

        @torch.no_grad()
        def assign() -> None:
            for variable, tensor in zip(variables, tensors, strict=True):
                _keras.raw_value(variable).copy_(tensor)

        return assign

    def training(self, *, flush_denormals: bool) -> contextlib.AbstractContextManager[None]:
        """Flushes denormal numbers, if that is wanted."""
        return denormals_flushed() if flush_denormals else contextlib.nullcontext()

    def to_numpy(self, tensor: Tensor) -> np.ndarray:
        """The tensor's values on the host."""
        return _devices.to_numpy(tensor)

    def synchronize(self) -> None:
        """Waits for the accelerator, if there is one."""
        _devices.synchronize()

    def keep_programs(self, folder: pathlib.Path | None) -> None:
        """Inductor reads the name of its folder from the environment, each time, and so does the process that compiles."""
        if folder is None:
            os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
        else:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(folder)

    def devices(self) -> list[str]:
        """The devices that a step may run on."""
        return _devices.devices()

    def compiler(self) -> str:
        """What compiles captured steps."""
        return _inductor.compiler()


def create() -> TorchBackend:
    """The backend of this process."""
    return TorchBackend()
