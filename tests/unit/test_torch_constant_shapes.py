"""Shapes that depend on values which are constants of the step are known while it is captured by PyTorch."""

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts

X = np.arange(6, dtype="float32").reshape(3, 2)
SEGMENTS = np.array([1, 0, 1], "int32")


def compiled(function, *batch):
    step = ts.step(function, compile=True)
    results = [ops.convert_to_numpy(step.predict(batch)) for _ in range(2)]
    np.testing.assert_array_equal(*results)
    return results[0]


@pytest.mark.parametrize("repeats", [2, np.array([1, 2, 0])], ids=["a number", "an array"])
def test_repeat(repeats):
    np.testing.assert_array_equal(compiled(lambda x: ops.repeat(x, repeats, axis=0), X), np.repeat(X, repeats, axis=0))


@pytest.mark.parametrize(("name", "reduce"), [("sum", np.sum), ("max", np.max), ("min", np.min)])
def test_segments_of_rows_given_in_the_batch(name, reduce):
    reduction = getattr(ops, f"segment_{name}")
    result = compiled(lambda x, segments: reduction(x, segments, num_segments=2), X, SEGMENTS)
    np.testing.assert_array_equal(result, [reduce(X[1:2], axis=0), reduce(X[::2], axis=0)])
    changed = ts.step(lambda x, segments: reduction(x, segments, num_segments=2), compile=True)
    changed.predict((X, SEGMENTS))
    np.testing.assert_array_equal(ops.convert_to_numpy(changed.predict((X, 1 - SEGMENTS))), result[::-1])


def test_the_gradient_of_a_segment_sum():
    def gradient(x, segments, w):
        with ts.GradientTape() as tape:
            tape.watch(x)
            y = ops.sum(ops.segment_sum(x**2, segments, num_segments=2) * w)
        return tape.gradient(y, x)

    w = np.array([[1.0, 2.0], [3.0, 4.0]], "float32")
    np.testing.assert_allclose(compiled(gradient, X, SEGMENTS, w), 2 * X * w[SEGMENTS])


@pytest.mark.skipif(keras.config.backend() != "torch", reason="the others refuse it for reasons of their own")
def test_repeats_that_are_not_constant_are_still_refused():
    import torch

    def written(x, n):
        repeats = torch.zeros(3, dtype=torch.int64)
        repeats[1:].copy_(n)
        return ops.repeat(x, repeats, axis=0)

    def drawn(x):
        return torch.repeat_interleave(x, torch.randint(1, 3, (3,)), dim=0)

    for function, batch in ((lambda x, n: ops.repeat(x, n, axis=0), (X, np.array([1, 2, 3]))), (written, (X, np.array([1, 2])))):
        with pytest.raises(ts.CaptureError, match="repeat_interleave"):
            ts.step(function, compile=True).predict(batch)
    with pytest.raises(ts.TrainStepError):
        ts.step(drawn, compile=True).predict((X,))
