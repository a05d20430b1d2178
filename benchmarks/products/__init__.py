"""Matrix products and convolutions alone: their shapes, and programs of each backend that compute nothing else."""

import importlib
from collections.abc import Callable

from ._shapes import Conv as Conv
from ._shapes import MatMul as MatMul
from ._shapes import Product as Product
from ._shapes import dense as dense
from ._shapes import dense_stack as dense_stack
from ._shapes import forward_stack as forward_stack


def programs(backend: str, products: list[Product]) -> list[Callable[[int], None]]:
    """One or two ways to compute them: `program(n)` does so for `n` steps, or a few more, and waits for the results."""
    return importlib.import_module(f"._{backend}", __package__).programs(products)
