"""Passes that need nothing but the IR and the ops' own rules: ``Function -> Function`` each."""

from __future__ import annotations

from dataclasses import replace

from dyn.ir.builder import Builder
from dyn.ir.core import Function, Op, Region, Value, attrs_key, map_attr_dims, with_operands
from dyn.ir.opdef import OpKind
from dyn.ir.simplify import FOLD_LIMIT, simplify
from dyn.shapes import Dim, Facts
from dyn.source import UNKNOWN

__all__ = [
    "FOLD_LIMIT",
    "eliminate_common_subexpressions",
    "eliminate_dead_code",
    "own_results",
    "refine_shapes",
    "simplify",
]


def refine_shapes(function: Function) -> Function:
    """Every dim becomes its representative under the facts.

    Needs nothing. Leaves no two different dims in types and attributes that the facts prove equal by substitution, so
    that later passes may compare dims by identity. Parameters remember their own dims, which calls are checked against.
    """
    refiner = _Refiner(function.facts)
    params = tuple([refiner.value(v) for v in function.params])
    infos = tuple(
        [
            info if new is old else replace(info, dims=old.shape if info.dims is None else info.dims)
            for info, new, old in zip(function.infos, params, function.params, strict=True)
        ]
    )
    ops = tuple([refiner.op(op) for op in function.ops])
    results = tuple([refiner.value(v) for v in function.results])
    return replace(function, params=params, infos=infos, ops=ops, results=results)


class _Refiner:
    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.values: dict[Value, Value] = {}
        self.dims: dict[Dim, Dim] = {}

    def dim(self, dim: Dim) -> Dim:
        if isinstance(dim, int):
            return dim
        found = self.dims.get(dim)
        if found is None:
            found = self.dims[dim] = self.facts.simplify(dim)
        return found

    def value(self, value: Value) -> Value:
        found = self.values.get(value)
        if found is None:
            shape = tuple([self.dim(d) for d in value.shape])
            same = all(a is b for a, b in zip(shape, value.shape, strict=True))
            found = self.values[value] = value if same else Value(value.type.with_shape(shape), value.name)
        return found

    def op(self, op: Op) -> Op:
        return replace(
            op,
            operands=tuple([self.value(v) for v in op.operands]),
            attrs=map_attr_dims(op.attrs, self.dim),
            results=tuple([self.value(v) for v in op.results]),
            regions=tuple([self.region(region) for region in op.regions]),
        )

    def region(self, region: Region) -> Region:
        return Region(
            tuple([self.value(v) for v in region.params]),
            tuple([self.op(op) for op in region.ops]),
            tuple([self.value(v) for v in region.results]),
        )


def eliminate_common_subexpressions(function: Function) -> Function:
    """Of ops that compute the same from the same, the first stays.

    Needs refined shapes, so that equal attributes are equal. Leaves every value computed once; ops with regions, and
    those inside them, are left as they are.
    """
    values: dict[Value, Value] = {}
    seen: dict[object, Op] = {}
    ops: list[Op] = []
    for old in function.ops:
        op = with_operands(old, values)
        if op.regions:
            ops.append(op)
            continue
        key = (op.opdef, op.operands, attrs_key(op.attrs), tuple([v.type for v in op.results]))
        first = seen.setdefault(key, op)
        if first is op:
            ops.append(op)
        else:
            values.update(zip(old.results, first.results, strict=True))
    return function.with_ops(tuple(ops), tuple([values.get(v, v) for v in function.results]))


def eliminate_dead_code(function: Function) -> Function:
    """Ops whose results nobody reads go.

    Needs nothing. Checks that dead ops demanded stay in the facts: an error does not depend on what is used.
    """
    live = set(function.results)
    kept: list[Op] = []
    for op in reversed(function.ops):
        if any(v in live for v in op.results):
            kept.append(op)
            live.update(op.reads())
    return function.with_ops(tuple(reversed(kept)))


def own_results(function: Function) -> Function:
    """Every result becomes a value of its own: a copy where it is a parameter, a constant, a view of one, or twice.

    Needs nothing. Leaves results that are distinct, computed values, or views of distinct computed values, so that a
    result's memory can be what its producer writes to. A value that is itself a result stays one before its views do.
    """
    producers = function.producers()
    start = function.ops[0].loc if function.ops else UNKNOWN
    builder = Builder(function.facts, start)
    bases = [_base(value, producers) for value in function.results]
    owner: dict[Value, int] = {}
    for direct in (True, False):
        for i, (value, base) in enumerate(zip(function.results, bases, strict=True)):
            computed = base in producers and producers[base].opdef.kind is not OpKind.GENERATE
            if computed and (value is base) is direct:
                owner.setdefault(base, i)
    results: list[Value] = []
    for i, (value, base) in enumerate(zip(function.results, bases, strict=True)):
        if owner.get(base) == i:
            results.append(value)
        else:
            builder.loc = producers[value].loc if value in producers else start
            results.append(builder.op("copy", value))
    return function.with_ops((*function.ops, *builder.ops), tuple(results), builder.facts)


def _base(value: Value, producers: dict[Value, Op]) -> Value:
    """The value that ``value`` is a view of; itself when it is none."""
    while value in producers and producers[value].opdef.kind is OpKind.VIEW:
        value = producers[value].operands[0]
    return value
