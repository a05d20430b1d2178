"""Every page on the active backend, eager and compiled, against its reference in plain TensorFlow."""

import ast
import importlib
import re

import keras
import numpy as np
import pytest

from trainstep._step import Step

from . import conventions

NUM_NATIVE_STEPS = 3


OF_A_BACKEND = re.compile(r"\b(tensorflow|tf|torch|jax|jnp|backend)\b", re.IGNORECASE)


def page_module(name):
    return importlib.import_module(f"{__package__}.pages.{name}")


@pytest.fixture
def made_steps(monkeypatch):
    """Every step that a page makes, methods among them, as it makes them."""
    made, make = [], Step.__init__

    def noting(step, *args, **options):
        made.append(step)
        make(step, *args, **options)

    monkeypatch.setattr(Step, "__init__", noting)
    return made


@pytest.mark.parametrize("name", conventions.PAGES)
def test_no_page_knows_its_backend(name):
    """Its code, without comments and docstrings, names none and asks for none."""
    tree = ast.parse((conventions.HERE / "pages" / f"{name}.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body[0] = ast.Pass()
    assert not OF_A_BACKEND.findall(ast.unparse(tree))


@pytest.mark.parametrize("compile", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", conventions.PAGES)
def test_numeric_mode(name, compile, expected, made_steps):
    module, judge = page_module(name), expected(name)
    numbers = conventions.record(module.build(native=False), module.steps, module.NUM_STEPS, compile=compile)
    assert sorted(numbers) == sorted(judge)
    for key, value in numbers.items():
        np.testing.assert_allclose(value, judge[key], rtol=module.RTOL, atol=module.ATOL, err_msg=f"{name}: {key}")
    assert not compile or any(step.num_traces for step in made_steps)
    for step in made_steps:
        num_signatures = step.report().count("captured in")
        assert step.num_traces == (num_signatures if compile else 0), step.report()


@pytest.mark.parametrize("name", conventions.PAGES)
def test_native_mode(name):
    """Finite values, the page's log keys; exactly the state that must change has changed; the same again with the same seed."""
    module = page_module(name)

    def run(seed):
        keras.utils.set_random_seed(seed)
        page = module.build(native=True)
        before = conventions.state(page)
        numbers = conventions.record(page, module.steps, NUM_NATIVE_STEPS, compile=True)
        return before, conventions.state(page), numbers

    before, after, numbers = run(1)
    assert all(np.all(np.isfinite(value)) for value in numbers.values())
    assert {key.split("/", 2)[2] for key in numbers if key.startswith("0/logs/")} == set(module.LOGS)
    changed = {key.rsplit("/", 1)[0] for key in after if key not in before or not np.array_equal(before[key], after[key])}
    assert changed == set(module.CHANGES)
    for key, value in run(1)[2].items():
        np.testing.assert_allclose(value, numbers[key], rtol=1e-5, atol=1e-6, err_msg=f"{name}: not the same again: {key}")
