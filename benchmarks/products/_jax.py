"""The products of a step in JAX, looked up by `limit`."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from ._shapes import Conv, Product, repeats


def _results(product: Product, inputs) -> list[jax.Array]:
    if isinstance(product, Conv):
        return _convolutions(product, *inputs)
    x, w = inputs
    if product.in_a_row == 1:
        return [x @ w]
    repeated = -(-product.inner // product.columns)

    def one(x, _):
        return jnp.tile(x @ w, (1, repeated))[:, : product.inner], None

    return [jax.lax.scan(one, x, length=product.in_a_row)[0]]


def _convolutions(product: Conv, images, kernel, gradient) -> list[jax.Array]:
    numbers = ("NHWC", "HWIO", "NHWC")
    convolve = functools.partial(jax.lax.conv_general_dilated, window_strides=(1, 1), padding="VALID", dimension_numbers=numbers)
    outputs, pullback = jax.vjp(convolve, images, kernel)
    to_images, to_kernel = pullback(gradient)
    return [outputs, to_kernel, *([to_images] if product.has_input_gradient else [])]


def programs(products: list[Product]) -> list[Callable[[int], None]]:
    """One way: `program(n)` computes the products of `n` steps, or a few more, and waits for them."""
    random = np.random.default_rng(0)
    every = products * repeats(products)
    inputs = [[jnp.asarray(array) for array in product.inputs(random)] for product in every]

    @jax.jit
    def compute(inputs):
        return [_results(product, arrays) for product, arrays in zip(every, inputs, strict=True)]

    def program(num_steps: int) -> None:
        for _ in range(-(-num_steps // repeats(products))):
            results = compute(inputs)
        jax.block_until_ready(results)

    return [program]
