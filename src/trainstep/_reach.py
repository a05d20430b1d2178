"""What a function's Python code can read: its closure, its globals, and the objects behind them."""

import contextlib
import dataclasses
import dis
import functools
import inspect
import itertools
import operator
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, final

import keras
import numpy as np

from . import _keras

Scalar = (bool, int, float, complex, str)

_NOWHERE: Mapping[Any, Any] = types.MappingProxyType({})
_ABSENT = object()
_LIBRARY_FOLDERS = tuple({sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib")})
_MAX_OBJECTS = 20_000
_NEVER_READ_BY_A_STEP = {
    *("built", "build", "quantize", "name", "compiled", "call_signature_parameters", "steps_per_execution", "supports_jit"),
    *("stop_training", "history", "train_function", "test_function", "predict_function"),
    *("kernel_initializer", "bias_initializer", "embeddings_initializer", "recurrent_initializer"),
}


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a Python value stands: a key of a dict, an index of a list, or the content of a closure's cell."""

    name: str
    container: Any
    key: Any
    otherwise: Mapping[Any, Any] = dataclasses.field(default_factory=lambda: _NOWHERE)
    """Where the value stands if it is not there: the class of an object."""

    def read(self) -> Any:
        """The value there now; a fresh object, equal to nothing, if there is none."""
        try:
            return self.container.cell_contents if self.key is None else self.container[self.key]
        except (KeyError, IndexError, ValueError):
            return self.otherwise[self.key] if self.key in self.otherwise else object()


def glances(places: Iterable[Place]) -> list[Callable[[], Iterable[Any]]]:
    """Quick functions that together give the same objects again, in the same order, as long as nothing in `places` is replaced.

    They may give more than `read` would, and raise `ValueError` or `IndexError` where a cell or a list has become emptier.
    """
    looks: list[Callable[[], Iterable[Any]]] = []
    for _, group in itertools.groupby(places, lambda place: (id(place.container), id(place.otherwise))):
        together = list(group)
        container, keys = together[0].container, [place.key for place in together]
        if isinstance(container, dict):
            looks.append(_look_up(container.get, keys))
            if together[0].otherwise is not _NOWHERE:
                looks.append(_look_up(together[0].otherwise.get, keys))
        elif keys == [None] and isinstance(container, types.CellType) and _content(container) is not None:
            looks.append(functools.partial(map, operator.attrgetter("cell_contents"), [container]))
        elif isinstance(container, list):
            looks.append(functools.partial(map, container.__getitem__, keys))
        else:
            looks.append(functools.partial(map, operator.methodcaller("read"), together))
    return looks


def _look_up(get: Callable[[Any, Any], Any], keys: list[Any]) -> Callable[[], Iterable[Any]]:
    """Looks for each key, and gives for what is absent not `None`, which may come to stand there."""
    return functools.partial(map, get, keys, [_ABSENT] * len(keys))


@final
class Reach:
    """All that the code of `function` can reach, found once, by walking from its closure and the globals that it names.

    Attributes and methods of the user's own objects count if code that is reached mentions their name: what only the loop
    around the step reads (a counter, a list of losses) is none of the step's business. Of library objects, all that is public
    counts (a Keras layer's `rate`).
    """

    def __init__(self, function: Callable[..., Any]):
        self.scalars: list[Place] = []
        self.parts: list[Place] = []
        """Where everything else stands: variables, models, optimizers, functions, arrays, lists."""
        self.rows: list[tuple[str, Callable[[], list[Any]]]] = []
        """Collections of variables, layers and the like, to which the user may add or from which take away."""
        self.collections: list[tuple[str, list[Any] | dict[Any, Any]]] = []
        self.generators: list[tuple[str, np.random.Generator]] = []
        self.namespaces: list[tuple[str, dict[str, Any]]] = []
        self.cells: list[types.CellType] = []
        self.optimizers: list[keras.optimizers.Optimizer] = []
        self._objects: list[tuple[str, Any]] = []
        self._seen: set[int] = set()
        self._mentioned: set[str] = set()
        self._looked_at: set[tuple[int, str]] = set()
        self._owner = function.__self__ if isinstance(function, types.MethodType) else None
        self._is_owner_handed_on = self._owner is not None and _is_handed_on(function)
        self._visit_function("", function)
        while self._look_at_attributes():
            pass

    def _visit(self, name: str, value: Any, place: Place | None) -> None:
        if place is not None:
            (self.scalars if isinstance(value, Scalar) else self.parts).append(place)
        if value is None or isinstance(value, Scalar) or id(value) in self._seen or len(self._seen) > _MAX_OBJECTS:
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
        entries = list(value.items() if isinstance(value, dict) else enumerate(value))[:1000]
        if any(isinstance(entry, _STATEFUL) for _, entry in entries):
            self.rows.append((name, lambda: list(value.values() if isinstance(value, dict) else value)))
        for key, entry in entries:
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
        for kind, used in _names(function.__code__):
            if kind == "attribute":
                self._mentioned.add(used)
            elif used in function.__globals__:
                self._visit(used, function.__globals__[used], Place(used, function.__globals__, used))

    def _visit_object(self, name: str, value: Any) -> None:
        self._objects.append((name, value))
        self.namespaces.append((name, vars(value)))
        if isinstance(value, keras.optimizers.Optimizer):
            self.optimizers.append(value)
        if isinstance(value, keras.Sequential):
            self.rows.append((f"{name}.layers", lambda: value.layers))

    def _look_at_attributes(self) -> bool:
        """Visits the attributes and methods that count by now; whether there were any that had not been visited before."""
        num_before = len(self._looked_at)
        for name, value in list(self._objects):
            is_library = not isinstance(value, types.ModuleType) and _is_library(type(value))
            for attribute, entry in list(vars(value).items()):
                is_public = is_library and not attribute.startswith("_")
                if is_public or attribute in self._mentioned or attribute in _keras.ATTRIBUTES_READ_IN_A_STEP:
                    self._look_at(name, value, attribute, entry, _NOWHERE)
            if not isinstance(value, types.ModuleType):
                self._look_at_class(name, value)
            for layer in _keras.sublayers(value):
                self._visit(layer.name, layer, None)
        return len(self._looked_at) > num_before

    def _look_at_class(self, name: str, value: Any) -> None:
        for cls in type(value).__mro__:
            if _is_library(cls):
                continue
            class_attributes = vars(cls)
            for attribute, entry in list(class_attributes.items()):
                is_alone = value is self._owner and not self._is_owner_handed_on
                if attribute in self._mentioned or _is_called_unnamed(type(value), attribute, only_by_attributes=is_alone):
                    function = getattr(entry, "fget", entry)
                    self._is_owner_handed_on |= value is self._owner and _is_handed_on(function)
                    self._look_at(name, value, attribute, function, class_attributes)

    def _look_at(self, name: str, value: Any, attribute: str, entry: Any, cls: Mapping[str, Any]) -> None:
        place = id(value), attribute
        if attribute in _NEVER_READ_BY_A_STEP or place in _lent or place in self._looked_at:
            return
        self._looked_at.add(place)
        label = f"{name}.{attribute}"
        is_method = bool(cls) and (callable(entry) or hasattr(entry, "__get__"))
        self._visit(label, entry, None if is_method else Place(label, vars(value), attribute, cls))


_lent: set[tuple[int, str]] = set()
"""Attributes that `lent_attribute` has set: the objects' identities and the names."""


@contextlib.contextmanager
def lent_attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Sets an attribute for the length of a block. A step that is captured meanwhile does not depend on it."""
    setattr(owner, name, value)
    _lent.add((id(owner), name))
    try:
        yield
    finally:
        _lent.discard((id(owner), name))
        delattr(owner, name)


_STATEFUL = (
    keras.Variable,
    keras.layers.Layer,
    keras.optimizers.Optimizer,
    keras.metrics.Metric,
    keras.losses.Loss,
    keras.random.SeedGenerator,
)


def _is_called_unnamed(cls: type, method: str, *, only_by_attributes: bool) -> bool:
    """Whether a method of the user's class may be called without its name being mentioned: `__call__`, a layer's `call`.

    An object of which code only reads and sets attributes runs no special methods but those that do just that. So the loop
    in the `__call__` of an object, one of whose methods is the step, is not the step's.
    """
    if method.startswith("__") and only_by_attributes:
        return method in ("__getattr__", "__getattribute__", "__setattr__")
    if method.startswith("__"):
        return method not in ("__init__", "__new__", "__dict__", "__doc__", "__module__", "__weakref__", "__annotations__")
    return any(method in vars(base) for base in cls.__mro__ if _is_library(base))


def _is_handed_on(method: Any) -> bool:
    """Whether a method does more with its `self` than to read and set attributes: calls it, indexes it, passes it on."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    return code is not None and code.co_argcount > 0 and _is_used_whole(code, code.co_varnames[0])


def _is_used_whole(code: types.CodeType, name: str) -> bool:
    instructions = list(dis.get_instructions(code))
    for instruction, following in itertools.pairwise(instructions):
        if not instruction.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
            continue
        *before, last = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
        if name in before or (last == name and not following.opname.endswith(("_ATTR", "_METHOD"))):
            return True
    return any(_is_used_whole(constant, name) for constant in code.co_consts if isinstance(constant, types.CodeType))


def _names(code: types.CodeType) -> Iterator[tuple[str, str]]:
    """The names that code mentions, of attributes and of globals: `metric.result()` does not read a global `result`."""
    for instruction in dis.get_instructions(code):
        if instruction.opname.endswith(("_ATTR", "_METHOD")):
            yield "attribute", instruction.argval
        elif instruction.opname.endswith(("_GLOBAL", "LOAD_NAME")):
            yield "global", instruction.argval
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
