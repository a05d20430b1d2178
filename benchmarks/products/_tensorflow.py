"""The products of a step in TensorFlow, looked up by `limit`."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ._shapes import Conv, Product, repeats


def _results(product: Product, inputs) -> list[tf.Tensor]:
    if isinstance(product, Conv):
        return _convolutions(product, *inputs)
    x, w = inputs
    if product.in_a_row == 1:
        return [x @ w]
    repeated = -(-product.inner // product.columns)
    following = tf.while_loop(
        lambda i, x: i < product.in_a_row,
        lambda i, x: (i + 1, tf.tile(x @ w, (1, repeated))[:, : product.inner]),
        (tf.constant(0), x),
    )
    return [following[1]]


def _convolutions(product: Conv, images, kernel, gradient) -> list[tf.Tensor]:
    options = {"strides": (1, 1, 1, 1), "padding": "VALID"}
    results = [
        tf.nn.conv2d(images, kernel, **options),
        tf.raw_ops.Conv2DBackpropFilter(input=images, filter_sizes=kernel.shape, out_backprop=gradient, **options),
    ]
    if product.has_input_gradient:
        results.append(tf.raw_ops.Conv2DBackpropInput(input_sizes=images.shape, filter=kernel, out_backprop=gradient, **options))
    return results


def programs(products: list[Product]) -> list[Callable[[int], None]]:
    """Without XLA and with it: `program(n)` computes the products of `n` steps, or a few more, and waits for them."""
    random = np.random.default_rng(0)
    every = products * repeats(products)
    inputs = [[tf.constant(array) for array in product.inputs(random)] for product in every]

    def compute(inputs):
        return [_results(product, arrays) for product, arrays in zip(every, inputs, strict=True)]

    def program_by(function) -> Callable[[int], None]:
        def program(num_steps: int) -> None:
            for _ in range(-(-num_steps // repeats(products))):
                results = function(inputs)
            results[-1][-1].numpy()

        return program

    return [program_by(tf.function(compute, jit_compile=xla)) for xla in (False, True)]
