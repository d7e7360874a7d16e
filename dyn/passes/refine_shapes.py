"""Dims replaced by their representatives under the facts, and demands stated as facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dyn.ir.builder import Builder, Restated
from dyn.ir.core import Attr, Function, Op, Region, Value
from dyn.ir.opdef import OpKind
from dyn.ir.substitute_dims import Redimension
from dyn.shapes import Dim, Facts, Reason, Relation, RelKind, SymExpr, value_conditions
from dyn.source import UNKNOWN


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
            info if new is old else replace(info, dims=shape)
            for info, new, old, shape in zip(
                function.infos, params, function.params, function.checked_shapes(), strict=True
            )
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
