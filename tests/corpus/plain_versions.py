"""The pages without trainstep: what each costs if it is written by hand for one framework, checked against the references."""

import contextlib
import importlib
import pathlib
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import keras
import numpy as np

from . import conventions
from .conftest import ROOT, _numbers
from .conventions import Page

Run = Iterator[Any]
"""Runs a page step by step, and yields after each what can be waited for."""


class WrongNumbers(Exception):
    """A plain version that does not compute what the page does."""


class OnTensorFlow:
    """The page's own source, or a version in `plain_tensorflow`, with a `tf.function` for each of its steps."""

    def __init__(self, name: str):
        self.module = _page_without_trainstep(name)
        self.steps = _by_hand("plain_tensorflow", name) or (lambda page: self.module.steps(page, compile=True))

    def record(self) -> dict[str, np.ndarray]:
        return conventions.record(self.module.build(native=False), self.steps, self.module.NUM_STEPS)

    def run(self) -> Run:
        return self.steps(self.module.build(native=False))

    @staticmethod
    def wait(outcome: Any, page: Page | None = None) -> None:
        """Waits for the logs: a `tf.function` on a CPU comes back when all of it is done."""
        for value in keras.tree.flatten(outcome):
            np.asarray(value)


class OnJax:
    """The version in `plain_jax`: a `jax.jit` around each whole step, the state handed in and out."""

    def __init__(self, name: str):
        self.module = importlib.import_module(f"{__package__}.pages.{name}")
        self.steps = _by_hand("plain_jax", name)
        if self.steps is None:
            raise FileNotFoundError(f"there is no plain_jax/{name}.py")

    def record(self) -> dict[str, np.ndarray]:
        page = self.module.build(native=False)
        numbers: dict[str, np.ndarray] = {}
        run = self.steps(page)
        for t in range(self.module.NUM_STEPS):
            logs, state = next(run)
            numbers |= {f"{t}/logs/{name}": np.array(value) for name, value in logs.items()}
            numbers |= {f"{t}/{name}": value for name, value in _seen(page, state).items()}
        return numbers

    def run(self) -> Run:
        return self.steps(self.module.build(native=False))

    @staticmethod
    def wait(outcome: Any, page: Page | None = None) -> None:
        """Waits for the logs and for all state."""
        import jax

        jax.block_until_ready(outcome)
        if page is not None:
            jax.block_until_ready([v.value for owner in page.tracked.values() for v in conventions._variables(owner)])


def plain_version(name: str) -> Any:
    """The plain version of a page on the active backend."""
    return {"tensorflow": OnTensorFlow, "jax": OnJax}[keras.config.backend()](name)


def check(name: str, version: Any) -> None:
    """Compares the logs and all state after each step with the reference, by the tolerances of the page.

    Raises:
        WrongNumbers: Something differs.
    """
    cache = ROOT / ".pytest_cache" / "d" / "corpus"
    cache.mkdir(parents=True, exist_ok=True)
    with np.load(pathlib.Path(_numbers(name, cache)) / f"{name}.npz", allow_pickle=False) as stored:
        expected = dict(stored)
    numbers = version.record()
    if missing := sorted(expected.keys() ^ numbers.keys()):
        raise WrongNumbers(f"only in one of both: {', '.join(missing[:5])}")
    for key, value in numbers.items():
        try:
            np.testing.assert_allclose(value, expected[key], rtol=version.module.RTOL, atol=version.module.ATOL)
        except AssertionError as error:
            raise WrongNumbers(f"{key}: {' '.join(str(error).split())[:200]}") from error


def _by_hand(folder: str, name: str) -> Callable[..., Any] | None:
    if not (conventions.HERE / folder / f"{name}.py").exists():
        return None
    return importlib.import_module(f"{__package__}.{folder}.{name}").steps


def _seen(page: Page, state: dict[str, list[Any]]) -> dict[str, np.ndarray]:
    """All tracked state but that of seed generators. A variable of several owners need stand in the state only once."""
    values = {
        id(variable): value
        for name, values in state.items()
        for variable, value in zip(conventions._variables(page.tracked[name]), values, strict=True)
    }
    return {
        f"{name}/{i}": np.array(values[id(variable)])
        for name, owner in page.tracked.items()
        for i, variable in enumerate(conventions._variables(owner))
        if "seed" not in variable.path
    }


def _page_without_trainstep(name: str) -> ModuleType:
    """A second copy of the page's module, for which trainstep is what stands in `plain_tensorflow`."""
    with _other_modules({"trainstep": importlib.import_module(f"{__package__}.plain_tensorflow")}, f"{__package__}.pages"):
        return importlib.import_module(f"{__package__}.pages.{name}")


@contextlib.contextmanager
def _other_modules(substitutes: dict[str, ModuleType], anew: str) -> Iterator[None]:
    """Other modules under known names for a while, and a package imported anew."""
    before = dict(sys.modules)
    for name in [name for name in sys.modules if name == anew or name.startswith(f"{anew}.")]:
        del sys.modules[name]
    sys.modules.update(substitutes)
    try:
        yield
    finally:
        for name in [*substitutes, *(name for name in sys.modules if name == anew or name.startswith(f"{anew}."))]:
            sys.modules.pop(name, None)
        sys.modules.update({n: m for n, m in before.items() if n in substitutes or n == anew or n.startswith(f"{anew}.")})
