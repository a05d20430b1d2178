"""Chooses the backend, before Keras is imported."""

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path

from ._errors import CommandError

BACKENDS = ("jax", "tensorflow", "torch")


def is_installed(backend: str) -> bool:
    """Whether the backend's package is there. It is not imported, so it may be broken all the same."""
    return importlib.util.find_spec(backend) is not None


def choose(requested: str | None = None) -> str:
    """The backend to run on: the requested one, else what Keras is configured for, else the first that is installed.

    Raises:
        CommandError: It is unknown, or not installed.
    """
    for name, origin in ((requested, "--backend"), (os.environ.get("KERAS_BACKEND"), "KERAS_BACKEND")):
        if name:
            _check(name, origin)
            return name
    installed = [backend for backend in BACKENDS if is_installed(backend)]
    if not installed:
        raise CommandError(f"no backend is installed. Install one: {' or '.join(map(install_command, BACKENDS))}")
    configured = _configured()
    return configured if configured in installed else installed[0]


def activate(requested: str | None = None) -> str:
    """Chooses the backend, and has Keras take it when it is imported.

    Raises:
        CommandError: It is unknown, not installed, or Keras runs on another one already.
    """
    backend = choose(requested)
    if "keras" in sys.modules and sys.modules["keras"].config.backend() != backend:
        raise CommandError(f"Keras runs on {sys.modules['keras'].config.backend()} in this process already, so not on {backend}")
    os.environ["KERAS_BACKEND"] = backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # Else TensorFlow describes the processor first.
    return backend


def import_keras() -> None:
    """Imports Keras with the chosen backend.

    Raises:
        CommandError: The backend is there but cannot be imported.
    """
    try:
        importlib.import_module("keras")
    except Exception as error:  # A broken installation fails in any way it likes.
        raise CommandError(f"Keras cannot be imported on {os.environ.get('KERAS_BACKEND')}: {one_line(error)}") from error


def one_line(error: BaseException) -> str:
    """The kind and the message of an error, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _check(name: str, origin: str) -> None:
    if name not in BACKENDS:
        raise CommandError(f"{origin}: unknown backend {name!r}; trainstep runs on {', '.join(BACKENDS)}")
    if not is_installed(name):
        raise CommandError(f"{origin}: {name} is not installed. Install it: {install_command(name)}")


def install_command(backend: str) -> str:
    """What to type to get a backend."""
    return f"pip install 'trainstep[{backend}]'"


def _configured() -> str | None:
    """The backend named in Keras' own configuration file. Keras writes it itself, so it may name one that is not installed."""
    home = Path(os.environ.get("KERAS_HOME", Path.home() / ".keras"))
    try:
        return json.loads((home / "keras.json").read_text()).get("backend")
    except (OSError, ValueError):
        return None
