"""The gradient tape: operations inside a `with` block are recorded, and then differentiated."""

import contextlib
import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import keras

from . import _keras, backends
from ._errors import TapeError, describe
from .backends import AbstractRecorder, Source, Tensor


@final
class GradientTape:
    """Records the operations of a `with` block for automatic differentiation, on every backend as `tf.GradientTape` does.

    Trainable Keras variables that are read inside the block are watched by themselves; any other tensor is followed after
    `watch`. Tapes nest to any order: a gradient taken inside the block of another tape is recorded by it.

    Args:
        persistent: Whether `gradient` and its kin may be called more than once. It holds the recorded values until it is gone.
        watch_accessed_variables: Whether trainable variables are watched when they are read.

    >>> import keras, trainstep as ts
    >>> x = keras.ops.convert_to_tensor(3.0)
    >>> with ts.GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> float(tape.gradient(y, x))
    6.0
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True):
        self._persistent = persistent
        self._watch_accessed_variables = watch_accessed_variables
        self._recorder: AbstractRecorder | None = None
        self._block: contextlib.ExitStack | None = None
        self._is_answered = False
        self._variables: dict[int, keras.Variable] = {}
        self._explicitly_watched: set[int] = set()

    def __enter__(self) -> "GradientTape":
        """Starts recording.

        Raises:
            TapeError: It records already.
        """
        if self._block is not None:
            raise TapeError("This tape is recording already: a `with` block of one tape cannot be entered inside itself.")
        if self._recorder is None:
            self._recorder = backends.active().new_recorder()
            self._is_answered = False
        self._open(self._recorder)
        return self

    def __exit__(self, *exception: object) -> None:
        self._close()

    def watch(self, tensor: Any) -> None:
        """Follows a floating-point tensor or variable, or a nest of them, through the rest of the block.

        Raises:
            TapeError: The tape has not been entered, or the value is not a floating-point tensor of the active backend.
        """
        recorder = self._require_recorder("watch")
        for source in keras.tree.flatten(tensor):
            _check_source("watch", source)
            if not _is_floating(source):
                raise TapeError(
                    f"`tape.watch` needs floating-point tensors, since others have no gradient. Got {describe(source)}. "
                    "Convert it with `keras.ops.cast(x, 'float32')`."
                )
            if isinstance(source, keras.Variable):
                self._variables[id(source)] = source
                self._explicitly_watched.add(id(source))
            recorder.watch(source)

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None, unconnected_gradients: str = "none") -> Any:
        """The gradient of `target` with respect to `sources`.

        Args:
            target: A tensor, or a nest of tensors. For one that is not a scalar, and for several, the gradient of the sum
                of all elements.
            sources: Keras variables or tensors, in any nest.
            output_gradients: What to multiply each element of `target` with; the nest and shapes of `target`.
            unconnected_gradients: What a source gets that `target` does not depend on: "none" (`None`) or "zero" (zeros).

        Returns:
            The nest of `sources`, each gradient with the shape and dtype of its source.

        Raises:
            TapeError: The tape was asked before (and is not persistent), or `target` was not computed inside its block from
                something it watches.
        """
        with self._question("gradient") as recorder:
            fill = _unconnected("gradient", unconnected_gradients)
            targets, flat_sources = keras.tree.flatten(target), keras.tree.flatten(sources)
            weights = _flatten_output_gradients(targets, output_gradients)
            self._check_targets("gradient", recorder, targets, flat_sources, fill)
            askable = [self._is_askable(source) for source in flat_sources]
            answers = iter(
                recorder.gradient(
                    targets,
                    [s for s, ok in zip(flat_sources, askable, strict=True) if ok],
                    weights,
                    is_last_question=not self._persistent,
                )
            )
            gradients = [next(answers) if ok else None for ok in askable]
            filled = [fill(s) if g is None else g for s, g in zip(flat_sources, gradients, strict=True)]
        return keras.tree.pack_sequence_as(sources, filled)

    def jacobian(self, target: Tensor, sources: Any, unconnected_gradients: str = "none") -> Any:
        """Every derivative of every element of `target`: for each source a tensor of shape `target.shape + source.shape`.

        Raises:
            TapeError: As `gradient`; also if `target` is not a single tensor.
        """
        with self._question("jacobian") as recorder:
            fill = _unconnected("jacobian", unconnected_gradients, leading_shape=tuple(getattr(target, "shape", ())))
            flat_sources = keras.tree.flatten(sources)
            self._check_targets("jacobian", recorder, [target], flat_sources, fill)
            askable = [self._is_askable(source) for source in flat_sources]
            answers = iter(recorder.jacobian(target, [s for s, ok in zip(flat_sources, askable, strict=True) if ok]))
            jacobians = [next(answers) if ok else None for ok in askable]
            filled = [fill(s) if j is None else j for s, j in zip(flat_sources, jacobians, strict=True)]
        return keras.tree.pack_sequence_as(sources, filled)

    def batch_jacobian(self, target: Tensor, source: Source, unconnected_gradients: str = "none") -> Tensor | None:
        """The Jacobian of each sample by itself: a tensor of shape `(batch, *target.shape[1:], *source.shape[1:])`.

        `target[i]` must depend on `source[i]` alone; this is what makes it cheap.

        Raises:
            TapeError: As `gradient`; also if the first dimensions of `target` and `source` differ.
        """
        with self._question("batch_jacobian") as recorder:
            fill = _unconnected("batch_jacobian", unconnected_gradients)
            self._check_targets("batch_jacobian", recorder, [target], [source], fill)
            target_shape, source_shape = tuple(target.shape), tuple(source.shape)
            if not target_shape or not source_shape or target_shape[0] != source_shape[0]:
                raise TapeError(
                    "`tape.batch_jacobian` needs a target and a source with the same first dimension, the batch. "
                    f"Got {describe(target)} and {describe(source)}."
                )
            answer = recorder.batch_jacobian(target, source) if self._is_askable(source) else None
            if answer is None and fill(source) is not None:
                answer = keras.ops.zeros(target_shape + source_shape[1:], keras.backend.standardize_dtype(source.dtype))
        return answer

    @contextlib.contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Operations in this inner `with` block are not recorded by this tape; other open tapes do record them."""
        recorder = self._require_recorder("stop_recording")
        if self._block is None:
            raise TapeError("`tape.stop_recording` was called outside the tape's `with` block, where nothing is recorded.")
        self._close()
        try:
            yield
        finally:
            self._open(recorder)

    def reset(self) -> None:
        """Forgets all that was recorded and watched, as if the block began here.

        Raises:
            TapeError: The tape was never entered.
        """
        self._require_recorder("reset")
        was_open = self._block is not None
        self._close()
        self._variables.clear()
        self._explicitly_watched.clear()
        self._recorder = backends.active().new_recorder()
        self._is_answered = False
        if was_open:
            self._open(self._recorder)

    def watched_variables(self) -> tuple[keras.Variable, ...]:
        """The Keras variables that are watched, in the order in which they were first read."""
        return tuple(v for key, v in self._variables.items() if key in self._explicitly_watched or _keras.was_created_trainable(v))

    def _open(self, recorder: AbstractRecorder) -> None:
        self._block = contextlib.ExitStack()
        self._block.enter_context(_keras.on_variable_use(self._variable_used))
        recorder.resume()
        self._block.callback(recorder.pause)

    def _close(self) -> None:
        if self._block is not None:
            self._block.close()
            self._block = None

    def _variable_used(self, variable: keras.Variable) -> None:
        """Watches every floating-point variable; whether it was created trainable matters only if it is asked about."""
        if self._recorder is None or not _is_floating(variable) or _keras.has_stand_in(variable):
            return
        if self._watch_accessed_variables:
            self._variables.setdefault(id(variable), variable)
        if id(variable) in self._variables:
            self._recorder.watch(variable)

    @contextlib.contextmanager
    def _question(self, call: str) -> Iterator[AbstractRecorder]:
        recorder = self._require_recorder(call)
        if self._persistent:
            yield recorder
            return
        self._close()
        self._is_answered = True
        try:
            yield recorder
        finally:
            self._recorder = None

    def _require_recorder(self, call: str) -> AbstractRecorder:
        if self._is_answered:
            raise TapeError(
                f"`tape.{call}` was called on a tape that has answered already and forgot what it recorded. "
                "For several questions write `ts.GradientTape(persistent=True)`."
            )
        if self._recorder is None:
            raise TapeError(f"`tape.{call}` was called before the tape recorded anything. Write `with ts.GradientTape() as tape:`.")
        return self._recorder

    def _is_askable(self, source: Source) -> bool:
        if not isinstance(source, keras.Variable):
            return _is_floating(source)
        if id(source) not in self._variables:
            return False
        return id(source) in self._explicitly_watched or _keras.was_created_trainable(source)

    def _check_targets(
        self, call: str, recorder: AbstractRecorder, targets: list[Any], sources: list[Any], fill: Callable[[Any], Any]
    ) -> None:
        for source in sources:
            _check_source(call, source)
        if not targets:
            raise TapeError(f"`tape.{call}` needs a target. Got an empty nest.")
        for target in targets:
            if not isinstance(target, keras.Variable) and not backends.active().is_tensor(target):
                raise TapeError(
                    f"`tape.{call}` needs a target computed inside the tape. Got {describe(target)}, which is not a tensor. "
                    "Leave the loss as the tensor it is (no `float(...)`, no NumPy) until the gradient is taken."
                )
        is_lenient = any(fill(source) is not None for source in sources)
        if not is_lenient and not any(recorder.tracks(target) for target in targets):
            raise TapeError(_untracked_message(call, targets, sources))


def grad(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    variables: Any = None,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """A function that returns the gradient of a scalar function.

    Args:
        fn: A function that returns a scalar tensor, or with `has_aux` a pair of one and anything else.
        argnums: Which arguments to differentiate with respect to; each may be a tensor or a nest of tensors.
        variables: Keras variables, in any nest, that `fn` reads: the gradient is with respect to them instead.
        has_aux: Whether `fn` returns `(value, aux)`; then the answer is `(gradient, aux)`.

    Raises:
        TapeError: `fn` does not return a scalar, or an argument is not a floating-point tensor.

    >>> import keras, trainstep as ts
    >>> float(ts.grad(lambda x: x**3)(keras.ops.convert_to_tensor(2.0)))
    12.0
    """
    of_both = value_and_grad(fn, argnums, variables=variables, has_aux=has_aux)

    def gradient_of(*args: Any, **kwargs: Any) -> Any:
        value, gradient = of_both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return gradient_of


def value_and_grad(
    fn: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    *,
    variables: Any = None,
    has_aux: bool = False,
) -> Callable[..., Any]:
    """A function that returns `(value, gradient)` of a scalar function; the arguments are those of `grad`.

    With `has_aux` it returns `((value, aux), gradient)`. An argument or variable that the value does not depend on gets zeros.

    >>> import keras, trainstep as ts
    >>> value, gradient = ts.value_and_grad(lambda x: x**3)(keras.ops.convert_to_tensor(2.0))
    >>> float(value), float(gradient)
    (8.0, 12.0)
    """

    def value_and_gradient_of(*args: Any, **kwargs: Any) -> Any:
        with GradientTape(watch_accessed_variables=variables is not None) as tape:
            if variables is None:
                args, sources = _watched_arguments(tape, args, argnums)
            else:
                sources = variables
            result = fn(*args, **kwargs)
        value = result[0] if has_aux else result
        if not backends.active().is_tensor(value) or tuple(value.shape) != ():
            raise TapeError(
                f"`ts.grad` needs a function that returns a scalar. It returned {describe(value)}. "
                "Reduce it with `keras.ops.mean` or `keras.ops.sum`" + ("." if has_aux else ", or say `has_aux=True`.")
            )
        return result, tape.gradient(value, sources, unconnected_gradients="zero")

    return value_and_gradient_of


def _watched_arguments(tape: GradientTape, args: tuple[Any, ...], argnums: int | Sequence[int]) -> tuple[tuple[Any, ...], Any]:
    positions = [argnums] if isinstance(argnums, int) else list(argnums)
    converted = list(args)
    for position in positions:
        if not -len(args) <= position < len(args):
            raise TapeError(f"`ts.grad` was asked for argument {position}, but the call has {len(args)}.")
        converted[position] = keras.tree.map_structure(keras.ops.convert_to_tensor, args[position])
        tape.watch(converted[position])
    sources = [converted[position] for position in positions]
    return tuple(converted), sources[0] if isinstance(argnums, int) else tuple(sources)


def _check_source(call: str, source: Any) -> None:
    if not isinstance(source, keras.Variable) and not backends.active().is_tensor(source):
        raise TapeError(
            f"`tape.{call}` needs Keras variables or tensors of the active backend as sources. Got {describe(source)}. "
            "Convert an array with `keras.ops.convert_to_tensor(x)` before the block, and use the result inside it."
        )


def _is_floating(source: Source) -> bool:
    return "float" in keras.backend.standardize_dtype(source.dtype)


def _flatten_output_gradients(targets: list[Any], output_gradients: Any) -> list[Tensor | None]:
    if output_gradients is None:
        return [None] * len(targets)
    weights = keras.tree.flatten(output_gradients)
    if len(weights) != len(targets):
        raise TapeError(
            f"`tape.gradient` got {len(targets)} targets and {len(weights)} output gradients: there must be one for each."
        )
    converted = []
    for target, weight in zip(targets, weights, strict=True):
        if weight is not None:
            weight = keras.ops.convert_to_tensor(weight, dtype=keras.backend.standardize_dtype(target.dtype))
            if tuple(weight.shape) != tuple(target.shape):
                raise TapeError(
                    f"`tape.gradient` needs output gradients shaped like the target. Got {describe(weight)} for {describe(target)}."
                )
        converted.append(weight)
    return converted


def _unconnected(call: str, choice: Any, leading_shape: tuple[int, ...] = ()) -> Callable[[Source], Tensor | None]:
    """What to answer for a source that the target does not depend on; takes TensorFlow's enumeration too."""
    name = choice.value if isinstance(choice, enum.Enum) else choice
    if name == "none":
        return lambda source: None
    if name == "zero":
        return lambda source: keras.ops.zeros(
            leading_shape + tuple(keras.ops.shape(source)), dtype=keras.backend.standardize_dtype(source.dtype)
        )
    raise TapeError(f"`tape.{call}` knows unconnected_gradients 'none' and 'zero'. Got {choice!r}.")


def _untracked_message(call: str, targets: list[Any], sources: list[Any]) -> str:
    named = ", ".join(s.path for s in sources[:4] if isinstance(s, keras.Variable))
    asked = f" The gradient was asked with respect to {named}{', ...' if len(sources) > 4 else ''}." if named else ""
    return (
        f"`tape.{call}` needs a target computed inside the tape, from something it watches, by differentiable operations. "
        f"Got {describe(targets[0] if len(targets) == 1 else targets)}.{asked} Move the forward pass into the `with` block; "
        "`tape.watch(x)` a tensor that is not a trainable variable; and look for `argmax`, rounding, comparison, integer casts, "
        "`keras.ops.stop_gradient` or NumPy between the sources and the target: they have no gradient."
    )
