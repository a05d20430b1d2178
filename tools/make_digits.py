"""Makes the digits that trainstep ships: the first 10,000 training and 2,000 test images of MNIST, as one compressed file.

MNIST: Y. LeCun, C. Cortes and C. J. C. Burges, "The MNIST database of handwritten digits", http://yann.lecun.com/exdb/mnist.
Takes the whole of it as `keras.datasets.mnist` stores it: `python tools/make_digits.py ~/.keras/datasets/mnist.npz`.
"""

import argparse
from pathlib import Path

import numpy as np

NUM_TRAINING, NUM_TEST = 10_000, 2_000
TARGET = Path(__file__).parents[1] / "src" / "trainstep" / "digits" / "mnist_12000.npz"


def make_digits(source: Path, target: Path = TARGET) -> None:
    """Writes the first images of `source`, an `.npz` file with all of MNIST, to `target`."""
    with np.load(source, allow_pickle=False) as mnist:
        np.savez_compressed(
            target,
            x_train=mnist["x_train"][:NUM_TRAINING],
            y_train=mnist["y_train"][:NUM_TRAINING],
            x_test=mnist["x_test"][:NUM_TEST],
            y_test=mnist["y_test"][:NUM_TEST],
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="an .npz file with x_train, y_train, x_test, y_test")
    make_digits(parser.parse_args().source)
