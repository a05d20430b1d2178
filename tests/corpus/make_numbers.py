"""Computes the numbers of the references, on TensorFlow: `python -m tests.corpus.make_numbers --to FOLDER [PAGE ...]`."""

import argparse
import importlib
import os
import pathlib

import numpy as np

from . import conventions


def main() -> None:
    """Writes one `.npz` for each page; with `--sign -1` of the references broken by one sign."""
    parser = argparse.ArgumentParser()
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--sign", type=float, default=1.0)
    parser.add_argument("--to", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.to.mkdir(parents=True, exist_ok=True)
    for name in options.pages or conventions.PAGES:
        module = importlib.import_module(f"{__package__}.pages.{name}")
        reference = importlib.import_module(f"{__package__}.references.{name}")
        reference.SIGN = options.sign
        numbers = conventions.record(reference.build(native=False), reference.steps, module.NUM_STEPS)
        unfinished = options.to / f"{os.getpid()}-{name}.npz"
        np.savez(unfinished, **numbers)
        unfinished.rename(options.to / f"{name}.npz")
        print(f"{name}: {len(numbers)} arrays")


if __name__ == "__main__":
    main()
