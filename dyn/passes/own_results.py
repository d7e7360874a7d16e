"""Copies, so that every result of a function has memory of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dyn.ir.builder import Builder
from dyn.ir.core import Function, Op, Region, Value
from dyn.ir.data_dependent import bound_dim
from dyn.ir.opdef import OpKind
from dyn.ir.region_passes import body_of, carries, region_function, unchanged, with_regions
from dyn.shapes import free_symbols
from dyn.source import UNKNOWN


def own_results(function: Function) -> Function:
    """Make every result a value of its own: a copy where it is a parameter, a constant, a view of one, or twice, and
    where it is a view of what is computed before one of the view's sizes is measured.

    Needs nothing. Leaves results that are distinct, computed values, or views of distinct computed values, so that a
    result's memory can be what its producer writes to. A value that is itself a result stays one before its views do.
    The same holds in the regions of loops and choices. What a loop changes from step to step starts as a copy that
    nothing else reads, and is copied where it is a result: it has no memory of its own.
    """
    function = with_regions(_own_starts(function), _own_regions)
    return _own_results(function)


def _own_starts(function: Function) -> Function:
    """The function with a copy of each value that a loop starts from and changes."""
    if not any(carries(op) for op in function.ops):
        return function
    builder = Builder(function.facts, UNKNOWN)
    for op in function.ops:
        builder.loc = op.loc
        starts = [v if same else builder.op("copy", v) for v, same in zip(op.operands, unchanged(op), strict=False)]
        builder.append(replace(op, operands=(*starts, *op.operands[len(starts) :])) if starts else op)
    return function.with_ops(tuple(builder.ops), facts=builder.facts)


def _own_regions(function: Function, op: Op) -> tuple[Region, ...]:
    """The op's regions; what a loop hands on unchanged stays as it is."""
    made: list[Region] = []
    for region in op.regions:
        same = unchanged(op) if region is body_of(op) else ()
        kept = [*same, *(False,) * (len(region.results) - len(same))]
        changed = tuple([v for v, keep in zip(region.results, kept, strict=True) if not keep])
        own = own_results(region_function(function, replace(region, results=changed)))
        left = iter(own.results)
        results = tuple([v if keep else next(left) for v, keep in zip(region.results, kept, strict=True)])
        made.append(Region(own.params, own.ops, results, region.demands))
    return tuple(made)


def _own_results(function: Function) -> Function:
    producers = function.producers()
    start = function.ops[0].loc if function.ops else UNKNOWN
    builder = Builder(function.facts, start)
    bases = [_base(value, producers) for value in function.results]
    is_late = _late_views(function)
    owner: dict[Value, int] = {}
    for direct in (True, False):
        for i, (value, base) in enumerate(zip(function.results, bases, strict=True)):
            has_memory = base in producers and _has_memory(base, producers[base])
            if has_memory and (value is base) is direct and not is_late(value, base):
                owner.setdefault(base, i)
    results: list[Value] = []
    for i, (value, base) in enumerate(zip(function.results, bases, strict=True)):
        if owner.get(base) == i:
            results.append(value)
        else:
            builder.loc = producers[value].loc if value in producers else start
            results.append(builder.op("copy", value))
    return function.with_ops((*function.ops, *builder.ops), tuple(results), builder.facts)


def _has_memory(value: Value, op: Op) -> bool:
    """Whether the op that makes a value can write it to where it is wanted."""
    shared = (OpKind.GENERATE, OpKind.DATA_DEPENDENT_SIZE)
    return op.opdef.kind not in shared and value not in op.results[: carries(op)]


def _late_views(function: Function) -> Callable[[Value, Value], bool]:
    """The question whether a value has a size that is measured only after its base has been computed: a result's memory
    is allocated with the result's own shape."""
    places = {op: place for place, op in enumerate(function.ops)}
    measured = {symbol: place for op, place in places.items() if (symbol := bound_dim(op)) is not None}
    producers = function.producers() if measured else {}

    def is_late(value: Value, base: Value) -> bool:
        if not measured or value is base:
            return False
        symbols = {symbol for dim in value.shape for symbol in free_symbols(dim)}
        return any(measured.get(symbol, -1) > places[producers[base]] for symbol in symbols)

    return is_late


def _base(value: Value, producers: dict[Value, Op]) -> Value:
    """The value that ``value`` is a view of; itself when it is none."""
    while value in producers:
        op = producers[value]
        if op.opdef.kind is OpKind.BARRIER:
            value = op.operands[op.results.index(value)]
        elif op.opdef.kind is OpKind.VIEW:
            value = op.operands[0]
        else:
            break
    return value
