"""Plans under an assumption: that sizes which an undecided broadcast joins are equal, or 1, and that some are small.

With nothing declared every broadcast is undecided, and groups end where their spaces cannot be proved the same. Almost
always sizes agree. So a function with undecided broadcasts is cut once more under the assumption that all of them do;
and where in the first call some were 1 that others were not, also under the one that these are 1. Where elements are
folded over an axis that may be short, as distances are over the dimensions of space, it is cut under the assumption
that sizes agree and such axes are short (``dyn.stitch.nested``). That is all that is tried: three plans beside the
general one, however many broadcasts there are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from dyn.errors import ShapeError
from dyn.frozen import record
from dyn.ir.core import Attr, Function, Op, Value
from dyn.ir.opdef import REGISTRY, OpKind, ReductionLoops
from dyn.ir.substitute_dims import Redimension
from dyn.passes.sink_reshapes import sunk
from dyn.shapes import (
    Dim,
    Facts,
    Opaque,
    OpaqueKind,
    Reason,
    Relation,
    RelKind,
    Symbol,
    SymExpr,
    as_dim,
    free_symbols,
    product,
)
from dyn.shapes.expr import all_atoms
from dyn.stitch.conversions import convert_where_used
from dyn.stitch.cost import PricePoints
from dyn.stitch.groups import Group, Plan, values_read
from dyn.stitch.nested import MOST_NESTED
from dyn.stitch.plan import stitch_known

#: A function whose broadcasts leave more pairs of sizes undecided is not cut again: each is a fact, which takes
#: the longer to learn the more there are. 600 take five seconds.
_MOST_PAIRS = 1024
#: An array is spread over a space that has so many times as many elements.
_SPREAD = 8
_WHY = Reason("sizes that are broadcast together are assumed to agree")


@record(eq=False)
class Assumed:
    """A plan of a function for calls whose sizes have some ``relations``: each says that two are equal, or that one is
    at least 1.

    Its values are others than the function's: ``own`` has the plan's for each of the function's, and ``origins`` the
    function's op of each of the plan's. ``ones`` are those of the sizes that are 1.
    """

    plan: Plan
    relations: tuple[Relation, ...]
    own: Mapping[Value, Value]
    origins: Mapping[Op, Op]
    ones: tuple[Symbol, ...] = ()
    #: Whether axes are assumed to be short.
    short: bool = False


# Assumptions ----------------------------------------------------------------------------------------------------------


def assumed_plans(plan: Plan, ones: Collection[Symbol]) -> list[Assumed]:
    """The plans of a function under the assumptions that are tried; none where every broadcast is decided, and no axis
    may be short.

    ``ones`` are the dims of size 1 that the first call has stretched; the plan for these comes first, and the one for
    sizes that agree last.
    """
    broadcasts, short = _undecided(plan.function), _may_be_short(plan)
    joined = {s for parts in broadcasts for part in parts for s in free_symbols(part)}
    stretched = [s for s in plan.function.symbols() if s in joined and s in ones]
    cases: list[tuple[list[Symbol], list[Dim]]] = []
    cases += [(stretched, [])] if stretched else []
    cases += [([], short)] if short else []
    cases += [([], [])] if broadcasts else []
    return [made for case in cases if (made := _assume(plan, broadcasts, *case)) is not None]


def _may_be_short(plan: Plan) -> list[Dim]:
    """The number of elements that a group folds, which may be few or many, of arrays that are spread over them: that of
    the first such group, if there is one."""
    function = plan.function
    for group in plan.groups:
        monoids = all(isinstance(op.opdef.loops, ReductionLoops) for op in group.reductions)
        if not group.reductions or not monoids or len(group.reduced) == len(group.space):
            continue
        size = product([d for axis, d in enumerate(group.space) if axis in group.reduced])
        kept = product([d for axis, d in enumerate(group.space) if axis not in group.reduced])
        symbols = free_symbols(size)
        if not symbols.isdisjoint(free_symbols(kept)) or any(symbol.data_dependent for symbol in symbols):
            continue
        low, high = function.facts.bounds(size)
        undecided = (low or 0) <= MOST_NESTED and (high is None or high > MOST_NESTED)
        if undecided and not _reads_many(plan, group):
            return [size]
    return []


def _reads_many(plan: Plan, group: Group) -> bool:
    """Return True if a group reads an array of about as many elements as its space has, where sizes are large."""
    points = PricePoints.of(plan.function)
    whole = points.values(product(group.space))[-1]
    read = values_read(group, plan.producers, plan.stored) & plan.stored
    return any(points.values(value.type.size)[-1] * _SPREAD > whole for value in read)


def _undecided(function: Function) -> list[tuple[Dim, ...]]:
    """The sizes that each undecided broadcast of a function's ops joins, but those that are measured in a call."""
    dims = dict.fromkeys(dim for op in function.ops for value in op.results for dim in value.shape)
    seen: dict[Opaque, None] = {}
    for dim in dims:
        if isinstance(dim, SymExpr):
            seen |= dict.fromkeys([atom for atom in all_atoms(dim, seen.__contains__) if isinstance(atom, Opaque)])
    joined = [atom.args for atom in seen if atom.kind is OpaqueKind.BROADCAST]
    # Of a broadcast that is known to be as long as another one, gradients alone tell what it joined.
    joined += dict.fromkeys((whole, part) for whole, part in _stretching(function, function.facts) if part is not None)
    return [parts for parts in joined if not any(s.data_dependent for part in parts for s in free_symbols(part))]


def _assume(
    plan: Plan, broadcasts: Sequence[tuple[Dim, ...]], ones: Sequence[Symbol], short: Sequence[Dim]
) -> Assumed | None:
    """The plan for calls in which sizes agree, but those of ``ones``, which are 1, and ``short`` ones are small."""
    function = plan.function
    facts, relations = function.facts.apart(), list[Relation]()

    def assume(kind: RelKind, a: Dim, b: Dim, facts: Facts) -> Facts:
        relation = Relation(kind, a, b, _WHY)
        if any(symbol.data_dependent for symbol in relation.symbols()):  # not there yet when a plan is chosen
            return facts
        try:
            known = facts.assume(relation)
        except ShapeError:  # they never are
            return facts
        if known is not facts:
            relations.append(relation)
        return known

    for one in ones:
        facts = assume(RelKind.EQ, as_dim(one), 1, facts)
    for parts in broadcasts:
        rest = [part for part in parts if facts.simplify(part) != 1]
        for part in rest[1:]:
            facts = assume(RelKind.EQ, rest[0], part, facts)
            if len(relations) > _MOST_PAIRS:
                return None
    for size in short:
        facts = assume(RelKind.GE, MOST_NESTED, size, facts)
    if not relations:
        return None
    for size, _ in _stretching(function, facts):
        facts = assume(RelKind.GE, size, 1, facts)
    other = _Assumption(facts)
    made, stand_ins = sunk(other.function(function, facts))
    other.origins |= {op: other.origins[stood] for op, stood in stand_ins.items()}
    ops = {origin: op for op, origin in other.origins.items()}
    waits = {ops[op]: tuple([other.values[v] for v in values]) for op, values in plan.waits.items()}
    recut = stitch_known(made, waits)
    recut = convert_where_used(recut) if plan.converts else recut
    return Assumed(recut, tuple(relations), other.values, other.origins, tuple(ones), bool(short))


def _stretching(function: Function, facts: Facts) -> Iterable[tuple[Dim, Dim | None]]:
    """Sizes that axes were stretched to, where gradients sum over the axis that they were stretched by: that has size 1
    if sizes agree, and are not 0. Each with the size that it was stretched from, if that is known."""
    for op in function.ops:
        if isinstance(op.opdef.loops, ReductionLoops):
            shape = op.operands[0].shape
            for axis in op.attrs["axes"]:
                atom = size.is_atom if isinstance(size := facts.simplify(shape[axis]), SymExpr) else None
                if isinstance(atom, Opaque) and atom.kind is OpaqueKind.FLOORDIV:
                    yield atom.args[0], _of_at_least_one(atom.args[1])


def _of_at_least_one(dim: Dim) -> Dim | None:
    """The size that a dim is, or 1 if that is 0."""
    atom = None if isinstance(dim, int) else dim.is_atom
    if not isinstance(atom, Opaque) or atom.kind is not OpaqueKind.MAX or len(atom.args) != 2:
        return None
    return next((arg for arg in atom.args if arg != 1), None)


class _Assumption(Redimension):
    """The function with dims as facts simplify them, and values of its own. What loops and choices do stays as it is:
    it is cut by itself.

    The gradient of what was broadcast is a sum over the axis by which it was stretched, ``broadcast(n, m) / n``. Such
    axes have size 1 here, and are not folded.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__()
        self.facts = facts
        self.origins: dict[Op, Op] = {}

    def function(self, function: Function, facts: Facts) -> Function:
        ops: list[Op] = []
        for op in function.ops:
            made = _without_single_axes(self.op(op))
            self.origins.update(dict.fromkeys(made, op))
            ops += made
        # Its params and results are the values that ops have.
        return replace(super().function(replace(function, ops=()), facts), ops=tuple(ops))

    def replacement(self, dim: SymExpr) -> Dim:
        return self.facts.simplify(dim)

    def value(self, value: Value) -> Value:
        found = self.values.get(value)
        if found is None:
            shape = tuple([self.dim(d) for d in value.shape])
            found = self.values[value] = Value(value.type.with_shape(shape), value.name)
        return found

    def attrs(self, op: Op) -> Mapping[str, Attr]:
        return op.attrs if op.opdef.kind is OpKind.DATA_DEPENDENT_SIZE else super().attrs(op)

    def op(self, op: Op) -> Op:
        if op.opdef.kind is not OpKind.CONTROL:
            return super().op(op)
        operands, results = (tuple([self.value(v) for v in values]) for values in (op.operands, op.results))
        return replace(op, operands=operands, results=results)


def _without_single_axes(op: Op) -> list[Op]:
    """A reduction that does not fold axes of size 1, after a reshape without them."""
    if not isinstance(op.opdef.loops, ReductionLoops):
        return [op]
    (operand,), axes = op.operands, op.attrs["axes"]
    single = [axis for axis in axes if operand.shape[axis] == 1]
    if not single:
        return [op]
    reshape = REGISTRY["reshape"]
    if len(single) == len(axes):
        return [Op(reshape, op.operands, {"shape": op.result.shape}, op.results, op.loc)]
    shape = tuple([size for axis, size in enumerate(operand.shape) if axis not in single])
    value = Value(operand.type.with_shape(shape))
    others = tuple([axis - sum(s < axis for s in single) for axis in axes if axis not in single])
    fold = replace(op, operands=(value,), attrs={**op.attrs, "axes": others})
    return [Op(reshape, op.operands, {"shape": shape}, (value,), op.loc), fold]
