"""Which source reads what the user gave. Frameworks' objects are known by the module of their class: nothing is imported."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from .. import backends
from .._errors import DataError, describe
from ._abstract import AbstractSource
from ._arrays import ArraySource
from ._columns import as_columns, is_plain_list
from ._iterables import CallableSource, IterableSource, IteratorSource
from ._order import AbstractOrder
from ._tf_data import TfDataSource
from ._torch_loader import TorchLoaderSource

NOT_YET = (("keras.src.trainers.data_adapters", "PyDataset"), ("datasets.", "Dataset"), ("torch.utils.data.dataset", "Dataset"))


def as_source(
    x: Any, y: Any = None, sample_weight: Any = None, *, batch_size: int, order: Callable[[], AbstractOrder], call: str
) -> AbstractSource:
    """The source for the data of `fit`, `evaluate` or `predict`.

    Args:
        x: Arrays, tensors or lists of numbers in any nest; a `tf.data.Dataset`; a torch `DataLoader`; a list of batches (tuples
            or dicts), an iterator or another iterable of batches; or a function that returns a fresh iterator.
        y: Targets, for arrays only.
        sample_weight: Weights, for arrays only.
        batch_size: Rows in a batch, for arrays only.
        order: Called for arrays only: the order of their rows.
        call: For error messages: "fit".

    Raises `DataError` for anything else, and for arrays that do not fit together.
    """
    if is_arrays(x, alone=y is None):
        return ArraySource(as_arrays(x, y, sample_weight, call=call), batch_size=batch_size, order=order(), call=call)
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if value is not None:
            raise DataError(
                f"`{call}` was given {describe(value)} as `{name}` beside {describe(x)} as `x`, "
                f"whose batches hold all that a step takes. Put `{name}` into the batches."
            )
    return _batch_source(x, call)


def as_arrays(x: Any, y: Any = None, sample_weight: Any = None, *, call: str) -> dict[str, Any]:
    """The arguments of a step that were given, by name, as nests of columns."""
    given = {"x": x} | {name: v for name, v in (("y", y), ("sample_weight", sample_weight)) if v is not None}
    return {name: as_columns(value, call=call, name=name) for name, value in given.items()}


def is_arrays(x: Any, *, alone: bool = True) -> bool:
    """Whether `x` is arrays with rows, in any nest, and not a thing that yields batches.

    A list is a nest of arrays, except that a list of tuples or of dicts, given alone, is a list of batches.
    """
    if isinstance(x, list) and x and alone and not is_plain_list(x):
        return not (all(isinstance(e, tuple) for e in x) or all(isinstance(e, dict) for e in x))
    if isinstance(x, (dict, list, tuple)) or backends.active().is_tensor(x):
        return True
    return hasattr(x, "__array__") and hasattr(x, "shape")


def _batch_source(x: Any, call: str) -> AbstractSource:
    if _is_a(x, "tensorflow.python.data.", "DatasetV2"):
        return TfDataSource(x, call=call)
    if _is_a(x, "torch.utils.data.dataloader", "DataLoader"):
        return TorchLoaderSource(x)
    if any(_is_a(x, module, name) for module, name in NOT_YET):
        raise DataError(
            f"`{call}` cannot read {describe(x)} ({type(x).__module__}) yet. "
            "Pass a function that returns an iterator of its batches."
        )
    if isinstance(x, Iterator):
        return IteratorSource(x)
    if isinstance(x, Iterable) and not isinstance(x, (str, bytes)):
        return IterableSource(x)
    if callable(x):
        return CallableSource(cast(Callable[[], Iterable[Any]], x), call=call)
    raise DataError(
        f"`{call}` needs arrays, a dataset, an iterable of batches, or a function that returns an iterator of batches. "
        f"Got {describe(x)}."
    )


def _is_a(value: Any, module: str, name: str) -> bool:
    return any(cls.__module__.startswith(module) and cls.__name__ == name for cls in type(value).__mro__)
