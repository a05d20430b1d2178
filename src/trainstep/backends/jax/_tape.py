"""A gradient tape for JAX: the current trace is set to one that notes each operation, while values stay what they are."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import jax.numpy as jnp
import keras
import numpy as np

from ... import _keras
from ..._errors import TapeError
from .._abstract import AbstractRecorder, Source, Tensor
from . import _private

_NOT_REVERSIBLE = {"while": "keras.ops.while_loop (or fori_loop with a length that is a tensor)"}
_NOT_RECORDED = {"stop_gradient"}


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One operation on tracked values. `pullback` maps cotangents of the outputs to cotangents of the inputs."""

    operation: Callable[..., Any]
    inputs: list[Any]
    outputs: list[Any]
    pullback: Callable[[Any], Sequence[Any]]
    has_several_outputs: bool


@final
class JaxRecorder(AbstractRecorder):
    """Follows arrays by identity; keeps each of them alive, so that an identity is never used twice."""

    def __init__(self) -> None:
        self._is_recording = False
        self._entries: list[_Entry] = []
        self._followed: dict[int, Any] = {}
        self._values_of: dict[int, list[Any]] = {}
        self._scope: Any = None

    def resume(self) -> None:
        self._is_recording = True
        if self._scope is None:
            self._scope = _private.set_current_trace(RecordingTrace(self, _private.current_trace()))
            self._scope.__enter__()

    def pause(self) -> None:
        """Leaves the trace if it is the current one; else an inner tape still needs it, and it just passes operations on."""
        self._is_recording = False
        trace = _private.current_trace()
        if self._scope is not None and isinstance(trace, RecordingTrace) and trace.recorder is self:
            self._scope.__exit__(None, None, None)
            self._scope = None

    def watch(self, source: Source) -> None:
        if isinstance(source, keras.Variable):
            self._watch_variable(source)
        else:
            self._followed[id(source)] = source

    def tracks(self, tensor: Source) -> bool:
        return any(id(value) in self._followed and _is_float(value) for value in self._values(tensor))

    def gradient(
        self,
        targets: Sequence[Source],
        sources: Sequence[Source],
        output_gradients: Sequence[Tensor | None],
        *,
        is_last_question: bool,
    ) -> list[Tensor | None]:
        seeds = []
        for target, weight in zip(targets, output_gradients, strict=True):
            if self.tracks(target):
                value = self._values(target)[-1]
                seeds.append((value, jnp.ones_like(value) if weight is None else weight))
        gradients = self._pull_back(seeds, sources)
        if is_last_question:
            self._entries.clear()
            self._followed.clear()
        return gradients

    def jacobian(self, target: Tensor, sources: Sequence[Source]) -> list[Tensor | None]:
        basis = jnp.eye(target.size, dtype=target.dtype).reshape(target.size, *target.shape)
        rows = self._pull_back_each(target, basis, sources)
        return [None if r is None else r.reshape(*target.shape, *r.shape[1:]) for r in rows]

    def batch_jacobian(self, target: Tensor, source: Source) -> Tensor | None:
        size = int(np.prod(target.shape[1:]))
        basis = jnp.eye(size, dtype=target.dtype).reshape(size, 1, *target.shape[1:])
        rows = self._pull_back_each(target, jnp.broadcast_to(basis, (size, *target.shape)), [source])[0]
        if rows is None:
            return None
        return jnp.moveaxis(rows, 0, 1).reshape(*target.shape, *rows.shape[2:])

    def run(self, operation: Callable[..., Any], args: Sequence[Any], parent: Any, *, name: str = "") -> Any:
        """Runs one operation in the parent trace, and records it if it touches anything tracked."""
        with _private.set_current_trace(parent):
            tracked = self._is_recording and name not in _NOT_RECORDED
            positions = [i for i, x in enumerate(args) if tracked and id(x) in self._followed and _is_float(x)]
            if not positions:
                return _apart_from(args, operation(*args))
            of_tracked = _with_others_fixed(operation, args, positions)
            inputs = [args[i] for i in positions]
            if name in _NOT_REVERSIBLE:
                outputs, pullback = of_tracked(*inputs), _refusing_pullback(_NOT_REVERSIBLE[name])
            else:
                outputs, pullback = jax.vjp(of_tracked, *inputs)
            outputs = _apart_from(args, outputs)
        several = isinstance(outputs, (list, tuple))
        flat = list(outputs) if several else [outputs]
        self._followed.update((id(x), x) for x in flat)
        self._entries.append(_Entry(of_tracked, inputs, flat, pullback, several))
        return outputs

    def _watch_variable(self, variable: keras.Variable) -> None:
        """Follows the variable's present value under an identity that stands for this variable alone.

        Two variables can share one array (after `a.assign(b)`), and a value assigned inside the block may have been computed there;
        a read then starts afresh, as it does on TensorFlow.
        """
        value = _keras.current_raw_value(variable)
        known = self._values_of.setdefault(id(variable), [])
        if any(value is x for x in known):
            return
        if id(value) in self._followed:
            with _private.set_current_trace(base_trace()):
                value = jnp.array(value, copy=True)
            _keras.replace_current_raw_value(variable, value)
        known.append(value)
        self._followed[id(value)] = value

    def _values(self, source: Source) -> list[Any]:
        if not isinstance(source, keras.Variable):
            return [source]
        return self._values_of.get(id(source)) or [_keras.current_raw_value(source)]

    def _pull_back(self, seeds: Sequence[tuple[Any, Any]], sources: Sequence[Source]) -> list[Tensor | None]:
        cotangents: dict[int, Any] = {}
        for value, seed in seeds:
            _accumulate(cotangents, value, seed)
        for entry in reversed(list(self._entries)):
            if any(id(x) in cotangents for x in entry.outputs):
                given = [_cotangent_of(cotangents, x) for x in entry.outputs]
                pullback = self._fresh_pullback(entry)
                for x, g in zip(entry.inputs, pullback(given if entry.has_several_outputs else given[0]), strict=True):
                    _accumulate(cotangents, x, g)
        return [self._collect(cotangents, source) for source in sources]

    def _fresh_pullback(self, entry: _Entry) -> Callable[[Any], Sequence[Any]]:
        """While this tape records its own gradient, what the pullback remembers must be recorded too: it is computed anew."""
        return jax.vjp(entry.operation, *entry.inputs)[1] if self._is_recording else entry.pullback

    def _pull_back_each(self, target: Tensor, basis: Any, sources: Sequence[Source]) -> list[Tensor | None]:
        connected = self._pull_back([(target, basis[0])], sources)
        indices = [i for i, g in enumerate(connected) if g is not None]
        rows = jax.vmap(lambda seed: [g for g in self._pull_back([(target, seed)], sources) if g is not None])(basis)
        answer: list[Tensor | None] = [None] * len(sources)
        for i, row in zip(indices, rows, strict=True):
            answer[i] = row
        return answer

    def _collect(self, cotangents: dict[int, Any], source: Source) -> Tensor | None:
        parts = [cotangents[id(v)] for v in self._values(source) if id(v) in cotangents and id(v) in self._followed]
        if not parts:
            return None
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        dtype = keras.backend.standardize_dtype(source.dtype)
        return total if total.dtype == dtype else total.astype(dtype)


@final
class RecordingTrace(_private.Trace):
    """Hands every operation to the recorder, which runs it in the parent trace."""

    def __init__(self, recorder: JaxRecorder, parent: Any):
        super().__init__()
        self.recorder, self.parent = recorder, parent
        self.requires_low = parent.requires_low

    def is_valid(self) -> bool:
        """Values never belong to this trace, so it cannot be escaped from."""
        return True

    def stage_value(self, val: Any) -> Any:
        return self.parent.stage_value(val)

    def cur_qdd(self, value: Any) -> Any:
        return self.parent.cur_qdd(value)

    def process_primitive(self, primitive: Any, args: Any, params: Any, /) -> Any:
        return self.recorder.run(lambda *xs: primitive.bind(*xs, **params), args, self.parent, name=primitive.name)

    def process_call(self, primitive: Any, function: Any, args: Any, params: Any, /) -> Any:
        return self.recorder.run(lambda *xs: _private.bind_call(primitive, function, xs, params), args, self.parent)

    def process_custom_jvp_call(self, primitive: Any, fun: Any, jvp: Any, args: Any, /, **params: Any) -> Any:
        return self.recorder.run(lambda *xs: _private.bind_custom(primitive, (fun, jvp), xs, params), args, self.parent)

    def process_custom_vjp_call(self, primitive: Any, fun: Any, fwd: Any, bwd: Any, args: Any, /, **params: Any) -> Any:
        return self.recorder.run(lambda *xs: _private.bind_custom(primitive, (fun, fwd, bwd), xs, params), args, self.parent)


def base_trace() -> Any:
    """The current trace without the tapes."""
    trace = _private.current_trace()
    while isinstance(trace, RecordingTrace):
        trace = trace.parent
    return trace


def _apart_from(inputs: Sequence[Any], outputs: Any) -> Any:
    """The outputs under identities of their own: an operation that does nothing (`stop_gradient`) may hand its input through."""
    if isinstance(outputs, (list, tuple)):
        return [_apart_from(inputs, x) for x in outputs]
    return jnp.array(outputs, copy=True) if any(outputs is x for x in inputs) else outputs


def _with_others_fixed(operation: Callable[..., Any], args: Sequence[Any], positions: Sequence[int]) -> Callable[..., Any]:
    def of_tracked(*values: Any) -> Any:
        full = list(args)
        for i, value in zip(positions, values, strict=True):
            full[i] = value
        return operation(*full)

    return of_tracked


def _refusing_pullback(operation: str) -> Callable[[Any], Sequence[Any]]:
    def pullback(_: Any) -> Sequence[Any]:
        raise TapeError(
            f"`tape.gradient` cannot go backwards through {operation} on JAX, since its number of rounds is not known when it is "
            "compiled. Use `keras.ops.scan`, or `keras.ops.fori_loop` with Python integers as bounds."
        )

    return pullback


def _is_float(value: Any) -> bool:
    return jnp.issubdtype(value.dtype, np.inexact)


def _cotangent_of(cotangents: dict[int, Any], output: Any) -> Any:
    if not _is_float(output):
        return np.zeros(output.shape, jax.dtypes.float0)
    known = cotangents.get(id(output))
    return jnp.zeros_like(output) if known is None else known


def _accumulate(cotangents: dict[int, Any], value: Any, cotangent: Any) -> None:
    known = cotangents.get(id(value))
    cotangents[id(value)] = cotangent if known is None else known + cotangent
