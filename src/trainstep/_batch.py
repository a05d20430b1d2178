"""The batch of a step: its signature, and its leaves as tensors."""

from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np

from . import backends
from ._errors import DataError, describe
from .backends import Tensor

Signature = tuple[Any, ...]
"""What a program is captured for: the step's role, the structure of its batch, the shape and dtype of each leaf."""


def as_arguments(batch: Any) -> tuple[Any, ...]:
    """A tuple batch is unpacked into the arguments of a step, any other batch is passed whole."""
    return batch if isinstance(batch, tuple) else (batch,)


def signature_of(args: tuple[Any, ...], role: str, names: tuple[str, ...] = ()) -> tuple[Signature, list[Tensor]]:
    """What a program is captured for, and the batch as a flat list of tensors. Python numbers count as tensors.

    `names` are those of the last arguments, if the step takes them by name.
    """
    tensors = tensors_of(args)
    leaves = tuple((tuple(t.shape), t.dtype) for t in tensors)
    return (role, (*structure_of(args), *names), leaves), tensors


def structure_of(nest: Any) -> Any:
    """The dicts, lists and tuples of a nest without its leaves; `None` stands for itself."""
    if isinstance(nest, dict):
        return ("dict", *((key, structure_of(nest[key])) for key in sorted(nest, key=str)))
    if isinstance(nest, (tuple, list)):
        return (type(nest).__name__, *map(structure_of, nest))
    return None if nest is None else "."


def tensors_of(args: tuple[Any, ...]) -> list[Tensor]:
    """The leaves of a batch as inputs of a program; `None` is part of the structure. Raises `DataError` for what is no number."""
    return inputs_of([leaf for leaf in keras.tree.flatten(args) if leaf is not None])


def inputs_of(leaves: Sequence[Any]) -> list[Tensor]:
    """Leaves of a batch as inputs of a program."""
    return list(map(_as_input, leaves))


def _as_input(leaf: Any) -> Tensor:
    backend = backends.active()
    if (type(leaf) is np.ndarray and leaf.dtype.kind in "biuf") or backend.is_tensor(leaf):
        return backend.as_input(leaf)
    if isinstance(leaf, (bool, int, float)):
        dtype = "bool" if isinstance(leaf, bool) else "int32" if isinstance(leaf, int) else keras.config.floatx()
        return backend.as_input(_number(leaf, dtype))
    if isinstance(leaf, keras.Variable):
        raise DataError(f"A step takes tensors and arrays. Got {describe(leaf)}: read it inside the step instead.")
    array = np.asarray(leaf)
    if array.dtype.kind not in "biufV":
        raise DataError(
            f"A step takes numeric arrays and tensors. Got {describe(leaf)}. Encode strings and objects as numbers "
            "first, pad ragged tensors, and make sparse ones dense."
        )
    return backend.as_input(array)


def _number(value: float, dtype: str) -> np.ndarray:
    try:
        return np.asarray(value, dtype)
    except OverflowError as error:
        raise DataError(
            f"A step takes a Python integer as {dtype}, and got one that does not fit into it. "
            "Hand it over as a float, or as a NumPy array of the dtype that you want."
        ) from error


def with_tensors(args: tuple[Any, ...], tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """The batch with these tensors in place of its leaves.

    Not by `keras.tree.map_structure`, which on PyTorch visits a dict's entries in another order than `flatten` does.
    """
    remaining: Iterator[Tensor] = iter(tensors)
    leaves = [None if leaf is None else next(remaining) for leaf in keras.tree.flatten(args)]
    return keras.tree.pack_sequence_as(args, leaves)


def num_samples(tensors: Sequence[Tensor]) -> int:
    """How many samples a batch holds: the rows of its first leaf that has any, else 1."""
    return next((int(t.shape[0]) for t in tensors if len(t.shape)), 1)


def describe_signature(signature: Signature) -> str:
    """The shapes and dtypes of a signature, for `step.report()`."""
    _, _, leaves = signature
    return ", ".join(f"{keras.backend.standardize_dtype(dtype)}{list(shape)}" for shape, dtype in leaves) or "no inputs"
