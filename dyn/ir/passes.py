"""Passes that need nothing but the IR and the ops' own rules: ``Function -> Function`` each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dyn.ir.builder import Builder, Restated
from dyn.ir.core import Attr, Function, Op, Region, Value, attrs_key, with_operands
from dyn.ir.effects import has_own_effect, must_run
from dyn.ir.opdef import OpKind
from dyn.ir.region_passes import body_of, carries, region_function, unchanged, with_regions
from dyn.ir.simplify import FOLD_LIMIT, simplify
from dyn.ir.substitute_dims import Redimension
from dyn.shapes import Dim, Facts, Reason, Relation, RelKind, SymExpr, value_conditions
from dyn.source import UNKNOWN

__all__ = [
    "FOLD_LIMIT",
    "eliminate_common_subexpressions",
    "eliminate_dead_code",
    "order_by_use",
    "own_results",
    "refine_shapes",
    "restate_demands",
    "simplify",
    "state_values",
]


def refine_shapes(function: Function) -> Function:
    """Replace every dim by its representative under the facts.

    Needs nothing. Leaves no two different dims in types and attributes that the facts prove equal by substitution, so
    that later passes may compare dims by identity. Parameters remember their own dims, which calls are checked against.
    What an op demands of the dims that it has now is a fact, where the facts do not prove it.
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
    return replace(function, params=params, infos=infos, ops=ops, results=results, facts=refiner.facts)


def restate_demands(function: Function) -> Function:
    """Make facts of what ops demand and the facts do not prove, such as after a fact was taken away.

    Needs facts that imply these demands, together with others that hold whenever the program runs. Leaves ops as they
    are, but for the demands of their regions.
    """
    restater = _Restater(function.facts)
    return replace(function, ops=tuple([restater.op(op) for op in function.ops]), facts=restater.facts)


def state_values(function: Function) -> Function:
    """Make facts of what the sizes of ops need to have values, where the facts do not prove it.

    A division by a dim has none where that is 0. Needs nothing. Leaves ops as they are, but for the demands of their
    regions. Raises ShapeError where a size has no value in any call.
    """
    stater = _ValueStater(function.facts)
    ops = tuple([stater.op(op) for op in function.ops])
    return replace(function, ops=ops, facts=stater.facts)


class _Refiner(Redimension):
    """Dims become what the facts simplify them to; the facts grow by demands that lose their proof by that."""

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self.facts = facts

    def replacement(self, dim: SymExpr) -> Dim:
        return self.facts.simplify(dim)

    def attrs(self, op: Op) -> Mapping[str, Attr]:
        return op.attrs if op.opdef.kind is OpKind.DATA_DEPENDENT_SIZE else super().attrs(op)

    def op(self, op: Op) -> Op:
        made = super().op(op)
        if not op.regions and made.operands == op.operands and made.results == op.results and made.attrs == op.attrs:
            return op
        return self.restated(made)

    def restated(self, op: Op) -> Op:
        """The op; what its rule demands, and that its results have the types which the rule gives, is known now."""
        demands = Restated(self.facts, op.opdef, op.loc, op.regions)
        inferred = op.opdef.types(demands, tuple([v.type for v in op.operands]), op.attrs)
        for value, expected in zip(op.results, inferred, strict=True):
            for axis, (a, b) in enumerate(zip(value.shape, expected.shape, strict=True)):
                demands.require(RelKind.EQ, a, b, f"axis {axis} of the result of {op.opdef.name} has one size")
        regions = demands.grown_regions()
        self.facts = demands.facts
        if op.opdef.kind is not OpKind.CONTROL:  # their regions run wherever the op does
            for new, old in zip(regions, op.regions, strict=True):
                self.restate(new.demands[len(old.demands) :])
        return replace(op, regions=regions) if op.regions else op

    def restate(self, demands: Sequence[Relation]) -> None:
        for relation in demands:
            self.facts = self.facts.restate(relation)

    def region(self, region: Region) -> Region:
        if region.demands:
            return self.demanding(region)
        around = self.facts
        made = super().region(region)
        demands, self.facts = self.facts.relations[len(around.relations) :], around
        return replace(made, demands=demands)

    def demanding(self, region: Region) -> Region:
        """A region with facts of its own: they hold for its ops, and not for what it takes and gives.

        What is another shape by those facts alone is reshaped at the edge.
        """
        params = tuple([self.value(v) for v in region.params])
        inner = _Refiner(self.facts.within(region.demands))
        known = len(inner.facts.relations)
        loc = region.ops[0].loc if region.ops else UNKNOWN
        edge = Builder(inner.facts, loc)
        for old, param in zip(region.params, params, strict=True):
            shape = tuple([inner.dim(d) for d in param.shape])
            inner.values[old] = param if shape == param.shape else edge.op("reshape", param, shape=shape)
        start = tuple(edge.ops)
        ops = tuple([inner.op(op) for op in region.ops])
        edge.ops.clear()
        results: list[Value] = []
        for old in region.results:
            value, shape = inner.value(old), tuple([self.dim(d) for d in old.shape])
            results.append(value if shape == value.shape else edge.op("reshape", value, shape=shape))
        restated = (*edge.facts.relations[known:], *inner.facts.relations[known:])
        return Region(params, (*start, *ops, *edge.ops), tuple(results), (*region.demands, *restated))


class _Restater(_Refiner):
    """Dims stay; every op is asked again what it demands."""

    def replacement(self, dim: SymExpr) -> Dim:
        return dim

    def op(self, op: Op) -> Op:
        return self.restated(replace(op, regions=tuple(map(self.region, op.regions))) if op.regions else op)

    def demanding(self, region: Region) -> Region:
        inner = type(self)(self.facts.within(region.demands))
        inner.values = self.values
        known = len(inner.facts.relations)
        ops = tuple([inner.op(op) for op in region.ops])
        results = tuple([inner.value(v) for v in region.results])
        return replace(region, ops=ops, results=results, demands=(*region.demands, *inner.facts.relations[known:]))


class _ValueStater(_Restater):
    """Dims stay; each is asked what it needs to have a value, once in a function and in each region."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.loc = UNKNOWN

    def replacement(self, dim: SymExpr) -> Dim:
        reason = Reason.about("the size {} has a value", (dim,), self.loc)
        for kind, lhs, rhs in value_conditions(dim):
            self.facts = self.facts.assume(Relation(kind, lhs, rhs, reason))
        return dim

    def op(self, op: Op) -> Op:
        self.loc = op.loc
        return Redimension.op(self, op)

    def region(self, region: Region) -> Region:
        return self.demanding(region)


def eliminate_common_subexpressions(function: Function) -> Function:
    """Common subexpression elimination: of ops that compute the same from the same, the first stays.

    Needs refined shapes, so that equal attributes are equal. Leaves every value computed once; ops with effects, ops
    with regions, and those inside them, are left as they are.
    """
    values: dict[Value, Value] = {}
    seen: dict[object, Op] = {}
    ops: list[Op] = []
    for old in function.ops:
        op = with_operands(old, values)
        if op.regions or has_own_effect(op):
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
    """Ops without effects whose results nobody reads go.

    Needs nothing. Checks that dead ops demanded stay in the facts: an error does not depend on what is used, and what
    checks are made of is measured. Only what the regions of a dead loop or choice demand is gone with them, for they
    don't run. Ops that can do without some of their results lose those that nobody reads (``OpDef.prune``).
    """
    live = set(function.results)
    kept: list[Op] = []
    for op in reversed(function.ops):
        if must_run(op) or any(v in live for v in op.results):
            if op.opdef.prune is not None and any(v in live for v in op.results):
                op = op.opdef.prune(op, live)
            kept.append(op)
            live.update(op.reads())
    return function.with_ops(tuple(reversed(kept)))


def order_by_use(function: Function) -> Function:
    """Put each op right before the first that reads it.

    Needs nothing. Ops that must run keep their order, with what they read before them; then come those that the results
    need, in the order of the results and of operands. So functions of the same ops have them in the same order, however
    they were written down. Other ops go.
    """
    made_by = {value: op for op in function.ops for value in op.results}
    ordered: dict[Op, None] = {}
    roots = [op for op in function.ops if must_run(op)]
    roots += [made_by[value] for value in function.results if value in made_by]
    for root in roots:
        waiting = [root]
        while waiting:
            op = waiting[-1]
            missing = [made for v in op.reads() if (made := made_by.get(v)) is not None and made not in ordered]
            if missing:
                waiting += reversed(missing)
            else:
                ordered[waiting.pop()] = None
    return function.with_ops(tuple(ordered))


def own_results(function: Function) -> Function:
    """Make every result a value of its own: a copy where it is a parameter, a constant, a view of one, or twice.

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
    owner: dict[Value, int] = {}
    for direct in (True, False):
        for i, (value, base) in enumerate(zip(function.results, bases, strict=True)):
            if base in producers and _has_memory(base, producers[base]) and (value is base) is direct:
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
