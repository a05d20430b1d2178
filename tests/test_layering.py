"""Imports point left only; and the test that says so does fail on a package where they do not."""

import subprocess
import sys
from pathlib import Path

import keras
import pytest

from import_graph import LAYERS, violations

SRC = Path(__file__).parents[1] / "src"

BAD_FILES = [
    ("loop/_fit.py", "import torch", "imports torch outside backends/torch"),
    ("loop/_fit.py", "def fit():\n    import jax.numpy as jnp", "imports jax.numpy outside backends/jax"),
    ("loop/_fit.py", "import importlib\nimportlib.import_module('tensorflow')", "imports tensorflow outside backends/tensorflow"),
    ("backends/jax/_tape.py", "from torch import nn", "imports torch.nn outside backends/torch"),
    ("data/_tf_data.py", "import tensorflow as tf", "imports tensorflow outside backends/tensorflow"),
    ("data/_tf_data.py", "def f():\n    import torch", "imports torch outside backends/torch"),
    ("_step.py", "if backend.name == 'torch':\n    pass", "compares a backend's name with 'torch'"),
    ("_step.py", "x = name in ('jax', 'numpy')", "compares a backend's name with 'jax'"),
    ("_step.py", "match name:\n    case 'jax':\n        pass", "compares a backend's name with 'jax'"),
    ("_step.py", "from keras.src.backend import config", "imports keras.src.backend.config, which keras keeps private"),
    ("_step.py", "value = variable._value", "uses variable._value, which Keras keeps private"),
    (
        "backends/jax/_private.py",
        "from keras.src.backend.torch import core",
        "imports keras.src.backend.torch.core, which keras keeps",
    ),
    ("backends/jax/_tape.py", "from jax._src import core", "imports jax._src.core, which jax keeps private"),
    ("backends/torch/_tape.py", "import torch._inductor.config", "imports torch._inductor.config, which torch keeps private"),
    (
        "backends/tensorflow/_tape.py",
        "from tensorflow.python import eager",
        "imports tensorflow.python.eager, which tensorflow keeps",
    ),
    ("backends/torch/_tape.py", "import torch\ntorch._foreach_add_(a, b)", "uses torch._foreach_add_, which torch keeps private"),
    ("backends/jax/_tape.py", "from ..torch import _tape", "imports trainstep.backends.torch._tape, another backend"),
    ("backends/jax/_tape.py", "from ..._step import Step", "imports trainstep._step.Step, which stands to its right"),
    ("_tape.py", "from ._trainer import Trainer", "imports trainstep._trainer.Trainer, which stands to its right"),
    ("_step.py", "from . import GradientTape", "imports trainstep.GradientTape, which stands to its right"),
    ("data/_arrays.py", "from ..loop import fit", "imports trainstep.loop.fit, which stands to its right"),
    ("data/_arrays.py", "from .. import checkpoint", "imports trainstep.checkpoint, a room beside it"),
    ("explain/_saliency.py", "from trainstep.data import resolve", "imports trainstep.data.resolve, a room beside it"),
    (
        "loop/_fit.py",
        "from ..data._arrays import ArraySource",
        "imports trainstep.data._arrays.ArraySource, a private file of another room",
    ),
    ("loop/utils.py", "", "is a room for anything"),
    ("shapes.py", "", "'shapes' has no place in LAYERS"),
]

GOOD_FILES = [
    ("backends/torch/_tape.py", "import torch\nfrom .._abstract import Tensor\nfrom ..._errors import TapeError"),
    ("backends/torch/_private.py", "import torch._C\ntorch._foreach_add_(a, b)\nfrom keras.src.backend.torch import core"),
    ("_keras.py", "from keras.src.backend.common import global_state\nx = variable._value"),
    ("_step.py", "from . import _keras, backends\nfrom ._state import Rollback\nself._value = 1"),
    ("data/_tf_data.py", "def f():\n    import tensorflow as tf"),
    ("loop/_fit.py", "from ..data import resolve\nfrom .._step import Step\nname == 'loss'"),
    ("__init__.py", "from ._step import Step as Step"),
]


def test_the_package_keeps_the_rules():
    assert violations(SRC / "trainstep") == []


@pytest.mark.parametrize(("path", "text", "expected"), BAD_FILES, ids=[f"{path}-{i}" for i, (path, _, _) in enumerate(BAD_FILES)])
def test_a_broken_rule_is_found(tmp_path, path, text, expected):
    _write(tmp_path, path, text)
    found = violations(tmp_path)
    assert len(found) == 1
    assert f"{path}:" in found[0]
    assert expected in found[0]


@pytest.mark.parametrize(("path", "text"), GOOD_FILES, ids=[path for path, _ in GOOD_FILES])
def test_what_is_allowed_is_not_found(tmp_path, path, text):
    _write(tmp_path, path, text)
    assert violations(tmp_path) == []


def test_a_room_stands_in_one_layer():
    rooms = [room for layer in LAYERS for room in layer]
    assert len(rooms) == len(set(rooms))


def test_only_the_active_backend_is_imported():
    """Keras itself imports JAX under every backend, so it is our rooms, and the other two frameworks, that must be missing."""
    others = {"jax", "tensorflow", "torch"} - {keras.config.backend()}
    program = "import sys, trainstep; from trainstep import backends; backends.active(); print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    loaded = set(process.stdout.split())
    assert f"trainstep.backends.{keras.config.backend()}" in loaded
    assert not loaded & {f"trainstep.backends.{name}" for name in others}
    assert not loaded & (others - {"jax"})


def test_the_command_imports_keras_late():
    program = "import sys, trainstep_cli; print(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert not set(process.stdout.split()) & {"keras", "trainstep", "jax", "tensorflow", "torch"}


def _write(package: Path, path: str, text: str) -> None:
    file = package / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
