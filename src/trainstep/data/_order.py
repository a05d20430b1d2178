"""In which order rows are read: by index, from a seed, never from NumPy's or Python's own random state."""

import random
from abc import ABC, abstractmethod
from typing import final

import keras
import numpy as np

from .. import _keras

Seed = tuple[int, ...]


class AbstractOrder(ABC):
    """The order of the rows in each pass."""

    @abstractmethod
    def rows(self, pass_index: int, num_rows: int) -> range | np.ndarray:
        """The indices of all rows, in the order of this pass; a `range` where that is their own."""


@final
class InOrder(AbstractOrder):
    """The rows as they stand, in every pass."""

    def rows(self, pass_index: int, num_rows: int) -> range:
        return range(num_rows)


@final
class Shuffled(AbstractOrder):
    """Another order in each pass; the same seed, pass and number of rows give the same order on every machine.

    >>> Shuffled((1, 2)).rows(0, 5).tolist() == Shuffled((1, 2)).rows(0, 5).tolist()
    True
    """

    def __init__(self, seed: Seed):
        self._seed = seed

    def rows(self, pass_index: int, num_rows: int) -> np.ndarray:
        folded = np.random.SeedSequence((*self._seed, pass_index))
        return np.random.Generator(np.random.Philox(folded)).permutation(num_rows)


def draw_seed() -> Seed:
    """A seed from Keras' global generator, which moves on: another one each time, the same after `keras.utils.set_random_seed`.

    Where that generator must be created first, Keras takes its seed from Python's random state, which is put back here:
    a run must not disturb the random numbers of its caller.
    """
    python_state = random.getstate()
    generator = _keras.global_seed_generator()
    random.setstate(python_state)
    state = np.asarray(keras.ops.convert_to_numpy(generator.next(ordered=False)))
    return tuple(int(word) for word in state.astype(np.uint32))
