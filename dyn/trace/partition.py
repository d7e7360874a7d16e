"""Partition of a derivative: which values the first program keeps for the second, and which are computed again there.

What the second program reads of the first can be kept, in memory, or made again from other things that are kept: a
product by its factors, a copy in another order by the original. Copies in another order, and functions of one element,
take no time worth the memory: they join the kernels that read them. So the least number of bytes is kept from which all
else follows by such operations: a minimum cut of the graph of values, as in Min-Cut rematerialization (He and Yu, 2023,
"Transcending Runtime-Memory Tradeoffs in Checkpointing by being Fusion Aware"). Arguments cost nothing, since they are
there anyway. Sizes are compared as they grow, by a large number for each symbol, so that what is kept does not depend
on the shapes of the first call; but where the formulas of two partitions cross (:mod:`dyn.trace.runtime_partition`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from dyn.ir.core import Op, Region, Value, with_operands
from dyn.ir.opdef import REGISTRY, OpKind
from dyn.shapes import dim_sum
from dyn.trace.context import Trace
from dyn.trace.runtime_partition import Partition, Sizes, bytes_of, least_of
from dyn.trace.segments import Segments, segments_of

#: How much a second half computes again: what takes no time, or all that makes the peak of memory fall.
Memory: TypeAlias = Literal["default", "low"]

#: Operations that are as quick as reading their result: they become part of the loops that read it.
_CHEAP = frozenset({OpKind.POINTWISE, OpKind.VIEW, OpKind.GENERATE})
_ENDLESS = 1 << 100


def recomputing(trace: Trace, region: Region, memory: Memory = "default") -> Region:
    """The region, with copies of those operations before it that make what it reads from less than that.

    They stand where the first of them is needed. With ``memory="low"`` all that is computed between few places is
    computed again (:mod:`dyn.trace.segments`). Where the least is another one for other sizes, the sizes of the call
    decide, and leave a guard (:mod:`dyn.trace.runtime_partition`).
    """
    return _with_copies(region, _again(trace, trace.builder.ops, region, memory))


def recompute_from(trace: Trace, start: int) -> None:
    """Have what a program computes from its op number ``start`` on, the derivative of what is before that, take little
    memory: as :func:`recomputing` does with ``memory="low"``, in the one program that both are.

    Copies stand behind barriers: they are neither merged with what they are copies of, nor run before the derivative
    comes to them.
    """
    ops = trace.builder.ops
    before, derivative = ops[:start], Region((), tuple(ops[start:]), ())
    again = _again(trace, before, derivative, "low")
    if again:
        ops[start:] = _with_copies(derivative, again, _Barriers(before)).ops


def _again(trace: Trace, before: Sequence[Op], region: Region, memory: Memory) -> Mapping[Value, Op]:
    """The operations of those ``before`` a region that are computed again in it, by their results."""
    reads = dict.fromkeys(region.reads())
    cheap = _producers(trace, reads)
    if not cheap and memory == "default":
        return cheap

    def partition(size: Sizes) -> Partition:
        return _partition(trace, before, reads, cheap, memory, size)

    values = [*reads, *cheap, *[v for op in cheap.values() for v in op.operands]]
    if memory == "low":
        values += [v for op in before for v in op.results]
    made = dict.fromkeys([v for v in values if _producer(trace, v) is not None])
    return least_of(trace, partition, made).again


def _partition(
    trace: Trace, before: Sequence[Op], reads: Iterable[Value], cheap: dict[Value, Op], memory: Memory, size: Sizes
) -> Partition:  # fmt: skip
    """The partition that is the least where sizes are such as ``size`` says."""
    producers = cheap
    again = _beyond_the_cut(trace, reads, producers, size) if producers else set[Value]()
    kept = _kept(trace, reads, producers, again)
    cost = bytes_of(trace, kept)
    segments = segments_of(before, kept, _is_cheap, size) if memory == "low" else None
    if segments is not None:
        producers = _producers(trace, reads, segments)
        again = _beyond_the_cut(trace, reads, producers, size)
        kept = _kept(trace, reads, producers, again)
        cost = dim_sum([bytes_of(trace, part) for part in (segments.ends, segments.greatest, segments.last)])
    return Partition({value: op for value, op in producers.items() if value in again}, kept, cost)


def _kept(trace: Trace, reads: Iterable[Value], producers: Mapping[Value, Op], again: Collection[Value]) -> list[Value]:
    """The values that are kept where ``again`` are computed again, beside arguments."""
    wanted = [v for v in reads if v not in again]
    wanted += [v for value in again for v in producers[value].operands if v not in again]
    return [v for v in dict.fromkeys(wanted) if _producer(trace, v) is not None]


class _Barriers:
    """Barriers before copies in a program that has the originals, too: what the copies read waits for the derivative.

    It waits for the last result but one that is no function of one element: what is in between may share a kernel with
    the copies, or with what reads them.
    """

    def __init__(self, before: Sequence[Op]) -> None:
        self._late: list[Value] = []
        for op in before:
            self.note(op)

    def note(self, op: Op) -> None:
        """Note an operation that the copies to come stand behind."""
        if not _is_cheap(op) and op.results and op.opdef.kind is not OpKind.BARRIER:
            self._late = [*self._late[-1:], op.results[0]]

    def put(self, ops: list[Op], start: int) -> None:
        """Put a barrier before the copies in ``ops`` from number ``start`` on, between them and what else they read."""
        made = {value for op in ops[start:] for value in op.results}
        outside = dict.fromkeys([value for op in ops[start:] for value in op.reads() if value not in made])
        if not outside:
            return
        waiting = [*outside, *[value for value in self._late[:1] if value not in outside]]
        behind = {value: Value(value.type, value.name) for value in waiting}
        barrier = Op(REGISTRY["optimization_barrier"], tuple(waiting), {}, tuple(behind.values()), ops[start].loc)
        ops[start:] = [barrier, *[with_operands(op, behind) for op in ops[start:]]]


def _with_copies(region: Region, producers: Mapping[Value, Op], barriers: _Barriers | None = None) -> Region:
    """The region with copies of operations, each right before the first one that reads a result of it."""
    copies: dict[Value, Value] = {}
    ops: list[Op] = []

    def copy(wanted: Iterable[Value]) -> None:
        stack = [producers[v] for v in reversed(list(wanted)) if v in producers and v not in copies]
        while stack:
            op = stack[-1]
            if op.results[0] in copies:
                stack.pop()
                continue
            missing = [producers[v] for v in op.operands if v in producers and v not in copies]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            results = tuple([Value(value.type, value.name) for value in op.results])
            ops.append(replace(with_operands(op, copies), results=results))
            copies.update(zip(op.results, results, strict=True))

    for op in region.ops:
        start = len(ops)
        copy(op.reads())
        if barriers is not None:
            if len(ops) > start:
                barriers.put(ops, start)
            barriers.note(op)
        ops.append(with_operands(op, copies))
    copy(region.results)
    return replace(region, ops=tuple(ops), results=tuple([copies.get(v, v) for v in region.results]))


def _is_cheap(op: Op) -> bool:
    return op.opdef.kind in _CHEAP and not op.regions


def _producers(trace: Trace, reads: Iterable[Value], segments: Segments | None = None) -> dict[Value, Op]:
    """The cheap operations that lead to values, by their results, each before those that make its operands; and those
    within segments."""
    found: dict[Value, Op] = {}
    seen: set[Value] = set()
    #: Values in the order in which they are left: operands first.
    order: list[Value] = []
    stack = [(value, False) for value in reads]
    while stack:
        value, is_left = stack.pop()
        if is_left:
            order.append(value)
            continue
        if value in seen:
            continue
        seen.add(value)
        op = _producer(trace, value)
        if op is None or (segments is not None and value in segments.ends):
            continue
        if not _is_cheap(op) and (segments is None or value not in segments.within):
            continue
        found[value] = op
        stack.append((value, True))
        stack += [(operand, False) for operand in op.operands]
    return {value: found[value] for value in reversed(order)}


def _producer(trace: Trace, value: Value) -> Op | None:
    """The operation that makes a value, in this trace or in one around it."""
    here: Trace | None = trace
    while here is not None:
        op = here.builder.producer(value)
        if op is not None:
            return op
        here = here.outer
    return None


def _beyond_the_cut(trace: Trace, reads: Iterable[Value], producers: Mapping[Value, Op], size: Sizes) -> set[Value]:
    """The values that are computed again: those on the readers' side of the minimum cut, the nearest to the readers.

    Each value is two nodes, ``2 * i`` and ``2 * i + 1``, with its bytes as the capacity between them. Nothing leads to
    constants, which are made again.
    """
    numbers: dict[Value, int] = {}
    for value in (*producers, *reads):
        numbers.setdefault(value, len(numbers))
        if value in producers:
            for operand in producers[value].operands:
                numbers.setdefault(operand, len(numbers))
    network = _Network(2 * len(numbers) + 2)
    source, sink = 2 * len(numbers), 2 * len(numbers) + 1
    for value, number in numbers.items():
        op = producers.get(value)
        # Of equal bytes the fewest arrays are kept: a whole one rather than its parts.
        network.edge(2 * number, 2 * number + 1, size(value) + 1 if _producer(trace, value) else 0)
        if op is None:
            network.edge(source, 2 * number, _ENDLESS)
        else:
            for operand in op.operands:
                network.edge(2 * numbers[operand] + 1, 2 * number, _ENDLESS)
    for value in reads:
        network.edge(2 * numbers[value] + 1, sink, _ENDLESS)
    beyond = network.sink_side(source, sink)
    return {value for value in producers if 2 * numbers[value] in beyond}


class _Network:
    """A flow network (Dinitz, 1970): nodes are numbers, edges have capacities."""

    def __init__(self, nodes: int) -> None:
        self._edges: list[list[int]] = [[] for _ in range(nodes)]
        self._heads: list[int] = []
        self._left: list[int] = []

    def edge(self, tail: int, head: int, capacity: int) -> None:
        """Add an edge. Its number's last bit tells it from the one back."""
        for start, end, left in ((tail, head, capacity), (head, tail, 0)):
            self._edges[start].append(len(self._heads))
            self._heads.append(end)
            self._left.append(left)

    def sink_side(self, source: int, sink: int) -> set[int]:
        """The nodes from which more could flow to the sink, once as much flows from the source as can."""
        while sink in (levels := self._levels(source)):
            places = [0] * len(self._edges)
            while self._push(source, sink, levels, places):
                pass
        found, stack = {sink}, [sink]
        while stack:
            for edge in self._edges[stack.pop()]:
                tail = self._heads[edge]
                if self._left[edge ^ 1] and tail not in found:
                    found.add(tail)
                    stack.append(tail)
        return found

    def _levels(self, source: int) -> dict[int, int]:
        levels, queue = {source: 0}, deque([source])
        while queue:
            node = queue.popleft()
            for edge in self._edges[node]:
                head = self._heads[edge]
                if self._left[edge] and head not in levels:
                    levels[head] = levels[node] + 1
                    queue.append(head)
        return levels

    def _push(self, source: int, sink: int, levels: dict[int, int], places: list[int]) -> int:
        """Let as much flow along one path of rising levels as it holds; 0 where there is none."""
        path: list[int] = []
        node = source
        while node != sink:
            edges = self._edges[node]
            while places[node] < len(edges):
                edge = edges[places[node]]
                head = self._heads[edge]
                if self._left[edge] and levels.get(head) == levels[node] + 1:
                    path.append(edge)
                    node = head
                    break
                places[node] += 1
            else:  # a dead end
                if not path:
                    return 0
                node = self._heads[path.pop() ^ 1]
                places[node] += 1
        flow = min([self._left[edge] for edge in path])
        for edge in path:
            self._left[edge] -= flow
            self._left[edge ^ 1] += flow
        return flow
