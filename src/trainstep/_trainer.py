"""The trainer: Keras' `fit`, `evaluate` and `predict` around steps."""

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Literal, final

import keras

from . import backends, data, loop
from ._errors import TrainStepError, describe
from ._step import Step, step
from .loop import Verbose


@final
class Trainer:
    """Trains, evaluates and predicts with steps, as Keras' `fit`, `evaluate` and `predict` do.

    Args:
        train_step: A `ts.step`, or a function that becomes one: `(x, y) -> dict` of metrics and scalars, updating what it trains.
        test_step: The same without an update, for `evaluate` and validation.
        predict_step: `x -> tensors`, in any nest.
        model: What callbacks see as `callback.model`; also what `predict` calls where there is no `predict_step`. Without it,
            callbacks see a stand-in whose weights are the variables that the train step trains.
        flush_denormals: Whether numbers below 1e-38 count as zero while `fit` trains on a CPU. XLA and TensorFlow always do so; on
            PyTorch it is set for the process (`torch.set_flush_denormal`), and put back when `fit` ends. Moving averages decay into
            such numbers, which processors take many times as long for.

    >>> import keras, numpy as np, trainstep as ts
    >>> w = keras.Variable(1.0)
    >>> def train_step(x):
    ...     w.assign_sub(0.25)
    ...     return {"loss": keras.ops.mean(w * x)}
    >>> ts.Trainer(train_step).fit(np.ones((4, 1), "float32"), batch_size=2, verbose=0).history
    {'loss': [0.625]}
    """

    def __init__(
        self,
        train_step: Callable[..., Any] | None = None,
        test_step: Callable[..., Any] | None = None,
        predict_step: Callable[..., Any] | None = None,
        *,
        model: keras.Model | None = None,
        flush_denormals: bool = True,
    ):
        given = {"train_step": train_step, "test_step": test_step, "predict_step": predict_step}
        self._steps = {name: _as_step(name, function) for name, function in given.items() if function is not None}
        self._model = model
        self._flush_denormals = flush_denormals
        if model is not None and predict_step is None:
            self._steps["predict_step"] = _prediction_by(model)
        self._stand_ins: dict[int, loop.StandInModel] = {}
        self._is_training = False

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Verbose = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Mapping[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: int | Collection[int] = 1,
    ) -> keras.callbacks.History:
        """Trains with the train step, and returns what was reported after each epoch.

        Args:
            x: Arrays, tensors or lists of numbers in any nest; a `tf.data.Dataset`; a torch `DataLoader`; a list of batches (tuples
                or dicts), an iterator or iterable of batches; or a function that returns a fresh iterator of batches.
            y: Targets, where `x` is arrays; the step's second argument.
            batch_size: Rows in a batch, where `x` is arrays; 32 by default.
            epochs: The number of the last epoch.
            verbose: 0 shows nothing, 1 a bar, 2 a line for each epoch, "auto" what suits the output.
            callbacks: Keras callbacks.
            validation_split: The fraction of the rows, from the end, to validate on.
            validation_data: What to validate on: `(x, y)`, `(x, y, sample_weight)`, or anything that `x` may be.
            shuffle: Whether the rows of arrays are drawn in a new order in every epoch.
            class_weight: The weight of each class; it becomes the step's third argument, one weight for each sample.
            sample_weight: The step's third argument, where `x` is arrays.
            initial_epoch: The number of epochs done before.
            steps_per_epoch: Batches in an epoch; the next epoch goes on where the last one stopped. `None`: all, and an
                iterator that never ends makes an epoch that never ends.
            validation_steps: At most so many batches, the same ones each time, to validate on.
            validation_batch_size: Rows in a batch of validation arrays; `batch_size` by default.
            validation_freq: Validate every so many epochs, or after the epochs listed, counted from 1.

        Raises:
            TrainStepError: There is no step for what is asked, or a callback cannot work; before the first update.
            DataError: The data do not fit together, or do not fit the step; before the first update. Or they have run out.
            StepError: The step is wrong; before the first update.
        """
        train_step = self._step("train_step", "fit")
        epoch_range = range(loop.not_negative("initial_epoch", initial_epoch), loop.positive("epochs", epochs))
        batch_size = loop.positive_or_none("batch_size", batch_size)
        progress = loop.progress_for(verbose, title=f"Epoch {{epoch}}/{epochs}")
        training, validation_given = _training_and_validation(data.Given(x, y, sample_weight), validation_split, validation_data)
        feed = data.training_feed(
            training,
            batch_size=batch_size,
            shuffle=bool(shuffle),
            class_weight=class_weight,
            steps_per_epoch=loop.positive_or_none("steps_per_epoch", steps_per_epoch),
        )
        _prepare(train_step, feed, epoch=epoch_range.start, call="fit")
        validation: loop.AbstractValidation = loop.NoValidation()
        if validation_given is not None:
            evaluation = self._evaluation(
                validation_given,
                call="fit",
                argument="validation_data",
                batch_size=loop.positive_or_none("validation_batch_size", validation_batch_size) or batch_size,
                steps=loop.positive_or_none("validation_steps", validation_steps),
                epoch=epoch_range.start,
            )
            validation = loop.Validation(evaluation, frequency=loop.frequency(validation_freq))
        history = keras.callbacks.History()
        with self._training(train_step), contextlib.closing(progress):
            events = self._events(callbacks, train_step, history, verbose=verbose, epochs=epochs, steps=feed.num_steps)
            loop.fit(train_step, feed, epochs=epoch_range, validation=validation, events=events, progress=progress)
        return history

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Verbose = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = True,
    ) -> Any:
        """What the test step reports over all batches: a dict of floats, or with `return_dict=False` the list of its values.

        May be called by a callback in the middle of `fit`, whose own metrics it leaves as they were. Takes data as `fit` does;
        `steps` is the most batches to take.

        Raises:
            TrainStepError: There is no test step.
            DataError: The data do not fit together, or do not fit the step.
        """
        progress = self._progress(verbose, "Evaluation")
        with self._metrics_of_training_kept(), contextlib.closing(progress):
            evaluation = self._evaluation(
                data.Given(x, y, sample_weight),
                call="evaluate",
                argument="x",
                batch_size=loop.positive_or_none("batch_size", batch_size),
                steps=loop.positive_or_none("steps", steps),
                progress=progress,
            )
            events = self._events(callbacks, evaluation.step, verbose=verbose, steps=evaluation.feed.num_steps)
            logs = evaluation.run(events)
        return logs if return_dict else list(logs.values())

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Verbose = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """What the prediction step returns for every sample: NumPy arrays in the nest of its result, in the order of the samples.

        Takes data as `fit` does; of a tuple batch `(x, y)` the step gets as many parts as it has arguments.

        Raises:
            TrainStepError: There is neither a `predict_step` nor a `model`.
            DataError: The data do not fit together, or do not fit the step.
        """
        predict_step = self._step("predict_step", "predict")
        progress = self._progress(verbose, "Prediction")
        feed = data.prediction_feed(
            x,
            batch_size=loop.positive_or_none("batch_size", batch_size),
            steps=loop.positive_or_none("steps", steps),
            num_inputs=loop.num_inputs(predict_step),
        )
        _prepare(predict_step, feed, call="predict", role="predict")
        with contextlib.closing(progress):
            events = self._events(callbacks, predict_step, verbose=verbose, steps=feed.num_steps)
            return loop.predict(predict_step, feed, events=events, progress=progress)

    def _step(self, name: str, call: str) -> Step:
        if name not in self._steps:
            ways = f"`ts.Trainer({name}=...)`" + (" or `ts.Trainer(..., model=model)`" if name == "predict_step" else "")
            raise TrainStepError(f"`{call}` needs a {name}, which this trainer was not given. Pass one: {ways}.")
        return self._steps[name]

    def _evaluation(
        self,
        given: data.Given,
        *,
        call: str,
        argument: str,
        batch_size: int | None,
        steps: int | None,
        epoch: int = 0,
        progress: loop.AbstractProgress = loop.NO_PROGRESS,
    ) -> loop.Evaluation:
        test_step = self._step("test_step", "validation in `fit`" if call == "fit" else call)
        feed = data.evaluation_feed(given, call=call, batch_size=batch_size, steps=steps, argument=argument)
        _prepare(test_step, feed, epoch=epoch, call=call)
        return loop.Evaluation(test_step, feed, progress=progress, companions=tuple(self._steps.values()))

    def _events(
        self, callbacks: Any, step: Step, *history: keras.callbacks.Callback, verbose: Verbose, steps: int | None, epochs: int = 1
    ) -> loop.Events:
        model = self._model if self._model is not None else self._stand_ins.setdefault(id(step), loop.StandInModel(step))
        params = {"verbose": 1 if verbose == "auto" else verbose, "epochs": epochs, "steps": steps}
        return loop.Events([*loop.check_callbacks(callbacks, model), *history], model, params)

    def _progress(self, verbose: Verbose, title: str) -> loop.AbstractProgress:
        """Quiet by default inside a running `fit`, whose bar goes on."""
        return loop.progress_for(0 if self._is_training and verbose == "auto" else verbose, title=title)

    @contextlib.contextmanager
    def _training(self, train_step: Step) -> Iterator[None]:
        lent = loop.lent_optimizer(self._model, train_step) if self._model is not None else contextlib.nullcontext()
        self._is_training = True
        try:
            with lent, backends.active().training(flush_denormals=self._flush_denormals):
                yield
        finally:
            self._is_training = False

    def _metrics_of_training_kept(self) -> contextlib.AbstractContextManager[None]:
        return loop.metrics_kept(self._steps["train_step"]) if self._is_training else contextlib.nullcontext()


def _as_step(name: str, function: Any) -> Step:
    if isinstance(function, keras.Model):
        raise TrainStepError(
            f"`ts.Trainer` takes steps: functions of one batch. Got {describe(function)} as `{name}`. "
            "Write the step, and pass the model as `ts.Trainer(train_step, model=model)`."
        )
    if not callable(function):
        raise TrainStepError(f"`ts.Trainer` takes steps: functions of one batch. Got {describe(function)} as `{name}`.")
    return step(function)


def _prediction_by(model: keras.Model) -> Step:
    def predict_step(x: Any) -> Any:
        return model(x, training=False)

    return step(predict_step)


def _training_and_validation(given: data.Given, split: float, validation_data: Any) -> tuple[data.Given, data.Given | None]:
    if validation_data is not None:
        return given, data.as_given(validation_data)
    fraction = loop.fraction(split)
    return data.split_off_validation(given, fraction) if fraction else (given, None)


def _prepare(
    step: Step, feed: data.AbstractFeed, *, call: str, epoch: int = 0, role: Literal["train", "predict"] = "train"
) -> None:
    """Says what is wrong with the step, or with the first batch, before anything runs."""
    batch = data.read(feed.look_ahead(epoch))
    loop.check_fit(step, batch, call=call)
    step.prepare(batch, role)
