"""What XLA cannot do, or does otherwise, stays with TensorFlow: a training must not end for that, nor change."""

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts
from trainstep.data._columns import as_columns
from trainstep.data._rows import Table

tf = pytest.importorskip("tensorflow")
pytestmark = pytest.mark.skipif(keras.config.backend() != "tensorflow", reason="of the TensorFlow room")


@pytest.fixture
def loops_of():
    """The ways to run many steps of a step that does this to its batch, and the columns that they run on."""
    sums = keras.Variable(0.0)  # TensorFlow's graphs do not hold their variables.

    def loops(body):
        @ts.step(compile=True)
        def step(x):
            sums.assign_add(ops.mean(body(x)))

        table = Table((as_columns(np.ones((8, 1), "float32"), call="fit", name="x"),))
        step.run(table.batch(range(2)))
        (captured,) = step._captured.values()
        return captured.program.loops(), table.on_device()

    return loops


def checked(x):
    tf.debugging.assert_less(x, 2.0)
    return x


def test_an_operation_that_xla_does_not_know_is_an_error_before_the_first_step(loops_of):
    (by_tensorflow, by_xla), columns = loops_of(lambda x: tf.numpy_function(np.square, [x], tf.float32))
    by_tensorflow.prepare(columns, 2, 4)
    by_tensorflow(columns, np.zeros((4, 2), "int32"))
    with pytest.raises(ValueError, match="unsupported operations"):
        by_xla.prepare(columns, 2, 4)


@pytest.mark.parametrize(
    "body", [checked, lambda x: tf.debugging.check_numerics(x, "x"), lambda x: x + keras.random.normal((2, 1))]
)
def test_what_xla_does_otherwise_is_left_to_tensorflow(body, loops_of):
    loops, _ = loops_of(body)
    assert len(loops) == 1


def test_draws_that_would_start_again_in_another_graph_stay_in_this_one(loops_of):
    loops, _ = loops_of(lambda x: x + tf.random.normal((2, 1)))
    assert loops == []
