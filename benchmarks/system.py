"""What the figures were measured with: versions and processor."""

import importlib.metadata
import os
import pathlib
import platform
from typing import Any

PACKAGES = ("trainstep", "keras", "jax", "tensorflow-cpu", "tensorflow", "torch", "lightning", "numpy")


def description() -> dict[str, Any]:
    """Versions of what is installed, the processor, and how many of its cores may be used."""
    return {
        "processor": _processor(),
        "num_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _processor() -> str:
    file = pathlib.Path("/proc/cpuinfo")
    lines = file.read_text().splitlines() if file.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
