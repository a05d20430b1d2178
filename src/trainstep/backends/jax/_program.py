"""A step captured as one jaxpr, whose variables became inputs while it was traced, and compiled with donated state."""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import jax
import jax.extend
import jax.numpy as jnp
import keras

from ... import _keras
from ..._errors import CaptureError, describe, needs_value_message
from .._abstract import AbstractLoop, AbstractProgram, Tensor
from . import _private
from ._control_flow import branches_may_assign
from ._loops import Looped, Unrolled
from ._running import run_and_store
from ._tape import base_trace

_VALUE_NEEDED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
    jax.errors.NonConcreteBooleanIndexError,
)


@final
class CapturingScope(keras.StatelessScope):
    """Makes each variable an input of the traced function when it is first read, and collects what is assigned."""

    is_of_a_step = True

    def __init__(self, trace: Any):
        super().__init__(collect_losses=True, initialize_variables=False)
        self._trace = trace
        self._is_notifying = False
        self._branch_depth = 0
        self.variables: dict[int, keras.Variable] = {}
        self.inputs: dict[int, Any] = {}

    def get_current_value(self, variable: keras.Variable) -> Any:
        value = self.value_of(variable)
        if not self._is_notifying:
            # A regulariser reads through the scope alone; whoever listens (a tape) must hear of it.
            self._is_notifying = True
            try:
                _keras.notify_read(variable)
            finally:
                self._is_notifying = False
            value = self.state_mapping[id(variable)]
        return value

    def add_update(self, update: tuple[keras.Variable, Any]) -> None:
        variable, value = update
        if not self._branch_depth and base_trace() is not self._trace:
            raise CaptureError(
                "On JAX a variable cannot be assigned inside the body of `keras.ops.scan`, `while_loop` or `map`. "
                f"Here {describe(variable)} is. "
                "Hand its value through the loop as part of the carry, and assign it after the loop."
            )
        super().add_update((variable, jnp.asarray(value, dtype=self.value_of(variable).dtype)))

    @contextlib.contextmanager
    def branch(self) -> Iterator[None]:
        """What is assigned inside the block is forgotten after it: `cond` hands it on."""
        before = dict(self.state_mapping)
        self._branch_depth += 1
        try:
            yield
        finally:
            self._branch_depth -= 1
            self.state_mapping = {key: before.get(key, self.inputs.get(key)) for key in self.state_mapping if key in self.inputs}

    def written_by(self, branch: Callable[[], Any]) -> dict[int, keras.Variable]:
        """The variables that a branch assigns, by running its Python code once on placeholders."""
        written: dict[int, keras.Variable] = {}

        def run() -> Any:
            with self.branch():
                before = dict(self.state_mapping)
                result = branch()
                for key, value in self.state_mapping.items():
                    if value is not before.get(key, self.inputs[key]):
                        written[key] = self.variables[key]
            return result

        jax.eval_shape(run)
        return written

    def value_of(self, variable: keras.Variable) -> Any:
        """The variable's present value in the traced function."""
        if id(variable) not in self.state_mapping:
            if not _keras.is_initialized(variable):
                with _private.outside_capture():
                    _keras.initialize(variable)
            tracer = _private.new_input(self._trace, _strongly_typed(variable))
            self.variables[id(variable)] = variable
            self.inputs[id(variable)] = self.state_mapping[id(variable)] = tracer
        return self.state_mapping[id(variable)]

    def written(self) -> list[keras.Variable]:
        """The variables whose value is no longer the one they came in with."""
        return [v for key, v in self.variables.items() if self.state_mapping[key] is not self.inputs[key]]


@final
class JaxProgram(AbstractProgram):
    """`(written variables, read-only variables, batch) -> (outputs, new values)`; the first are donated."""

    kind = "one XLA program (jax.jit, state donated)"

    def __init__(
        self,
        function: Callable[[list[Any], list[Any], list[Any]], tuple[list[Any], list[Any]]],
        written: list[keras.Variable],
        read_only: list[keras.Variable],
        variables: list[keras.Variable],
        capture_seconds: float,
    ):
        self._function = function
        self._run = jax.jit(function, donate_argnums=0)
        self._written, self._read_only = written, read_only
        self.variables = variables
        self.capture_seconds = capture_seconds

    def __call__(self, batch: Sequence[Tensor]) -> list[Tensor]:
        written, read_only = _keras.raw_values(self._written), _keras.raw_values(self._read_only)
        return run_and_store(self._run, self._written, _distinct(written, read_only, batch), read_only, list(batch))

    def loops(self) -> Sequence[AbstractLoop]:
        parts = self._function, self._written, self._read_only, _distinct
        return [Looped(*parts), Unrolled(*parts)]

    def stateless(self, state: Sequence[Tensor], batch: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        values = {id(v): value for v, value in zip(self.variables, state, strict=True)}
        outputs, new = self._function([values[id(v)] for v in self._written], [values[id(v)] for v in self._read_only], list(batch))
        values.update((id(v), value) for v, value in zip(self._written, new, strict=True))
        return outputs, [values[id(v)] for v in self.variables]


def capture(function: Callable[[Sequence[Tensor]], list[Tensor]], batch: Sequence[Tensor], *, name: str) -> JaxProgram:
    """Traces `function` once; see `AbstractBackend.capture`."""
    started = time.perf_counter()
    scopes: list[CapturingScope] = []

    def with_state(*tensors: Any) -> list[Any]:
        scope = CapturingScope(_private.current_trace())
        scopes.append(scope)
        with (
            scope,
            _keras.unseeded_draws_allowed(),
            branches_may_assign(scope),
            _keras.variables_created_within(_outside),
            _keras.on_variable_use(lambda variable: _keras.complete_stateless_scope(variable, scope.value_of)),
        ):
            outputs = function(tensors)
        return [*outputs, *(scope.state_mapping[id(v)] for v in scope.written())]

    try:
        jaxpr, constants = _private.capture_jaxpr(with_state, batch, name)
    except _VALUE_NEEDED as error:
        raise CaptureError(needs_value_message(name, error)) from error
    except IndexError as error:
        if "must be static integers" not in str(error):
            raise
        raise CaptureError(needs_value_message(name, error)) from error
    scope = scopes[-1]
    variables, written = list(scope.variables.values()), scope.written()
    run = _as_function(jax.extend.core.ClosedJaxpr(jaxpr, constants), variables, written, num_inputs=len(batch))
    is_written = {id(v) for v in written}
    read_only = [v for v in variables if id(v) not in is_written]
    return JaxProgram(run, written, read_only, variables, time.perf_counter() - started)


def _as_function(
    jaxpr: Any, variables: list[keras.Variable], written: list[keras.Variable], *, num_inputs: int
) -> Callable[[list[Any], list[Any], list[Any]], tuple[list[Any], list[Any]]]:
    """The captured function, with its variables parted into those it changes and those it only reads."""
    is_written = {id(v) for v in written}
    flat = jax.extend.core.jaxpr_as_fun(jaxpr)

    def step(changed: list[Any], read: list[Any], batch: list[Any]) -> tuple[list[Any], list[Any]]:
        changed_values, read_values = dict(zip(map(id, written), changed, strict=True)), iter(read)
        state = [changed_values[id(v)] if id(v) in is_written else next(read_values) for v in variables]
        results = flat(*batch, *state)
        num_outputs = len(results) - len(written)
        return results[:num_outputs], results[num_outputs:]

    assert len(jaxpr.in_avals) == num_inputs + len(variables)
    return step


def _strongly_typed(variable: keras.Variable) -> jax.Array:
    """The variable's value. `keras.Variable(1.0)` is weakly typed until it is assigned; XLA would compile once for each kind."""
    value = _keras.raw_value(variable)
    if value.weak_type:
        with _private.outside_capture():
            value = jnp.asarray(value, dtype=value.dtype)
        _keras.set_raw_value(variable, value)
    return value


def _distinct(donated: list[Any], read_only: Sequence[Any], batch: Sequence[Any]) -> list[Any]:
    """XLA takes no buffer twice when it is donated: a value that two variables share (after `a.assign(b)`) is copied."""
    if len(set(map(id, itertools.chain(donated, read_only, batch)))) == len(donated) + len(read_only) + len(batch):
        return donated
    seen = {id(x) for x in itertools.chain(read_only, batch)}
    distinct = []
    for value in donated:
        distinct.append(jnp.array(value, copy=True) if id(value) in seen else value)
        seen.add(id(value))
    return distinct


@contextlib.contextmanager
def _outside() -> Iterator[None]:
    """Leaves the capture and its scope: a variable created in a step is a real one, with a real initial value."""
    with _keras.suspended_stateless_scope(), _private.outside_capture():
        yield
