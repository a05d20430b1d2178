"""Batches of a `torch.utils.data.DataLoader`, on every backend."""

import itertools
from collections.abc import Iterator
from typing import Any, final

import keras
import numpy as np

from .. import backends
from ._abstract import AbstractSource, Batch
from ._columns import on_host
from ._iterables import length_of


@final
class TorchLoaderSource(AbstractSource):
    """The batches of a torch `DataLoader`: tensors where they are the backend's own, NumPy arrays elsewhere.

    A loader collates samples `(x, y)` to the list `[x, y]`; it becomes the tuple that a step's arguments come from.
    """

    kind = "a torch DataLoader"
    is_repeatable = True
    is_read_ahead = True
    is_endless = False

    def __init__(self, loader: Any):
        self._loader = loader
        self.num_batches = length_of(loader)

    def batches(self, pass_index: int, *, first_batch: int = 0) -> Iterator[Batch]:
        return map(_as_batch, itertools.islice(iter(self._loader), first_batch, None))


def _as_batch(batch: Any) -> Batch:
    batch = tuple(batch) if isinstance(batch, list) else batch
    return keras.tree.map_structure(_as_own, batch)


def _as_own(leaf: Any) -> Any:
    is_foreign = hasattr(leaf, "detach") and not backends.active().is_tensor(leaf)
    return np.asarray(on_host(leaf)) if is_foreign else leaf
