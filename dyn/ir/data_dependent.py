"""Dims that a program finds out while it runs: from the values that it computes (``OpKind.DATA_DEPENDENT_SIZE``).

Such a dim is bound by one op of its scope, the function or a region, and stands in types and attributes behind that op
alone. What is known when the program starts is never said in terms of it (``Facts``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dyn.ir.builder import Builder
from dyn.ir.core import Op, Region, attr_dims
from dyn.ir.opdef import OpKind
from dyn.ir.substitute_dims import Substitution
from dyn.shapes import Dim, Reason, Relation, RelKind, Symbol, SymExpr, as_dim, free_symbols, last_data_dependent


def bound_dim(op: Op) -> Symbol | None:
    """The symbol that an op finds out; None of an op of another kind."""
    if op.opdef.kind is not OpKind.DATA_DEPENDENT_SIZE:
        return None
    found = op.attrs["dim"].is_symbol
    assert found is not None, "refinement leaves the dim of a MEASURE op as it is"
    return found


def size_demand(op: Op) -> Relation:
    """The demand on the number that an op measures: that it is a size."""
    found = bound_dim(op)
    assert found is not None
    return Relation(RelKind.GE, as_dim(found), 0, Reason(f"{found.origin} is not negative", op.loc))


def data_dependent_dims(ops: Sequence[Op]) -> Iterator[Symbol]:
    """Every symbol that the ops find out, those in their regions too, in order."""
    for op in ops:
        found = bound_dim(op)
        if found is not None:
            yield found
        for region in op.regions:
            yield from data_dependent_dims(region.ops)


def own_mentions(op: Op) -> list[Symbol]:
    """The measured symbols in the types of an op's operands and results and in its attributes, by age."""
    found: set[Symbol] = set()
    for value in (*op.operands, *op.results):
        for dim in value.type.shape:
            if last_data_dependent(dim) >= 0:
                found.update(_measured_in(dim))
    for dim in attr_dims(op.attrs) if op.attrs else ():
        if last_data_dependent(dim) >= 0:
            found.update(_measured_in(dim))
    return sorted(found, key=lambda s: s.uid) if found else []


def mentions(op: Op) -> set[Symbol]:
    """:func:`own_mentions` and those of its regions, but for what these measure themselves."""
    found = set(own_mentions(op))
    for region in op.regions:
        bound = {s for inner in region.ops if (s := bound_dim(inner)) is not None}
        for inner in region.ops:
            found |= mentions(inner) - bound
        for param in region.params:
            found.update(s for dim in param.shape for s in _measured_in(dim))
    return found


def _measured_in(dim: Dim) -> Iterator[Symbol]:
    return (s for s in free_symbols(dim) if s.data_dependent) if isinstance(dim, SymExpr) else iter(())


def with_own_dims(b: Builder, region: Region) -> Region:
    """The region with measured dims of its own, of which the facts of ``b`` say what they say of the others.

    A region that is written out twice finds out two sizes. Those of the regions in it are new too, for a dim is said in
    terms of older ones: what is measured inside stays younger than what is measured around it.
    """
    bound = list(data_dependent_dims(region.ops))
    if not bound:
        return region
    fresh: dict[Symbol, Dim] = {s: as_dim(b.symbols.symbol(s.name, s.origin, data_dependent=True)) for s in bound}
    for relation in b.facts.relations:
        if not fresh.keys().isdisjoint(relation.symbols()):
            b.facts = b.facts.assume(relation.substituted(fresh))
    return Substitution(fresh).region(region)
