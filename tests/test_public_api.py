"""What `import trainstep as ts` gives: these names, each documented and typed, with examples that run."""

import doctest
import importlib
import inspect
import pkgutil
import typing

import pytest

import trainstep as ts
import trainstep_cli
from trainstep import digits

NAMES = {
    "BackendError",
    "CaptureError",
    "DataError",
    "GradientTape",
    "Step",
    "StepError",
    "TapeError",
    "TrainStepError",
    "TrainStepWarning",
    "Trainer",
    "grad",
    "keep_programs",
    "step",
    "value_and_grad",
}
CALLABLES = [getattr(ts, name) for name in sorted(NAMES)] + [digits.load, trainstep_cli.main]


def _methods(cls: type) -> list:
    public = [(name, member) for name, member in vars(cls).items() if not name.startswith("_")]
    return [member for _, member in public if callable(member) or isinstance(member, property)]


DOCUMENTED = CALLABLES + [method for cls in CALLABLES if inspect.isclass(cls) for method in _methods(cls)]


def _functions(member: object) -> list:
    if isinstance(member, property):
        return [member.fget]
    return [member.__init__] if inspect.isclass(member) and "__init__" in vars(member) else [member]


def _name(member: object) -> str:
    return getattr(member.fget if isinstance(member, property) else member, "__qualname__", repr(member))


def test_the_public_names_are_these():
    found = {name for name, value in vars(ts).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert found == NAMES


@pytest.mark.parametrize("member", DOCUMENTED, ids=_name)
def test_every_public_name_is_documented(member):
    own = inspect.getdoc(member)
    assert own
    assert own.splitlines()[0].endswith((".", ":")), own.splitlines()[0]


@pytest.mark.parametrize("member", [m for m in DOCUMENTED if not (inspect.isclass(m) and "__init__" not in vars(m))], ids=_name)
def test_every_public_name_is_typed(member):
    for function in _functions(member):
        parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
        assert not [p.name for p in parameters if p.annotation is inspect.Parameter.empty]
        if function.__name__ != "__init__":
            assert "return" in typing.get_type_hints(function)


def test_every_error_is_a_trainstep_error():
    errors = [value for name, value in vars(ts).items() if name.endswith("Error")]
    assert len(errors) == 6
    assert all(issubclass(error, ts.TrainStepError) for error in errors)


def _modules() -> list[str]:
    packages = [ts, trainstep_cli]
    found = [module.name for package in packages for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")]
    return [name for name in found if "backends." not in name]


@pytest.mark.parametrize("name", _modules())
def test_the_examples_in_docstrings_run(name):
    failed, _ = doctest.testmod(importlib.import_module(name))
    assert failed == 0


def test_there_are_examples_in_docstrings():
    finder = doctest.DocTestFinder()
    with_examples = [
        m
        for m in (ts.GradientTape, ts.grad, ts.value_and_grad, ts.step, ts.Trainer, digits.load)
        if any(t.examples for t in finder.find(m))
    ]
    assert len(with_examples) == 6


def test_the_version_is_that_of_the_distribution():
    assert ts.__version__ == importlib.import_module("importlib.metadata").version("trainstep")
