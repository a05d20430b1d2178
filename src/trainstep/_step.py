"""A training step: a function of one batch, captured whole, once for each signature, with the state kept on the device."""

import contextlib
import contextvars
import dataclasses
import functools
import inspect
import threading
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, Literal, final, overload

import keras

from . import _keras, backends
from ._baked import BakedValues
from ._batch import Signature, as_arguments, describe_signature, num_samples, signature_of, tensors_of, with_tensors
from ._errors import StepError, TrainStepWarning, describe
from ._left_behind import LeftBehind
from ._logs import LogLayout
from ._pace import Pace
from ._random import refuse_frozen_draws
from ._reach import Reach
from ._reset import Resetting
from ._state import Rollback
from ._update import check_update
from ._ways import Indices, Table
from .backends import AbstractProgram, Tensor

Compile = Literal["auto", True, False]

_is_capturing: contextvars.ContextVar[bool] = contextvars.ContextVar("trainstep_is_capturing", default=False)
_MAX_PACES = 4
_MANY_KINDS = 16

_one_at_a_time = threading.RLock()
"""Steps share variables, and a capture changes the framework's state for the whole process: threads take turns."""


@overload
def step(fn: Callable[..., Any], *, compile: Compile = "auto") -> "Step": ...
@overload
def step(*, compile: Compile = "auto") -> Callable[[Callable[..., Any]], "Step"]: ...
def step(fn: Callable[..., Any] | None = None, *, compile: Compile = "auto") -> Any:
    """Makes a step of a function (or method) of one batch.

    Args:
        fn: Reads and assigns any Keras variables, and returns `None` or a dict, possibly nested, of metrics and scalar tensors.
        compile: "auto" compiles the whole step, and chooses among several ways to run it by measuring them while it trains. They
            give the same numbers up to rounding, so that a run is not repeated to the last bit; `report()` says what was chosen.
            `True` compiles the whole step into one program, before its first run, and runs it one batch at a time: always the
            same numbers. `False` runs it operation by operation, for a debugger.

    >>> import keras, numpy as np, trainstep as ts
    >>> w = keras.Variable(3.0)
    >>> @ts.step
    ... def train_step(x):
    ...     with ts.GradientTape() as tape:
    ...         loss = keras.ops.mean(w * x)
    ...     w.assign_sub(0.1 * tape.gradient(loss, w))
    ...     return {"loss": loss}
    >>> float(train_step(np.ones(4, "float32"))["loss"])
    3.0
    """
    if fn is None:
        return functools.partial(step, compile=compile)
    if not callable(fn):
        raise StepError(f"`ts.step` makes a step of a function of one batch. Got {describe(fn)}.")
    return fn if isinstance(fn, Step) else Step(fn, compile=compile)


@dataclasses.dataclass(frozen=True)
class _Captured:
    """A program, and what its outputs and inputs mean."""

    program: AbstractProgram
    layout: LogLayout
    baked: BakedValues
    left: LeftBehind
    paces: dict[Hashable, Pace] = dataclasses.field(default_factory=dict)
    """How its steps are run on the rows of tables, by the shapes of the columns and the batch size."""

    def make_room(self) -> None:
        """Forgets the oldest of the ways to run on rows if there are many: a table that grows is another one each time."""
        while len(self.paces) >= _MAX_PACES:
            del self.paces[next(iter(self.paces))]


@final
class Step:
    """A function of one batch that runs as one compiled program. Made by `ts.step`."""

    def __init__(self, function: Callable[..., Any], *, compile: Compile = "auto"):
        if not (isinstance(compile, bool) or compile == "auto"):
            raise StepError(f"`ts.step` knows compile=True, False and 'auto'. Got {compile!r}.")
        self._function = function
        self._compile: Compile = compile
        self._captured: dict[Signature, _Captured] = {}
        self._eager_layouts: dict[Signature, LogLayout] = {}
        self._running_means: dict[str, keras.metrics.Mean] = {}
        self._resetting = Resetting()
        self._warned_about: set[str] = set()
        self._variables: dict[int, keras.Variable] = {}
        self._metrics: dict[int, keras.metrics.Metric] = {}
        self._optimizers: dict[int, keras.optimizers.Optimizer] = {}
        self._without_gradient: set[int] = set()
        self._num_traces = 0
        self._global_seed_generator: keras.random.SeedGenerator | None = None
        self._num_runs: dict[Signature, int] = {}
        self._signatures: dict[Hashable, Signature] = {}
        functools.update_wrapper(self, function)
        self.__name__: str = getattr(function, "__name__", type(function).__name__)

    def __get__(self, instance: Any, owner: type | None = None) -> "Step":
        """A step that is a method: one `Step` for each instance."""
        if instance is None:
            return self
        name = f"_trainstep_{self._function.__qualname__}"  # A method that overrides another has a step of its own.
        if not hasattr(instance, "__dict__"):
            raise StepError(
                f"The step `{self.__name__}` is a method of {type(instance).__name__!r}, whose objects have no place for it. "
                "Leave out `__slots__`, or add '__dict__' to it."
            )
        if name not in vars(instance):
            vars(instance)[name] = Step(self._function.__get__(instance, owner), compile=self._compile)
        return vars(instance)[name]

    def __call__(self, *batch: Any, **named: Any) -> dict[str, Any]:
        """Runs one step and returns its dict, with values in place of metrics.

        Raises:
            StepError: The step returned something else than `None` or a dict of metrics and scalars. No variable has changed.
            CaptureError: The step cannot be compiled as it is written. No variable has changed.
            DataError: An argument is neither an array nor a tensor nor a number.
        """
        args, names = self._bind(batch, named)
        if not _is_capturing.get():
            self.forget_stale_programs()
        layout, outputs = self._run(args, "train", names)
        return layout.values(outputs)

    def run(self, batch: Any) -> dict[str, Tensor]:
        """Runs one step for a loop: a flat dict of what to report so far this epoch, still on the device.

        Metrics give their `result()`, other scalars their mean since `reset_metrics`, weighted by the samples in each batch.
        """
        layout, outputs = self._run(as_arguments(batch), "train")
        return layout.reported(outputs)

    def run_block(self, table: Table, indices: Indices, *, num_left: int | None = None) -> dict[str, Tensor]:
        """Runs steps on batches of rows, all of one size, several in one dispatch if that is faster; as `run` after the last one.

        Args:
            table: Where the rows are.
            indices: The rows of each batch.
            num_left: How many steps the training still takes, these among them, as far as is known.
        """
        if self._compile != "auto" or _is_capturing.get():
            return [self.run(table.batch(rows)) for rows in indices][-1]
        self._keep_seed_generator()
        with _one_at_a_time:
            layout, outputs = self._run_block_alone(table, indices, num_left)
        return layout.reported(outputs)

    def num_steps_at_once(self, table: Table, batch_size: int) -> int:
        """How many batches of so many rows `run_block` should be given."""
        if self._compile != "auto":
            return 1
        captured = self._captured.get(self._signatures.get((table.key, batch_size), ()))
        pace = captured and captured.paces.get((table.key, batch_size))
        return pace.num_steps_at_once if pace else 1

    def predict(self, batch: Any) -> Any:
        """Runs one step that returns predictions: tensors in any nest, still on the device."""
        layout, outputs = self._run(as_arguments(batch), "predict")
        return layout.predictions(outputs)

    def prepare(self, batch: Any, role: Literal["train", "predict"] = "train") -> None:
        """Captures the program for a batch like this one, so that what is wrong with the step is said before any update."""
        args = as_arguments(batch)
        self.forget_stale_programs()
        if self._compile is False:
            self._optimizers.clear()  # Until it runs they are those that it can reach: the user may have replaced one.
            return
        with _one_at_a_time:
            self._capture_if_new(*signature_of(args, role), args, role)

    def reset_metrics(self) -> None:
        """Resets every metric that the step reports, and the running means of its scalars."""
        self._resetting.reset([*self._metrics.values(), *self._running_means.values()])

    def forget_stale_programs(self) -> None:
        """Drops programs in which a Python value is baked that has changed since; the next run captures them anew, and says so."""
        for signature, captured in list(self._captured.items()):
            change = captured.baked.first_change()
            if change is None:
                continue
            self._captured.pop(signature, None)
            if change.is_replaced:
                self._forget_found()
            if not change.is_expected:
                self._warn_once(change.message(self.__name__), key=f"baked {change.name}")

    def _forget_found(self) -> None:
        """Forgets the variables and optimizers found so far: the programs captured anew find those of now.

        Metrics stay, to be reset at the start of an epoch that comes before the new capture.
        """
        self._captured.clear()
        self._variables.clear()
        self._optimizers.clear()

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The metric objects that the step reports, after its first run."""
        return list(self._metrics.values())

    @property
    def metric_variables(self) -> list[keras.Variable]:
        """The variables of `metrics`, and those of the running means of the scalars that the step reports."""
        return [variable for metric in (*self._metrics.values(), *self._running_means.values()) for variable in metric.variables]

    @property
    def optimizers(self) -> list[keras.optimizers.Optimizer]:
        """The Keras optimizers whose `apply` the step calls, in the order of first use; before a run, those it can reach."""
        return list(self._optimizers.values()) or Reach(self._function).optimizers

    @property
    def variables(self) -> list[keras.Variable]:
        """Every variable that the step reads or assigns, in the order of first use, after its first run."""
        return list(self._variables.values())

    @property
    def state(self) -> list[Tensor]:
        """Copies of the present values of `variables`, for `stateless`."""
        return [keras.ops.copy(keras.ops.stop_gradient(_keras.raw_value(variable))) for variable in self.variables]

    @property
    def num_traces(self) -> int:
        """How many times the step's Python code was captured: once for each signature of a batch, if all is well."""
        return self._num_traces

    def stateless(self, state: Sequence[Tensor], *batch: Any) -> tuple[dict[str, Any], list[Tensor]]:
        """`(logs, new state)` for given values of `variables`, which themselves stay as they are. A pure function on JAX.

        Raises:
            StepError: The state does not have one value for each variable, or the step runs eagerly.
        """
        if self._compile is False:
            raise StepError("`stateless` needs a compiled step: this one was made with compile=False.")
        with _one_at_a_time:
            return self._run_stateless(state, batch)

    def _run_stateless(self, state: Sequence[Tensor], batch: tuple[Any, ...]) -> tuple[dict[str, Any], list[Tensor]]:
        self.forget_stale_programs()
        captured = self._capture_if_new(*signature_of(batch, "train"), batch, "train")
        variables = self.variables
        if len(state) != len(variables):
            raise StepError(
                f"`{self.__name__}.stateless` needs {len(variables)} values, one for each of `variables`. Got {len(state)}. "
                "Start from `state`, taken after the first run."
            )
        position = {id(variable): i for i, variable in enumerate(variables)}
        touched = [position[id(variable)] for variable in captured.program.variables]
        outputs, new = captured.program.stateless([state[i] for i in touched], tensors_of(batch))
        result = list(state)
        for i, value in zip(touched, new, strict=True):
            result[i] = value
        return captured.layout.values(outputs), result

    def report(self) -> str:
        """Which program runs for each signature, and what capturing it took."""
        lines = [
            f"step {self.__name__!r} on {backends.active().name}: {self._num_traces} capture(s), {len(self._variables)} variables"
        ]
        for signature, captured in self._captured.items():
            program = captured.program
            lines.append(
                f"  {describe_signature(signature)}: {program.kind}; "
                f"{self._num_runs.get(signature, 0)} runs, captured in {program.capture_seconds:.2f} s"
            )
            lines += [f"    {pace.report()}" for pace in captured.paces.values()]
        for signature in self._eager_layouts:
            lines.append(f"  {describe_signature(signature)}: eager, operation by operation; {self._num_runs[signature]} runs")
        return "\n".join(lines)

    def _bind(self, batch: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[str, ...]]:
        """The arguments of a call, and the names of the last of them, which the function takes by name."""
        if not named:
            return batch, ()
        bound = inspect.signature(self._function).bind(*batch, **named)
        by_name = sorted(bound.kwargs)
        return (*bound.args, *(bound.kwargs[name] for name in by_name)), tuple(by_name)

    def _run(self, args: tuple[Any, ...], role: str, names: tuple[str, ...] = ()) -> tuple[LogLayout, list[Tensor]]:
        """Runs one step; its code becomes a part of another step, if that is being captured."""
        if _is_capturing.get():
            layout, function = self._as_flat_function(args, role, names)
            return layout, function(tensors_of(args))
        self._keep_seed_generator()
        signature, tensors = signature_of(args, role, names)
        with _one_at_a_time:
            return self._run_alone(signature, tensors, args, role, names)

    def _keep_seed_generator(self) -> None:
        if self._global_seed_generator is not None:
            _keras.keep_global_seed_generator(self._global_seed_generator)

    def _run_alone(
        self, signature: Signature, tensors: list[Tensor], args: tuple[Any, ...], role: str, names: tuple[str, ...]
    ) -> tuple[LogLayout, list[Tensor]]:
        self._num_runs[signature] = self._num_runs.get(signature, 0) + 1
        if self._compile is False:
            return self._run_eagerly(signature, tensors, args, role, names)
        captured = self._captured.get(signature) or self._capture_if_new(signature, tensors, args, role, names)
        outputs = captured.program(tensors)
        captured.left.put(outputs)
        return captured.layout, outputs

    def _run_block_alone(self, table: Table, indices: Indices, num_left: int | None) -> tuple[LogLayout, list[Tensor]]:
        key = table.key, len(indices[0])
        signature = self._signatures.get(key)
        if signature is None or signature not in self._captured:
            args = as_arguments(table.batch(indices[0]))
            signature, tensors = signature_of(args, "train")
            self._capture_if_new(signature, tensors, args, "train")
            self._signatures[key] = signature
        captured = self._captured[signature]
        if key not in captured.paces:
            captured.make_room()
            captured.paces[key] = Pace(captured.program)
        self._num_runs[signature] = self._num_runs.get(signature, 0) + len(indices)
        outputs = captured.paces[key].run(table, indices, num_left=num_left)
        captured.left.put(outputs)
        return captured.layout, outputs

    def _run_eagerly(
        self, signature: Signature, tensors: list[Tensor], args: tuple[Any, ...], role: str, names: tuple[str, ...]
    ) -> tuple[LogLayout, list[Tensor]]:
        is_first = signature not in self._eager_layouts
        layout, function = self._as_flat_function(args, role, names)
        rollback = Rollback() if is_first else contextlib.nullcontext()
        with rollback:
            outputs = backends.active().run_eagerly(function, tensors)
        if is_first:
            self._eager_layouts[signature] = layout
            self._learn(rollback.variables, layout)  # type: ignore[union-attr]
        return layout, outputs

    def _capture_if_new(
        self, signature: Signature, tensors: list[Tensor], args: tuple[Any, ...], role: str, names: tuple[str, ...] = ()
    ) -> _Captured:
        if signature not in self._captured:
            self._captured[signature] = self._capture(tensors, args, role, names)
            self._warn_of_many_kinds(signature)
        return self._captured[signature]

    def _warn_of_many_kinds(self, signature: Signature) -> None:
        if len(self._captured) < _MANY_KINDS:
            return
        *_, before, _ = self._captured
        self._warn_once(
            f"The step {self.__name__!r} has been captured for {len(self._captured)} kinds of batches; each takes time and memory. "
            f"The last two: {describe_signature(before)} and {describe_signature(signature)}. Pad batches to a few shapes, "
            "and make the last one of an epoch as large as the others or leave it out.",
            key="kinds of batches",
        )

    def _capture(self, tensors: list[Tensor], args: tuple[Any, ...], role: str, names: tuple[str, ...]) -> _Captured:
        reach = Reach(self._function)
        baked, left = BakedValues(reach), LeftBehind(reach)
        layout, function = self._as_flat_function(args, role, names)
        with refuse_frozen_draws(self.__name__), baked.refusing_leaks(self.__name__), _keras.unbuilt_loss_scaling() as unbuilt:
            program = _captured_alone(left.collecting(function), tensors, name=self.__name__)
        self._num_traces += 1
        if self._compile is True:
            program.fix()
        if unbuilt:
            return self._capture(tensors, args, role, names)  # Now that they are built, their scale is a variable.
        baked.forget_written(left.places)
        self._learn(program.variables, layout)
        return _Captured(program, layout, baked, left)

    def _learn(self, variables: Sequence[keras.Variable], layout: LogLayout) -> None:
        self._variables.update((id(v), v) for v in variables if id(v) not in self._variables)
        self._metrics.update((id(m), m) for m in layout.metrics)
        generator = _keras.global_seed_generator_if_any()
        if generator is not None and id(generator.state) in self._variables:
            self._global_seed_generator = generator

    def _as_flat_function(
        self, args: tuple[Any, ...], role: str, names: tuple[str, ...]
    ) -> tuple[LogLayout, Callable[[Sequence[Tensor]], list[Tensor]]]:
        """The step as a function from flat tensors to flat tensors; the layout is filled when the function runs."""
        layout = LogLayout(self.__name__, self._running_means)
        num_positional = len(args) - len(names)

        def function(tensors: Sequence[Tensor]) -> list[Tensor]:
            batch = with_tensors(args, tensors)
            with layout.noticing_results(), _keras.optimizer_updates(self._check_update):
                result = self._function(*batch[:num_positional], **dict(zip(names, batch[num_positional:], strict=True)))
                if role == "predict":
                    return layout.set_predictions(result)
                return layout.set_logs(result, num_samples=num_samples(tensors))

        return layout, function

    def _check_update(self, optimizer: keras.optimizers.Optimizer, gradients: list[Any], variables: list[keras.Variable]) -> bool:
        """Checks an update, and answers whether it has been warned before of the variables in it that have no gradient."""
        check_update(self.__name__, optimizer, gradients, variables)
        self._optimizers[id(optimizer)] = optimizer
        missing = {id(v) for g, v in zip(gradients, variables, strict=True) if g is None}
        is_warned = bool(missing) and missing <= self._without_gradient
        self._without_gradient |= missing
        return is_warned

    def _warn_once(self, message: str, *, key: str) -> None:
        if key not in self._warned_about:
            self._warned_about.add(key)
            warnings.warn(message, TrainStepWarning, stacklevel=4)


def _captured_alone(function: Callable[..., list[Tensor]], tensors: list[Tensor], *, name: str) -> AbstractProgram:
    """The function captured, with every step that it calls as a part of it."""
    token = _is_capturing.set(True)
    try:
        return backends.active().capture(function, tensors, name=name)
    finally:
        _is_capturing.reset(token)
