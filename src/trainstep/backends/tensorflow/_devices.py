"""Moving arrays to and from TensorFlow's devices, and describing those."""

import os

import keras
import numpy as np
import tensorflow as tf


def as_input(array: np.ndarray | tf.Tensor) -> tf.Tensor:
    """A tensor of the array's dtype (float64 becomes Keras' `floatx`), which later changes of the array do not reach.

    A NumPy array is copied exactly once: `tf.convert_to_tensor` may go on looking at the caller's memory.
    """
    if isinstance(array, (tf.Tensor, tf.Variable)):
        array = tf.convert_to_tensor(array)
        return tf.cast(array, keras.config.floatx()) if array.dtype == tf.float64 else array
    host = np.asarray(array)
    return tf.convert_to_tensor(np.array(host, dtype=keras.config.floatx() if host.dtype == np.float64 else host.dtype, copy=True))


def to_numpy(tensor: tf.Tensor | tf.Variable) -> np.ndarray:
    """The values on the host, also while some layer traces a `tf.function` of its own; waits for the device."""
    with tf.init_scope():
        return np.asarray(tensor.numpy())


def describe_devices() -> list[str]:
    """Each accelerator, or the CPU where there is none, in words."""
    accelerators = [device for device in tf.config.list_physical_devices() if device.device_type != "CPU"]
    if accelerators:
        return [_describe_accelerator(device) for device in accelerators]
    num_threads = tf.config.threading.get_intra_op_parallelism_threads() or os.cpu_count() or 1
    return [f"cpu ({num_threads} threads)"]


def _describe_accelerator(device: tf.config.PhysicalDevice) -> str:
    model = tf.config.experimental.get_device_details(device).get("device_name", "unknown model")
    index = device.name.rsplit(":", 1)[-1]
    return f"{device.device_type.lower()}:{index} ({model})"
