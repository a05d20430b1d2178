"""Class weights, as one weight for each sample."""

from collections.abc import Iterator, Mapping
from typing import Any, final

import keras
import numpy as np

from .._errors import DataError, describe
from ._abstract import AbstractSource, Batch
from ._rows import read


@final
class ClassWeightedSource(AbstractSource):
    """The batches `(x, y)` of another source as `(x, y, weights)`: the weight of each sample's class, 1 for a class not named.

    Raises `DataError` for a batch that is not `(x, y)`, or labels that are neither integers nor one-hot.
    """

    def __init__(self, source: AbstractSource, class_weight: Mapping[int, float]):
        self._source = source
        self._class_weight = class_weight
        self.kind = source.kind
        self.is_repeatable = source.is_repeatable
        self.is_endless = source.is_endless
        self.is_read_ahead = source.is_read_ahead
        self.num_batches = source.num_batches

    def forget_copies(self) -> None:
        self._source.forget_copies()

    def batches(self, pass_index: int, *, first_batch: int = 0) -> Iterator[Batch]:
        for batch in map(read, self._source.batches(pass_index, first_batch=first_batch)):
            if not isinstance(batch, tuple) or len(batch) != 2:
                raise DataError(f"`class_weight` needs batches `(x, y)` to weight by their labels. Got {describe(batch)}.")
            x, y = batch
            yield x, y, sample_weights(y, self._class_weight)


def sample_weights(labels: Any, class_weight: Mapping[int, float]) -> np.ndarray:
    """The weight of each label's class, float32, shape `(samples,)`. Labels are integers, or one-hot along the last axis.

    >>> sample_weights(np.array([0, 2, 1]), {0: 10.0, 1: 0.5}).tolist()
    [10.0, 1.0, 0.5]
    """
    classes = _classes(labels)
    return np.array([class_weight.get(int(index), 1.0) for index in classes], "float32")


def _classes(labels: Any) -> np.ndarray:
    if isinstance(labels, (dict, list, tuple)):
        raise DataError(f"`class_weight` needs one array of labels. Got {describe(labels)}: pass `sample_weight` instead.")
    array = np.asarray(keras.ops.convert_to_numpy(labels))
    if array.ndim == 2 and array.shape[1] > 1:
        return array.argmax(axis=1)
    classes = array.reshape(len(array), -1)
    is_integer = np.array_equal(classes, np.round(classes))
    if classes.shape[1] != 1 or not is_integer:
        raise DataError(
            "`class_weight` needs integer labels of shape (samples,) or one-hot labels of shape (samples, classes). "
            f"Got {describe(labels)}."
        )
    return classes[:, 0].astype(int)
