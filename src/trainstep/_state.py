"""The variables that a step touches, and putting them back."""

from typing import Any, final

import keras
import numpy as np

from . import _keras, backends


@final
class Rollback:
    """Puts every variable that was read or assigned inside the `with` block back, bit for bit, if the block raises.

    `variables` are those that were touched, in the order of first use.
    """

    def __init__(self) -> None:
        self._before: dict[int, tuple[keras.Variable, np.ndarray]] = {}
        self._watch: Any = None

    @property
    def variables(self) -> list[keras.Variable]:
        """Every variable touched so far."""
        return [variable for variable, _ in self._before.values()]

    def __enter__(self) -> "Rollback":
        self._watch = _keras.on_variable_use(self._remember)
        self._watch.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        self._watch.__exit__(kind, *exception)
        if kind is not None:
            for variable, value in self._before.values():
                variable.assign(value)

    def _remember(self, variable: keras.Variable) -> None:
        if id(variable) not in self._before and _keras.is_initialized(variable):
            value = backends.active().to_numpy(_keras.raw_value(variable))
            self._before[id(variable)] = (variable, np.array(value, copy=True))
