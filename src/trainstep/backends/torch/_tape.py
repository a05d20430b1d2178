"""The gradient tape on top of `torch.autograd`.

Autograd records always and for everybody; a tape records its own block only. What tells them apart is the sequence number
that autograd gives to each node of its graph: a recorder keeps the intervals of numbers that were handed out while it
recorded, and follows the graph through such nodes alone.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any, final

import keras
import torch
from torch.autograd.graph import GradientEdge, Node

from ... import _keras
from ..._errors import TapeError
from .._abstract import AbstractRecorder, Source
from ._private import next_sequence_number, sequence_number
from ._reach import Reach
from ._saved import remember_variable, variables_copied


class _Thread(threading.local):
    """The recorders that record in this thread, and the tensors that require gradients for their sake."""

    def __init__(self) -> None:
        self.recording: list[TorchRecorder] = []
        self.surroundings = contextlib.ExitStack()
        self.lent: dict[int, tuple[torch.Tensor, int]] = {}


_thread = _Thread()


@final
class TorchRecorder(AbstractRecorder):
    """Records by leaving autograd switched on exactly while some recorder is recording."""

    def __init__(self) -> None:
        self._intervals: list[tuple[int, int]] = []
        self._recording_since: int | None = None
        self._watched: dict[int, tuple[torch.Tensor, int]] = {}
        self._borrowed: list[torch.Tensor] = []
        self._overlaps_another = False

    def resume(self) -> None:
        """Records from here on."""
        if _thread.recording:
            self._overlaps_another = True
            for recorder in _thread.recording:
                recorder._overlaps_another = True  # noqa: SLF001 - of the same class
        else:
            _thread.surroundings.enter_context(torch.enable_grad())
            _thread.surroundings.enter_context(variables_copied())
        _thread.recording.append(self)
        self._recording_since = next_sequence_number()
        for tensor in self._borrowed:
            _lend(tensor)

    def pause(self) -> None:
        """Stops recording, in any order with other recorders."""
        if self._recording_since is None:
            return
        self._intervals.append((self._recording_since, next_sequence_number()))
        self._recording_since = None
        for tensor in self._borrowed:
            _give_back(tensor)
        _thread.recording.remove(self)
        if not _thread.recording:
            _thread.surroundings.close()

    def watch(self, source: Source) -> None:
        """Follows a tensor or variable; one that does not require gradients does so while a recorder that watches it records."""
        tensor = _raw(source)
        if id(tensor) in self._watched:
            return
        self._watched[id(tensor)] = (tensor, next_sequence_number())
        if isinstance(source, keras.Variable):
            remember_variable(tensor)
        if not tensor.requires_grad or id(tensor) in _thread.lent:
            self._borrowed.append(tensor)
            if self._recording_since is not None:
                _lend(tensor)

    def tracks(self, tensor: Source) -> bool:
        """Whether this is watched, or computed from something watched by recorded operations."""
        raw = _raw(tensor)
        if id(raw) in self._watched:
            return True
        return raw.grad_fn is not None and self._reach([(raw.grad_fn, raw.output_nr)]).meets_watched

    def gradient(
        self,
        targets: Sequence[Source],
        sources: Sequence[Source],
        output_gradients: Sequence[torch.Tensor | None],
        *,
        is_last_question: bool,
    ) -> list[torch.Tensor | None]:
        """The gradient of the sum of the tracked targets, by one run of autograd through recorded nodes only.

        Raises `TapeError` where PyTorch has no derivative, or where a value that it needs was changed in place since.
        """
        asked = [(_raw(t), g) for t, g in zip(targets, output_gradients, strict=True) if self.tracks(t)]
        if not asked:
            return [None] * len(sources)
        weights = [torch.ones_like(t) if g is None else g for t, g in asked]
        may_free = is_last_question and not self._overlaps_another
        return self._differentiate([t for t, _ in asked], sources, weights, may_free=may_free)

    def jacobian(self, target: torch.Tensor, sources: Sequence[Source]) -> list[torch.Tensor | None]:
        """One row for each element of the target, all at once where PyTorch can batch the backward pass."""
        target = _raw(target)
        if not self.tracks(target):
            return [None] * len(sources)
        size = target.numel()
        basis = torch.eye(size, dtype=target.dtype, device=target.device).reshape(size, *target.shape)
        rows = self._differentiate_rows(target, sources, basis)
        shapes = [(*target.shape, *_raw(source).shape) for source in sources]
        return [None if row is None else row.reshape(shape) for row, shape in zip(rows, shapes, strict=True)]

    def batch_jacobian(self, target: torch.Tensor, source: Source) -> torch.Tensor | None:
        """One row for each element of a sample of the target; samples do not mix, so their rows share a backward pass."""
        target, inner_shape = _raw(target), tuple(target.shape[1:])
        if not self.tracks(target):
            return None
        size, batch = target[:1].numel(), target.shape[0]
        identity = torch.eye(size, dtype=target.dtype, device=target.device)
        basis = identity.reshape(size, 1, *inner_shape).expand(size, batch, *inner_shape)
        (rows,) = self._differentiate_rows(target, [source], basis)
        if rows is None:
            return None
        return rows.movedim(0, 1).reshape(batch, *inner_shape, *tuple(source.shape)[1:])

    def _differentiate_rows(
        self, target: torch.Tensor, sources: Sequence[Source], basis: torch.Tensor
    ) -> list[torch.Tensor | None]:
        """The gradients for each row of `basis` as the target's weights, stacked along a new first dimension."""
        if not len(basis):
            connected = self._differentiate([target], sources, [torch.ones_like(target)])
            return [None if g is None else g.new_zeros((0, *g.shape)) for g in connected]
        try:
            return self._differentiate([target], sources, [basis], is_batched=True)
        except TapeError:  # some operations cannot be batched; the loop says what is really wrong
            rows = [self._differentiate([target], sources, [row]) for row in basis]
        return [None if column[0] is None else torch.stack(column) for column in zip(*rows, strict=True)]

    def _differentiate(
        self,
        targets: Sequence[torch.Tensor],
        sources: Sequence[Source],
        weights: Sequence[torch.Tensor],
        *,
        may_free: bool = False,
        is_batched: bool = False,
    ) -> list[torch.Tensor | None]:
        with _requiring_gradients([*targets, *map(_raw, sources)]):
            roots = [_edge(target) for target in targets]
            reach = self._reach([(root.node, root.output_nr) for root in roots])
            edges = [self._source_edge(_raw(source), reach) for source in sources]
            inputs = list(dict.fromkeys(edge for edge in edges if edge is not None))
            if not inputs:
                return [None] * len(sources)
            is_recorded = bool(_thread.recording)
            with reach.nothing_beyond(), _numbered_in_this_thread(is_recorded), _explained():
                answers = torch.autograd.grad(
                    roots,
                    [GradientEdge(*edge) for edge in inputs],
                    weights,
                    retain_graph=not may_free or reach.is_cut,
                    create_graph=is_recorded,
                    allow_unused=True,
                    is_grads_batched=is_batched,
                )
        found = dict(zip(inputs, map(_dense, answers), strict=True))
        return [None if edge is None else found[edge] for edge in edges]

    def _source_edge(self, source: torch.Tensor, reach: Reach) -> tuple[Node, int] | None:
        """Where the source's gradient arrives in the graph; `None` if it does not, or if the source is not tracked."""
        if source.grad_fn is None:
            node = reach.leaves.get(id(source))
            return (node, 0) if node is not None and id(source) in self._watched else None
        edge = (source.grad_fn, source.output_nr)
        return edge if edge in reach.edges and self.tracks(source) else None

    def _reach(self, roots: Sequence[tuple[Node, int]]) -> Reach:
        return Reach(roots, is_recorded=self._has_recorded, watched=self._watched)

    def _has_recorded(self, node: Node) -> bool:
        number = sequence_number(node)
        if self._recording_since is not None and number >= self._recording_since:
            return True
        return any(start <= number < end for start, end in self._intervals)


def _raw(source: Source) -> torch.Tensor:
    return _keras.raw_value(source) if isinstance(source, keras.Variable) else source


def _edge(tensor: torch.Tensor) -> GradientEdge:
    """The place in the graph where the gradient of a tensor is summed up."""
    return torch.autograd.graph.get_gradient_edge(tensor)


def _dense(gradient: torch.Tensor | None) -> torch.Tensor | None:
    return gradient.to_dense() if gradient is not None and gradient.is_sparse else gradient


def _lend(tensor: torch.Tensor) -> None:
    """Makes a leaf require gradients until it has been given back as often as it was lent."""
    _, count = _thread.lent.get(id(tensor), (tensor, 0))
    _thread.lent[id(tensor)] = (tensor, count + 1)
    if count == 0:
        tensor.requires_grad_(True)


def _give_back(tensor: torch.Tensor) -> None:
    _, count = _thread.lent.pop(id(tensor))
    if count > 1:
        _thread.lent[id(tensor)] = (tensor, count - 1)
    else:
        tensor.requires_grad_(False)


@contextlib.contextmanager
def _requiring_gradients(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Leaves that were watched require gradients again while they are asked about: only such have a place in the graph."""
    lent = [tensor for tensor in tensors if not tensor.requires_grad and tensor.is_floating_point()]
    for tensor in lent:
        _lend(tensor)
    try:
        yield
    finally:
        for tensor in lent:
            _give_back(tensor)


def _numbered_in_this_thread(is_recorded: bool) -> contextlib.AbstractContextManager[Any]:
    """Each thread counts its own sequence numbers, so what is to be recorded must not run in autograd's worker threads."""
    return torch.autograd.set_multithreading_enabled(False) if is_recorded else contextlib.nullcontext()


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if "modified by an inplace operation" in str(error):
            raise TapeError(
                "`tape.gradient` needs a tensor that was changed in place since it was recorded. Take all gradients before the "
                "first update, or put the code into a function under `@ts.step`, where old values are kept."
            ) from error
        raise TapeError(f"`tape.gradient` cannot be computed by PyTorch: {error}") from error
