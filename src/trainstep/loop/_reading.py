"""Values of a step's logs, brought to the host when somebody looks."""

from collections.abc import Iterator, Mapping
from typing import Any, final

import numpy as np

from .. import backends
from ..backends import Tensor


def as_numbers(logs: Mapping[str, Tensor]) -> dict[str, Any]:
    """The logs as Python floats; waits for the step that computed them. A metric whose result is a vector gives an array."""
    return {name: _as_number(value) for name, value in logs.items()}


@final
class LazyLogs(dict[str, Any]):
    """The logs of one step: a dict of floats that reads the device at the first look, and not at all if nobody looks.

    `__iter__` is overridden as well: where it is not, `dict(logs)` and `f(**logs)` take the values without asking.
    """

    def __init__(self, logs: Mapping[str, Tensor]):
        super().__init__(logs)
        self._is_read = False

    def __getitem__(self, name: str) -> Any:
        self._read()
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def __eq__(self, other: object) -> bool:
        self._read()
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]  # as for every dict

    def __repr__(self) -> str:
        self._read()
        return super().__repr__()

    def get(self, name: str, default: Any = None) -> Any:
        """The value under a name, or the default."""
        self._read()
        return super().get(name, default)

    def items(self) -> Any:
        """Names and values."""
        self._read()
        return super().items()

    def values(self) -> Any:
        """The values."""
        self._read()
        return super().values()

    def pop(self, *args: Any) -> Any:
        """Removes a name and gives its value."""
        self._read()
        return super().pop(*args)

    def copy(self) -> dict[str, Any]:
        """A plain dict of the values."""
        self._read()
        return super().copy()

    def _read(self) -> None:
        if not self._is_read:
            self._is_read = True
            for name, value in as_numbers(dict(super().items())).items():
                super().__setitem__(name, value)


def _as_number(value: Tensor) -> Any:
    if isinstance(value, (float, int)):
        return float(value)
    array = value if isinstance(value, np.ndarray) else backends.active().to_numpy(value)
    return float(array.reshape(())) if array.size == 1 else np.array(array)
