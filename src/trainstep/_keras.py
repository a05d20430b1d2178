"""The only door to names that Keras does not document. Each has its reason here and a canary in `tests/test_keras_canary.py`.

Everything that changes Keras does so inside a `with` block, for the current thread only, and undoes it on leaving.
"""

import contextlib
import functools
import gc
import random
import threading
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import keras
from keras.src.backend.common import global_state
from keras.src.random import seed_generator

_listeners = threading.local()
_patch_lock = threading.Lock()


def raw_value(variable: keras.Variable) -> Any:
    """The framework's own value, not cast by an autocast scope. `keras.Variable.value` casts; no public name does not."""
    return variable._value  # noqa: SLF001


def raw_values(variables: Iterable[keras.Variable]) -> list[Any]:
    """The `raw_value` of each variable; at every step, so in one call."""
    return [variable._value for variable in variables]  # noqa: SLF001


def set_raw_values(variables: Iterable[keras.Variable], values: Iterable[Any]) -> None:
    """Does `set_raw_value` for each variable; at every step, so in one call."""
    for variable, value in zip(variables, values, strict=True):
        variable._value = value  # noqa: SLF001


def set_raw_value(variable: keras.Variable, value: Any) -> None:
    """Hands a variable a new value without a copy. `keras.Variable.assign` converts, checks and may copy at every step."""
    variable._value = value  # noqa: SLF001


def is_initialized(variable: keras.Variable) -> bool:
    """Whether the variable holds a value; one created in a `StatelessScope` does not until it is first needed."""
    return variable._value is not None  # noqa: SLF001


def initialize(variable: keras.Variable) -> None:
    """Gives a variable created in a `StatelessScope` its initial value; Keras does so only when the scope ends."""
    with suspended_stateless_scope():
        variable._deferred_initialize()  # noqa: SLF001
    waiting = global_state.get_global_attribute("uninitialized_variables", [])
    waiting[:] = [v for v in waiting if v is not variable]


@contextlib.contextmanager
def suspended_stateless_scope() -> Iterator[None]:
    """Outside of any `StatelessScope` for a while: Keras has no public way to leave one from within."""
    scope = global_state.get_global_attribute("stateless_scope")
    global_state.set_global_attribute("stateless_scope", None)
    try:
        yield
    finally:
        global_state.set_global_attribute("stateless_scope", scope)


def current_raw_value(variable: keras.Variable) -> Any:
    """The uncast value that a read of the variable would see: that of the `StatelessScope`, if there is one that knows it."""
    scope = global_state.get_global_attribute("stateless_scope")
    value = None if scope is None else scope.get_current_value(variable)
    return raw_value(variable) if value is None else value


def replace_current_raw_value(variable: keras.Variable, value: Any) -> None:
    """Hands on an equal value under another identity, to the `StatelessScope` if there is one, else to the variable."""
    scope = global_state.get_global_attribute("stateless_scope")
    if scope is None:
        set_raw_value(variable, value)
    else:
        _hand_to_scope(scope, variable, value)


def complete_stateless_scope(variable: keras.Variable, value_in: Callable[[keras.Variable], Any]) -> None:
    """Lets a `StatelessScope` that Keras opened inside a step know the step's value of a variable.

    Without it Keras reads the variable's own value there, which a compiled step would freeze.
    """
    scope = global_state.get_global_attribute("stateless_scope")
    if scope is not None and scope.get_current_value(variable) is None:
        _hand_to_scope(scope, variable, value_in(variable))


def _hand_to_scope(scope: keras.StatelessScope, variable: keras.Variable, value: Any) -> None:
    """Lets a scope know the variable's own value, and remembers that it is its own."""
    scope.add_update((variable, value))
    vars(scope).setdefault("_trainstep_own_values", {})[id(variable)] = value


def has_stand_in(variable: keras.Variable) -> bool:
    """Whether a `StatelessScope` (that of `stateless_call`, say) holds a tensor in the variable's place: a read gives that tensor.

    The scope that captures a step is asked for nothing but its variables' own values, and says so by `is_of_a_step`.
    """
    scope = global_state.get_global_attribute("stateless_scope")
    if scope is None or getattr(scope, "is_of_a_step", False):
        return False
    value = scope.get_current_value(variable)
    own = vars(scope).get("_trainstep_own_values", {}).get(id(variable))
    return value is not None and value is not own and value is not raw_value(variable)


def was_created_trainable(variable: keras.Variable) -> bool:
    """Whether a variable was created trainable, though its layer may be frozen now.

    Keras overwrites the flag when a layer is frozen; what remains is the list of the owner in which the variable was put
    when it was created. Looks through the garbage collector's references, so ask only where it is needed (milliseconds).
    """
    if variable.trainable:
        return True
    for store in gc.get_referrers(variable):
        if isinstance(store, list):
            for owner in gc.get_referrers(store):
                if isinstance(owner, dict) and owner.get("_trainable_variables") is store:
                    return True
    return False


# Reading and assigning variables


def notify_read(variable: keras.Variable) -> None:
    """Tells the listeners that a variable is about to be read or assigned."""
    for listener in getattr(_listeners, "stack", ()):
        listener(variable)


@contextlib.contextmanager
def on_variable_use(listener: Callable[[keras.Variable], None]) -> Iterator[None]:
    """Calls `listener(variable)` before each read or assignment of a Keras variable in this thread.

    Keras announces neither, so the properties of its public `Variable` class are wrapped while anybody listens.
    """
    stack = _listeners.__dict__.setdefault("stack", [])
    stack.append(listener)
    _instrument()
    try:
        yield
    finally:
        stack.remove(listener)
        _release()


_num_listeners = 0
_originals: dict[str, Any] = {}


def _instrument() -> None:
    global _num_listeners
    with _patch_lock:
        _num_listeners += 1
        if _num_listeners > 1:
            return
        _originals.update(
            value=_inherited("value"),
            assign=_inherited("assign"),
            own={n for n in ("value", "assign") if n in vars(keras.Variable)},
        )
        get_value, assign = _originals["value"].fget, _originals["assign"]

        def value(variable: keras.Variable) -> Any:
            notify_read(variable)
            return get_value(variable)

        @functools.wraps(assign)
        def announced_assign(variable: keras.Variable, new_value: Any) -> Any:
            notify_read(variable)
            return assign(variable, new_value)

        keras.Variable.value = property(value, doc=_originals["value"].__doc__)  # type: ignore[misc]
        keras.Variable.assign = announced_assign  # type: ignore[method-assign]


def _release() -> None:
    global _num_listeners
    with _patch_lock:
        _num_listeners -= 1
        if _num_listeners:
            return
        for name in ("value", "assign"):
            if name in _originals["own"]:
                setattr(keras.Variable, name, _originals[name])
            else:
                delattr(keras.Variable, name)


def _inherited(name: str) -> Any:
    return next(vars(cls)[name] for cls in keras.Variable.__mro__ if name in vars(cls))


@contextlib.contextmanager
def variables_created_within(context: Callable[[], contextlib.AbstractContextManager[Any]]) -> Iterator[None]:
    """Creates every new Keras variable inside `context()`, so that it is not captured with the step that builds a model.

    Keras has no hook for the creation of a variable: the constructor of its public class is wrapped for a while.
    """
    thread, construct = threading.get_ident(), keras.Variable.__init__
    owned = vars(keras.Variable).get("__init__")

    @functools.wraps(construct)
    def construct_within(variable: keras.Variable, *args: Any, **kwargs: Any) -> None:
        if threading.get_ident() != thread:
            return construct(variable, *args, **kwargs)
        with context():
            return construct(variable, *args, **kwargs)

    keras.Variable.__init__ = construct_within  # type: ignore[method-assign]
    try:
        yield
    finally:
        if owned is None:
            del keras.Variable.__init__
        else:
            keras.Variable.__init__ = owned  # type: ignore[method-assign]


# Metrics and optimizers


@contextlib.contextmanager
def metric_results(listener: Callable[[keras.metrics.Metric, Any], None]) -> Iterator[None]:
    """Calls `listener(metric, result)` for every `metric.result()` in this thread. Each class defines its own; all are wrapped."""
    thread = threading.get_ident()

    def announce(result: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(result)
        def announced(metric: keras.metrics.Metric, *args: Any, **kwargs: Any) -> Any:
            value = result(metric, *args, **kwargs)
            if threading.get_ident() == thread:
                listener(metric, value)
            return value

        return announced

    originals = [(cls, vars(cls)["result"]) for cls in _metric_classes(keras.metrics.Metric) if "result" in vars(cls)]
    for cls, result in originals:
        cls.result = announce(result)  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for cls, result in originals:
            cls.result = result  # type: ignore[attr-defined]


def _metric_classes(cls: type) -> set[type]:
    return {cls}.union(*(_metric_classes(subclass) for subclass in cls.__subclasses__()))


@contextlib.contextmanager
def optimizer_updates(listener: Callable[[keras.optimizers.Optimizer, list[Any], list[keras.Variable]], bool]) -> Iterator[None]:
    """Calls `listener(optimizer, gradients, variables)` before each `optimizer.apply` in this thread. Keras checks neither list.

    If it answers `True`, Keras' warning about variables without a gradient is left out: Keras gives it anew at every step.
    """
    thread = threading.get_ident()
    base = next(cls for cls in reversed(keras.optimizers.Optimizer.__mro__) if "apply" in vars(cls))
    apply = vars(base)["apply"]

    @functools.wraps(apply)
    def announced_apply(optimizer: keras.optimizers.Optimizer, grads: Any, trainable_variables: Any = None) -> Any:
        grads, is_warned = list(grads), False
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            if threading.get_ident() == thread:
                is_warned = listener(optimizer, grads, trainable_variables)
        if not is_warned:
            return apply(optimizer, grads, trainable_variables)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Gradients do not exist for variables")
            return apply(optimizer, grads, trainable_variables)

    base.apply = announced_apply  # type: ignore[attr-defined]
    try:
        yield
    finally:
        base.apply = apply  # type: ignore[attr-defined]


@contextlib.contextmanager
def unbuilt_loss_scaling() -> Iterator[list[keras.optimizers.LossScaleOptimizer]]:
    """The loss scale optimizers whose `scale_loss` runs inside the block before they are built.

    Keras then multiplies with the initial scale, a Python number, in place of the variable that `apply` adapts.
    """
    unbuilt: list[keras.optimizers.LossScaleOptimizer] = []
    scale_loss = keras.optimizers.LossScaleOptimizer.scale_loss

    @functools.wraps(scale_loss)
    def noticed(optimizer: keras.optimizers.LossScaleOptimizer, loss: Any) -> Any:
        if not optimizer.built:
            unbuilt.append(optimizer)
        return scale_loss(optimizer, loss)

    keras.optimizers.LossScaleOptimizer.scale_loss = noticed
    try:
        yield unbuilt
    finally:
        keras.optimizers.LossScaleOptimizer.scale_loss = scale_loss


# Losses of layers


@contextlib.contextmanager
def layers_with_losses() -> Iterator[dict[int, tuple[keras.layers.Layer, list[Any]]]]:
    """The layers that lose or `add_loss` a loss inside the block, by `id`, each with the losses it had before.

    Keras keeps them in private lists, which a call of the outermost layer empties; neither is announced, so both methods of the
    public `Layer` class are wrapped for a while.
    """
    thread, cls = threading.get_ident(), keras.layers.Layer
    originals = {name: vars(cls)[name] for name in ("add_loss", "_clear_losses")}
    before: dict[int, tuple[keras.layers.Layer, list[Any]]] = {}

    def noting(method: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(method)
        def noted(layer: keras.layers.Layer, *args: Any, **kwargs: Any) -> None:
            if threading.get_ident() == thread:
                before.setdefault(id(layer), (layer, list(layer._losses)))  # noqa: SLF001
            return method(layer, *args, **kwargs)

        return noted

    for name, method in originals.items():
        setattr(cls, name, noting(method))
    try:
        yield before
    finally:
        for name, method in originals.items():
            setattr(cls, name, method)


def has_own_losses(layer: keras.layers.Layer) -> bool:
    """Whether a layer itself has losses, asked at every step for each layer, so without Keras' own look at scopes."""
    return bool(layer._losses)  # noqa: SLF001


def own_losses(layer: keras.layers.Layer) -> list[Any]:
    """The losses that a layer itself has added since they were last cleared; `layer.losses` has those of its sublayers too."""
    return layer._get_own_losses()  # noqa: SLF001


def set_own_losses(layer: keras.layers.Layer, losses: list[Any]) -> None:
    """Makes these the losses that a layer itself has added; Keras can only clear those of its sublayers with them."""
    layer._loss_ids.clear()  # noqa: SLF001
    keras.layers.Layer.add_loss(layer, losses)  # In a `StatelessScope` they go there, and their `id`s here.
    layer._losses.clear()  # noqa: SLF001
    layer._losses.extend(losses)  # noqa: SLF001


# What a step reads

ATTRIBUTES_READ_IN_A_STEP = frozenset({"_trainable", "_learning_rate"})
"""Private attributes behind public ones: `layer.trainable`, and `optimizer.learning_rate`, which may be given a schedule."""


def sublayers(layer: Any) -> list[keras.layers.Layer]:
    """The layers directly inside a layer; none for any other object. On PyTorch a layer's `vars` do not have them."""
    if not isinstance(layer, keras.layers.Layer):
        return []
    return list(layer._flatten_layers(include_self=False, recursive=False))  # noqa: SLF001


# Callbacks


def restored_epoch(model: keras.Model) -> int:
    """The epoch that `keras.callbacks.BackupAndRestore` has restored a model to, 0 if none: it leaves it here for `fit` alone."""
    return model._initial_epoch or 0  # noqa: SLF001


def forget_restored_epoch(model: keras.Model) -> None:
    """Makes the next `fit` start where it is told to; Keras' own would skip the epochs again."""
    model._initial_epoch = 0  # noqa: SLF001


# Random numbers


def global_seed_generator() -> keras.random.SeedGenerator:
    """The generator behind `keras.random` calls without a seed, created if need be; Keras has no public name for it."""
    generator = global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)
    if generator is None:
        generator = keras.random.SeedGenerator()
        global_state.set_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR, generator)
    return generator


def global_seed_generator_if_any() -> keras.random.SeedGenerator | None:
    """The generator behind unseeded `keras.random` calls, if there has been such a call yet."""
    return global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)


def draw_seed(seed: Any) -> Any:
    """The seed tensor of a draw, as every `keras.random` function takes it: Keras has no public name for that."""
    return seed_generator.draw_seed(seed)


def keep_global_seed_generator(generator: keras.random.SeedGenerator) -> None:
    """Makes this the global generator again, in the state of the one that has taken its place.

    `keras.utils.set_random_seed` puts a new generator in the place of the one whose variable a captured step advances.
    """
    current = global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)
    if current is not generator:
        generator.state.assign(global_seed_generator().state)
        global_state.set_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR, generator)


@contextlib.contextmanager
def patched(module: Any, **replacements: Any) -> Iterator[None]:
    """Replaces names of a module of Keras for a while."""
    originals = {name: getattr(module, name) for name in replacements}
    for name, replacement in replacements.items():
        setattr(module, name, replacement)
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(module, name, original)


@contextlib.contextmanager
def python_draws_by_keras() -> Iterator[list[tuple[int, int]]]:
    """The bounds of each draw that Keras makes from Python's global generator inside the block, to seed layers and initializers."""
    bounds: list[tuple[int, int]] = []

    def randint(low: int, high: int) -> int:
        bounds.append((low, high))
        return random.randint(low, high)

    with patched(seed_generator, python_random=types.SimpleNamespace(randint=randint)):
        yield bounds


@contextlib.contextmanager
def unseeded_draws_allowed() -> Iterator[None]:
    """Lets unseeded `keras.random` calls through while JAX traces.

    Keras refuses them there, since outside a `StatelessScope` the global generator's state would be frozen. Inside a step its state
    is found and advanced like that of any other variable.
    """
    with patched(seed_generator, global_seed_generator=global_seed_generator):
        yield


def resets_to_constants(metric: keras.metrics.Metric) -> bool:
    """Whether `reset_state` is Keras' own, of a metric without metrics inside, and so always leaves the same values."""
    return type(metric).reset_state.__module__.startswith("keras.src.metrics.")
