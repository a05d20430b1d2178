"""`docs/backends.md` is true: each row of its tables is run on the active backend, and so is the way out that it names."""

import concurrent.futures
import re
from pathlib import Path

import keras
import numpy as np
import pytest

import trainstep as ts
from backends_page_cases import CASES, X, add_up

PAGE = (Path(__file__).parents[2] / "docs" / "backends.md").read_text(encoding="utf-8")
COLUMN = {"jax": 1, "torch": 2, "tensorflow": 3}[keras.config.backend()]
ROWS = {
    cells[0]: cells
    for line in PAGE.splitlines()
    if line.startswith("| ") and len(cells := [cell.strip() for cell in line.strip("|").split(" | ")]) == 5 and cells[0]
}


def test_every_row_has_a_case():
    assert set(ROWS) == set(CASES)
    assert PAGE.count("| works |") > 10


@pytest.mark.parametrize("name", CASES)
def test_the_row_is_true(name, monkeypatch):
    case, cell = CASES[name], ROWS[name][COLUMN]
    case.prepare(monkeypatch)
    if cell == "works":
        np.testing.assert_allclose(case.attempt(), case.expected, rtol=1e-5)
        return
    kind, words = re.fullmatch(r"`(.+?)`: “(.+)”", cell).groups()
    error = getattr(ts, kind.removeprefix("ts.")) if kind.startswith("ts.") else {"TypeError": TypeError}.get(kind, RuntimeError)
    if issubclass(error, Warning):
        with pytest.warns(error, match=re.escape(words)):
            np.testing.assert_allclose(case.attempt(), case.expected, rtol=1e-5)
        return
    with pytest.raises(error, match=re.escape(words)):
        case.attempt()


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].way_out is not None])
def test_the_way_out_leads_out(name):
    np.testing.assert_allclose(CASES[name].way_out(), CASES[name].expected, rtol=1e-5)


def test_the_random_stream_is_the_one_on_the_page():
    (line,) = re.findall(r"^  \| (-?\d.*) \|$", PAGE, flags=re.MULTILINE)
    first = keras.ops.convert_to_numpy(keras.random.normal((3,), seed=1))[0]
    assert float(first) == pytest.approx(float(line.split(" | ")[COLUMN - 1]), abs=1e-4)


def test_fit_shuffles_in_the_same_order_on_every_backend():
    seen = []

    @ts.step(compile=False)
    def train_step(x):
        seen.append(int(keras.ops.convert_to_numpy(x)[0]))

    keras.utils.set_random_seed(0)
    ts.Trainer(train_step).fit(np.arange(6, dtype="float32"), batch_size=1, verbose=0)
    assert seen == [0, 4, 1, 2, 5, 3]


def test_large_integers():
    largest = ts.step(lambda x: {"y": keras.ops.max(x)}, compile=True)(np.array([2**40]))["y"]
    assert int(largest) == (0 if keras.config.backend() == "jax" else 2**40)


def test_an_index_out_of_range():
    look_up = ts.step(lambda rows: {"y": keras.ops.sum(keras.ops.take(keras.ops.convert_to_tensor(X), rows, axis=0))}, compile=True)
    if keras.config.backend() == "jax":
        assert np.isnan(float(look_up(np.array([0, 5]))["y"]))
        return
    with pytest.raises(Exception, match=r"out of range|not in \[0, 3\)"):
        look_up(np.array([0, 5]))


def test_variables_assigned_in_a_branch():
    w = keras.Variable(1.0)

    @ts.step(compile=True)
    def train_step(x):
        keras.ops.cond(keras.ops.sum(x) > 0, lambda: w.assign_add(1.0), lambda: w.assign_sub(1.0))
        return {"w": w.value}

    assert [float(train_step(s * X)["w"]) for s in (1, -1, -1)] == [2.0, 1.0, 0.0]


@pytest.mark.parametrize("name", ["Flip", "Rotation", "Zoom", "Translation", "Brightness", "Contrast", "Erasing"])
def test_other_random_layers_draw_anew_in_a_compiled_step(name):
    options = {
        "Rotation": {"factor": 0.1},
        "Zoom": {"height_factor": 0.3},
        "Brightness": {"factor": 0.3},
        "Contrast": {"factor": 0.3},
    }
    options["Translation"] = {"height_factor": 0.3, "width_factor": 0.3}
    layer = getattr(keras.layers, f"Random{name}")(**options.get(name, {}), seed=1)
    images = np.random.default_rng(0).uniform(0, 255, (4, 8, 8, 3)).astype("float32")
    augment = ts.step(lambda x: layer(x, training=True), compile=True)
    draws = [keras.ops.convert_to_numpy(augment.predict(images)) for _ in range(4)]
    assert any(np.abs(draw - draws[0]).max() > 1 for draw in draws[1:])
    assert augment.num_traces == 1


def test_threads_take_turns():
    w = keras.Variable(0.0)

    def count_in_a_thread(number):
        @ts.step(compile=True)
        def count(x):
            with ts.GradientTape() as tape:
                loss = w * keras.ops.sum(x) / 6.0
            w.assign_add(tape.gradient(loss, w))
            return {"w": w.value}

        return [count(X) for _ in range(100)]

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        logs = list(pool.map(count_in_a_thread, range(2)))
    assert sorted(float(entry["w"]) for half in logs for entry in half) == list(range(1, 201))


def test_the_framework_s_own_draws():
    """JAX' own key is a constant of the program, as the page warns; `keras.random` goes on."""
    if keras.config.backend() != "jax":
        pytest.skip("about a key of JAX' own")
    import jax

    frozen = ts.step(lambda x: {"y": add_up(x) + jax.random.uniform(jax.random.PRNGKey(0))}, compile=True)
    going_on = ts.step(lambda x: {"y": add_up(x) + keras.random.uniform(())}, compile=True)
    assert float(frozen(X)["y"]) == float(frozen(X)["y"])
    assert float(going_on(X)["y"]) != float(going_on(X)["y"])
