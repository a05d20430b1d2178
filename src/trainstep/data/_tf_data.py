"""Batches of a `tf.data.Dataset`, on every backend."""

from collections.abc import Iterator
from typing import Any, final

import keras

from .. import backends
from .._errors import DataError
from ._abstract import AbstractSource, Batch


@final
class TfDataSource(AbstractSource):
    """The elements of a `tf.data.Dataset`: tensors where they are the backend's own, NumPy arrays elsewhere.

    Raises `DataError` for elements that no step can take, such as ragged tensors and strings.
    """

    kind = "a tf.data.Dataset"
    is_repeatable = True
    is_read_ahead = True

    def __init__(self, dataset: Any, *, call: str):
        _refuse_what_no_step_takes(dataset, call)
        self._dataset = dataset
        cardinality = int(dataset.cardinality())
        self.is_endless = cardinality == -1
        self.num_batches = cardinality if cardinality >= 0 else None

    def batches(self, pass_index: int, *, first_batch: int = 0) -> Iterator[Batch]:
        import tensorflow as tf

        dataset = self._dataset.skip(first_batch) if first_batch else self._dataset
        return iter(dataset) if backends.active().is_tensor(tf.constant(0)) else dataset.as_numpy_iterator()


def _refuse_what_no_step_takes(dataset: Any, call: str) -> None:
    import tensorflow as tf

    for spec in keras.tree.flatten(dataset.element_spec):
        if not isinstance(spec, tf.TensorSpec) or spec.dtype == tf.string:
            raise DataError(
                f"`{call}` needs a tf.data.Dataset of dense numeric tensors. This one yields {spec}. "
                "Encode strings, pad ragged tensors and make sparse ones dense in the pipeline, with `dataset.map(...)`."
            )
