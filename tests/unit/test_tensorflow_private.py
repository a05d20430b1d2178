"""Says what broke when a new TensorFlow or Keras moves a private name of `trainstep.backends.tensorflow._private`."""

import keras
import numpy as np
import pytest

if keras.config.backend() != "tensorflow":
    pytest.skip("the TensorFlow room", allow_module_level=True)

import tensorflow as tf

from trainstep.backends.tensorflow import _private


def test_a_variable_made_by_its_own_class_is_an_ordinary_variable():
    variable = _private.ResourceVariable(initial_value=lambda: tf.ones(2), trainable=True)
    assert isinstance(variable, tf.Variable)
    np.testing.assert_array_equal(variable.assign_add(tf.ones(2)).numpy(), [2, 2])


def test_a_graph_can_be_called_with_flat_inputs():
    variable = tf.Variable(2.0)
    graph = tf.function(lambda x: [x * variable]).get_concrete_function(tf.TensorSpec((), tf.float32))
    (answer,) = _private.flat_call(graph)(tf.constant(3.0), *graph.captured_inputs)
    assert float(answer) == 6.0


def test_the_sum_over_replicas_is_left_out_of_the_graph():
    optimizer, variables = keras.optimizers.SGD(0.1), [keras.Variable(1.0), keras.Variable(2.0)]
    optimizer.build(variables)

    def update(g):
        optimizer.apply_gradients([(g, v) for v in variables])

    def operations():
        return {op.type for op in tf.function(update).get_concrete_function(tf.TensorSpec((), tf.float32)).graph.get_operations()}

    assert "IdentityN" in operations()
    with _private.gradients_not_reduced():
        assert "IdentityN" not in operations()
    assert "IdentityN" in operations()
