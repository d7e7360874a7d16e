"""Kernels for sizes at which no undecided broadcast stretches an axis: when such a kernel may be chosen."""

from __future__ import annotations

from collections.abc import Mapping

from dyn.frozen import record
from dyn.schedule.axes import composed
from dyn.schedule.launch import Condition
from dyn.schedule.loops import Loops
from dyn.shapes import Dim, Symbol, SymExpr, dim_max, free_symbols, joined_from, substitute


@record(eq=False)
class Unstretched:
    """A condition under which it is known which axes are stretched: those whose sizes are in ``ones``, which are 1. And
    the sizes that are equal then: symbols by what they equal."""

    condition: Condition
    equal: Mapping[Symbol, Dim]
    ones: frozenset[Dim]


def unstretched(loops: Loops, *ones: Dim) -> Unstretched | None:
    """The case in which each axis that might be broadcast is as long as its loop, but those of the sizes in
    ``ones``, which are symbols; None without such an axis, or where a loop cannot be told."""
    axes = [*loops.nest.shared, *[a for stage in loops.nest.stages for a in stage.axes]]
    single: dict[Symbol, Dim] = {s: 1 for one in ones if isinstance(one, SymExpr) and (s := one.is_symbol)}
    extents = {a.var: substitute(a.extent, single) for a in axes}
    sizes: dict[Symbol, list[Dim]] = {}
    equal = dict(single)
    lengths: dict[Symbol, Dim] = {}
    for size, var in loops.code.elements.stretched:
        if var is None or var not in extents:
            return None
        if size in ones:
            continue
        extent, size = extents[var], substitute(size, single)
        sizes.setdefault(var, []).append(size)
        known = substitute(size, equal)
        length = substitute(lengths.setdefault(var, extent if isinstance(extent, int) else known), equal)
        symbol = known.is_symbol if isinstance(known, SymExpr) else None
        if symbol is not None and symbol not in free_symbols(length):
            equal = composed(equal, {symbol: length})
    apart: list[Dim] = [d for one in ones for d in (one - 1, 1 - one)]
    for var, own in sizes.items():
        extent = extents[var]
        parts = dict.fromkeys(part for size in own for part in joined_from(size))
        if parts.keys() >= {*joined_from(extent)}:
            extent, *own = parts  # sizes that agree are as long as what is broadcast from them
        apart += [d for size in own if size != extent for d in (extent - size, size - extent)]
    return Unstretched(Condition(dim_max(*apart), 0, 0), equal, frozenset(ones)) if apart else None
