"""What a step has touched is put back if the step fails."""

import keras
import numpy as np
import pytest

import trainstep as ts


def test_a_kernel_first_read_inside_a_function_that_a_layer_compiles_is_put_back():
    """On TensorFlow, Keras runs a grouped convolution by a `tf.function` of its own, and reads the kernel while that is traced."""
    layer = keras.layers.Conv1D(4, 3, groups=2)
    layer.build((None, 8, 2))
    kernel = keras.ops.convert_to_numpy(layer.kernel.value)

    @ts.step(compile=False)
    def fails(x):
        loss = keras.ops.mean(layer(x))
        layer.kernel.assign_add(keras.ops.ones(layer.kernel.shape))
        return loss

    with pytest.raises(ts.StepError, match="must return None or a dict"):
        fails(np.ones((2, 8, 2), "float32"))
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(layer.kernel.value), kernel)
