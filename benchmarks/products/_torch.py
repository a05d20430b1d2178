"""The products of a step in PyTorch, looked up by `limit`."""

import functools
from collections.abc import Callable

import numpy as np
import torch

from ._shapes import Conv, Product


def _compute(product: Product, inputs: list[torch.Tensor]) -> None:
    if isinstance(product, Conv):
        _convolutions(product, *inputs)
        return
    x, w = inputs
    repeated = -(-product.inner // product.columns)
    for _ in range(product.in_a_row):
        y = torch.matmul(x, w)
        if product.in_a_row > 1:
            x = y.repeat(1, repeated)[:, : product.inner]


def _convolutions(product: Conv, images: torch.Tensor, kernel: torch.Tensor, gradient: torch.Tensor) -> None:
    images, gradient = images.permute(0, 3, 1, 2), gradient.permute(0, 3, 1, 2)
    kernel = kernel.permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
    torch.nn.functional.conv2d(images, kernel)
    wanted = (product.has_input_gradient, True, False)
    torch.ops.aten.convolution_backward(gradient, images, kernel, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, wanted)


def programs(products: list[Product]) -> list[Callable[[int], None]]:
    """With one thread and with all: `program(n)` computes the products of `n` steps.

    Each is one call of PyTorch's own kernels: there is nothing around them that compiling could save.
    """
    random = np.random.default_rng(0)
    inputs = [(product, [torch.from_numpy(array) for array in product.inputs(random)]) for product in products]
    num_threads = torch.get_num_threads()

    @torch.no_grad()
    def program(num_steps: int, threads: int) -> None:
        torch.set_num_threads(threads)
        for _ in range(num_steps):
            for product, arrays in inputs:
                _compute(product, arrays)
        torch.set_num_threads(num_threads)

    return [functools.partial(program, threads=threads) for threads in {1, num_threads}]
