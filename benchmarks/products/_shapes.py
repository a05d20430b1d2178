"""Matrix products and convolutions: the part of a step that no loop can save."""

import dataclasses
import itertools

import numpy as np


@dataclasses.dataclass(frozen=True)
class MatMul:
    """`(stack, rows, inner)` times `(stack, inner, columns)`; `stack` counts attention's heads and the like.

    With `in_a_row` above 1, so many of them, each of which waits for the one before, as in a recurrent layer.
    """

    rows: int
    inner: int
    columns: int
    stack: int = 1
    in_a_row: int = 1

    @property
    def num_operations(self) -> int:
        """Multiplications and additions."""
        return 2 * self.rows * self.inner * self.columns * self.stack * self.in_a_row

    def inputs(self, random: np.random.Generator) -> list[np.ndarray]:
        """The two factors."""
        stack = () if self.stack == 1 else (self.stack,)
        shapes = [(*stack, self.rows, self.inner), (*stack, self.inner, self.columns)]
        return [random.normal(size=shape, scale=self.inner**-0.5).astype("float32") for shape in shapes]


@dataclasses.dataclass(frozen=True)
class Conv:
    """A convolution of images `(batch, size, size, channels)` by `(kernel, kernel, channels, filters)`, and its gradients."""

    batch: int
    size: int
    channels: int
    kernel: int
    filters: int
    has_input_gradient: bool = True

    @property
    def num_operations(self) -> int:
        """Multiplications and additions of all of its products."""
        places = (self.size - self.kernel + 1) ** 2
        one = 2 * self.batch * places * self.kernel**2 * self.channels * self.filters
        return one * (3 if self.has_input_gradient else 2)

    def inputs(self, random: np.random.Generator) -> list[np.ndarray]:
        """Images, kernel, and the gradient of what comes out."""
        out = self.size - self.kernel + 1
        shapes = [
            (self.batch, self.size, self.size, self.channels),
            (self.kernel, self.kernel, self.channels, self.filters),
            (self.batch, out, out, self.filters),
        ]
        return [random.normal(size=shape).astype("float32") for shape in shapes]


Product = MatMul | Conv


def repeats(products: list[Product]) -> int:
    """How many steps' products to put into one program, so that calling it costs little beside them."""
    return max(1, min(16, 300_000_000 // sum(product.num_operations for product in products)))


def dense(rows: int, inner: int, columns: int, *, is_first: bool = False) -> list[Product]:
    """A dense layer forward, to its weights, and back to its inputs unless these are data."""
    backward = [] if is_first else [MatMul(rows, columns, inner)]
    return [MatMul(rows, inner, columns), MatMul(inner, rows, columns), *backward]


def dense_stack(rows: int, widths: tuple[int, ...], *, is_first: bool = True) -> list[Product]:
    """Dense layers of these widths one after another; the first of them on data."""
    pairs = itertools.pairwise(widths)
    return [product for i, (k, n) in enumerate(pairs) for product in dense(rows, k, n, is_first=is_first and i == 0)]


def forward_stack(rows: int, widths: tuple[int, ...]) -> list[Product]:
    """The same layers forward only."""
    return [MatMul(rows, k, n) for k, n in itertools.pairwise(widths)]
