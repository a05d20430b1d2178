"""The model that callbacks see where the user gave steps only, and what callbacks need of a model."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import keras
import numpy as np

from .._errors import StepError, TrainStepError, describe
from .._reach import lent_attribute
from .._step import Step


@final
class StandInModel(keras.Model):
    """The variables that a step trains, as a Keras model: weights to get, set, save and load, an optimizer, `stop_training`.

    Its weights are the variables of the step that belong to no optimizer, metric or seed generator, in the order of first use.
    """

    def __init__(self, step: Step):
        super().__init__(name=step.__name__)
        self._step = step
        self.built = True

    @property
    def optimizer(self) -> keras.optimizers.Optimizer | None:
        """The first optimizer that the step uses; `None` if it updates weights by hand."""
        return next(iter(self._step.optimizers), None)

    @property
    def weights(self) -> list[keras.Variable]:
        """All weights, trainable or not."""
        owned = {id(variable) for variable in self._step.metric_variables}
        owned.update(id(variable) for optimizer in self._step.optimizers for variable in optimizer.variables)
        return [v for v in self._step.variables if id(v) not in owned and v.name != "seed_generator_state"]

    @property
    def trainable_weights(self) -> list[keras.Variable]:
        """The weights that may be trained."""
        return [variable for variable in self.weights if variable.trainable]

    @property
    def non_trainable_weights(self) -> list[keras.Variable]:
        """The other weights, such as the moving averages of batch normalization."""
        return [variable for variable in self.weights if not variable.trainable]

    @property
    def trainable_variables(self) -> list[keras.Variable]:
        """The weights that may be trained."""
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[keras.Variable]:
        """The other weights."""
        return self.non_trainable_weights

    @property
    def variables(self) -> list[keras.Variable]:
        """All weights."""
        return self.weights

    @property
    def metrics(self) -> list[keras.metrics.Metric]:
        """The metrics that the step reports."""
        return self._step.metrics

    @property
    def metrics_names(self) -> list[str]:
        """Their names."""
        return [metric.name for metric in self.metrics]

    def get_weights(self) -> list[np.ndarray]:
        """The values of the weights: copies, which later steps leave alone."""
        return [np.array(keras.ops.convert_to_numpy(variable), copy=True) for variable in self.weights]

    def save_own_variables(self, store: Any) -> None:
        """Writes the weights by position."""
        for i, variable in enumerate(self.weights):
            store[str(i)] = keras.ops.convert_to_numpy(variable)

    def load_own_variables(self, store: Mapping[str, Any]) -> None:
        """Reads what `save_own_variables` wrote. Raises `TrainStepError` if it is of another step."""
        weights = self.weights
        if len(store.keys()) != len(weights):
            raise TrainStepError(f"The file holds {len(store.keys())} weights; the step {self.name!r} has {len(weights)}.")
        for i, variable in enumerate(weights):
            variable.assign(store[str(i)])

    def call(self, *inputs: Any) -> Any:
        """Raises `StepError`: a step has no forward pass of its own."""
        raise StepError(f"The step {self.name!r} cannot be called as a model. Give the model: `ts.Trainer(..., model=model)`.")

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Raises `TrainStepError`: a step's function cannot be saved, its weights can."""
        raise TrainStepError(_CANNOT_SAVE)


_CANNOT_SAVE = (
    "A whole model can be saved only where there is one. Give it, `ts.Trainer(train_step, ..., model=model)`, "
    "or save the weights alone: `keras.callbacks.ModelCheckpoint(..., save_weights_only=True)`."
)


def check_callbacks(callbacks: Any, model: keras.Model) -> list[keras.callbacks.Callback]:
    """The callbacks as a list.

    Raises `TrainStepError` for what is no callback, and for one that `model` cannot serve: that is better said before the
    first step than hours later.
    """
    listed = getattr(callbacks, "callbacks", callbacks) or []
    checked = list(listed) if isinstance(listed, Sequence) else [listed]
    for callback in checked:
        if not isinstance(callback, keras.callbacks.Callback):
            raise TrainStepError(f"`callbacks` takes instances of `keras.callbacks.Callback`. Got {describe(callback)}.")
        if isinstance(callback, keras.callbacks.ModelCheckpoint) and isinstance(model, StandInModel):
            _check_saves_weights(callback)
        if isinstance(callback, (keras.callbacks.ReduceLROnPlateau, keras.callbacks.LearningRateScheduler)):
            _check_learning_rate(type(callback).__name__, model)
    return checked


def _check_saves_weights(callback: keras.callbacks.ModelCheckpoint) -> None:
    if not callback.save_weights_only:
        raise TrainStepError(_CANNOT_SAVE)


def _check_learning_rate(callback: str, model: keras.Model) -> None:
    optimizer = getattr(model, "optimizer", None)
    if optimizer is None:
        raise TrainStepError(f"`{callback}` sets the learning rate of an optimizer. The step uses no Keras optimizer.")
    if isinstance(optimizer.get_config().get("learning_rate"), Mapping):
        raise TrainStepError(
            f"`{callback}` sets the learning rate, and {optimizer.name!r} takes it from a schedule. "
            "Give the optimizer a number, or leave the callback out."
        )


@contextlib.contextmanager
def lent_optimizer(model: keras.Model, step: Step) -> Iterator[None]:
    """Lends a model that was not compiled the optimizer of the step, for the callbacks that look for one."""
    if getattr(model, "optimizer", None) is not None or not step.optimizers:
        yield
        return
    with lent_attribute(model, "optimizer", step.optimizers[0]):
        yield
