"""Lengths of loops, as far as sizes say, and room for what loops add to lists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from dyn.interop.sizes.values import boxed, data, elements_of, is_known, settled
from dyn.interop.tf.converter_registry import OPERATIONS
from dyn.interop.tf.evaluation import Known, NodeCall
from dyn.interop.tf.graphs import Graph, GraphNode, Tensor
from dyn.interop.tf.lists import TensorList, is_empty
from dyn.interop.tf.ops.lists import resized
from dyn.interop.tf.values import known_dtype
from dyn.shapes import Dim, SymExpr, dim_max, dim_min, floordiv
from dyn.trace.dims import unwrap_dim, wrap_dim


@dataclass(frozen=True, slots=True)
class _Steps:
    """The number of steps of a loop: no more than ``most``, and exactly so many where it ``is_exact``."""

    most: Dim
    is_exact: bool


def _steps(call: NodeCall, condition: Graph, body: Graph) -> _Steps | None:
    """The steps of a loop that counts up to a size; None for others."""
    waiting = [condition.source(condition.outputs[0])]
    found: list[Dim] = []
    is_exact = True
    while waiting:
        node = condition.nodes[waiting.pop()[0]]
        if node.op == "LogicalAnd":
            waiting += [condition.source(one) for one in node.inputs]
            continue
        steps = _counted(call, condition, body, node) if node.op == "Less" else None
        if steps is None:
            is_exact = False
        else:
            found.append(steps)
    return _Steps(dim_min(*dict.fromkeys(found)), is_exact) if found else None


def _counted(call: NodeCall, condition: Graph, body: Graph, node: GraphNode) -> Dim | None:
    """The steps until a counter is not less than a size; None where it is not such a comparison."""
    counter = condition.source(node.inputs[0])[0]
    limit = _kept(call, condition, body, node.inputs[1])
    if counter not in condition.arguments or limit is None:
        return None
    number = condition.arguments.index(counter)
    start, step = _size(call.inputs[number]), _step(call, body, number)
    if start is None or step is None:
        return None
    return call.trace.facts.simplify(dim_max(floordiv(limit - start + (step - 1), step), 0))


def _size(value: Any) -> Dim | None:
    """A scalar as a size; None for what is none."""
    if not is_known(value) or elements_of(value).ndim:
        return None
    element = elements_of(value).item()
    return element if isinstance(element, int | SymExpr) and not isinstance(element, bool) else None


def _kept(call: NodeCall, graph: Graph, body: Graph, tensor: Tensor) -> Dim | None:
    """The size that a scalar of a loop's function is in each step; None where it is none, or changes."""
    kept = [body.source(body.outputs[n]) == (name, 0) for n, name in enumerate(body.arguments)]
    known: Known = {
        name: (value,) for name, value, stays in zip(graph.arguments, call.inputs, kept, strict=True) if stays
    }
    needed = graph.leading_to(tensor)
    if any(node.op == "_Arg" and node.name not in known for node in needed):
        return None
    if any(node.op not in OPERATIONS.folds and node.op not in _OF_SHAPES for node in needed if node.name not in known):
        return None
    call.evaluation.read(graph, [node for node in needed if node.name not in known], known)
    return _size(known[tensor[0]][tensor[1]])


#: Operations that are known of data, and those that give what they are given.
_OF_SHAPES = frozenset(("Const", "Identity", "Shape", "ShapeN", "Size", "Rank"))


def _step(call: NodeCall, body: Graph, number: int) -> int | None:
    """The number that a loop adds to a counter in each step; None where it does something else."""
    node = body.nodes[body.source(body.outputs[number])[0]]
    if node.op not in ("Add", "AddV2"):
        return None
    added = [one for one in node.inputs if body.source(one)[0] != body.arguments[number]]
    step = _kept(call, body, body, added[0]) if len(added) == 1 else None
    return step if isinstance(step, int) and step > 0 else None


def _grows_by_one(body: Graph, number: int) -> bool:
    """Whether a step adds one element to a list."""
    name, _ = body.source(body.outputs[number])
    node = body.nodes[name]
    return node.op == "TensorListPushBack" and body.source(node.inputs[0])[0] == body.arguments[number]


def with_room(call: NodeCall, condition: Graph, body: Graph, number: int, value: TensorList) -> TensorList:
    """A list with room for what a loop adds to it, or writes to it beyond its end; as it is where it does not so.

    A list that is written to at a counter of steps has a place for each of them: all are there, where every step writes
    and there are so many; otherwise the program counts them.
    """
    steps = _steps(call, condition, body)
    if steps is None:
        return value
    if value.capacity is None:
        if value.elements is None and is_empty(value) and _grows_by_one(body, number):
            return replace(value, capacity=wrap_dim(call.trace, steps.most))
        return value
    node = body.nodes[body.source(body.outputs[number])[0]]
    resizes = node.op == "TensorListSetItem" and node.has("resize_if_index_out_of_bounds")
    if not resizes or not node.attr("resize_if_index_out_of_bounds") or value.count is not None:
        return value
    place = body.source(node.inputs[1])[0]
    if body.source(node.inputs[0])[0] != body.arguments[number] or place not in body.arguments:
        return value
    counter = body.arguments.index(place)
    start, step = _size(call.inputs[counter]), _step(call, body, counter)
    own = unwrap_dim(value.capacity)
    if start is None or step is None or own is None:
        return value
    end = start + steps.most * step - (step - 1)
    if steps.is_exact and step == 1 and start == own:
        return replace(resized(value, wrap_dim(call.trace, end)), has_room=True)
    count = data(call.trace, settled(boxed(own), known_dtype("int32")))
    return replace(resized(value, wrap_dim(call.trace, dim_max(own, end))), has_room=True, count=count)
