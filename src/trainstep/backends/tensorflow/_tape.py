"""The recorder: TensorFlow's own tape, asked in such a way that it keeps trainstep's contract."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, final

import keras
import tensorflow as tf

from ... import _keras
from ..._errors import TapeError
from .._abstract import AbstractRecorder, Source, Tensor


@final
class TensorFlowRecorder(AbstractRecorder):
    """A `tf.GradientTape` that watches only what it is told to.

    The tape underneath is always persistent, since `tracks` is a question too; it is dropped after the last one. TensorFlow
    keeps its recording tapes as a set, so they may pause and resume in any order.
    """

    def __init__(self) -> None:
        self._tape = tf.GradientTape(persistent=True, watch_accessed_variables=False)
        self._is_recording = False
        self._watched: dict[int, keras.Variable] = {}

    def resume(self) -> None:
        self._tape.__enter__()
        self._is_recording = True

    def pause(self) -> None:
        self._is_recording = False
        self._tape.__exit__(None, None, None)

    def watch(self, source: Source) -> None:
        if not isinstance(source, keras.Variable):
            self._tape.watch(source)
        elif id(source) not in self._watched and _keras.is_initialized(source):
            self._watched[id(source)] = source
            self._tape.watch(_keras.raw_value(source))

    def tracks(self, tensor: Source) -> bool:
        """TensorFlow has no such question. An operation on a tracked tensor is recorded, and that shows in its gradient."""
        probed = _unwrap(tensor)
        if not probed.dtype.is_floating:
            return False
        was_recording = self._is_recording
        if not was_recording:
            self.resume()
        probe = tf.identity(probed)
        self.pause()
        with _explained():
            is_tracked = self._tape.gradient(probe, probed) is not None
        if was_recording:
            self.resume()
        return is_tracked

    def gradient(
        self,
        targets: Sequence[Source],
        sources: Sequence[Source],
        output_gradients: Sequence[Tensor | None],
        *,
        is_last_question: bool,
    ) -> list[Tensor | None]:
        raw_sources = [_unwrap(source) for source in sources]
        asked = self._differentiable_targets(targets, raw_sources, output_gradients)
        answers: list[Any] = [None] * len(raw_sources)
        if asked and raw_sources:
            raw_targets, weights = [target for target, _ in asked], [_ones_if_none(weight, target) for target, weight in asked]
            with _explained():
                answers = self._tape.gradient(raw_targets, raw_sources, output_gradients=weights)
        if is_last_question:
            del self._tape
        return [_dense(answer, source) for answer, source in zip(answers, raw_sources, strict=True)]

    def jacobian(self, target: Tensor, sources: Sequence[Source]) -> list[Tensor | None]:
        raw_sources = [_unwrap(source) for source in sources]
        if not raw_sources or not self._differentiable_targets([target], raw_sources, [None]):
            return [None] * len(raw_sources)
        return self._jacobian(_unwrap(target), raw_sources)

    def batch_jacobian(self, target: Tensor, source: Source) -> Tensor | None:
        """The Jacobian of the sum over the batch, in which each sample's derivative stands by itself.

        Unlike `tf.GradientTape.batch_jacobian` it takes vectors and an empty batch, and tells zeros from "not connected".
        """
        raw_source = _unwrap(source)
        was_recording = self._is_recording
        if not was_recording:
            self.resume()
        total = tf.reduce_sum(target, axis=0)
        if not was_recording:
            self.pause()
        if not self.tracks(total):
            return None
        (jacobian,) = self._jacobian(total, [raw_source])
        if jacobian is None:
            return None
        batch_axis = total.shape.rank
        others = [axis for axis in range(jacobian.shape.rank) if axis != batch_axis]
        return tf.transpose(jacobian, [batch_axis, *others])

    def _differentiable_targets(
        self, targets: Sequence[Source], raw_sources: Sequence[Any], output_gradients: Sequence[Tensor | None]
    ) -> list[tuple[Any, Tensor | None]]:
        """Without integers, and without untracked targets that are sources too: TensorFlow says ones for those."""
        source_ids = {id(source) for source in raw_sources}
        return [
            (_unwrap(target), weight)
            for target, weight in zip(targets, output_gradients, strict=True)
            if _unwrap(target).dtype.is_floating and (id(_unwrap(target)) not in source_ids or self.tracks(target))
        ]

    def _jacobian(self, target: tf.Tensor, raw_sources: Sequence[Any]) -> list[Tensor | None]:
        try:
            answers = self._tape.jacobian(target, list(raw_sources))
        except ValueError:  # an operation, such as a loop of unknown length, that TensorFlow cannot vectorize
            answers = self._tape.jacobian(target, list(raw_sources), experimental_use_pfor=False)
        for answer, source in zip(answers, raw_sources, strict=True):
            if answer is not None:
                answer.set_shape(target.shape.concatenate(source.shape))
        return answers


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except LookupError as error:
        operation = str(error).rpartition(" ")[2]
        raise TapeError(
            f"`tape.gradient` cannot go backwards through `{operation}`: TensorFlow has no gradient for this operation. If it "
            "comes from `keras.ops.slice_update`, use `keras.ops.scatter_update`, or select with `keras.ops.where`."
        ) from error


def _unwrap(source: Source) -> tf.Tensor | tf.Variable:
    """The `tf.Variable` of a Keras variable, not cast by an autocast scope; a tensor is left as it is."""
    return _keras.raw_value(source) if isinstance(source, keras.Variable) else source


def _ones_if_none(weight: Tensor | None, target: tf.Tensor | tf.Variable) -> tf.Tensor:
    """TensorFlow takes a weight for every target or for none."""
    return tf.ones_like(target) if weight is None else weight


def _dense(gradient: Any, source: tf.Tensor | tf.Variable) -> tf.Tensor | None:
    """A gradient that TensorFlow left as slices of an embedding, as a tensor; with the shape that graphs sometimes lose."""
    if gradient is None:
        return None
    tensor = tf.convert_to_tensor(gradient)
    tensor.set_shape(source.shape)
    return tensor
