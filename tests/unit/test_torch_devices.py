"""Arrays to PyTorch and back."""

from collections.abc import Callable

import keras
import ml_dtypes
import numpy as np
import pytest

if keras.config.backend() != "torch":
    pytest.skip("the PyTorch room", allow_module_level=True)

import torch

from trainstep import backends

BACKEND = backends.active()


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float64", torch.float32),
        ("float32", torch.float32),
        ("float16", torch.float16),
        (ml_dtypes.bfloat16, torch.bfloat16),
        ("uint8", torch.uint8),
        ("uint16", torch.int32),
        ("uint32", torch.int64),
        ("int64", torch.int64),
        ("bool", torch.bool),
    ],
)
def test_values_survive_and_dtypes_are_kerass(dtype: str, expected: torch.dtype) -> None:
    array = np.array([[0, 1, 3]]).astype(dtype)
    tensor = BACKEND.as_input(array)
    assert tensor.dtype == expected
    np.testing.assert_array_equal(BACKEND.to_numpy(tensor), array.astype(BACKEND.to_numpy(tensor).dtype))


def test_bfloat16_comes_back_as_float32() -> None:
    assert BACKEND.to_numpy(torch.tensor([1.5], dtype=torch.bfloat16)).dtype == np.float32


@pytest.mark.parametrize("view", [lambda a: a[::-1], lambda a: a.T, lambda a: a])
def test_changing_the_array_afterwards_does_not_change_the_tensor(view: Callable[[np.ndarray], np.ndarray]) -> None:
    array = np.arange(6.0, dtype="float32").reshape(2, 3)
    tensor, expected = BACKEND.as_input(view(array)), view(array).copy()
    array[:] = -1
    np.testing.assert_array_equal(tensor.numpy(), expected)


def test_a_read_only_array_is_no_reason_to_warn(recwarn: pytest.WarningsRecorder) -> None:
    array = np.ones(3, "float32")
    array.flags.writeable = False
    BACKEND.as_input(array)
    assert not recwarn.list


def test_what_is_said_about_the_machine() -> None:
    assert any(device.endswith(f"({torch.get_num_threads()} threads)") for device in BACKEND.devices())
    assert "Inductor" in BACKEND.compiler() or "TRAINSTEP_INDUCTOR=0" in BACKEND.compiler()
    BACKEND.synchronize()


def test_what_a_tensor_is() -> None:
    assert BACKEND.is_tensor(torch.ones(1))
    assert not BACKEND.is_tensor(np.ones(1))
