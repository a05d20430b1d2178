"""Metrics set to zero at the start of an epoch."""

from collections.abc import Callable, Sequence
from typing import Any, final

import keras
import numpy as np

from . import _keras, backends


@final
class Resetting:
    """Resets metrics: those of Keras, whose values after it are always the same, together in one dispatch.

    Each `Variable.assign` is a dispatch of its own, and takes longer than a small step.
    """

    def __init__(self) -> None:
        self._variables: list[keras.Variable] = []
        self._assign: Callable[[], Any] | None = None

    def reset(self, metrics: Sequence[keras.metrics.Metric]) -> None:
        """Does what `reset_state` of each metric does."""
        variables = [variable for metric in metrics if _keras.resets_to_constants(metric) for variable in metric.variables]
        if self._assign is None or list(map(id, variables)) != list(map(id, self._variables)):
            for metric in metrics:
                metric.reset_state()
            self._learn(variables)
            return
        for metric in metrics:
            if not _keras.resets_to_constants(metric):
                metric.reset_state()
        self._assign()

    def _learn(self, variables: list[keras.Variable]) -> None:
        to_numpy = backends.active().to_numpy
        values = [np.array(to_numpy(_keras.raw_value(variable)), copy=True) for variable in variables]
        self._variables = variables
        self._assign = backends.active().assigner(variables, values) if variables else None
