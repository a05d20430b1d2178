"""Arrays to the device and back, and what the devices are."""

import numpy as np
import torch

from . import _private

_WITHOUT_TORCH_DTYPE = {"uint16": "int32", "uint32": "int64", "uint64": "int64", "bfloat16": "float32"}


def as_input(array: np.ndarray | torch.Tensor) -> torch.Tensor:
    """A tensor on Keras' device. An array is copied: whoever owns it may go on to change it in place.

    float64 becomes `floatx`, and uint16, uint32 and uint64, which PyTorch hardly knows, the next larger signed integer.
    """
    if isinstance(array, torch.Tensor):
        return array.to(_private.device())
    name = np.asarray(array).dtype.name
    copy = np.array(array, dtype=_WITHOUT_TORCH_DTYPE.get(name), order="C")
    dtype = {"float64": _private.torch_dtype(None), "bfloat16": torch.bfloat16}.get(name)
    return torch.from_numpy(copy).to(_private.device(), dtype)


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """The tensor's values on the host; bfloat16, which NumPy does not know, as float32."""
    tensor = tensor.detach().cpu()
    return np.asarray(tensor.float() if tensor.dtype == torch.bfloat16 else tensor)


def synchronize() -> None:
    """Waits for the accelerator; a CPU has done its work when the call returns."""
    if torch.accelerator.is_available() and _private.device().type != "cpu":
        torch.accelerator.synchronize()


def devices() -> list[str]:
    """The devices that a step may run on."""
    cpu = f"cpu ({torch.get_num_threads()} threads)"
    if _private.device().type == "cpu":
        return [cpu]
    kind = _private.device().type
    names = [f"{kind}:{i} ({_name(kind, i)})" for i in range(torch.accelerator.device_count())]
    return [*names, cpu]


def _name(kind: str, index: int) -> str:
    return torch.cuda.get_device_name(index) if kind == "cuda" else kind
