"""Capturing a step as one TensorFlow graph, and running it."""

import contextlib
import itertools
import operator
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import keras
import tensorflow as tf

from ... import _keras
from ..._errors import CaptureError, needs_value_message
from .._abstract import AbstractLoop, AbstractProgram, Tensor
from . import _private
from ._loops import Looped

FlatFunction = Callable[[Sequence[Tensor]], list[Tensor]]


@final
class TensorFlowProgram(AbstractProgram):
    """One graph of TensorFlow, traced for fixed shapes. The state stays in `tf.Variable`s, which the graph updates in place."""

    kind = "TensorFlow graph (tf.function, state updated in place)"

    def __init__(self, graph: Any, variables: list[keras.Variable], capture_seconds: float):
        self.variables = variables
        self.capture_seconds = capture_seconds
        self._graph = graph
        self._captured_inputs = graph.captured_inputs
        self._call_flat = _private.flat_call(graph)

    def __call__(self, batch: Sequence[Tensor]) -> list[Tensor]:
        return list(self._call_flat(*batch, *self._captured_inputs) or ())

    def loops(self) -> Sequence[AbstractLoop]:
        if _has(_STARTS_AGAIN, self._graph):
            return []
        by_xla = [] if _has(_ANOTHER_THING_TO_XLA, self._graph) else [Looped(self._graph, by_xla=True)]
        return [Looped(self._graph, by_xla=False), *by_xla]

    def stateless(self, state: Sequence[Tensor], batch: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        given = [tf.identity(value) for value in state]
        before = self._values()
        try:
            self._assign(given)
            outputs = self(batch)
            return outputs, self._values()
        finally:
            self._assign(before)

    def _values(self) -> list[tf.Tensor]:
        return [tf.identity(_keras.raw_value(variable)) for variable in self.variables]

    def _assign(self, values: Sequence[tf.Tensor]) -> None:
        for variable, value in zip(self.variables, values, strict=True):
            _keras.raw_value(variable).assign(value)


def capture(function: FlatFunction, batch: Sequence[Tensor], *, name: str) -> TensorFlowProgram:
    """Traces the function once. Tracing runs no operation, so variables keep their values; new ones are created outside the graph.

    Raises:
        CaptureError: The function needs the value of a tensor.
    """
    started = time.perf_counter()
    variables: dict[int, keras.Variable] = {}

    def traced_once(*tensors: tf.Tensor) -> list[tf.Tensor]:
        with tf.variable_creator_scope(_create_outside_the_graph):
            return list(function(tensors))

    def note(variable: keras.Variable) -> None:
        variables.setdefault(id(variable), variable)

    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in batch]
    try:
        with (
            _keras.variables_created_within(_outside_the_graph),
            _keras.on_variable_use(note),
            _private.gradients_not_reduced(),
        ):
            graph = tf.function(traced_once, autograph=False).get_concrete_function(*specs)
    except (TypeError, NotImplementedError, AttributeError) as error:
        if _needs_value(error):
            raise CaptureError(needs_value_message(name, error)) from error
        raise
    return TensorFlowProgram(graph, list(variables.values()), time.perf_counter() - started)


@contextlib.contextmanager
def _outside_the_graph() -> Iterator[None]:
    """Where a new variable's initial value is computed, operation by operation, and the variable is made."""
    with tf.init_scope(), tf.variable_creator_scope(_create_outside_the_graph):
        yield


def _create_outside_the_graph(next_creator: Callable[..., tf.Variable], **options: Any) -> tf.Variable:
    """Makes an ordinary variable. `tf.function`, which would be next, makes one of its own kind and then traces a second time."""
    with tf.init_scope():
        return _private.ResourceVariable(**options)


_NEEDS_VALUE = re.compile(
    r"((float|int|complex)\(\) argument|real number|as an integer|format string|attribute 'numpy').*symbolic"
    r"|symbolic.*(as an integer|attribute 'numpy'|to a numpy array)"
    r"|numpy\(\) is only available when eager",
    re.IGNORECASE | re.DOTALL,
)
"""What Python and TensorFlow say, each in its own words, when a tensor of a graph is asked for its value."""


def _needs_value(error: Exception) -> bool:
    return isinstance(error, tf.errors.OperatorNotAllowedInGraphError) or _NEEDS_VALUE.search(str(error)) is not None


_ANOTHER_THING_TO_XLA = re.compile("Random|Multinomial|^Assert$|^CheckNumerics")
"""XLA draws other random numbers from the same seed, and leaves out what checks values."""

_STARTS_AGAIN = re.compile("^(Random|Multinomial|TruncatedNormal|ParameterizedTruncatedNormal|StatefulRandom)")
"""TensorFlow's own draws, without a seed generator: each graph counts for itself, and another graph would start from 0."""


def _has(pattern: re.Pattern[str], graph: Any) -> bool:
    """Whether any operation of such a name is in the graph, or in a function that it calls."""
    definition = graph.graph.as_graph_def()
    functions = (function.node_def for function in operator.attrgetter("library.function")(definition))
    return any(pattern.search(node.op) for node in itertools.chain(definition.node, *functions))
