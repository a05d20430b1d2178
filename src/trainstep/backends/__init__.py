"""The three backends, behind one contract. Only the active one is ever imported."""

import functools
import importlib
import importlib.util
from collections.abc import Mapping
from importlib import metadata
from types import MappingProxyType

import keras

from .._errors import BackendError
from ._abstract import AbstractBackend as AbstractBackend
from ._abstract import AbstractProgram as AbstractProgram
from ._abstract import AbstractRecorder as AbstractRecorder
from ._abstract import Source as Source
from ._abstract import Tensor as Tensor

DISTRIBUTIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"jax": ("jax", "jaxlib"), "tensorflow": ("tensorflow", "tensorflow-cpu"), "torch": ("torch",)}
)
"""The backends by name, and the packages on PyPI that bring each one."""


@functools.cache
def active() -> AbstractBackend:
    """The backend that Keras runs on in this process (`KERAS_BACKEND`).

    Raises `BackendError` for one that trainstep does not support.
    """
    name = keras.config.backend()
    if name not in DISTRIBUTIONS:
        raise BackendError(
            f"trainstep runs on {', '.join(sorted(DISTRIBUTIONS))}. Keras' active backend is {name!r}. "
            "Set the environment variable KERAS_BACKEND before Keras is imported."
        )
    return importlib.import_module(f"{__name__}.{name}").create()


def installed_versions(name: str) -> dict[str, str]:
    """The versions of the packages that bring a backend; empty if it is not installed."""
    versions = {}
    for distribution in DISTRIBUTIONS[name]:
        try:
            versions[distribution] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return versions
