"""The loop's own cost for each step: `fit` around a step that does next to nothing, with the progress bar on.

`KERAS_BACKEND=jax python -m benchmarks.empty` prints microseconds a step.
"""

import argparse
import contextlib
import io
import statistics
import time
from collections.abc import Callable

import keras
import numpy as np

import trainstep as ts

NUM_RUNS = 5
WARM_STEPS = 2_000


class Terminal(io.StringIO):
    """A terminal for the bar, which nobody looks at."""

    def isatty(self) -> bool:
        """A bar is drawn anew in its line."""
        return True


def ours(num_steps: int) -> Callable[[], None]:
    """`Trainer.fit` around a step that counts."""
    count = keras.Variable(0.0)

    @ts.step
    def train_step(x):
        count.assign_add(1.0)
        return {"count": count.value}

    trainer = ts.Trainer(train_step)
    data = np.zeros((num_steps, 1), "float32")

    def run() -> None:
        before = float(keras.ops.convert_to_numpy(count.value))
        trainer.fit(data, batch_size=1, verbose=1)
        done = float(keras.ops.convert_to_numpy(count.value)) - before
        if done != num_steps:
            raise ValueError(f"{num_steps} steps were expected. Got {done}.")

    return run


def keras_fit(num_steps: int) -> Callable[[], None]:
    """Keras' `fit` of a model with one weight, which is as little as it can train."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.compile("sgd", "mse")
    data = np.zeros((num_steps, 1), "float32")
    return lambda: model.fit(data, data, batch_size=1, verbose=1)


def microseconds(prepare: Callable[[int], Callable[[], None]], num_steps: int) -> list[float]:
    """What a step takes in each of five runs, after one that warms up."""
    with contextlib.redirect_stdout(Terminal()), contextlib.redirect_stderr(Terminal()):
        prepare(WARM_STEPS)()
        run = prepare(num_steps)
        run()
        return [_seconds(run) / num_steps * 1e6 for _ in range(NUM_RUNS)]


def _seconds(run: Callable[[], None]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def main() -> None:
    """Prints the median and the spread, ours and Keras'."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.empty", description=__doc__)
    parser.add_argument("--steps", type=int, default=20_000, help="steps in a run (%(default)s); a tenth of them for Keras")
    options = parser.parse_args()
    for name, prepare, num_steps in [("trainstep fit", ours, options.steps), ("Keras fit", keras_fit, options.steps // 10)]:
        times = microseconds(prepare, num_steps)
        print(f"{keras.config.backend()}, {name}: {statistics.median(times):.1f} ({min(times):.1f}-{max(times):.1f}) us a step")


if __name__ == "__main__":
    main()
