"""What is done to a captured graph before it runs: variables become inputs, and what cannot be repeated is refused."""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from ..._errors import CaptureError
from . import _private
from ._writes import memory_of


def lifted(captured: GraphModule, state: Sequence[torch.Tensor], is_input_changed: Sequence[bool]) -> GraphModule:
    """The graph with the tensors of `state`, constants until now, as its first inputs.

    Inputs that the step changes in place are copied first, since they belong to the caller.
    """
    graph = captured.graph
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    uses = _uses_of_constants(captured)
    first = next(iter(graph.nodes))
    with graph.inserting_before(first):
        placeholders = [graph.placeholder(f"state_{number}") for number, _ in enumerate(state)]
    for placeholder, tensor in zip(placeholders, state, strict=True):
        for node in uses.get(id(tensor), ()):
            node.replace_all_uses_with(placeholder)
            graph.erase_node(node)
    for node, is_changed in zip(inputs, is_input_changed, strict=True):
        if is_changed:
            _copy_first(graph, node)
    graph.eliminate_dead_code()
    program = GraphModule(captured, graph)
    _fold_constant_shapes(program)
    return program


def check_shapes(graph: GraphModule, name: str) -> None:
    """Raises `CaptureError` if a shape in the program depends on values: it would stay what it was when the step was captured."""
    for node in graph.graph.nodes:
        if _has_dynamic_shape(node):
            raise CaptureError(
                f"The step {name!r} uses `{node.target}`, whose result has a shape that depends on the values of a tensor (as in "
                "`x[mask]`, `nonzero` or `unique`). A compiled step has fixed shapes: use `keras.ops.where(mask, x, 0)` or "
                "multiply by the mask; or run the step operation by operation with `@ts.step(compile=False)`. "
                "No variable has been changed."
            )


def _uses_of_constants(captured: GraphModule) -> dict[int, list[Node]]:
    uses: dict[int, list[Node]] = {}
    for node in captured.graph.nodes:
        if node.op == "get_attr":
            uses.setdefault(id(getattr(captured, node.target)), []).append(node)
    return uses


def _copy_first(graph: torch.fx.Graph, node: Node) -> None:
    after_inputs = next(n for n in graph.nodes if n.op != "placeholder")
    with graph.inserting_before(after_inputs):
        copy = graph.call_function(torch.ops.aten.clone.default, (node,))
    node.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy)


def _fold_constant_shapes(program: GraphModule) -> None:
    """Puts numbers in the place of results whose shapes depend on values, where those values are constants of the step."""
    dynamic = [node for node in program.graph.nodes if _has_dynamic_shape(node)]
    values = _values_of_constants(program) if dynamic else {}
    for number, node in enumerate(dynamic):
        if node not in values:
            continue
        program.register_buffer(f"folded_{number}", values[node])
        with program.graph.inserting_before(node):
            node.replace_all_uses_with(program.graph.get_attr(f"folded_{number}"))
    program.graph.eliminate_dead_code()
    program.recompile()


def _values_of_constants(program: GraphModule) -> dict[Node, Any]:
    """What each operation gives that depends on neither the state nor the batch nor a random draw, by running these in order."""
    values: dict[Node, Any] = {}
    for node in program.graph.nodes:
        if node.op == "get_attr":
            values[node] = getattr(program, node.target).clone()
        elif node.op == "call_function" and all(n in values for n in node.all_input_nodes) and not _is_random(node):
            args, kwargs = torch.fx.map_arg((node.args, node.kwargs), values.__getitem__)
            values[node] = node.target(*args, **kwargs)  # type: ignore[operator]
        elif node.op == "call_function" and node.target is not operator.getitem:
            _forget_written(node, values)
    return values


def _forget_written(node: Node, values: dict[Node, Any]) -> None:
    """Forgets the constants into whose memory an operation writes that is none itself."""
    arguments = _private.written_arguments(node.target, node.args, node.kwargs)
    nodes = [n for a in arguments for n in (a if isinstance(a, (list, tuple)) else [a])]
    written = {memory_of(values[n]) for n in nodes if n in values}
    for constant in [n for n, value in values.items() if isinstance(value, torch.Tensor) and memory_of(value) in written]:
        del values[constant]


def _is_random(node: Node) -> bool:
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _has_dynamic_shape(node: Node) -> bool:
    tags = getattr(node.target, "tags", ())
    if torch.Tag.dynamic_output_shape not in tags:
        return False
    if node.target is not torch.ops.aten.index.Tensor:
        return True
    indices = node.args[1]
    return any(isinstance(i, Node) and _dtype(i) in (torch.bool, torch.uint8) for i in indices)  # type: ignore[union-attr]


def _dtype(node: Node) -> torch.dtype | None:
    value = node.meta.get("val", node.meta.get("tensor_meta"))
    return getattr(value, "dtype", None)
