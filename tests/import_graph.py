"""The rules of the import graph of `src/`, checked on its syntax: nothing is imported. `violations(src)` lists what breaks them."""

import ast
import dataclasses
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

import keras

LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"_errors"}),
    frozenset({"_keras"}),
    frozenset({"backends"}),
    frozenset(
        {
            "_baked",
            "_batch",
            "_exploration",
            "_kept_programs",
            "_left_behind",
            "_logs",
            "_pace",
            "_random",
            "_reach",
            "_reset",
            "_state",
            "_step",
            "_tape",
            "_update",
            "_ways",
        }
    ),
    frozenset({"checkpoint", "data", "diagnose", "digits", "distribute", "explain"}),
    frozenset({"loop"}),
    frozenset({"_model", "_trainer"}),
    frozenset({"", "testing"}),  # "": `trainstep/__init__.py`
)
"""The rooms and files of `trainstep`, from left to right: imports point left only."""

SEPARATE_LAYER = LAYERS[4]
"""The rooms of this layer do not import each other either."""

FRAMEWORKS = {"jax": "jax", "jaxlib": "jax", "tensorflow": "tensorflow", "torch": "torch"}
"""The frameworks' packages, and the backend room of each."""

LATE_IMPORTS = {"data/_tf_data.py": "tensorflow", "data/_torch_loader.py": "torch"}
"""Data files that may import a framework inside a function: whoever hands them its objects has imported it."""

PRIVATE_DOORS = {
    "_keras.py": ("keras.src",),
    "backends/jax/_private.py": ("jax", "keras.src.backend.jax"),
    "backends/tensorflow/_private.py": ("tensorflow", "keras.src.backend.tensorflow"),
    "backends/torch/_private.py": ("torch", "keras.src.backend.torch"),
    "backends/torch/_inductor_process.py": ("torch",),
}
"""The one file of each room that may use private names: of its framework, and of what Keras built on that framework.

PyTorch has a second one, which runs in a process where Keras would take seconds to import.
"""


@dataclasses.dataclass(frozen=True)
class SourceFile:
    """One file of the package, and what it imports."""

    path: str
    """Relative to the package: `backends/jax/_tape.py`."""

    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        """The part of the package in which it stands: `backends`, `_tape`, or `` for the package's own `__init__`."""
        first = self.path.split("/")[0].removesuffix(".py")
        return "" if first == "__init__" else first

    @cached_property
    def imports(self) -> list[tuple[str, int, bool]]:
        """Absolute name, line, and whether it stands inside a function; names imported from a module are appended to it."""
        return [(name, line, is_late) for node, is_late in _walk(self.tree) for name, line in self._imported(node)]

    def _imported(self, node: ast.AST) -> Iterator[tuple[str, int]]:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = self._absolute(node.level, node.module)
            yield from ((f"{base}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and _called(node) in ("import_module", "__import__"):
            yield from ((str(name.value), node.lineno) for name in node.args[:1] if isinstance(name, ast.Constant))

    def _absolute(self, level: int, module: str | None) -> str:
        if not level:
            return module or ""
        package = ["trainstep", *self.path.split("/")[:-1]]
        return ".".join([*package[: len(package) - level + 1], *([module] if module else [])])


def violations(package: Path) -> list[str]:
    """What breaks a rule in the package at this path, each as `file:line: what is wrong`."""
    paths = sorted(package.rglob("*.py"))
    files = [SourceFile(path.relative_to(package).as_posix(), path.read_text(encoding="utf-8")) for path in paths]
    rules = (_direction, _frameworks, _private_names, _backend_names, _no_utils)
    return [f"{file.path}:{line}: {message}" for file in files for rule in rules for line, message in rule(file)]


def _direction(file: SourceFile) -> Iterator[tuple[int, str]]:
    layer = _layer(file.room)
    if layer is None:
        yield 1, f"{file.room!r} has no place in LAYERS of tests/import_graph.py; give it one"
        return
    for name, line, _ in file.imports:
        parts = name.split(".")
        if parts[0] != "trainstep":
            continue
        target = parts[1] if len(parts) > 1 and _layer(parts[1]) is not None else ""
        inside = target == file.room
        if inside and target == "backends":
            yield from ((line, message) for message in _between_backends(file, parts))
        if inside:
            continue
        if (target_layer := _layer(target)) is None or target_layer > layer:
            yield line, f"imports {name}, which stands to its right"
        elif target_layer == layer and LAYERS[layer] is SEPARATE_LAYER:
            yield line, f"imports {name}, a room beside it"
        if len(parts) > 2 and parts[2].startswith("_") and not target.startswith("_"):
            yield line, f"imports {name}, a private file of another room"


def _between_backends(file: SourceFile, parts: list[str]) -> Iterator[str]:
    own = file.path.split("/")[1]
    other = parts[2] if len(parts) > 2 else ""
    if other in FRAMEWORKS.values() and other != own:
        yield f"imports {'.'.join(parts)}, another backend"


def _frameworks(file: SourceFile) -> Iterator[tuple[int, str]]:
    for name, line, is_late in file.imports:
        framework = FRAMEWORKS.get(name.split(".")[0])
        if framework is None or file.path.startswith(f"backends/{framework}/"):
            continue
        if not (is_late and LATE_IMPORTS.get(file.path) == framework):
            yield line, f"imports {name} outside backends/{framework}"


def _private_names(file: SourceFile) -> Iterator[tuple[int, str]]:
    doors = PRIVATE_DOORS.get(file.path, ())
    for name, line, _ in file.imports:
        if _is_private(name) and not any(f"{name}.".startswith(f"{door}.") for door in doors):
            yield line, f"imports {name}, which {name.split('.')[0]} keeps private"
    aliases = _framework_aliases(file.tree)
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.Attribute):
            continue
        framework = aliases.get(ast.unparse(node).split(".")[0])
        if framework and node.attr.startswith("_") and not node.attr.endswith("__") and framework not in doors:
            yield node.lineno, f"uses {ast.unparse(node)}, which {framework} keeps private"
        elif node.attr in _private_keras_attributes() and not _is_own(node.value) and "keras.src" not in doors:
            yield node.lineno, f"uses {ast.unparse(node)}, which Keras keeps private"


def _framework_aliases(tree: ast.Module) -> dict[str, str]:
    """The names under which a file knows frameworks: `{"tf": "tensorflow"}`."""
    imports = [alias for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    roots = {alias.asname or alias.name.split(".")[0]: alias.name.split(".")[0] for alias in imports}
    return {name: FRAMEWORKS[root] for name, root in roots.items() if root in FRAMEWORKS}


def _is_private(name: str) -> bool:
    root, *rest = name.split(".")
    if root == "keras":
        return rest[:1] == ["src"]
    return root in FRAMEWORKS and (rest[:1] == ["python"] or any(part.startswith("_") for part in rest))


def _is_own(node: ast.expr) -> bool:
    """Whether this is `self` or `cls`: a class of ours may name its own attributes as Keras names some of its own."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


@cache
def _private_keras_attributes() -> frozenset[str]:
    variable = keras.Variable(0.0)
    classes = (keras.Variable, keras.Layer, keras.Model, keras.optimizers.Optimizer, keras.metrics.Metric)
    names = {name for cls in classes for name in vars(cls)} | set(vars(variable))
    return frozenset(name for name in names if name.startswith("_") and not name.startswith("__"))


def _backend_names(file: SourceFile) -> Iterator[tuple[int, str]]:
    if file.path == "backends/__init__.py":
        return
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Compare):
            compared = {c.value for part in (node.left, *node.comparators) for c in ast.walk(part) if isinstance(c, ast.Constant)}
        elif isinstance(node, ast.MatchValue):
            compared = {c.value for c in ast.walk(node) if isinstance(c, ast.Constant)}
        else:
            continue
        for name in sorted(compared & set(FRAMEWORKS.values()), key=str):
            yield node.lineno if hasattr(node, "lineno") else 0, f"compares a backend's name with {name!r}; ask the part instead"


def _no_utils(file: SourceFile) -> Iterator[tuple[int, str]]:
    if any(part.removesuffix(".py").strip("_") in ("utils", "util", "helpers", "misc") for part in file.path.split("/")):
        yield 1, "is a room for anything; name what is in it"


def _layer(room: str) -> int | None:
    return next((i for i, layer in enumerate(LAYERS) if room in layer), None)


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _walk(node: ast.AST, is_late: bool = False) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether it stands inside a function."""
    for child in ast.iter_child_nodes(node):
        yield child, is_late
        yield from _walk(child, is_late or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))
