"""Says which backends are installed, in which versions, on which devices, and whether the compiler is there."""

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

from . import _choice
from ._errors import CommandError

TIMEOUT_SECONDS = 120
PACKAGES = {  # The packages on PyPI that bring each backend.
    "jax": ("jax", "jaxlib"),
    "tensorflow": ("tensorflow", "tensorflow-cpu"),
    "torch": ("torch",),
}
COMPILERS = (os.environ.get("CXX") or "g++", "clang++", "c++")

_QUESTION = """
import json
from trainstep import backends
backend = backends.active()
print(json.dumps({"devices": ", ".join(backend.devices()), "compiler": backend.compiler()}))
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command has no options."""


def run(options: argparse.Namespace) -> None:
    """Asks each installed backend in a process of its own, all at once: a broken one cannot take the others along."""
    print(f"trainstep {_version('trainstep')}, keras {_version('keras')}, Python {platform.python_version()}")
    print(f"C++ compiler for PyTorch: {_compiler()}", flush=True)
    installed = [backend for backend in _choice.BACKENDS if _choice.is_installed(backend)]
    active = _active()
    with ThreadPoolExecutor() as pool:
        answers = {backend: pool.submit(_ask, backend) for backend in installed}
        for backend in _choice.BACKENDS:
            is_there = backend in answers
            print(f"\n{describe_backend(backend) if is_there else backend}{'  (active)' if backend == active else ''}")
            facts = answers[backend].result() if is_there else {"not installed": _choice.install_command(backend)}
            for name, fact in facts.items():
                print(f"  {name}: {fact}", flush=True)


def describe_backend(backend: str) -> str:
    """The packages of a backend and their versions, without importing them."""
    versions = [f"{package} {_version(package)}" for package in PACKAGES[backend] if _version(package)]
    return ", ".join(versions) or f"{backend} (version unknown)"


def _ask(backend: str) -> dict[str, str]:
    environment = os.environ | {"KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "2"}
    question = [sys.executable, "-c", _QUESTION]
    try:
        answer = subprocess.run(question, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=True)
        return json.loads(answer.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {"broken": f"no answer within {TIMEOUT_SECONDS} seconds"}
    except subprocess.CalledProcessError as error:
        return {"broken": (error.stderr.strip().splitlines() or [f"ended with exit code {error.returncode}"])[-1]}


def _active() -> str | None:
    try:
        return _choice.choose()
    except CommandError as error:
        print(f"active backend: {error}")
        return None


def _compiler() -> str:
    found = next((path for path in map(shutil.which, COMPILERS) if path), None)
    return found or "none found, so PyTorch's steps run uncompiled and slower. Install g++ or clang++"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
