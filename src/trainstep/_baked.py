"""Python values that a compiled step has baked in, and tensors that it let escape."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, final


@dataclasses.dataclass(frozen=True)
class Change:
    """A Python value that is no longer what it was when the step was captured."""

    name: str
    old: Any
    new: Any
    is_expected: bool


@final
class BakedValues:
    """The Python values that a function can read, as they were when it was captured."""

    def __init__(self, function: Callable[..., Any]):
        self._function = function

    def first_change(self) -> Change | None:
        """The first value that has changed since."""
        return None

    def forget_changed(self) -> None:
        """Forgets the values that capturing itself changed: the function writes those."""

    @contextlib.contextmanager
    def refusing_leaks(self, step_name: str) -> Iterator[None]:
        """Raises `CaptureError` if the block leaves a tensor of the capture in a list or dict that the function can reach."""
        yield
