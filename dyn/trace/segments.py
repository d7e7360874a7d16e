"""Segments of a program whose derivative takes little memory: the values at their ends are kept, and within them all
is computed again (Chen et al., 2016, "Training Deep Nets with Sublinear Memory Cost").

A program is cut where few bytes are still needed by what comes after: between the layers of a model. The derivative
goes through the segments from the last to the first, and computes what a segment has computed once more when it comes
there. So it takes the ends of all segments, what the last one leaves, which need not be computed again, and the most
that another one leaves. Of all ways to cut, at a few dozen places, the one with the least of that is taken; bytes are
compared as they grow, as in :mod:`dyn.trace.partition`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise

from dyn.frozen import record
from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind

#: The most places that are looked at, each the best one of as many parts of the program.
_PLACES = 64
#: The most sizes of segments that are tried.
_TRIED = 32
#: Operations that are run once: they may have effects, draw a size, or hold other operations.
_ONCE = frozenset({OpKind.CONTROL, OpKind.DATA_DEPENDENT_SIZE, OpKind.CALL, OpKind.BARRIER, OpKind.OPAQUE})


@record()
class Segments:
    """Values at the ends of segments, which are kept, and the operations before the last segment, by their results."""

    ends: frozenset[Value]
    within: Mapping[Value, Op]
    #: What else is kept while the derivative is computed: of the greatest segment but the last, and of that.
    greatest: Collection[Value]
    last: Collection[Value]


def segments_of(
    ops: Sequence[Op], kept: Collection[Value], is_cheap: Callable[[Op], bool], size: Callable[[Value], int]
) -> Segments | None:
    """The cut of ``ops`` with which the derivative takes least, where it would keep ``kept`` otherwise; None for no
    cut. What is made by cheap operations from arguments alone is never kept."""
    produced = {value: number for number, op in enumerate(ops) for value in op.results}
    producers = {value: ops[number] for value, number in produced.items()}
    crossing = _crossing(ops, produced, producers, is_cheap)
    #: The bytes that are kept of all before each place.
    before = [0] * (len(ops) + 1)
    for value in kept:
        if value in produced:
            before[produced[value] + 1] += size(value)
    for number in range(len(ops)):
        before[number + 1] += before[number]
    bytes_there = _sums(crossing, len(ops), size)
    places = _best_of_parts(before, bytes_there)
    cuts = _cuts(places, before, bytes_there)
    if not cuts:
        return None
    ends = frozenset([value for value, (first, last) in crossing.items() if any(first <= at < last for at in cuts)])
    within = {
        value: op for op in ops[: cuts[-1] + 1] if op.opdef.kind not in _ONCE and not op.regions for value in op.results
    }
    #: What each segment would keep.
    parts: list[list[Value]] = [[] for _ in range(len(cuts) + 1)]
    for value in kept:
        if value in produced:
            parts[bisect_left(cuts, produced[value])].append(value)
    greatest = max(parts[:-1], key=lambda part: sum([size(value) for value in part]))
    return Segments(ends, within, greatest, parts[-1])


def _crossing(
    ops: Sequence[Op], produced: Mapping[Value, int], producers: Mapping[Value, Op], is_cheap: Callable[[Op], bool]
) -> dict[Value, tuple[int, int]]:
    """The values that are read later than right after they are made: from which operation to which they are needed.

    Views of a value count as the value.
    """
    free: set[Value] = set()
    found: dict[Value, tuple[int, int]] = {}
    whose: dict[Value, Value] = {}
    for number, op in enumerate(ops):
        for value in op.reads():
            base = whose.get(value, value)
            if base in produced and base not in free:
                found[base] = (produced[base], number)
        if is_cheap(op) and not op.regions and all(v in free or v not in producers for v in op.operands):
            free.update(op.results)
        elif op.opdef.kind is OpKind.VIEW and len(op.operands) == 1:
            whose[op.result] = whose.get(op.operands[0], op.operands[0])
    return found


def _sums(crossing: Mapping[Value, tuple[int, int]], count: int, size: Callable[[Value], int]) -> list[int]:
    """The bytes that are needed after each operation of what is made before."""
    change = [0] * (count + 1)
    for value, (first, last) in crossing.items():
        change[first] += size(value)
        change[last] -= size(value)
    for number in range(count):
        change[number + 1] += change[number]
    return change[:count]


def _best_of_parts(before: Sequence[int], there: Sequence[int]) -> list[int]:
    """The places at which least crosses, one of each part of the program; parts keep about as much."""
    total, count = before[-1], len(there)
    bounds = sorted({bisect_left(before, total * part // _PLACES) for part in range(_PLACES + 1)} | {0, count})
    return [
        min(range(first, last), key=lambda at: (there[at], -at))
        for first, last in pairwise(bounds)
        if first < min(last, count)
    ]


def _cuts(places: Sequence[int], before: Sequence[int], there: Sequence[int]) -> list[int]:
    """The places of the ends of the segments: those for which ends, last segment and greatest other take least."""
    total = before[-1]
    best, cuts = total, list[int]()
    sizes = sorted({before[b + 1] - (before[a + 1]) for i, a in enumerate(places) for b in places[i + 1 :]})
    sizes = sorted({before[at + 1] for at in places}.union(sizes))
    for greatest in sizes[:: max(len(sizes) // _TRIED, 1)]:
        #: For each place that may be an end: the least bytes of all ends up to it, and the end before it.
        least: dict[int, tuple[int, int]] = {}
        for at in places:
            found = (there[at], -1) if before[at + 1] <= greatest else None
            for earlier, (so_far, _) in least.items():
                if before[at + 1] - before[earlier + 1] <= greatest and (
                    found is None or so_far + there[at] < found[0]
                ):
                    found = (so_far + there[at], earlier)
            if found is not None:
                least[at] = found
        for at, (ends, _) in least.items():
            taken = ends + greatest + total - before[at + 1]
            if taken < best:
                best, cuts = taken, [at]
                while (earlier := least[cuts[0]][1]) >= 0:
                    cuts.insert(0, earlier)
    return cuts
