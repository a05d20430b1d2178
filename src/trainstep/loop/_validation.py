"""Validation between epochs, or none."""

from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Any, final

from ._evaluate import Evaluation
from ._events import Events


class AbstractValidation(ABC):
    """What happens between the training of an epoch and its end."""

    @abstractmethod
    def after_epoch(self, epoch: int, events: Events) -> dict[str, Any]:
        """Validates if it is due after this epoch (counted from 0); the logs, whose names begin with `val_`."""


@final
class NoValidation(AbstractValidation):
    """Never validates."""

    def after_epoch(self, epoch: int, events: Events) -> dict[str, Any]:
        return {}


@final
class Validation(AbstractValidation):
    """Validates every `frequency` epochs, or after the epochs (counted from 1) that `frequency` lists."""

    def __init__(self, evaluation: Evaluation, *, frequency: int | Collection[int]):
        self._evaluation = evaluation
        self._frequency = frequency

    def after_epoch(self, epoch: int, events: Events) -> dict[str, Any]:
        if not self._is_due(epoch + 1):
            return {}
        logs = self._evaluation.run(events, epoch=epoch)
        return {name if name.startswith("val_") else f"val_{name}": value for name, value in logs.items()}

    def _is_due(self, num_epochs_completed: int) -> bool:
        if isinstance(self._frequency, int):
            return num_epochs_completed % self._frequency == 0
        return num_epochs_completed in self._frequency
