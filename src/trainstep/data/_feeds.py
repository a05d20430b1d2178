"""What a user passed to `fit`, `evaluate` or `predict`, made into feeds."""

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from .._errors import DataError, TrainStepWarning, describe
from ._abstract import AbstractSource
from ._class_weight import ClassWeightedSource, sample_weights
from ._feed import AbstractFeed, FreshPasses, GoingOn
from ._inputs import InputsOnly
from ._order import InOrder, Shuffled, draw_seed
from ._resolve import as_arrays, as_source, is_arrays
from ._split import split_rows

DEFAULT_BATCH_SIZE = 32


class Given(NamedTuple):
    """Data under Keras' names, as the user gave them."""

    x: Any
    y: Any = None
    sample_weight: Any = None


def split_off_validation(given: Given, fraction: float) -> tuple[Given, Given]:
    """The rows to train on, and the last `fraction` of the rows to validate on.

    Raises `DataError` if the data are not arrays, or one part would be empty.
    """
    if not is_arrays(given.x, alone=given.y is None):
        raise DataError(f"`validation_split` needs arrays. Got {describe(given.x)} as `x`: pass `validation_data` instead.")
    training, validation = split_rows(as_arrays(*given, call="fit"), fraction, call="fit")
    return Given(**training), Given(**validation)


def as_given(validation_data: Any) -> Given:
    """`validation_data` as Keras reads it: `(x, y)`, `(x, y, sample_weight)`, or anything that `x` may be."""
    is_pair = isinstance(validation_data, tuple) or (isinstance(validation_data, list) and is_arrays(validation_data))
    if is_pair and 1 <= len(validation_data) <= 3:
        return Given(*validation_data)
    return Given(validation_data)


def training_feed(
    given: Given,
    *,
    batch_size: int | None,
    shuffle: bool,
    class_weight: Mapping[int, float] | None,
    steps_per_epoch: int | None,
) -> AbstractFeed:
    """The batches of `fit`. Raises `DataError` for data that do not fit together, and for an epoch known never to end."""
    if class_weight is not None and given.sample_weight is not None:
        raise DataError("`fit` takes `class_weight` or `sample_weight`, not both: multiply them into one `sample_weight`.")
    if class_weight is not None and given.y is not None:
        given = given._replace(sample_weight=sample_weights(given.y, class_weight))
    source = _source(given, "fit", batch_size, shuffled=shuffle)
    if class_weight is not None and given.y is None:
        source = ClassWeightedSource(source, class_weight)
    if steps_per_epoch is not None:
        return GoingOn(source, num_steps=steps_per_epoch, argument="x")
    if source.is_endless:
        raise DataError(f"`fit` was given {source.kind} that never ends. Say with `steps_per_epoch` what makes an epoch.")
    return FreshPasses(source, max_steps=None, argument="x")


def evaluation_feed(given: Given, *, call: str, batch_size: int | None, steps: int | None, argument: str = "x") -> AbstractFeed:
    """The batches of an evaluation: the same ones each time, except that an iterator goes on."""
    source = _source(given, call, batch_size, shuffled=False)
    return _at_most(source, steps, call, argument)


def prediction_feed(x: Any, *, batch_size: int | None, steps: int | None, num_inputs: int) -> AbstractFeed:
    """The batches of a prediction, of which a step takes the first `num_inputs` parts."""
    source = InputsOnly(_source(Given(x), "predict", batch_size, shuffled=False), num_inputs)
    return _at_most(source, steps, "predict", "x")


def _source(given: Given, call: str, batch_size: int | None, *, shuffled: bool) -> AbstractSource:
    order = (lambda: Shuffled(draw_seed())) if shuffled else InOrder
    source = as_source(*given, batch_size=batch_size or DEFAULT_BATCH_SIZE, order=order, call=call)
    if batch_size is not None and not is_arrays(given.x, alone=given.y is None):
        warnings.warn(f"`{call}` ignores `batch_size`: {source.kind} makes its own batches.", TrainStepWarning, stacklevel=5)
    return source


def _at_most(source: AbstractSource, max_steps: int | None, call: str, argument: str) -> AbstractFeed:
    if source.is_endless and max_steps is None:
        raise DataError(f"`{call}` was given {source.kind} that never ends. Say with steps how many of its batches to take.")
    if max_steps is not None and not source.is_repeatable:
        return GoingOn(source, num_steps=max_steps, argument=argument)
    if max_steps is not None and source.num_batches is not None and max_steps > source.num_batches:
        warnings.warn(
            f"`{call}` was asked for {max_steps} steps, and `{argument}` has {source.num_batches}: it takes these.",
            TrainStepWarning,
            stacklevel=5,
        )
    return FreshPasses(source, max_steps=max_steps, argument=argument)
