"""Each page written by hand in plain JAX, as one who knows Keras' stateless calls would: what a step costs without trainstep.

The state of a page is a dict of lists of arrays: for each owner of variables its values, in the order of `owner.variables`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import jax

from ..conventions import Logs, Page, _variables

State = dict[str, list[Any]]
Run = Iterator[tuple[Logs, State]]


def initial_state(page: Page, *names: str) -> State:
    """Copies of the values of the owners of those names, or of all: the page's own arrays must outlive a donated state."""
    return {name: [jax.numpy.array(v.value, copy=True) for v in _variables(page.tracked[name])] for name in names or page.tracked}


def split(model: Any, values: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The values of a model's trainable variables, and of the others."""
    pairs = list(zip(model.variables, values, strict=True))
    return [a for v, a in pairs if v.trainable], [a for v, a in pairs if not v.trainable]


def merged(model: Any, trainable: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """What `split` has taken apart, in the order of `model.variables`."""
    trainable, others = iter(trainable), iter(others)
    return [next(trainable if v.trainable else others) for v in model.variables]
