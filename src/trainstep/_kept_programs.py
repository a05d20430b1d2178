"""Compiled programs on disk, for the next process."""

import os
import pathlib

from . import backends
from ._errors import TrainStepError, describe


def keep_programs(folder: str | os.PathLike[str] | None) -> None:
    """Keeps compiled programs in a folder, where a later process finds them instead of compiling again.

    It sets the cache of the framework for the whole process: JAX' persistent compilation cache, which is off by default; the folder
    of PyTorch's Inductor, which otherwise keeps its programs in the folder for temporary files. TensorFlow has no such cache, and
    says so by a `TrainStepWarning`. Call it before the first step is compiled.

    Args:
        folder: Where to keep them; made if it is not there. `None` goes back to the framework's default.

    Raises:
        TrainStepError: The folder cannot be made or written to. Nothing is set then.

        import trainstep as ts

        ts.keep_programs("~/.cache/my_project")
    """
    backends.active().keep_programs(None if folder is None else _made(folder))


def _made(folder: str | os.PathLike[str]) -> pathlib.Path:
    try:
        path = pathlib.Path(folder).expanduser().resolve()
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(f"no permission to write to {path}")
    except (OSError, TypeError) as error:
        raise TrainStepError(f"`ts.keep_programs` needs a folder that it can write to. Got {describe(folder)}: {error}") from error
    return path
