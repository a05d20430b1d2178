"""Tensors that a step leaves in attributes: placeholders while it is captured, numbers after each run."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

import keras

from . import _keras, backends
from ._reach import Reach
from .backends import Tensor

FlatFunction = Callable[[Sequence[Tensor]], list[Tensor]]

_ABSENT = object()


@final
class LeftBehind:
    """The tensors that a step leaves in attributes, globals and closures, as further outputs of its program.

    A layer that sets `self.divergence = ...` in its forward pass has a number there after each step, as it has when run eagerly;
    so have `layer.losses` after `layer.add_loss(...)`.
    """

    def __init__(self, reach: Reach):
        self._reach = reach
        self._left: list[tuple[Any, Any, Any, int]] = []
        self._losses: list[tuple[keras.layers.Layer, int]] = []
        self._num_tensors = 0

    @property
    def places(self) -> set[tuple[int, Any]]:
        """Where tensors are left: the identity of the container, and the key in it."""
        return {(id(container), key) for container, key, *_ in self._left}

    def collecting(self, function: FlatFunction) -> FlatFunction:
        """The function, with the tensors that it leaves behind as further outputs; each place has its old value again after it."""

        def collecting_function(tensors: Sequence[Tensor]) -> list[Tensor]:
            before = self._contents()
            try:
                with self._collecting_losses() as leaves:
                    outputs = function(tensors)
                self._left = []
                for container, key, _ in _changes(before):
                    value = _get(container, key)
                    flat = keras.tree.flatten(value)
                    self._left.append((container, key, keras.tree.map_structure(lambda _: None, value), len(flat)))
                    leaves.extend(flat)
                self._num_tensors = len(leaves)
            finally:
                for container, key, old in _changes(before):
                    _put(container, key, old)
            return [*outputs, *leaves]

        return collecting_function

    def put(self, outputs: Sequence[Tensor]) -> None:
        """Puts the numbers of one run, the last outputs of its program, where the step left them."""
        start = len(outputs) - self._num_tensors
        for layer, count in self._losses:
            if count or _keras.has_own_losses(layer):
                _keras.set_own_losses(layer, list(outputs[start : start + count]))
            start += count
        for container, key, structure, count in self._left:
            leaves = outputs[start : start + count]
            _put(container, key, leaves[0] if structure is None else keras.tree.pack_sequence_as(structure, list(leaves)))
            start += count

    @contextlib.contextmanager
    def _collecting_losses(self) -> Iterator[list[Tensor]]:
        """A list that gets the losses that layers add in the block; each layer has its old losses again after it."""
        leaves: list[Tensor] = []
        with _keras.layers_with_losses() as before:
            try:
                yield leaves
                self._losses = []
                for layer, _ in before.values():
                    losses = _keras.own_losses(layer)
                    self._losses.append((layer, len(losses)))
                    leaves.extend(losses)
            finally:
                with _keras.suspended_stateless_scope():
                    for layer, old in before.values():
                        _keras.set_own_losses(layer, old)

    def _contents(self) -> list[tuple[Any, dict[Any, Any]]]:
        spaces = [(container, dict(container)) for _, container in self._reach.namespaces]
        return spaces + [(cell, {None: _content(cell)}) for cell in self._reach.cells]


def _changes(before: list[tuple[Any, dict[Any, Any]]]) -> list[tuple[Any, Any, Any]]:
    """The places where tensors stand that did not before: the container, the key, and what stood there."""
    changes = []
    for container, old in before:
        now = container if isinstance(container, dict) else {None: _content(container)}
        changes += [
            (container, key, old.get(key, _ABSENT))
            for key, value in now.items()
            if value is not old.get(key, _ABSENT) and _is_tensors(value)
        ]
    return changes


def _is_tensors(value: Any) -> bool:
    """Whether this is a tensor, or a list, tuple or dict of nothing but tensors."""
    if not isinstance(value, (list, tuple, dict)):
        return backends.active().is_tensor(value)
    leaves = keras.tree.flatten(value)
    return bool(leaves) and all(backends.active().is_tensor(leaf) for leaf in leaves)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _ABSENT


def _get(container: Any, key: Any) -> Any:
    return container.cell_contents if key is None else container[key]


def _put(container: Any, key: Any, value: Any) -> None:
    if key is None:
        if value is _ABSENT:
            del container.cell_contents
        else:
            container.cell_contents = value
    elif value is _ABSENT:
        container.pop(key, None)
    else:
        container[key] = value
