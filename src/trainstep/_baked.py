"""Python values that a compiled step has baked in, and tensors that it let escape."""

import contextlib
import dataclasses
from collections.abc import Collection, Iterator
from typing import Any, final

from . import backends
from ._errors import CaptureError, describe
from ._reach import Place, Reach


@dataclasses.dataclass(frozen=True)
class Change:
    """A Python value that is no longer what it was when the step was captured."""

    name: str
    old: Any
    new: Any
    is_expected: bool
    """Whether the user expects a new capture and needs no warning: a layer was frozen or unfrozen."""


@final
class BakedValues:
    """The Python values that a function can read, as they were when it was captured."""

    def __init__(self, reach: Reach):
        self._reach = reach
        self._values: list[tuple[Place, Any]] = [(place, place.read()) for place in self._reach.scalars]

    def first_change(self) -> Change | None:
        """The first value that has changed since."""
        for place, old in self._values:
            new = place.read()
            if new is not old and (type(new) is not type(old) or new != old) and not (new != new and old != old):
                return Change(place.name, old, new, is_expected=place.key == "_trainable")
        return None

    def forget_written(self, places: Collection[tuple[int, Any]]) -> None:
        """Forgets what the function itself writes: values that capturing changed, and `places` where it leaves tensors."""
        self._values = [
            (place, old)
            for place, old in self._values
            if (place.read() is old or place.read() == old) and (id(place.container), place.key) not in places
        ]

    @contextlib.contextmanager
    def refusing_leaks(self, step_name: str) -> Iterator[None]:
        """Raises `CaptureError` if the block leaves a new tensor in a list or dict that the function can reach."""
        before = [(name, collection, collection.copy()) for name, collection in self._reach.collections]
        generators = [(name, g, g.bit_generator.state) for name, g in self._reach.generators]
        yield
        for name, generator, state in generators:
            if str(generator.bit_generator.state) != str(state):
                raise CaptureError(
                    f"The step {step_name!r} draws from the NumPy generator `{name}` while it is captured: "
                    "the compiled step would repeat that draw for ever. Draw with `keras.random`, "
                    "or draw outside and pass the array to the step."
                )
        for name, collection, old in before:
            leaked = _new_tensor(collection, old)
            if leaked is not None:
                collection.clear()
                collection.extend(old) if isinstance(collection, list) else collection.update(old)
                raise CaptureError(
                    f"The step {step_name!r} puts {describe(leaked)} into `{name}`. A compiled step runs its Python code "
                    "only while it is captured, so the later values would be missing. Return the tensor in the step's dict and "
                    "collect it outside, or use `@ts.step(compile=False)`."
                )


def _new_tensor(collection: Any, old: Any) -> Any:
    if isinstance(collection, dict):
        added = [value for key, value in collection.items() if value is not old.get(key)]
    else:
        known = {id(value) for value in old}
        added = [value for value in collection if id(value) not in known]
    return next((value for value in added if backends.active().is_tensor(value)), None)
