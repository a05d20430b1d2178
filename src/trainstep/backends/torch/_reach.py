"""The part of autograd's graph that one tape has recorded, as seen from given targets."""

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final

import torch
from torch.autograd.graph import Node

from ._private import sequence_number

Edge = tuple[Node, int]
"""A node of the graph, and which of its inputs in the backward pass."""


@final
class Reach:
    """Everything that gradients reach from the targets without leaving what was recorded.

    Args:
        roots: Where the gradients start.
        is_recorded: Whether a node belongs to the tape.
        watched: For each watched tensor, by identity, the sequence number from which on it is watched.
    """

    def __init__(
        self,
        roots: Sequence[Edge],
        *,
        is_recorded: Callable[[Node], bool],
        watched: Mapping[int, tuple[torch.Tensor, int]],
    ):
        self.edges: set[Edge] = set()
        """Every edge that is reached, at the border included."""
        self.leaves: dict[int, Node] = {}
        """By the identity of a watched leaf, the node that collects its gradient."""
        self.inside: list[Node] = []
        """The recorded nodes that are reached."""
        self._outside: list[Node] = []
        self._too_early: dict[Node, list[int]] = {}
        self._watched = watched
        self._follow(roots, is_recorded)

    @property
    def meets_watched(self) -> bool:
        """Whether something watched is reached."""
        if self.leaves:
            return True
        return any(t.grad_fn is not None and (t.grad_fn, t.output_nr) in self.edges for t, _ in self._watched.values())

    @property
    def is_cut(self) -> bool:
        """Whether the graph goes on where the tape did not record."""
        return bool(self._outside or self._too_early)

    @contextlib.contextmanager
    def nothing_beyond(self) -> Iterator[None]:
        """Inside the block no gradient flows past what was recorded."""
        hooks = [node.register_prehook(_nothing) for node in self._outside]
        hooks += [node.register_hook(_without(places)) for node, places in self._too_early.items()]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _follow(self, roots: Sequence[Edge], is_recorded: Callable[[Node], bool]) -> None:
        seen: set[Node] = set()
        pending = list(roots)
        while pending:
            node, index = pending.pop()
            self.edges.add((node, index))
            if node in seen:
                continue
            seen.add(node)
            if _leaf(node) is not None:
                self._add_leaf(node)
            elif is_recorded(node):
                self.inside.append(node)
                pending.extend(self._onward(node))
            else:
                self._outside.append(node)

    def _onward(self, node: Node) -> Iterator[Edge]:
        for place, (following, index) in enumerate(node.next_functions):
            if following is None:
                continue
            if self._is_too_early(node, following):
                self._too_early.setdefault(node, []).append(place)
            else:
                yield following, index

    def _is_too_early(self, node: Node, following: Node) -> bool:
        """Whether a leaf was used before it was watched."""
        leaf = _leaf(following)
        if leaf is None or id(leaf) not in self._watched:
            return False
        return sequence_number(node) < self._watched[id(leaf)][1]

    def _add_leaf(self, node: Node) -> None:
        leaf = _leaf(node)
        if id(leaf) in self._watched:
            self.leaves[id(leaf)] = node


def _leaf(node: Node) -> torch.Tensor | None:
    """The tensor whose gradient a node collects, for a node at the end of the graph."""
    return getattr(node, "variable", None)


def _nothing(gradients: tuple[torch.Tensor | None, ...]) -> tuple[None, ...]:
    return (None,) * len(gradients)


def _without(places: Sequence[int]) -> Callable[[Any, Any], tuple[Any, ...]]:
    return lambda gradients, _: tuple(None if i in places else g for i, g in enumerate(gradients))
