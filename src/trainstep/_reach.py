"""What a function's Python code can read: its closure, its globals, and the objects behind them."""

import dataclasses
import inspect
import sysconfig
import types
from collections.abc import Callable, Iterator
from typing import Any, final

import keras
import numpy as np

Scalar = (bool, int, float, complex, str)

_LIBRARY_FOLDERS = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")})
_MAX_OBJECTS = 20_000
_NEVER_READ_BY_A_STEP = {"built", "stop_training", "name", "history"}


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a Python value stands: a key of a dict, an index of a list, or the content of a closure's cell."""

    name: str
    container: Any
    key: Any

    def read(self) -> Any:
        """The value there now; a fresh object, equal to nothing, if there is none."""
        try:
            return self.container.cell_contents if self.key is None else self.container[self.key]
        except (KeyError, IndexError, ValueError):
            return object()


@final
class Reach:
    """All that the code of `function` can reach, found once, by walking from its closure and the globals that it names.

    Attributes of objects count if the code of the user's own functions and methods mentions their name; those of library objects (a
    Keras layer's `rate`) always count.
    """

    def __init__(self, function: Callable[..., Any]):
        self.scalars: list[Place] = []
        self.collections: list[tuple[str, list[Any] | dict[Any, Any]]] = []
        self.generators: list[tuple[str, np.random.Generator]] = []
        self.namespaces: list[tuple[str, dict[str, Any]]] = []
        self.cells: list[types.CellType] = []
        self._objects: list[tuple[str, Any]] = []
        self._seen: set[int] = set()
        self._mentioned: set[str] = set()
        self._visit_function("", function)
        self._collect_attributes()

    def _visit(self, name: str, value: Any, place: Place | None) -> None:
        if isinstance(value, Scalar):
            if place is not None:
                self.scalars.append(place)
            return
        if value is None or id(value) in self._seen or len(self._seen) > _MAX_OBJECTS:
            return
        self._seen.add(id(value))
        if isinstance(value, (list, dict, tuple)):
            self._visit_collection(name, value)
        elif inspect.isroutine(value) or hasattr(value, "__wrapped__"):
            self._visit_function(name, value)
        elif isinstance(value, np.random.Generator):
            self.generators.append((name, value))
        elif isinstance(value, types.ModuleType):
            if not _is_library(value):
                self._objects.append((name, value))
        elif not isinstance(value, (type, keras.Variable, keras.metrics.Metric)) and hasattr(value, "__dict__"):
            self._visit_object(name, value)

    def _visit_collection(self, name: str, value: Any) -> None:
        if not isinstance(value, tuple):
            self.collections.append((name, value))
        entries = value.items() if isinstance(value, dict) else enumerate(value)
        for key, entry in list(entries)[:1000]:
            self._visit(f"{name}[{key!r}]", entry, Place(f"{name}[{key!r}]", value, key))

    def _visit_function(self, name: str, function: Any) -> None:
        function = inspect.unwrap(function)
        if isinstance(function, types.MethodType):
            self._visit("self", function.__self__, None)
            function = function.__func__
        if not isinstance(function, types.FunctionType) or _is_library(function):
            return
        for free, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            self.cells.append(cell)
            self._visit(free, _content(cell), Place(free, cell, None))
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._visit(f"a default of {function.__name__}", default, None)
        if all(function.__globals__ is not known for _, known in self.namespaces):
            self.namespaces.append((function.__module__, function.__globals__))
        for used in _names(function.__code__):
            self._mentioned.add(used)
            if used in function.__globals__:
                self._visit(used, function.__globals__[used], Place(used, function.__globals__, used))

    def _visit_object(self, name: str, value: Any) -> None:
        self._objects.append((name, value))
        self.namespaces.append((name, vars(value)))
        for cls in type(value).__mro__:
            if not _is_library(cls):
                for member in vars(cls).values():
                    self._visit_function(f"{name}", getattr(member, "fget", member))
        if isinstance(value, keras.Model):
            for layer in value.layers:
                self._visit(layer.name, layer, None)
        for attribute, entry in list(vars(value).items()):
            if not attribute.startswith("_") and not isinstance(entry, Scalar):
                self._visit(f"{name}.{attribute}", entry, None)

    def _collect_attributes(self) -> None:
        for name, value in self._objects:
            attributes = vars(value)
            is_library = not isinstance(value, types.ModuleType) and _is_library(type(value))
            for attribute, entry in list(attributes.items()):
                if not isinstance(entry, Scalar) or attribute in _NEVER_READ_BY_A_STEP:
                    continue
                is_public = not attribute.startswith("_") and is_library
                if is_public or attribute in self._mentioned or attribute == "_trainable":
                    self.scalars.append(Place(f"{name}.{attribute}", attributes, attribute))


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _is_library(thing: Any) -> bool:
    """Whether a function, class or module comes with Python or an installed package; trainstep itself counts as one."""
    module = thing.__name__ if isinstance(thing, types.ModuleType) else getattr(thing, "__module__", None) or ""
    root = module.partition(".")[0]
    if root in ("builtins", "keras", "numpy", "trainstep"):
        return True
    if root == "__main__":
        return False
    file = getattr(inspect.getmodule(thing), "__file__", None) or ""
    return file.startswith(_LIBRARY_FOLDERS)
