"""Python and control flow that depend on the values of tensors, in a step captured by PyTorch."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

import trainstep as ts

if keras.config.backend() != "torch":
    pytest.skip("the PyTorch room", allow_module_level=True)

import torch
from keras import ops

X = np.array([1.0, 2.0, 3.0], "float32")

QUESTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "if": lambda t: 1 if t > 0 else 2,
    "float": float,
    "int": int,
    "range": lambda t: range(t.int()),
    "item": lambda t: t.item(),
    "tolist": lambda t: t.tolist(),
    "numpy": lambda t: t.numpy(),
    "asarray": np.asarray,
    "convert_to_numpy": ops.convert_to_numpy,
    "format": lambda t: f"{t:.3f}",
    "equal": lambda t: torch.equal(t, t),
    "in": lambda t: 3.0 in t,
}


@pytest.mark.parametrize("of", ["batch", "variable", "from a variable"])
@pytest.mark.parametrize("name", QUESTIONS)
def test_the_value_of_a_tensor_is_never_baked_in(name: str, of: str) -> None:
    w = keras.Variable(3.0)

    def step(x: Any) -> Any:
        QUESTIONS[name]({"batch": ops.sum(x), "variable": w.value, "from a variable": w + 1.0}[of])
        return x

    with pytest.raises(ts.CaptureError, match=r"'step' needs the value of a tensor.*compile=False"):
        ts.step(step, compile=True).predict(X)


def test_a_constant_may_be_looked_at() -> None:
    step = ts.step(lambda x: x * float(torch.tensor(2.0) + 1.0), compile=True)
    np.testing.assert_array_equal(step.predict(X).numpy(), 3 * X)


def test_a_captured_tensor_can_be_printed() -> None:
    printed: list[str] = []

    def step(x: Any) -> Any:
        printed.append(f"{x} {x!r}")
        return x

    ts.step(step, compile=True).predict(X)
    assert printed == ["<captured tensor of shape (3,), torch.float32> <captured tensor of shape (3,), torch.float32>"]


@pytest.mark.parametrize("pick", [lambda x: x[x > 1.5], lambda x: torch.nonzero(x), lambda x: torch.unique(x)])
def test_a_shape_that_depends_on_values_is_an_error(pick: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(ts.CaptureError, match="shape that depends on the values"):
        ts.step(lambda x: ops.sum(pick(x)), compile=True).predict(X)


@pytest.mark.parametrize("axis", [-1, 0])
def test_one_hot_encodes_the_classes_of_each_run(axis: int) -> None:
    step = ts.step(lambda classes: ops.one_hot(classes, 3, axis=axis), compile=True)
    for classes in ([0, 2, 1, 2], [1, -1, 0, 3]):
        expected = (np.array(classes)[:, None] == np.arange(3)).astype("float32")
        encoded = step.predict(np.array(classes, "int32")).numpy()
        np.testing.assert_array_equal(encoded, expected if axis == -1 else expected.T)
    assert step.num_traces == 1


def test_one_hot_without_the_number_of_classes_needs_values() -> None:
    with pytest.raises(ts.CaptureError, match="needs the value"):
        ts.step(lambda classes: torch.nn.functional.one_hot(classes.long()), compile=True).predict(np.array([0, 1], "int32"))


def test_cond_selects_at_every_run() -> None:
    step = ts.step(lambda x: ops.cond(ops.sum(x) > 0, lambda: {"a": x * 10}, lambda: {"a": x - 1})["a"], compile=True)
    np.testing.assert_allclose(step.predict(X).numpy(), 10 * X)
    np.testing.assert_allclose(step.predict(-X).numpy(), -X - 1)


def test_cond_assigns_the_variables_of_the_taken_branch_only() -> None:
    a, b = keras.Variable(1.0), keras.Variable(1.0)

    def double() -> None:
        a.assign(a * 2)
        a.assign(a + b)

    def triple_other() -> None:
        b.assign(b * 3)

    def step(x: Any) -> Any:
        ops.cond(ops.sum(x) > 0, double, triple_other)
        return a + b

    runner = ts.step(step, compile=True)
    assert float(runner.predict(X)) == 4.0
    assert (float(a.numpy()), float(b.numpy())) == (3.0, 1.0)
    assert float(runner.predict(-X)) == 6.0
    assert (float(a.numpy()), float(b.numpy())) == (3.0, 3.0)


def test_the_branch_that_is_not_taken_adds_nothing_to_a_gradient_where_its_slope_is_infinite() -> None:
    w = keras.Variable([0.0, 0.0, 0.0])

    def step(x: Any) -> Any:
        with ts.GradientTape() as tape:
            y = ops.cond(ops.sum(x) > 0, lambda: ops.sum(w * x), lambda: ops.sum(ops.sqrt(w)))
        return tape.gradient(y, w)

    np.testing.assert_array_equal(ts.step(step, compile=True).predict(X).numpy(), X)


def test_switch_selects_at_every_run() -> None:
    branches = [lambda x: x, lambda x: x * 2, lambda x: x * 3]
    step = ts.step(lambda i, x: ops.switch(i, branches, x), compile=True)
    for i in range(3):
        np.testing.assert_allclose(step.predict((np.int32(i), X)).numpy(), (i + 1) * X)


def test_branches_of_different_shape_are_an_error() -> None:
    with pytest.raises(ts.CaptureError, match="tensors of one shape"):
        ts.step(lambda x: ops.cond(ops.sum(x) > 0, lambda: x, lambda: ops.sum(x)), compile=True).predict(X)


def test_while_loop_on_a_value_is_an_error_that_names_the_way_out() -> None:
    with pytest.raises(ts.CaptureError, match=r"while_loop.*keras\.ops\.scan.*compile=False"):
        ts.step(lambda x: ops.while_loop(lambda t: ops.sum(t) < 100, lambda t: (t * 2,), (x,))[0], compile=True).predict(X)


def test_loops_of_known_length_are_unrolled() -> None:
    def step(x: Any) -> Any:
        _, doubled = ops.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t * 2), (0, x))
        total, _ = ops.scan(lambda carry, e: (carry + e, carry), ops.zeros(()), x)
        return doubled + total + ops.fori_loop(0, 4, lambda i, t: t + i, 0.0)

    np.testing.assert_allclose(ts.step(step, compile=True).predict(X).numpy(), 8 * X + 6 + 6)


INDICES: dict[str, Callable[[torch.Tensor], Any]] = {
    "alone": lambda i: i,
    "first": lambda i: (i, 1),
    "second": lambda i: (slice(1, None), i),
    "last": lambda i: (..., i),
    "before the last": lambda i: (..., i, slice(None, None, 2)),
    "after a new axis": lambda i: (None, slice(None), i),
    "after rows": lambda i: (torch.tensor([0, 2]), i),
    "twice": lambda i: (i, i),
    "from the end": lambda i: (slice(None), -i),
}


@pytest.mark.parametrize("name", INDICES)
def test_an_integer_that_the_step_computes_is_an_index(name: str) -> None:
    x = np.random.default_rng(1).normal(size=(4, 4, 5)).astype("float32")

    @ts.step(compile=True)
    def value_and_gradient(x: torch.Tensor, i: torch.Tensor) -> Any:
        with ts.GradientTape() as tape:
            tape.watch(x)
            part = x[INDICES[name](i + 1)]
            loss = (part**3).sum()
        return part, tape.gradient(loss, x)

    for i in (0, 2):
        theirs = torch.tensor(x, requires_grad=True)
        expected = theirs[INDICES[name](torch.tensor(i + 1))]
        part, gradient = value_and_gradient.predict((x, i))
        np.testing.assert_array_equal(part.numpy(), expected.detach().numpy())
        expected.pow(3).sum().backward()
        np.testing.assert_allclose(gradient.numpy(), theirs.grad.numpy(), rtol=1e-6)
    assert value_and_gradient.num_traces == 1
