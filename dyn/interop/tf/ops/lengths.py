"""Lengths of loops, as far as sizes say, and room for what loops add to lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dyn.interop.sizes.values import elements_of, is_known
from dyn.interop.tf.converter_registry import OPERATIONS
from dyn.interop.tf.evaluation import Known, NodeCall
from dyn.interop.tf.graphs import FunctionLibrary, Graph, GraphNode, Tensor, constant
from dyn.interop.tf.lists import NestedList, TensorList, is_empty
from dyn.interop.tf.ops.lists import resized
from dyn.shapes import Dim, SymExpr, dim_max, dim_min, floordiv
from dyn.trace.dims import unwrap_dim, wrap_dim

_CHOICES = {"If": ("then_branch", "else_branch"), "StatelessIf": ("then_branch", "else_branch")}
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


@dataclass(frozen=True, slots=True)
class StepBound:
    """The number of steps of a loop: no more than ``most``, and exactly so many where it ``is_exact``."""

    most: Dim
    is_exact: bool


def steps_of(call: NodeCall, condition: Graph, body: Graph) -> StepBound | None:
    """The steps of a loop that counts up to a size; None for others."""
    waiting = [condition.source(condition.outputs[0])]
    found: list[Dim] = []
    is_exact = True
    while waiting:
        node = condition.nodes[waiting.pop()[0]]
        if node.op == "LogicalAnd":
            waiting += [condition.source(one) for one in node.inputs]
            continue
        if node.op in _CHOICES and _is_false(call.evaluation.library[node.attr("else_branch")]):
            waiting.append(condition.source(node.inputs[0]))  # AutoGraph's loop that a break ends
            is_exact = False
            continue
        steps = _counted(call, condition, body, node)
        if steps is None:
            is_exact = False
        else:
            found.append(steps)
    return StepBound(dim_min(*dict.fromkeys(found)), is_exact) if found else None


def _is_false(graph: Graph) -> bool:
    """Return True if a function of the graph gives False, whatever it is given."""
    node = graph.nodes[graph.source(graph.outputs[0])[0]]
    return node.op == "Const" and not constant(node).any()


#: Comparisons of a counter with a limit: the sign of steps towards it, and how far behind it the last place is.
_COMPARISONS = {"Less": (1, 0), "LessEqual": (1, 1), "Greater": (-1, 0), "GreaterEqual": (-1, 1)}
_TURNED = {"Less": "Greater", "LessEqual": "GreaterEqual", "Greater": "Less", "GreaterEqual": "LessEqual"}


def _counted(call: NodeCall, condition: Graph, body: Graph, node: GraphNode) -> Dim | None:
    """The steps until a counter is beyond a size; None where it is not such a comparison."""
    if node.op not in _COMPARISONS:
        return None
    (counter, bound), name = node.inputs, node.op
    if condition.source(counter)[0] not in condition.arguments or _kept(call, condition, body, bound) is None:
        counter, bound, name = bound, counter, _TURNED[name]
    place, limit = condition.source(counter)[0], _kept(call, condition, body, bound)
    if place not in condition.arguments or limit is None:
        return None
    number = condition.arguments.index(place)
    start, step = _size(call.inputs[number]), _step(call, body, number)
    sign, more = _COMPARISONS[name]
    if start is None or step is None or step * sign <= 0:
        return None
    way, length = (limit - start) * sign + more, abs(step)
    return call.trace.facts.simplify(dim_max(floordiv(way + (length - 1), length), 0))


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
    return step if isinstance(step, int) and step != 0 else None


@dataclass(frozen=True, slots=True)
class _Bound:
    """A number that a value is not greater than: ``added`` more than the argument ``base`` of a body, or than 0.

    Of a list it is about the length.
    """

    base: int | None
    added: Dim

    def plus(self, other: _Bound) -> _Bound | None:
        if self.base is not None and other.base is not None:
            return None
        return _Bound(other.base if self.base is None else self.base, self.added + other.added)


#: Numbers, of which the greatest is the bound; None where there is none.
_Bounds = frozenset[_Bound] | None


class _Bounding:
    """Upper bounds of the values of a loop's body after a step, in terms of the body's arguments.

    Where it is about ``all_writes``, lists are as long as what is written to them says, and nothing is less than 0.
    """

    def __init__(self, call: NodeCall, body: Graph, *, all_writes: bool = False) -> None:
        self._call, self._body, self.all_writes = call, body, all_writes
        self._kept = [body.source(body.outputs[n]) == (name, 0) for n, name in enumerate(body.arguments)]

    def _is_positive(self, dim: Dim) -> bool:
        return self._call.trace.facts.ge(dim, 0).proved

    def start(self, number: int) -> Dim | None:
        """The size that a counter begins with; None where it is none."""
        start = _size(self._call.inputs[number])
        return None if start is None or (self.all_writes and not self._is_positive(start)) else start

    def of_output(self, number: int) -> _Bounds:
        arguments = list(map(self._argument, range(len(self._body.arguments))))
        return self._of(self._body, arguments, self._body.outputs[number])

    def _argument(self, number: int) -> _Bounds:
        known = _size(self._call.inputs[number]) if self._kept[number] else None
        return frozenset([_Bound(number, 0) if known is None else _Bound(None, known)])

    def _of(self, graph: Graph, arguments: Sequence[_Bounds], tensor: Tensor) -> _Bounds:
        name, output = graph.source(tensor)
        if name in graph.arguments:
            return arguments[graph.arguments.index(name)]
        node = graph.nodes[name]

        def given(number: int) -> _Bounds:
            return self._of(graph, arguments, node.inputs[number])

        one = frozenset([_Bound(None, 1)])
        match node.op:
            case "Const":
                size = _size(constant(node))
                return None if size is None else frozenset([_Bound(None, size)])
            case "Add" | "AddV2":
                made = _sums(given(0), given(1))
                is_less = self.all_writes and any(not self._is_positive(one.added) for one in made or ())
                return None if is_less else made
            case "Sub":
                less = self._exact(graph, arguments, node.inputs[1])
                return None if less is None or self.all_writes else _sums(given(0), frozenset([_Bound(None, -less)]))
            case "TensorListLength":
                return given(0)
            case "TensorListPushBack":
                return _sums(given(0), one)
            case "TensorListSetItem":
                is_one = self.all_writes or _is_resizing(node)
                return _greatest([given(0), _sums(given(1), one)]) if is_one else given(0)
            case "TensorListPopBack" if output == 0:
                return given(0)
            case _:
                return self._of_called(node, output, given)

    def _exact(self, graph: Graph, arguments: Sequence[_Bounds], tensor: Tensor) -> Dim | None:
        """The size that a scalar is in each step: a constant, or one that the loop keeps."""
        name, _ = graph.source(tensor)
        found = (
            self._of(graph, arguments, tensor) if name in graph.arguments or graph.nodes[name].op == "Const" else None
        )
        only = next(iter(found)) if found is not None and len(found) == 1 else None
        return only.added if only is not None and only.base is None else None

    def _of_called(self, node: GraphNode, output: int, given: Callable[[int], _Bounds]) -> _Bounds:
        """The bounds of what branches, or a function, give."""
        library, first = self._call.evaluation.library, 0
        if node.op in _CHOICES:
            functions, first = [library[node.attr(name)] for name in _CHOICES[node.op]], 1
        elif node.op in _CALLS:
            functions = [library[node.attr("f")]]
        elif node.op in library:
            functions = [library[node.op]]
        else:
            return None
        inputs = list(map(given, range(first, len(node.inputs))))
        return _greatest([self._of(one, inputs, one.outputs[output]) for one in functions])


def _sums(first: _Bounds, second: _Bounds) -> _Bounds:
    if first is None or second is None:
        return None
    sums = [a.plus(b) for a in first for b in second]
    found = [one for one in sums if one is not None]
    return frozenset(found) if len(found) == len(sums) else None


def _greatest(bounds: Sequence[_Bounds]) -> _Bounds:
    found = [one for one in bounds if one is not None]
    return frozenset().union(*found) if len(found) == len(bounds) else None


def _most(
    call: NodeCall, body: Graph, number: int, steps: Dim | None, own: Dim, *, all_writes: bool = False
) -> Dim | None:
    """The greatest length that a list of ``own`` elements has in a loop of at most so many ``steps``; None: unknown."""
    bounding = _Bounding(call, body, all_writes=all_writes)
    bounds = bounding.of_output(number)
    if bounds is None:
        return None
    lengths, per_step = [own], 0
    for bound in bounds:
        if bound.base == number:
            per_step = dim_max(per_step, bound.added)
        elif bound.base is None:
            lengths.append(bound.added)
        else:
            counter = _greatest_count(bounding, bound.base, steps)
            if counter is None:
                return None
            lengths.append(counter + bound.added)
    if per_step == 0:
        return dim_max(*lengths)
    return None if steps is None else dim_max(*lengths) + steps * per_step


def _greatest_count(bounding: _Bounding, number: int, steps: Dim | None) -> Dim | None:
    """The greatest number that a counter is at the beginning of a step; None where none is known."""
    start, bounds = bounding.start(number), bounding.of_output(number)
    if start is None or steps is None or bounds is None or any(bound.base != number for bound in bounds):
        return None
    return start + dim_max(steps - 1, 0) * dim_max(0, *[bound.added for bound in bounds])


def _is_resizing(node: GraphNode) -> bool:
    name = "resize_if_index_out_of_bounds"
    return node.op == "TensorListSetItem" and node.has(name) and node.attr(name)


def _is_growing(library: FunctionLibrary, body: Graph, *, pushes: bool) -> bool:
    """Return True if a loop may write beyond the end of a list, or, where it ``pushes``, add to one."""
    waiting, seen = [body], set[str]()
    while waiting:
        for node in waiting.pop().needed:
            if (node.op == "TensorListPushBack" and pushes) or _is_resizing(node):
                return True
            called = [
                node.op,
                *[node.attr(name) for name in ("f", "body", "then_branch", "else_branch") if node.has(name)],
            ]
            new = [name for name in called if name in library and name not in seen]
            seen.update(new)
            waiting += [library[name] for name in new]
    return False


def with_room(
    call: NodeCall, condition: Graph, body: Graph, number: int, value: TensorList | NestedList
) -> TensorList | NestedList | None:
    """A list with room for what a loop adds to it, or writes to it beyond its end; as it is where it does not so, and
    None where it is not known how much that is.

    A list that is written to at a counter of steps has a place for each of them: all are there, where every step writes
    and there are so many; otherwise the program counts them.
    """
    library, pushes = call.evaluation.library, value.capacity is None
    is_kept = body.source(body.outputs[number]) == (body.arguments[number], 0)
    if is_kept or value.has_room:
        return value
    steps = steps_of(call, condition, body)
    most = None if steps is None else steps.most
    if not _is_growing(library, body, pushes=pushes):
        return _of_its_length(call, body, number, value, most)
    if pushes:
        bound = _most(call, body, number, most, 0) if is_empty(value) else None
        return None if bound is None else replace(value, capacity=wrap_dim(call.trace, bound))
    own = None if isinstance(value, NestedList) else unwrap_dim(value.capacity)
    if isinstance(value, NestedList) or own is None:
        return value
    bound = _most(call, body, number, most, own)
    if bound is None:
        return None
    if bound == own:
        return value
    if value.count is None and steps is not None and steps.is_exact and _writes_each(call, body, number, own):
        return roomy(call, value, wrap_dim(call.trace, own + steps.most), counts=False)
    return roomy(call, value, wrap_dim(call.trace, bound))


def _of_its_length(
    call: NodeCall, body: Graph, number: int, value: TensorList | NestedList, steps: Dim | None
) -> TensorList | NestedList:
    """A list of a fixed length, for which it is noted where it is proved to have all places that are written to."""
    own = None if isinstance(value, NestedList) or value.count is not None else unwrap_dim(value.capacity)
    if isinstance(value, NestedList) or own is None:
        return value
    most = _most(call, body, number, steps, own, all_writes=True)
    # Without a step nothing is written.
    is_in_range = most is not None and call.trace.facts.ge(dim_max(own, 1), most).proved
    return replace(value, has_room=True) if is_in_range else value


def _writes_each(call: NodeCall, body: Graph, number: int, own: Dim) -> bool:
    """Return True if each step writes to the place right behind those that are there."""
    node = body.nodes[body.source(body.outputs[number])[0]]
    if not _is_resizing(node) or body.source(node.inputs[0])[0] != body.arguments[number]:
        return False
    place = body.source(node.inputs[1])[0]
    counter = body.arguments.index(place) if place in body.arguments else None
    return counter is not None and _size(call.inputs[counter]) == own and _step(call, body, counter) == 1


def roomy(call: NodeCall, value: TensorList | NestedList, most: Any, *, counts: bool = True) -> TensorList | NestedList:
    """A list with room for ``most`` elements, of which the program ``counts`` those that are there."""
    if isinstance(value, NestedList) or value.capacity is None:
        return replace(value, capacity=most)
    return replace(resized(value.counted() if counts else value, most), has_room=True)
