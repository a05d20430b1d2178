"""One case for each row of `docs/backends.md`: what is attempted, what it gives where it works, and the way out."""

import dataclasses
import importlib
import random
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

import trainstep as ts

X = np.array([1.0, 2.0, 3.0], "float32")
IMAGES = np.broadcast_to(np.arange(8, dtype="float32")[:, None], (2, 8, 8))[..., None]


@dataclasses.dataclass(frozen=True)
class Case:
    """One row. `attempt` and `way_out` return a number."""

    attempt: Callable[[], Any]
    expected: Any
    way_out: Callable[[], Any] | None
    prepare: Callable[[pytest.MonkeyPatch], None] = lambda monkeypatch: None


def compiled(function: Callable[..., Any], *batch: Any) -> float:
    """What a function of a batch returns, from a compiled step."""
    return float(ts.step(lambda *tensors: {"y": function(*tensors)}, compile=True)(*(batch or (X,)))["y"])


def add_up(x: Any) -> Any:
    """The sum of a tensor."""
    return ops.sum(x)


# Loops: 6, doubled until it is at least 100; 192 = 6 w^5 at w = 2, whose derivative is 30 w^4 = 480.


def double_until(w: Any, start: Any) -> Any:
    return ops.while_loop(lambda value: value < 100.0, lambda value: (value * w,), (start,))[0]


def double_at_most(w: Any, start: Any) -> Any:
    return ops.fori_loop(0, 10, lambda i, value: ops.where(value >= 100.0, value, value * w), start)


def derivative(loop: Callable[..., Any], start: Any) -> Any:
    w = keras.Variable(2.0)
    with ts.GradientTape() as tape:
        result = loop(w, start)
    return tape.gradient(result, w)


def assigned_in_a_scan(x: Any) -> Any:
    w = keras.Variable(0.0)

    def body(carry: Any, row: Any) -> Any:
        w.assign_add(row)
        return carry, row

    ops.scan(body, ops.zeros(()), x)
    return w.value


def carried_through_a_scan(x: Any) -> Any:
    w = keras.Variable(0.0)
    total, _ = ops.scan(lambda carry, row: (carry + row, row), w.value, x)
    w.assign(total)
    return w.value


# Values and memory


def set_first_to_zero(x: Any) -> Any:
    activations = x * 2.0
    activations[0] = 0.0
    return add_up(activations)


def gradient_past(replace_first: Callable[[Any], Any]) -> float:
    """The sum of the gradient of `sum(y * y)`, where `y` is `w` with its first entry set to zero."""
    w = keras.Variable(X)
    with ts.GradientTape() as tape:
        replaced = replace_first(w * 1.0)
        loss = add_up(replaced * replaced)
    return float(add_up(tape.gradient(loss, w)))


def held(keep: Callable[[keras.Variable], Any]) -> float:
    """The sum of a value that was taken from a variable before a step updated it; only a copy keeps it."""
    w = keras.Variable(X)

    @ts.step(compile=True)
    def train_step(x: Any) -> None:
        w.assign_add(x - x)  # changes nothing but the memory

    train_step(X)
    value = keep(w)
    train_step(X)
    return float(np.sum(ops.convert_to_numpy(value)))


def appended(x: Any) -> Any:
    _losses.append(add_up(x))
    return _losses[-1]


_losses: list[Any] = []


# Data and machines


def fitted_to(make_dataset: Callable[[Any], Any]) -> float:
    tf = pytest.importorskip("tensorflow")
    step = ts.step(lambda x: {"y": add_up(x)})
    return ts.Trainer(step).fit(make_dataset(tf), verbose=0).history["y"][0]


def ragged(tf: Any) -> Any:
    return tf.data.Dataset.from_tensor_slices(tf.ragged.constant([[1.0], [2.0, 3.0]])).batch(2)


def sparse_matrix() -> Any:
    return pytest.importorskip("scipy.sparse").csr_matrix(np.diag(X))


def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine without one; the other backends do not care."""
    if keras.config.backend() != "torch":
        return
    monkeypatch.delenv("TRAINSTEP_INDUCTOR", raising=False)

    def find_none() -> str:
        raise RuntimeError("no C++ compiler")

    monkeypatch.setattr(importlib.import_module("trainstep.backends.torch._private"), "find_cpp_compiler", find_none)
    monkeypatch.setattr(importlib.import_module("trainstep.backends.torch._inductor"), "_has_warned", False)


def cropped(crop: Callable[[Any], Any]) -> float:
    """Whether the rows of the crop follow one another, as those of the images do: 1 if so."""
    crops = ts.step(crop, compile=True).predict(IMAGES)
    rows = ops.convert_to_numpy(crops)[0, :, 0, 0]
    return float(np.allclose(np.diff(rows), 1.0) and rows.shape == (4,))


def crop_by_take(images: Any) -> Any:
    start = ops.cast(keras.random.uniform((), 0, 5), "int32")
    return ops.take(images, start + ops.arange(4, dtype="int32"), axis=1)


CASES = {
    "gradient through `keras.ops.while_loop` whose end depends on a tensor": Case(
        lambda: compiled(lambda x: derivative(double_until, add_up(x))),
        480.0,
        lambda: compiled(lambda x: derivative(double_at_most, add_up(x))),
    ),
    "the same, outside a step": Case(
        lambda: float(derivative(double_until, ops.convert_to_tensor(6.0))),
        480.0,
        lambda: float(derivative(double_at_most, ops.convert_to_tensor(6.0))),
    ),
    "`keras.ops.while_loop` whose end depends on a tensor, without a gradient": Case(
        lambda: compiled(lambda x: double_until(2.0, add_up(x))),
        192.0,
        lambda: compiled(lambda x: double_at_most(2.0, add_up(x))),
    ),
    "`keras.ops.fori_loop(0, n, ...)` with a tensor `n`": Case(
        lambda: compiled(lambda x, n: ops.fori_loop(0, n, lambda i, value: value * 2.0, add_up(x)), X, 3),
        48.0,
        lambda: compiled(lambda x, n: ops.fori_loop(0, 10, lambda i, value: ops.where(i < n, value * 2.0, value), add_up(x)), X, 3),
    ),
    "assigning a variable in the body of `keras.ops.scan`, `while_loop`, `fori_loop` or `map`": Case(
        lambda: compiled(assigned_in_a_scan), 6.0, lambda: compiled(carried_through_a_scan)
    ),
    "`keras.ops.cond` with branches of unlike shapes": Case(
        lambda: compiled(lambda x: add_up(ops.cond(add_up(x) < 0.0, lambda: x, lambda: x[:1]))),
        1.0,
        lambda: compiled(lambda x: add_up(ops.cond(add_up(x) < 0.0, lambda: x, lambda: ops.pad(x[:1], (0, 2))))),
    ),
    "`for row in x` over a tensor": Case(lambda: compiled(lambda x: sum(x)), 6.0, lambda: compiled(lambda x: sum(ops.unstack(x)))),
    "`if loss > 0`, `while`, `and`, `not` on a tensor": Case(
        lambda: compiled(lambda x: 1.0 if add_up(x) > 0 else 2.0),
        1.0,
        lambda: compiled(lambda x: ops.where(add_up(x) > 0, 1.0, 2.0)),
    ),
    "`x[mask]`": Case(
        lambda: compiled(lambda x: add_up(x[x > 1.5])), 5.0, lambda: compiled(lambda x: add_up(ops.where(x > 1.5, x, 0)))
    ),
    "`keras.ops.nonzero(mask)`, `keras.ops.where(mask)`": Case(
        lambda: compiled(lambda x: add_up(ops.nonzero(x > 1.5)[0]) + add_up(ops.where(x > 2.5)[0])),
        5.0,
        lambda: compiled(lambda x: add_up(x * ops.cast(x > 1.5, "float32"))),
    ),
    "`x[i : i + 2]` with a tensor `i`": Case(
        lambda: compiled(lambda x, i: add_up(x[i : i + 2]), X, 1),
        5.0,
        lambda: compiled(lambda x, i: add_up(ops.take(x, i + ops.arange(2), axis=0)), X, 1),
    ),
    "`keras.layers.RandomCrop` in the step": Case(
        lambda: cropped(lambda images: _CROP(images, training=True)), 1.0, lambda: cropped(crop_by_take)
    ),
    "NumPy on a tensor in the step": Case(
        lambda: compiled(lambda x: np.square(ops.convert_to_numpy(x)).sum()),
        14.0,
        lambda: compiled(lambda x: add_up(ops.square(x))),
    ),
    "`float(loss)`, `loss.item()` in the step": Case(lambda: compiled(lambda x: float(add_up(x))), 6.0, lambda: compiled(add_up)),
    "`losses.append(loss)` in the step": Case(lambda: compiled(appended), 6.0, lambda: compiled(add_up)),
    "`numpy.random` or Python's `random` in the step": Case(
        lambda: compiled(lambda x: add_up(x) * random.choice([np.random.uniform(), 1.0])),
        6.0,
        lambda: compiled(lambda x: add_up(x) + 0.0 * keras.random.uniform(())),
    ),
    "`activations[0] = 0.0`": Case(
        lambda: compiled(set_first_to_zero), 10.0, lambda: compiled(lambda x: add_up(ops.where(ops.arange(3) == 0, 0.0, x * 2.0)))
    ),
    "gradient through `keras.ops.slice_update`": Case(
        lambda: gradient_past(lambda y: ops.slice_update(y, np.array([0]), np.array([0.0], "float32"))),
        10.0,
        lambda: gradient_past(lambda y: ops.scatter_update(y, np.array([[0]]), np.array([0.0], "float32"))),
    ),
    "reading `held = w.value` after later steps have run": Case(
        lambda: held(lambda w: w.value), 6.0, lambda: held(lambda w: ops.copy(w.value))
    ),
    "strings in a batch": Case(
        lambda: compiled(add_up, np.array(["a", "b"])),
        3.0,
        lambda: compiled(add_up, keras.layers.StringLookup(vocabulary=["a", "b"])(["a", "b"])),
    ),
    "ragged tensors of `tf.data`": Case(
        lambda: fitted_to(ragged), 6.0, lambda: fitted_to(lambda tf: ragged(tf).map(lambda x: x.to_tensor()))
    ),
    "sparse matrices and tensors": Case(
        lambda: compiled(add_up, sparse_matrix()), 6.0, lambda: compiled(add_up, sparse_matrix().toarray())
    ),
    "a machine without a C++ compiler": Case(lambda: compiled(add_up), 6.0, None, prepare=without_compiler),
}

_CROP = keras.layers.RandomCrop(4, 4, seed=1)
