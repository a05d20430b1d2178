"""The tape on PyTorch, judged by `torch.autograd` itself."""

from typing import Any

import keras
import numpy as np
import pytest

import trainstep as ts

if keras.config.backend() != "torch":
    pytest.skip("the PyTorch room", allow_module_level=True)

import torch

X = torch.tensor([[1.0, -2.0], [0.5, 3.0]])


def test_a_users_tensor_is_left_as_it_was() -> None:
    x = X.clone()
    with ts.GradientTape() as outer, ts.GradientTape() as inner:
        outer.watch(x)
        inner.watch(x)
        y = (x**3).sum()
    assert not x.requires_grad
    np.testing.assert_allclose(inner.gradient(y, x).numpy(), 3 * X.numpy() ** 2)
    np.testing.assert_allclose(outer.gradient(y, x).numpy(), 3 * X.numpy() ** 2)
    assert not x.requires_grad
    assert x.grad is None


def test_a_users_tensor_is_left_as_it_was_after_an_error() -> None:
    x = X.clone()

    def fail() -> None:
        with ts.GradientTape() as tape:
            tape.watch(x)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not x.requires_grad


def test_a_tape_that_ends_first_leaves_the_others_watched_tensor_alone() -> None:
    x = X.clone()
    first, second = ts.GradientTape(), ts.GradientTape()
    with second:
        with first:
            first.watch(x)
            second.watch(x)
        y = (x**2).sum()
    np.testing.assert_allclose(second.gradient(y, x).numpy(), 2 * X.numpy())


@pytest.mark.parametrize("is_enabled", [True, False])
def test_grad_mode_is_the_callers_again_in_whatever_order_tapes_end(is_enabled: bool) -> None:
    with torch.set_grad_enabled(is_enabled):
        first, second = ts.GradientTape(), ts.GradientTape()
        first.__enter__()
        second.__enter__()
        assert torch.is_grad_enabled()
        first.__exit__(None, None, None)
        assert torch.is_grad_enabled()
        second.__exit__(None, None, None)
        assert torch.is_grad_enabled() is is_enabled


def test_what_autograd_recorded_outside_the_block_is_a_constant() -> None:
    w = keras.Variable(X.numpy())
    outside = w.value * w.value  # eager PyTorch records this, whether there is a tape or not
    assert outside.requires_grad
    with ts.GradientTape() as tape:
        y = (outside * w.value).sum()
    np.testing.assert_allclose(tape.gradient(y, w).numpy(), (X * X).numpy(), rtol=1e-6)


def test_an_infinite_slope_outside_the_block_does_not_leak_in() -> None:
    w = keras.Variable(np.zeros(2, "float32"))
    outside = torch.sqrt(w.value)
    with ts.GradientTape() as tape:
        y = (outside * 2.0 + w.value).sum()
    np.testing.assert_array_equal(tape.gradient(y, w).numpy(), [1.0, 1.0])


def test_the_outside_graph_still_serves_plain_autograd_afterwards() -> None:
    w = torch.nn.Parameter(X.clone())
    outside = (w**2).sum()
    with ts.GradientTape() as tape:
        tape.watch(outside)
        y = outside**2
    assert float(tape.gradient(y, outside)) == pytest.approx(2 * float(outside.detach()))
    outside.backward()
    np.testing.assert_allclose(w.grad.numpy(), 2 * X.numpy())


def test_what_was_computed_before_watching_does_not_count() -> None:
    x = X.clone()
    with ts.GradientTape() as outer:
        outer.watch(x)
        with ts.GradientTape() as inner:
            early = (x**2).sum()
            inner.watch(x)
            y = early + (3 * x).sum()
    np.testing.assert_allclose(inner.gradient(y, x).numpy(), np.full((2, 2), 3.0))
    np.testing.assert_allclose(outer.gradient(y, x).numpy(), 2 * X.numpy() + 3)


def test_gradients_hold_no_graph_unless_a_tape_records_them() -> None:
    w = keras.Variable(X.numpy())
    with ts.GradientTape() as outer:
        with ts.GradientTape() as inner:
            y = (w.value**3).sum()
        recorded = inner.gradient(y, w)
        total = recorded.sum()
    assert recorded.requires_grad
    assert not outer.gradient(total, w).requires_grad


def test_third_order_agrees_with_autograd() -> None:
    w = keras.Variable(X.numpy())
    with ts.GradientTape() as t3:
        with ts.GradientTape() as t2:
            with ts.GradientTape() as t1:
                y = torch.sin(w.value * w.value).sum()
            z1 = (t1.gradient(y, w) ** 2).sum()
        z2 = (t2.gradient(z1, w) ** 3).sum()
    g3 = t3.gradient(z2, w)

    v = X.clone().requires_grad_(True)
    (e1,) = torch.autograd.grad(torch.sin(v * v).sum(), v, create_graph=True)
    (e2,) = torch.autograd.grad((e1**2).sum(), v, create_graph=True)
    (e3,) = torch.autograd.grad((e2**3).sum(), v)
    np.testing.assert_allclose(g3.numpy(), e3.numpy(), rtol=1e-5)


def test_jacobian_of_an_operation_that_cannot_be_batched() -> None:
    class Cube(torch.autograd.Function):
        """A custom gradient that looks at values, which PyTorch cannot do for many rows at once."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor | None:
            (x,) = ctx.saved_tensors
            return gradient * 3 * x**2 if float(gradient.abs().sum()) >= 0 else None

    x = X.clone()
    with ts.GradientTape() as tape:
        tape.watch(x)
        y = Cube.apply(x).reshape(4)
    expected = np.diag(3 * X.numpy().ravel() ** 2).reshape(4, 2, 2)
    np.testing.assert_allclose(tape.jacobian(y, x).numpy(), expected)


def test_a_tensor_changed_in_place_is_an_error_that_says_what_to_do() -> None:
    x = X.clone()
    with ts.GradientTape() as tape:
        tape.watch(x)
        hidden = x * 1.0
        y = (hidden**2).sum()
        hidden.add_(1.0)
    with pytest.raises(ts.TapeError, match=r"changed in place.*@ts\.step"):
        tape.gradient(y, x)
