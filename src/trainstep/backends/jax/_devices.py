"""Moving arrays to and from JAX's devices, and describing those."""

from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np


def to_tensor(array: np.ndarray | jax.Array) -> jax.Array:
    """A copy on the default device: JAX on CPU may otherwise keep looking at the caller's memory."""
    if isinstance(array, jax.Array):
        return array.astype(keras.config.floatx()) if array.dtype == np.float64 else array
    return jnp.array(array, dtype=_stored_dtype(array.dtype), copy=True)


def to_numpy(tensor: Any) -> np.ndarray:
    """The values on the host; waits for the device."""
    return np.asarray(tensor)


def describe_devices() -> list[str]:
    """Each device, in words."""
    return [f"{d.platform}:{d.id} ({d.device_kind})" for d in jax.devices()]


def _stored_dtype(dtype: np.dtype) -> Any:
    if dtype == np.float64:
        return keras.config.floatx()
    return jax.dtypes.canonicalize_dtype(dtype)
