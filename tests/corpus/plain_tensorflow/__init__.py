"""What the pages use of trainstep, written by hand in plain TensorFlow: a page that is imported on it runs without trainstep.

A step is one `tf.function` around the whole of it, and the tape is `tf.GradientTape`. There is nothing else here: a page that
uses more of trainstep fails.
"""

import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

GradientTape = tf.GradientTape


class Step:
    """A `tf.function`, called as a step of trainstep is called."""

    def __init__(self, function: Callable[..., Any], *, compile: bool):
        self.function, self.compile = function, compile
        # Without AutoGraph: it only costs time while tracing, and does not know `zip(strict=True)`.
        self.run = tf.function(self.with_results, autograph=False) if compile else self.with_results

    def __get__(self, instance: Any, owner: type | None = None) -> "Step":
        """A step that is a method: one `Step` for each instance."""
        name = f"_plain_{self.function.__name__}"
        if name not in vars(instance):
            vars(instance)[name] = Step(self.function.__get__(instance, owner), compile=self.compile)
        return vars(instance)[name]

    def __call__(self, *batch: Any) -> Any:
        return self.run(*keras.tree.map_structure(as_tensor, batch))

    def predict(self, batch: Any) -> Any:
        return self(*batch) if isinstance(batch, tuple) else self(batch)

    def reset_metrics(self) -> None:
        for metric in self.function.__self__.metrics:
            metric.reset_state()

    def with_results(self, *batch: Any) -> Any:
        """The function's answer, with values in place of metrics."""
        answer = self.function(*batch)
        if isinstance(answer, dict):
            return {name: value.result() if isinstance(value, keras.metrics.Metric) else value for name, value in answer.items()}
        return answer


def step(function: Callable[..., Any] | None = None, *, compile: bool = True) -> Any:
    """Makes a step of a function or a method."""
    return functools.partial(step, compile=compile) if function is None else Step(function, compile=compile)


def as_tensor(value: Any) -> Any:
    """A NumPy array or a number as a tensor, so that a new number is no new trace."""
    return value if value is None else tf.convert_to_tensor(value)
