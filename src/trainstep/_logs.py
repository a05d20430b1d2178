"""What a step returns: which entries are metrics, which are scalars to be averaged, and how they come back as a dict."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import keras

from . import _keras, backends
from ._errors import StepError, describe
from .backends import Tensor


@dataclasses.dataclass(frozen=True)
class _Entry:
    """One scalar of the logs: where it stands in the returned dict, and in the program's outputs."""

    path: tuple[str, ...]
    value_index: int
    reported_index: int


@final
class LogLayout:
    """How the flat outputs of a program map to the dict that the step returned. Filled while the step is captured.

    Args:
        step_name: For error messages.
        running_means: The means of the scalars that are not metrics, by name; shared by all programs of one step.
    """

    def __init__(self, step_name: str, running_means: dict[str, keras.metrics.Mean]):
        self._step_name = step_name
        self._running_means = running_means
        self._results: dict[int, tuple[Any, keras.metrics.Metric]] = {}
        self._entries: list[_Entry] = []
        self._predictions: Any = None
        self.metrics: list[keras.metrics.Metric] = []

    @contextlib.contextmanager
    def noticing_results(self) -> Iterator[None]:
        """Notices each `metric.result()`, so that a scalar that came from one counts as that metric."""

        def remember(metric: keras.metrics.Metric, result: Any) -> None:
            for leaf in keras.tree.flatten(result):
                self._results[id(leaf)] = (leaf, metric)

        with _keras.metric_results(remember):
            yield
        self._results.clear()

    def set_predictions(self, result: Any) -> list[Tensor]:
        """Takes what a prediction step returned; the flat tensors in it."""
        leaves = keras.tree.flatten(result)
        for leaf in leaves:
            if not backends.active().is_tensor(leaf):
                raise StepError(
                    f"The prediction step {self._step_name!r} must return tensors, in any nest. It returned {describe(result)}."
                )
        self._predictions = keras.tree.map_structure(lambda leaf: None, result)
        return leaves

    def set_logs(self, result: Any, *, num_samples: int) -> list[Tensor]:
        """Takes what a training or test step returned; the flat scalars in it, and in their running means.

        Raises `StepError` for anything but `None` or a nested dict of metrics and scalar tensors.
        """
        if result is not None and not isinstance(result, Mapping):
            raise StepError(
                f"The step {self._step_name!r} must return None or a dict of metrics and scalar tensors. "
                f"It returned {describe(result)}. "
                'Write `return {"loss": loss}`; a step that returns predictions goes to `ts.Trainer(predict_step=...)`.'
            )
        outputs: list[Tensor] = []
        for path, value in _flatten_dict(result or {}):
            self._add(path, value, num_samples, outputs)
        return outputs

    def values(self, outputs: Sequence[Tensor]) -> dict[str, Any]:
        """The dict that the step returned, with values in place of metrics."""
        logs: dict[str, Any] = {}
        for entry in self._entries:
            *parents, last = entry.path
            inner = logs
            for parent in parents:
                inner = inner.setdefault(parent, {})
            inner[last] = outputs[entry.value_index]
        return logs

    def reported(self, outputs: Sequence[Tensor]) -> dict[str, Tensor]:
        """What a loop reports: a flat dict, nested names joined by "/", scalars as their running means."""
        return {"/".join(entry.path): outputs[entry.reported_index] for entry in self._entries}

    def predictions(self, outputs: Sequence[Tensor]) -> Any:
        """The nest of predictions that the step returned."""
        return keras.tree.pack_sequence_as(self._predictions, list(outputs))

    def _add(self, path: tuple[str, ...], value: Any, num_samples: int, outputs: list[Tensor]) -> None:
        if isinstance(value, keras.metrics.Metric):
            self._add_metric(value)
            result = value.result()
            for inner_path, leaf in _flatten_dict(result) if isinstance(result, Mapping) else [((), result)]:
                self._entries.append(_Entry(path + inner_path, len(outputs), len(outputs)))
                outputs.append(keras.ops.convert_to_tensor(leaf))
            return
        scalar = self._as_scalar(path, value)
        metric = self._results.get(id(value), (None, None))[1]
        self._entries.append(_Entry(path, len(outputs), len(outputs) + (metric is None)))
        outputs.append(scalar)
        if metric is not None:
            self._add_metric(metric)
            return
        mean = self._running_means.setdefault("/".join(path), keras.metrics.Mean(name="_".join(path)))
        mean.update_state(keras.ops.stop_gradient(scalar), sample_weight=num_samples)
        outputs.append(mean.result())

    def _add_metric(self, metric: keras.metrics.Metric) -> None:
        if all(metric is not known for known in self.metrics):
            self.metrics.append(metric)

    def _as_scalar(self, path: tuple[str, ...], value: Any) -> Tensor:
        is_number = isinstance(value, (bool, int, float)) or backends.active().is_tensor(value) or isinstance(value, keras.Variable)
        scalar = keras.ops.convert_to_tensor(value) if is_number or type(value).__module__ == "numpy" else None
        if scalar is None or tuple(scalar.shape) != ():
            raise StepError(
                f"The step {self._step_name!r} returned {describe(value)} as {'/'.join(path)!r}. "
                "A step returns metrics and scalar tensors; reduce it, for instance with `keras.ops.mean`. "
                "No variable has been changed."
            )
        return scalar


def _flatten_dict(nest: Mapping[str, Any], parents: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    flat: list[tuple[tuple[str, ...], Any]] = []
    for key, value in nest.items():
        path = (*parents, str(key))
        flat.extend(_flatten_dict(value, path) if isinstance(value, Mapping) else [(path, value)])
    return flat
