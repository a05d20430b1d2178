"""The command `trainstep`: what it prints, and one clear line with exit code 2 instead of a traceback."""

import json
import os
import subprocess
import sys

import keras
import numpy as np
import pytest

import trainstep_cli
from trainstep import backends
from trainstep_cli import _backends, _choice


@pytest.fixture
def digits_file(tmp_path):
    """120 training and 40 test pictures: bars at one of ten heights, which anything can learn."""
    random = np.random.default_rng(0)
    arrays = {}
    for part, count in (("train", 120), ("test", 40)):
        labels = np.arange(count) % 10
        images = random.integers(0, 60, (count, 28, 28))
        for image, label in zip(images, labels, strict=True):
            image[2 * label + 4 : 2 * label + 6, 4:24] = 255
        arrays |= {f"x_{part}": images.astype("uint8"), f"y_{part}": labels.astype("uint8")}
    path = tmp_path / "bars.npz"
    np.savez(path, **arrays)
    return path


def run_command(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """The command in a process of its own, as a user starts it."""
    command = [sys.executable, "-c", "import sys, trainstep_cli; sys.exit(trainstep_cli.main())", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | environment)


@pytest.mark.parametrize("model", ["mlp", "convnet"])
def test_mnist_learns_and_shows(capsys, digits_file, tmp_path, model):
    picture = tmp_path / "digits.png"
    code = trainstep_cli.main(
        ["mnist", "--data", str(digits_file), "--model", model, "--epochs", "3", "--batch-size", "8", "--plot", str(picture)]
    )
    output = capsys.readouterr().out

    assert code == 0
    assert f"data:    120 training and 40 test digits of {digits_file}" in output
    assert f"backend: {_backends.describe_backend(keras.config.backend())}" in output
    accuracy = float(output.split("test:    accuracy ")[1].split(",")[0])
    assert accuracy > 0.5
    assert "predicted 0" in output
    assert "█" in output
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_mnist_repeats_with_the_same_seed_and_not_with_another(capsys, digits_file):
    results = []
    for seed in ("1", "1", "2"):
        trainstep_cli.main(["mnist", "--data", str(digits_file), "--epochs", "1", "--seed", seed])
        results.append(capsys.readouterr().out.split("test:")[1].splitlines()[0])
    assert results[0] == results[1]
    assert results[0] != results[2]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["mnist", "--backend", "theano"],
            "trainstep mnist: --backend: unknown backend 'theano'; trainstep runs on jax, tensorflow, torch",
        ),
        (["mnist", "--data", "absent.npz"], "trainstep mnist: --data: there is no file 'absent.npz'"),
        (["mnist", "--epochs", "0"], "trainstep mnist: argument --epochs: must be a positive whole number, got '0'"),
        (["mnist", "--model", "tree"], "trainstep mnist: argument --model: invalid choice: 'tree'"),
        (["mnist", "--plot", "absent/digits.png"], "trainstep mnist: --plot: there is no folder"),
        (["mnist", "--plot", "digits.xyz"], "trainstep mnist: --plot: 'digits.xyz' must end in one of"),
        (["juggle"], "trainstep: argument COMMAND: invalid choice: 'juggle'"),
        ([], "trainstep: the following arguments are required: COMMAND"),
    ],
    ids=lambda value: "-".join(value) or "nothing" if isinstance(value, list) else "",
)
def test_a_mistake_is_one_line_and_exit_code_2(arguments, expected):
    process = run_command(*arguments)
    assert process.returncode == 2
    assert process.stderr.startswith(expected)
    assert process.stderr.count("\n") == 1
    assert process.stdout == ""


def test_an_unknown_backend_in_the_environment_is_named():
    process = run_command("mnist", KERAS_BACKEND="numpy")
    assert process.returncode == 2
    assert process.stderr == "trainstep mnist: KERAS_BACKEND: unknown backend 'numpy'; trainstep runs on jax, tensorflow, torch\n"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda arrays: arrays.pop("y_test"), "has no y_test; it needs x_train, y_train, x_test, y_test"),
        (lambda arrays: arrays.update(x_train=arrays["x_train"][:, :, :20]), "x_train must be uint8 of shape"),
        (lambda arrays: arrays.update(x_train=arrays["x_train"] / 255), "x_train must be uint8 of shape"),
        (lambda arrays: arrays.update(y_train=arrays["y_train"][:-1]), "x_train must be uint8 of shape"),
        (lambda arrays: arrays.update(y_test=arrays["y_test"] + 1), "y_test must be integers from 0 to 9"),
        (
            lambda arrays: arrays.update(x_test=arrays["x_test"][:0], y_test=arrays["y_test"][:0]),
            "y_test must be integers from 0 to 9",
        ),
        (lambda arrays: arrays.update(y_test=np.array([object()] * 40)), "is not an .npz file of arrays"),
    ],
    ids=["missing key", "wrong size", "wrong dtype", "fewer labels", "label 10", "empty", "pickled"],
)
def test_a_file_that_holds_no_digits_is_refused(capsys, digits_file, change, expected):
    with np.load(digits_file) as file:
        arrays = dict(file)
    change(arrays)
    np.savez(digits_file, **arrays)
    assert trainstep_cli.main(["mnist", "--data", str(digits_file)]) == 2
    captured = capsys.readouterr()
    assert expected in captured.err
    assert captured.out == ""


def test_a_file_of_another_kind_is_refused(capsys, tmp_path):
    path = tmp_path / "text.npz"
    path.write_text("no arrays")
    assert trainstep_cli.main(["mnist", "--data", str(path)]) == 2
    assert "is not an .npz file of arrays" in capsys.readouterr().err


def test_matplotlib_is_asked_for_before_training(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert trainstep_cli.main(["mnist", "--plot", "digits.png"]) == 2
    assert capsys.readouterr().err == "trainstep mnist: --plot needs Matplotlib. Install it: pip install 'trainstep[plot]'\n"


def test_backends_describes_those_installed(capsys):
    assert trainstep_cli.main(["backends"]) == 0
    output = capsys.readouterr().out
    active = backends.active()
    block = output.split("(active)")[1].split("\n\n")[0]
    assert f"devices: {', '.join(active.devices())}" in block
    assert f"compiler: {active.compiler()}" in block
    assert f"keras {keras.__version__}" in output
    for name in _choice.BACKENDS:
        assert _choice.is_installed(name) != (f"pip install 'trainstep[{name}]'" in output)


def test_backends_survives_a_broken_one(tmp_path):
    broken = tmp_path / "tensorflow"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('libtensorflow is missing')")
    process = run_command("backends", PYTHONPATH=str(tmp_path), KERAS_BACKEND="jax")
    assert process.returncode == 0
    assert "broken: " in process.stdout
    assert "ImportError: libtensorflow is missing" in process.stdout
    assert "devices: cpu" in process.stdout


def test_a_broken_backend_is_one_line(tmp_path):
    (tmp_path / "torch.py").write_text("raise OSError('libtorch.so: cannot open shared object file')")
    process = run_command("mnist", "--backend", "torch", PYTHONPATH=str(tmp_path))
    assert process.returncode == 2
    assert process.stderr == (
        "trainstep mnist: Keras cannot be imported on torch: OSError: libtorch.so: cannot open shared object file\n"
    )


def test_backends_and_packages_are_those_of_the_library():
    assert set(_backends.PACKAGES) == set(_choice.BACKENDS) == set(backends.SUPPORTED)


def test_the_backend_is_the_requested_one_then_the_configured_one_then_an_installed_one(monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    monkeypatch.setattr(_choice, "is_installed", lambda name: name != "tensorflow")
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert _choice.choose("jax") == "jax"
    assert _choice.choose() == "torch"
    monkeypatch.delenv("KERAS_BACKEND")
    assert _choice.choose() == "jax"
    (tmp_path / "keras.json").write_text(json.dumps({"backend": "torch"}))
    assert _choice.choose() == "torch"
    (tmp_path / "keras.json").write_text(json.dumps({"backend": "tensorflow"}))
    assert _choice.choose() == "jax"
    with pytest.raises(trainstep_cli.CommandError, match=r"tensorflow is not installed\. Install it: pip install"):
        _choice.choose("tensorflow")
    monkeypatch.setattr(_choice, "is_installed", lambda name: False)
    with pytest.raises(trainstep_cli.CommandError, match="no backend is installed"):
        _choice.choose()


def test_keras_that_runs_already_on_another_backend_is_said():
    other = next(name for name in _choice.BACKENDS if name != keras.config.backend())
    with pytest.raises(trainstep_cli.CommandError, match=f"Keras runs on {keras.config.backend()} in this process already"):
        _choice.activate(other)
