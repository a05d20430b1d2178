"""The only door to private names of JAX, each with its reason. `tests/unit/test_jax_private.py` is the canary.

Supported: JAX 0.9 and 0.10. The hooks of a trace changed between the two; the difference is kept in this file.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax._src import api_util, core, source_info_util
from jax._src import linear_util as lu
from jax._src.interpreters import partial_eval
from keras.src.backend.jax import core as keras_jax

# A tape has to see every operation while values stay concrete. JAX offers that to transformations alone, through the current
# trace: there is no public hook.
Trace = core.Trace
set_current_trace = core.set_current_trace
eval_trace = core.eval_trace

_CUSTOM_RULES_ARE_PARAMS = jax.__version_info__ >= (0, 10)


def current_trace() -> Any:
    """The trace that the next operation goes to."""
    return core.trace_ctx.trace


def bind_custom(primitive: Any, rules: tuple[Any, ...], args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Binds a call with custom derivative rules to the current trace. JAX 0.10 moved the rules into a parameter."""
    if _CUSTOM_RULES_ARE_PARAMS:
        return primitive.bind(*args, subfuns=rules, **params)
    return primitive.bind(*rules, *args, **params)


def bind_call(primitive: Any, function: Any, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Binds a call primitive, which carries its function, to the current trace."""
    if _CUSTOM_RULES_ARE_PARAMS:
        return primitive.bind(*args, subfuns=(function,), **params)
    return primitive.bind(function, *args, **params)


def capture_jaxpr(function: Callable[..., Sequence[Any]], args: Sequence[Any], name: str) -> tuple[Any, list[Any]]:
    """`(jaxpr, constants)` of a function that may add inputs of its own, by `new_input`, while it is traced.

    `jax.make_jaxpr` fixes the inputs beforehand; a step's variables are only known once it has run.
    """

    def flat(*tensors: Any) -> Sequence[Any]:
        return function(*tensors)

    flat.__name__ = name
    debug_info = api_util.debug_info(name, flat, tuple(args), {})
    jaxpr, _, constants = partial_eval.trace_to_jaxpr_dynamic(
        lu.wrap_init(flat, debug_info=debug_info), [core.typeof(x) for x in args]
    )
    return jaxpr, constants


def new_input(trace: Any, value: Any) -> Any:
    """A further input, of the value's shape and dtype, of the function that `trace` captures."""
    return trace.new_arg(core.typeof(value), source_info_util.current())


@contextlib.contextmanager
def outside_capture() -> Iterator[None]:
    """Runs operations for real in the middle of a capture. `jax.ensure_compile_time_eval` does not leave a tape's trace."""
    with set_current_trace(eval_trace):
        yield


def original_cond() -> Callable[..., Any]:
    """What `keras.ops.cond` calls on JAX."""
    return keras_jax.cond


@contextlib.contextmanager
def replaced_cond(cond: Callable[..., Any]) -> Iterator[None]:
    """Puts another function in its place for a while: Keras has no hook for branches that assign variables."""
    original = keras_jax.cond
    keras_jax.cond = cond
    try:
        yield
    finally:
        keras_jax.cond = original
