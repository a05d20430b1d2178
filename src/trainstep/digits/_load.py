"""Loads the shipped digits. `tools/make_digits.py` made the file."""

from importlib import resources

import numpy as np


def load() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """The first 10,000 training and the first 2,000 test images of MNIST: `(x_train, y_train), (x_test, y_test)`.

    Images are `uint8` of shape `(num_images, 28, 28)`, from 0 (background) to 255 (ink); labels are `uint8` of shape
    `(num_images,)`, from 0 to 9. Names and order are those of `keras.datasets.mnist.load_data()`.

    MNIST: Y. LeCun, C. Cortes and C. J. C. Burges, "The MNIST database of handwritten digits".

    >>> from trainstep import digits
    >>> (x_train, y_train), (x_test, y_test) = digits.load()
    >>> x_train.shape, y_train.shape, x_test.shape, y_test.shape
    ((10000, 28, 28), (10000,), (2000, 28, 28), (2000,))
    >>> y_train[:10].tolist()
    [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    """
    file = resources.files("trainstep.digits") / "mnist_12000.npz"
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        return (arrays["x_train"], arrays["y_train"]), (arrays["x_test"], arrays["y_test"])
