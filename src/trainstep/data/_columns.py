"""Arrays and tensors in any nest, as columns with the same number of rows."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, final

import keras
import numpy as np

from .. import backends
from .._errors import DataError, describe

Nest = Any
"""Dicts, lists and tuples with columns (or arrays) as leaves."""


class AbstractColumn(ABC):
    """One array whose first axis counts the rows."""

    num_rows: int
    array: Any

    @abstractmethod
    def rows(self, indices: range | np.ndarray) -> Any:
        """These rows, in this order, where the array lies: on the host, or on the device."""


@final
class HostColumn(AbstractColumn):
    """A NumPy array. Neighbouring rows are a view, others a copy."""

    def __init__(self, array: np.ndarray):
        self.array = array
        self.num_rows = len(array)

    def rows(self, indices: range | np.ndarray) -> np.ndarray:
        if isinstance(indices, range):
            return self.array[indices.start : indices.stop]
        return np.take(self.array, indices, axis=0)


@final
class DeviceColumn(AbstractColumn):
    """A tensor of the active backend; its rows never leave the device."""

    def __init__(self, tensor: Any):
        self.array = tensor
        self.num_rows = int(tensor.shape[0])

    def rows(self, indices: range | np.ndarray) -> Any:
        if isinstance(indices, range):
            # Not `tensor[start:stop]`: that may compile a program for each `start`.
            starts = (indices.start, *(0 for _ in self.array.shape[1:]))
            return keras.ops.slice(self.array, starts, (len(indices), *self.array.shape[1:]))
        return keras.ops.take(self.array, indices, axis=0)


def as_columns(nest: Nest, *, call: str, name: str) -> Nest:
    """The same nest with a column for each leaf. Lists of numbers are leaves too, as is all that NumPy can read.

    Raises `DataError` for a leaf that has no rows, or is not numeric.
    """
    if isinstance(nest, dict):
        return {key: as_columns(value, call=call, name=f"{name}[{key!r}]") for key, value in nest.items()}
    if isinstance(nest, (list, tuple)) and not is_plain_list(nest):
        parts = [as_columns(value, call=call, name=f"{name}[{i}]") for i, value in enumerate(nest)]
        return type(nest)(*parts) if hasattr(nest, "_fields") else type(nest)(parts)
    return _column(nest, call, name)


def is_plain_list(value: Any) -> bool:
    """Whether a list or tuple, perhaps of lists, holds plain numbers or strings, and so stands for one array."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(is_plain_list, value))
    return isinstance(value, (bool, int, float, str, np.generic))


def named_columns(nest: Nest, name: str) -> Iterator[tuple[str, AbstractColumn]]:
    """Each column with its name in messages: `("x['image']", column)`."""
    if isinstance(nest, dict):
        for key, value in nest.items():
            yield from named_columns(value, f"{name}[{key!r}]")
    elif isinstance(nest, (list, tuple)):
        for i, value in enumerate(nest):
            yield from named_columns(value, f"{name}[{i}]")
    else:
        yield name, nest


def select(nest: Nest, indices: range | np.ndarray) -> Nest:
    """The nest with these rows of each column."""
    if isinstance(nest, AbstractColumn):
        return nest.rows(indices)
    if isinstance(nest, dict):
        return {key: select(value, indices) for key, value in nest.items()}
    parts = [select(value, indices) for value in nest]
    return type(nest)(*parts) if hasattr(nest, "_fields") else type(nest)(parts)


def on_host(leaf: Any) -> Any:
    """NumPy reads other frameworks' tensors by itself, but a torch tensor only where it needs no gradient and lies on the CPU."""
    return leaf.detach().cpu() if hasattr(leaf, "detach") else leaf


def _column(leaf: Any, call: str, name: str) -> AbstractColumn:
    is_tensor = backends.active().is_tensor(leaf)
    array = leaf if is_tensor else _as_array(leaf, call, name)
    if len(array.shape) == 0:
        raise DataError(f"`{call}` needs arrays whose first axis counts the samples. `{name}` is {describe(leaf)}.")
    return DeviceColumn(array) if is_tensor else HostColumn(array)


def _as_array(leaf: Any, call: str, name: str) -> np.ndarray:
    try:
        array = np.asarray(on_host(leaf))
    except (TypeError, ValueError) as error:
        raise DataError(f"`{call}` cannot make one array of `{name}`, {describe(leaf)}: {error}") from error
    if array.dtype.kind not in "biufV":
        raise DataError(
            f"`{call}` needs numeric arrays. `{name}` is {describe(leaf)} and gives the dtype {array.dtype}. "
            "Encode strings and objects as numbers first (`keras.layers.StringLookup`), and pad sequences to one length."
        )
    return array
