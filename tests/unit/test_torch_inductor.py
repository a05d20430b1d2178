"""PyTorch's Inductor, which compiles a captured step while the training goes on."""

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pytest

import trainstep as ts

if keras.config.backend() != "torch":
    pytest.skip("the PyTorch room", allow_module_level=True)

import torch

from trainstep.backends.torch import _compilation, _inductor, _private, _threads
from trainstep.backends.torch._inductor_process import Described, Portable

X = np.random.default_rng(0).random((8, 6)).astype("float32")
SECONDS_TO_COMPILE = 120.0


def _has_compiler() -> bool:
    try:
        _private.find_cpp_compiler()
    except Exception:
        return False
    return True


needs_compiler = pytest.mark.skipif(not _has_compiler(), reason="no C++ compiler")


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor compiles at the first call."""
    monkeypatch.setenv("TRAINSTEP_INDUCTOR", "1")


@pytest.fixture
def in_background(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[None]:
    """Inductor starts after the first steps, in another process, and finds nothing on disk."""
    monkeypatch.delenv("TRAINSTEP_INDUCTOR", raising=False)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(_inductor, "SECONDS_BEFORE_COMPILING", 0.0)
    monkeypatch.setattr(_inductor, "compiler_obstacle", lambda: None)
    yield
    gc.collect()
    assert _compilation.Compilation._at_work is None


def _training() -> tuple[ts.Step, Callable[[int], list[float]]]:
    """A step, and the losses that plain PyTorch has in so many steps of the same training."""
    w = keras.Variable(np.linspace(-1.0, 1.0, 6), dtype="float32")
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)

    @ts.step
    def train_step(x: Any) -> dict[str, Any]:
        with ts.GradientTape() as tape:
            loss = keras.ops.mean(keras.ops.tanh(x @ w[:, None]) ** 2)
            loss = loss + 0.0 * keras.random.normal(())  # Draws are operators of our own.
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return {"loss": loss}

    def expected(num_steps: int) -> list[float]:
        parameter = torch.linspace(-1.0, 1.0, 6, requires_grad=True)
        plain = torch.optim.SGD([parameter], 0.1, momentum=0.9)
        losses = []
        for _ in range(num_steps):
            loss = torch.mean(torch.tanh(torch.tensor(X) @ parameter) ** 2)
            plain.zero_grad()
            loss.backward()
            plain.step()
            losses.append(loss.item())
        return losses

    return train_step, expected


def _run_until(step: ts.Step, is_reached: Callable[[str], bool]) -> list[float]:
    """The losses of the steps until the report says so."""
    losses, started = [], time.perf_counter()
    while not is_reached(step.report()):
        losses.append(float(step(X)["loss"]))
        time.sleep(0.01)
        assert time.perf_counter() - started < SECONDS_TO_COMPILE, step.report()
    return losses


@needs_compiler
def test_inductor_compiles_to_the_same_numbers(at_once: None) -> None:
    step, expected = _training()
    losses = [float(step(X)["loss"]) for _ in range(10)]
    np.testing.assert_allclose(losses, expected(10), rtol=1e-5)
    assert "Inductor program" in step.report()
    assert step.num_traces == 1


@needs_compiler
def test_training_goes_on_while_another_process_compiles(in_background: None) -> None:
    step, expected = _training()
    losses = _run_until(step, lambda report: "while Inductor compiles it" in report)
    losses += _run_until(step, lambda report: "Inductor program" in report or "no faster" in report)
    losses += [float(step(X)["loss"]) for _ in range(5)]
    assert len(losses) > 20
    np.testing.assert_allclose(losses, expected(len(losses)), rtol=1e-4, atol=1e-7)
    assert step.num_traces == 1


@needs_compiler
def test_what_was_compiled_once_is_found_on_disk(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:
    _run_until(_training()[0], lambda report: "Inductor program" in report or "no faster" in report)
    monkeypatch.setattr(_compilation.Compilation, "start", lambda self: pytest.fail("compiled again"))
    step, expected = _training()
    losses = _run_until(step, lambda report: "Inductor program" in report or "no faster" in report)
    np.testing.assert_allclose(losses, expected(len(losses)), rtol=1e-4, atol=1e-7)


def test_a_step_that_is_forgotten_ends_its_compilation(in_background: None) -> None:
    step, _ = _training()
    _run_until(step, lambda report: "while Inductor compiles it" in report)
    process = _compilation.Compilation._at_work._process  # type: ignore[union-attr]
    assert process is not None
    assert process.poll() is None
    del step
    gc.collect()
    assert process.wait(10) != 0


def test_two_steps_compile_one_after_the_other(in_background: None) -> None:
    first, second = _training()[0], _training()[0]
    _run_until(first, lambda report: "while Inductor compiles it" in report)
    for _ in range(20):
        second(X)
    assert "while Inductor" not in second.report()


def test_a_process_that_fails_leaves_the_graph_and_says_why(in_background: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_nonsense(folder: Any, *args: Any, **named: Any) -> None:
        (folder / "task.json").write_text("nonsense")

    monkeypatch.setattr(_compilation, "write", write_nonsense)
    step, expected = _training()
    with pytest.warns(ts.TrainStepWarning, match="could not compile the step 'train_step'.*JSONDecodeError"):
        losses = _run_until(step, lambda report: "Inductor failed (json.decoder.JSONDecodeError" in report)
    losses += [float(step(X)["loss"]) for _ in range(5)]
    np.testing.assert_allclose(losses, expected(len(losses)), rtol=1e-5)


def test_a_graph_that_inductor_cannot_compile_still_runs(at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise NotImplementedError("not this one")

    monkeypatch.setattr(_inductor, "compiler_obstacle", lambda: None)
    monkeypatch.setattr(_private, "compile_graph", fail)
    step = ts.step(lambda x: x * 3.0, compile=True)
    with pytest.warns(ts.TrainStepWarning, match="not this one"):
        np.testing.assert_allclose(step.predict(X).numpy(), X * 3.0)
    assert "Inductor failed (NotImplementedError: not this one)" in step.report()


def test_a_graph_as_text_is_the_same_graph() -> None:
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("constant", torch.tensor([1.0, float("inf"), 2.0]))

        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            return [torch.ops.aten.mul.Tensor(x, self.constant), torch.ops.aten.full.default([2], float("nan"))]

    graph = torch.fx.symbolic_trace(Module())
    portable = Portable.of(graph)
    assert portable is not None
    again = portable.graph()
    x = torch.tensor([1.0, 2.0, 3.0])
    for ours, theirs in zip(again(x), graph(x), strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True)


def test_a_graph_with_graphs_inside_stays_in_this_process() -> None:
    module = torch.nn.Sequential(torch.nn.ReLU())
    assert Portable.of(torch.fx.symbolic_trace(module)) is None


def test_a_described_tensor_has_its_strides() -> None:
    tensor = torch.zeros(3, 4, dtype=torch.int32).T
    assert Described.of(tensor).empty().stride() == tensor.stride()
    assert Described(*Described.of(tensor)).empty().dtype == torch.int32


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As on a machine with two cores where the user has said nothing."""
    before = torch.get_num_threads()
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    torch.set_num_threads(2)
    monkeypatch.setattr(_threads, "_AT_IMPORT", 2)
    yield
    torch.set_num_threads(before)


def test_a_program_runs_on_its_own_number_of_threads_and_puts_it_back(two_threads: None) -> None:
    assert _threads.on_threads(torch.get_num_threads, 1)() == 1
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("two_threads")
def test_threads_that_the_user_sets_later_stay() -> None:
    call = _threads.on_threads(torch.get_num_threads, 1)
    torch.set_num_threads(3)
    assert call() == 3


@pytest.mark.usefixtures("two_threads")
def test_one_thread_is_tried_only_where_the_user_has_said_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _threads.choices() == [2, 1]
    assert _threads.one_left_free() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert _threads.choices() == [2]
    assert _threads.one_left_free() == 2
    monkeypatch.delenv("OMP_NUM_THREADS")
    torch.set_num_threads(3)
    assert _threads.choices() == [3]


def _smallest_is_flushed() -> bool:
    return float(torch.tensor([1e-39]) * 1.0) == 0.0


@pytest.mark.parametrize("flush_denormals", [True, False])
def test_denormal_numbers_are_flushed_while_fit_trains_and_no_longer(flush_denormals: bool) -> None:
    tiny = keras.Variable(np.float32(1e-38), trainable=False)

    @ts.step
    def step(x: Any) -> None:
        tiny.assign(tiny * 0.1)

    assert not _smallest_is_flushed()
    ts.Trainer(step, flush_denormals=flush_denormals).fit(X, batch_size=8, verbose=0)
    assert (float(tiny.value) == 0.0) == flush_denormals
    assert not _smallest_is_flushed()


def test_denormal_numbers_that_the_user_flushes_stay_flushed() -> None:
    torch.set_flush_denormal(True)
    try:
        ts.Trainer(_training()[0]).fit(X, batch_size=8, verbose=0)
        assert _smallest_is_flushed()
    finally:
        torch.set_flush_denormal(False)
