"""What happens in a loop, told to Keras callbacks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import keras

from .. import _keras
from ..backends import Tensor
from ._reading import LazyLogs

BatchHook = Callable[..., Any]


@final
class Events:
    """Tells callbacks what happens. A hook for batches is called only where a callback defines it: most define none.

    Args:
        callbacks: Keras callbacks, called in this order.
        model: What they see as `callback.model`, and set `stop_training` on.
        params: What they see as `callback.params`: "verbose", "epochs", "steps".
    """

    def __init__(self, callbacks: Sequence[keras.callbacks.Callback], model: keras.Model, params: Mapping[str, Any]):
        self._callbacks = callbacks
        self._model = model
        self._train_batch_begin = _overridden(callbacks, "on_train_batch_begin", "on_batch_begin")
        self._train_batch_end = _overridden(callbacks, "on_train_batch_end", "on_batch_end")
        self._test_batch_begin = _overridden(callbacks, "on_test_batch_begin")
        self._test_batch_end = _overridden(callbacks, "on_test_batch_end")
        self._predict_batch_begin = _overridden(callbacks, "on_predict_batch_begin")
        self._predict_batch_end = _overridden(callbacks, "on_predict_batch_end")
        self.has_train_batch_hooks = bool(self._train_batch_begin or self._train_batch_end)
        self.has_test_batch_hooks = bool(self._test_batch_begin or self._test_batch_end)
        self.may_change_data = any(map(_is_of_the_user, callbacks))
        """Whether code that is not Keras' own runs between epochs: it may change arrays in place."""
        for callback in callbacks:
            callback.set_params(dict(params))
            callback.set_model(model)

    @property
    def stop_requested(self) -> bool:
        """Whether a callback has set `model.stop_training`."""
        return self._model.stop_training

    def train_begin(self, epochs: range) -> range:
        """Training starts; no callback has asked to stop it yet. Gives the epochs that are left where one restores an older run."""
        self._model.stop_training = False
        _keras.forget_restored_epoch(self._model)
        for callback in self._callbacks:
            callback.on_train_begin({})
        return range(max(epochs.start, _keras.restored_epoch(self._model)), epochs.stop)

    def train_end(self, logs: dict[str, Any]) -> None:
        """Training has ended by itself, or because a callback asked; not by an exception."""
        for callback in self._callbacks:
            callback.on_train_end(logs)

    def epoch_begin(self, epoch: int) -> None:
        """An epoch, counted from 0, starts."""
        for callback in self._callbacks:
            callback.on_epoch_begin(epoch, {})

    def epoch_end(self, epoch: int, logs: dict[str, Any]) -> None:
        """An epoch has ended. All callbacks share the dict: one may add to it what a later one reads."""
        for callback in self._callbacks:
            callback.on_epoch_end(epoch, logs)

    def train_batch_begin(self, step: int) -> None:
        """The batch number `step` of this epoch is about to be trained on."""
        _call(self._train_batch_begin, step, {})

    def train_batch_end(self, step: int, logs: Mapping[str, Tensor]) -> None:
        """The batch has been trained on; `logs` as of now, read from the device only if a callback looks."""
        _call(self._train_batch_end, step, logs)

    def test_begin(self) -> None:
        """An evaluation starts."""
        for callback in self._callbacks:
            callback.on_test_begin({})

    def test_end(self, logs: dict[str, Any]) -> None:
        """An evaluation has ended."""
        for callback in self._callbacks:
            callback.on_test_end(logs)

    def test_batch_begin(self, step: int) -> None:
        """A batch is about to be evaluated."""
        _call(self._test_batch_begin, step, {})

    def test_batch_end(self, step: int, logs: Mapping[str, Tensor]) -> None:
        """A batch has been evaluated."""
        _call(self._test_batch_end, step, logs)

    def predict_begin(self) -> None:
        """A prediction starts."""
        for callback in self._callbacks:
            callback.on_predict_begin({})

    def predict_end(self) -> None:
        """A prediction has ended."""
        for callback in self._callbacks:
            callback.on_predict_end({})

    def predict_batch_begin(self, step: int) -> None:
        """A batch is about to be predicted on."""
        _call(self._predict_batch_begin, step, {})

    def predict_batch_end(self, step: int, outputs: Any) -> None:
        """A batch has been predicted on; `{"outputs": the nest of tensors}`."""
        for hook in self._predict_batch_end:
            hook(step, {"outputs": outputs})


def _is_of_the_user(callback: keras.callbacks.Callback) -> bool:
    is_kerass_own = type(callback).__module__.startswith("keras.")
    return not is_kerass_own or isinstance(callback, keras.callbacks.LambdaCallback)


def _call(hooks: Sequence[BatchHook], step: int, logs: Mapping[str, Tensor]) -> None:
    if hooks:
        lazy = LazyLogs(logs)
        for hook in hooks:
            hook(step, lazy)


def _overridden(callbacks: Sequence[keras.callbacks.Callback], *names: str) -> list[BatchHook]:
    """The first hook of those names, where a class or an instance defines one of them."""
    return [getattr(callback, names[0]) for callback in callbacks if any(_defines(callback, name) for name in names)]


def _defines(callback: keras.callbacks.Callback, name: str) -> bool:
    hook = getattr(callback, name)
    return getattr(hook, "__func__", hook) is not getattr(keras.callbacks.Callback, name)
