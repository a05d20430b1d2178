"""The memory of this process."""

import pathlib
import resource
import sys

_STATUS = pathlib.Path("/proc/self/statm")


def peak_megabytes() -> float:
    """The most that has been resident since the process began."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def resident_megabytes() -> float:
    """What is resident now; where the system does not say, the most so far."""
    if not _STATUS.exists():
        return peak_megabytes()
    return int(_STATUS.read_text().split()[1]) * resource.getpagesize() / 2**20
