"""What a loop asks of a source of batches."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

Batch = Any
"""A tuple of the arguments of a step, or any other nest, which is the step's one argument. Leaves are arrays or tensors.

Or `Rows`, of which `data.read` makes such a tuple.
"""


class AbstractSource(ABC):
    """Batches that can be gone through, pass by pass."""

    kind: str
    """What the user gave, in words, for error messages: "a generator"."""

    is_repeatable: bool
    """Whether a second pass gives batches again. An iterator is not."""

    is_endless: bool
    """Whether a pass is known never to end."""

    is_read_ahead: bool = False
    """Whether a thread may draw the next batches while a step runs: not where the user's own code makes them, which may look at
    what is being trained."""

    num_batches: int | None
    """How many batches one pass gives; `None` where only the end will tell."""

    def forget_copies(self) -> None:  # noqa: B027  # most keep none
        """The user's data may have been changed in place: what was copied of them is not used any more."""

    @abstractmethod
    def batches(self, pass_index: int, *, first_batch: int = 0) -> Iterator[Batch]:
        """The batches of one pass, from the batch `first_batch` on.

        The pass and the batch alone say what comes: asked twice, a source whose order is its own gives the same batches
        twice, bit for bit, so that an interrupted run can go on where it stopped. What the user's iterator yields is the
        user's; batches before `first_batch` are then drawn and dropped.
        """
