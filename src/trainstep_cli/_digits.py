"""The digits that `trainstep mnist` learns: those shipped, a file, or all of MNIST from Keras."""

import dataclasses
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ._choice import import_keras, one_line
from ._errors import CommandError

KEYS = ("x_train", "y_train", "x_test", "y_test")


@dataclasses.dataclass(frozen=True)
class Digits:
    """Images of shape `(num_images, 28, 28)` with values from 0 to 1, their labels from 0 to 9, and where they are from."""

    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    origin: str

    def __str__(self) -> str:
        return f"{len(self.x_train):,} training and {len(self.x_test):,} test digits {self.origin}"


def load_digits(data: str | None) -> Digits:
    """The shipped digits, or those of a file, or for `keras` those of Keras' cache (which imports Keras).

    Raises:
        CommandError: The file is missing, is no `.npz` file, or does not hold digits; or the download failed.
    """
    if data is None:
        return _shipped()
    return _from_keras() if data == "keras" else _from_file(Path(data))


def _shipped() -> Digits:
    import_keras()
    from trainstep import digits

    (x_train, y_train), (x_test, y_test) = digits.load()
    return _checked({"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}, "that come with trainstep")


def _from_keras() -> Digits:
    import_keras()
    import keras

    try:
        (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    except Exception as error:  # Keras raises a bare `Exception` when a download fails.
        raise CommandError(f"--data keras: {one_line(error)}") from error
    return _checked({"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}, "of Keras' MNIST")


def _from_file(path: Path) -> Digits:
    if not path.is_file():
        raise CommandError(f"--data: there is no file {str(path)!r}")
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in KEYS if key in file}
    except (OSError, ValueError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise CommandError(f"--data: {str(path)!r} is not an .npz file of arrays ({type(error).__name__})") from error
    missing = [key for key in KEYS if key not in arrays]
    if missing:
        raise CommandError(f"--data: {str(path)!r} has no {', '.join(missing)}; it needs {', '.join(KEYS)}")
    return _checked(arrays, f"of {path}")


def _checked(arrays: Mapping[str, np.ndarray], origin: str) -> Digits:
    for part in ("train", "test"):
        images, labels = arrays[f"x_{part}"], arrays[f"y_{part}"]
        if images.shape != (len(labels), 28, 28) or images.dtype != np.uint8:
            raise CommandError(
                f"--data: x_{part} must be uint8 of shape (num_images, 28, 28) with one label for each. "
                f"Got {images.dtype} of shape {images.shape}, and labels of shape {labels.shape}"
            )
        if not len(labels) or labels.ndim != 1 or labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() > 9:
            raise CommandError(
                f"--data: y_{part} must be integers from 0 to 9, of shape (num_images,). Got {labels.dtype} of shape {labels.shape}"
            )
    return Digits(
        x_train=arrays["x_train"].astype("float32") / 255,
        y_train=arrays["y_train"].astype("int32"),
        x_test=arrays["x_test"].astype("float32") / 255,
        y_test=arrays["y_test"].astype("int32"),
        origin=origin,
    )
