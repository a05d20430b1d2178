"""Trains a classifier of handwritten digits, and tests it."""

import argparse
import importlib.util
from pathlib import Path

import numpy as np

from . import _choice, _pictures
from ._backends import describe_backend
from ._digits import Digits, load_digits
from ._errors import CommandError
from ._pictures import Example

NUM_DRAWN = 3
"""How many digits the terminal shows of each sort: the first of the test set, and the first mistakes."""

NUM_PLOTTED = 6
"""How many of each sort the picture file shows."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options of the command."""
    parser.add_argument(
        "--backend", help=f"{', '.join(_choice.BACKENDS)}; by default the one Keras is set to, or else one that is installed"
    )
    parser.add_argument("--epochs", type=_positive, default=3, help="passes over the training digits (default: 3)")
    parser.add_argument("--batch-size", type=_positive, default=32, help="digits in a step (default: 32)")
    parser.add_argument("--model", choices=("mlp", "convnet"), default="mlp", help="dense or convolutional layers (default: mlp)")
    parser.add_argument(
        "--data",
        metavar="FILE",
        help="an .npz file with x_train, y_train, x_test and y_test; or `keras`: all of MNIST, from Keras' cache or downloaded "
        "into it (default: the 12,000 digits that come with trainstep)",
    )
    parser.add_argument("--seed", type=int, default=0, help="the seed of initial weights, order and dropout (default: 0)")
    parser.add_argument(
        "--plot", metavar="FILE", type=Path, help="also draw test digits, and what was predicted, into this picture file"
    )


def run(options: argparse.Namespace) -> None:
    """Trains, tests, and shows a few test digits with what the classifier predicted.

    Raises:
        CommandError: The backend, the data or the picture file cannot be had, or training failed for a reason it can name.
    """
    if options.plot is not None:
        _check_can_draw(options.plot)
    backend = _choice.activate(options.backend)
    digits = load_digits(options.data)
    print(f"backend: {describe_backend(backend)}")
    print(f"data:    {digits}")

    _choice.import_keras()
    from trainstep import TrainStepError

    from ._classifier import train_and_test

    try:
        results = train_and_test(
            digits, model_name=options.model, epochs=options.epochs, batch_size=options.batch_size, seed=options.seed
        )
    except TrainStepError as error:
        raise CommandError(" ".join(str(error).split())) from error
    print(f"test:    accuracy {results.metrics['accuracy']:.4f}, loss {results.metrics['loss']:.4f}")
    _show(digits, results.predicted, options.plot)


def _show(digits: Digits, predicted: np.ndarray, plot: Path | None) -> None:
    examples = [
        Example(image, int(label), int(answer))
        for image, label, answer in zip(digits.x_test, digits.y_test, predicted, strict=True)
    ]
    first, mistakes = examples[:NUM_DRAWN], [example for example in examples if not example.is_right]
    print(f"\nthe first test digits:\n{_pictures.as_text(first)}")
    if mistakes:
        print(f"\nthe first of {len(mistakes):,} mistakes:\n{_pictures.as_text(mistakes[:NUM_DRAWN])}")
    if plot is not None:
        _pictures.save(examples[:NUM_PLOTTED] + mistakes[:NUM_PLOTTED], plot)
        print(f"\npicture: {plot}")


def _check_can_draw(path: Path) -> None:
    if importlib.util.find_spec("matplotlib") is None:
        raise CommandError("--plot needs Matplotlib. Install it: pip install 'trainstep[plot]'")
    if not path.absolute().parent.is_dir():
        raise CommandError(f"--plot: there is no folder {str(path.absolute().parent)!r}")
    formats = _pictures.file_formats()
    if path.suffix.removeprefix(".").lower() not in formats:
        raise CommandError(f"--plot: {str(path)!r} must end in one of {', '.join(f'.{name}' for name in formats)}")


def _positive(text: str) -> int:
    """A positive whole number, for `argparse`."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"must be a positive whole number, got {text!r}")
    return int(text)
