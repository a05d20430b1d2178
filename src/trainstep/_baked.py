"""Python values that a compiled step has baked in, and tensors that it let escape."""

import contextlib
import dataclasses
import itertools
import operator
from collections.abc import Callable, Collection, Iterator
from typing import Any, final

import numpy as np

from . import backends
from ._errors import CaptureError, describe
from ._reach import Place, Reach, Scalar, glances


@dataclasses.dataclass(frozen=True)
class Change:
    """A Python value that is no longer what it was when the step was captured."""

    name: str
    old: Any
    new: Any

    @property
    def is_expected(self) -> bool:
        """Whether the user expects a new capture and needs no warning: a layer was frozen, an optimizer replaced, a layer added."""
        return self.name.endswith("._trainable") or not (isinstance(self.old, Scalar) or _is_array(self.old))

    @property
    def is_replaced(self) -> bool:
        """Whether an object, not a number, was replaced: what the step trains, and what it reports, may be another now."""
        return not (isinstance(self.old, Scalar) and isinstance(self.new, Scalar))

    def message(self, step_name: str) -> str:
        """The warning that the step is captured anew."""
        if self.is_replaced:
            return (
                f"`{self.name}` was replaced by another object. It is constant in the compiled step `{step_name}`, which is now "
                "captured anew; that takes time at every change. Pass it to the step as an argument, or make it a "
                "`keras.Variable(..., trainable=False)` and change it with `.assign(...)`."
            )
        return (
            f"`{self.name}` changed from {self.old!r} to {self.new!r}. It is a Python value, constant in the "
            f"compiled step `{step_name}`, which is now captured anew; that takes time at every change. "
            f"Make it a variable, `{self.name} = keras.Variable({self.old!r}, trainable=False)`, "
            "and change it with `.assign(...)`."
        )


@final
class BakedValues:
    """The Python values and objects that a function can read, as they were when it was captured."""

    def __init__(self, reach: Reach):
        self._reach = reach
        self._rows: list[tuple[str, Callable[[], list[Any]], list[Any]]] = [(name, read, read()) for name, read in reach.rows]
        self._watch([(place, place.read()) for place in (*reach.scalars, *reach.parts)])

    def _watch(self, values: list[tuple[Place, Any]]) -> None:
        """Sorts the places by their containers: what stands in one is then looked at in one call, which counts at every step."""
        values = sorted(values, key=lambda pair: (id(pair[0].container), id(pair[0].otherwise)))
        self._glances = glances(place for place, _ in values)
        self._values = values
        self._glanced = list(itertools.chain.from_iterable(map(operator.call, self._glances)))

    def first_change(self) -> Change | None:
        """The first value that has changed since, or object that has been replaced."""
        if not self._are_all_the_same():
            for place, old in self._values:
                if _differs(old, new := place.read()):
                    return Change(place.name, old, new)
        for name, read, old in self._rows:
            if not _are_same(old, new := read()):
                return Change(name, old, new)
        return None

    def _are_all_the_same(self) -> bool:
        """Whether each place holds the very object that it held; called at every step, so the loop over places is not Python's."""
        now = itertools.chain.from_iterable(map(operator.call, self._glances))
        try:
            return all(map(operator.is_, self._glanced, now))
        except (ValueError, IndexError):
            return False

    def forget_written(self, places: Collection[tuple[int, Any]]) -> None:
        """Forgets what the function itself writes: values that capturing changed, and `places` where it leaves tensors."""
        self._watch(
            [
                (place, old)
                for place, old in self._values
                if not _differs(old, place.read()) and (id(place.container), place.key) not in places
            ]
        )
        self._rows = [(name, read, old) for name, read, old in self._rows if _are_same(old, read())]

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


def _differs(old: Any, new: Any) -> bool:
    """Whether numbers and texts are unequal, other objects not the same. NaN is what it was if it was NaN."""
    if new is old:
        return False
    if type(new) is not type(old) or not isinstance(old, Scalar):
        return True
    return new != old and not (new != new and old != old)


def _are_same(old: list[Any], new: list[Any]) -> bool:
    return len(old) == len(new) and all(map(operator.is_, old, new))


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or backends.active().is_tensor(value)


def _new_tensor(collection: Any, old: Any) -> Any:
    if isinstance(collection, dict):
        added = [value for key, value in collection.items() if value is not old.get(key)]
    else:
        known = {id(value) for value in old}
        added = [value for value in collection if id(value) not in known]
    return next((value for value in added if backends.active().is_tensor(value)), None)
