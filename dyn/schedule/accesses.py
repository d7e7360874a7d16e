"""Accesses of a kernel in the making: what its code loads and stores, and at which strides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from dyn.frozen import record
from dyn.ops.shape import is_stretch_factor
from dyn.schedule.axes import Axis
from dyn.schedule.kernel import Buffer, Load, Loop, Store, Update
from dyn.schedule.kernel_walks import expr_dims, stmt_exprs, walk_exprs, walk_stmts
from dyn.schedule.phases import Phase
from dyn.shapes import Dim, free_symbols, linear_in

if TYPE_CHECKING:
    from dyn.schedule.loops import Loops


@record(eq=False)
class Access:
    """A plain load, or a store or an update: it touches a buffer at an index over the loops' variables."""

    buffer: Buffer
    index: Dim
    stores: bool

    def stride(self, along: Axis) -> Dim | None:
        """Number of elements between neighbours along an axis; None where that differs."""
        linear = linear_in(self.index, along.var)
        return None if linear is None else linear[0]


def accesses_of(loops: Loops) -> list[Access]:
    """The stores of the code, and the loads whose places are not computed from values."""
    return _accesses([phase.code() for phase in loops.phases], loops)


def _accesses(code: Iterable[Loop], loops: Loops) -> list[Access]:
    found: list[Access] = []
    for stmt in walk_stmts(tuple(code)):
        if isinstance(stmt, Store | Update):
            found.append(Access(stmt.buffer, loops.settled(stmt.index), True))
        for expr in walk_exprs(stmt_exprs(stmt)):
            if isinstance(expr, Load) and not expr.bound and expr.mask is None:
                found.append(Access(expr.buffer, loops.settled(expr.index), False))
    return found


def widest(loops: Loops) -> int:
    """Bytes of the widest elements that are loaded or stored."""
    return max(access.buffer.dtype.itemsize for access in accesses_of(loops))


def neighbours_together(loops: Loops, phase: Phase, access_bytes: int, most: int) -> int:
    """Number of neighbours along the innermost axis of a phase that one access of so many bytes takes; 1 where what
    is loaded or stored does not lie in that order, or more is done than to store and to fold.

    An axis that may be stretched counts as one that is not: a kernel for sizes at which it is not folds in this order.
    """
    last, sizes = phase.axes[-1], list[int]()
    if not all(isinstance(stmt, Store) for stmt in phase.body):
        return 1
    for access in _accesses((phase.code(),), loops):
        reach = _reach(loops, access.index, last)
        if reach == "far" or access.stride(last) == -1:
            return 1
        if reach == "near":
            sizes.append(access.buffer.dtype.itemsize)
    return max(min(access_bytes // max(sizes), most), 1) if sizes else 1


def crossed_loads(loops: Loops, across: Axis, down: Axis) -> list[Load]:
    """Loads of neighbours along one axis that lie far apart along another."""
    found: dict[int, Load] = {}
    for phase in loops.phases:
        for stmt in phase.body:
            for expr in walk_exprs(stmt_exprs(stmt)):
                if isinstance(expr, Load) and not expr.bound and expr.mask is None:
                    access = Access(expr.buffer, loops.settled(expr.index), False)
                    if access.stride(across) not in (0, 1, -1) and access.stride(down) == 1:
                        found[id(expr)] = expr
    return list(found.values())


def invariant_loads(loops: Loops, along: Axis) -> int:
    """Number of loads in the phases' own loops that read the same in all iterations of a shared axis."""
    count = 0
    for phase in loops.phases:
        values = stmt_exprs(replace(phase.code(), body=())) if phase.axes else ()
        loads = [expr for expr in walk_exprs(values) if isinstance(expr, Load)]
        for load in loads:
            symbols = {s for d in expr_dims((load,)) for s in free_symbols(loops.settled(d))}
            count += along.var not in symbols
    return count


def operation_counts(loops: Loops, phase: Phase) -> Counter[object]:
    """Operations of a phase for each element along its innermost axis, by kind: what is read once, one after the
    other, or from far apart."""
    last, found = phase.axes[-1], Counter[object]()
    seen: set[int] = set()
    for stmt in walk_stmts(
        (Loop(phase.inner, last.var, last.extent, phase.body, phase.folds, phase.carries, bound=last.bound),)
    ):
        found[type(stmt)] += 1
        if isinstance(stmt, Store | Update):
            found[stmt.buffer.dtype, _reach(loops, stmt.index, last)] += 1
        for expr in walk_exprs(stmt_exprs(stmt)):
            if id(expr) not in seen:
                seen.add(id(expr))
                reach = _reach(loops, expr.index, last) if isinstance(expr, Load) else ""
                found[type(expr), getattr(expr, "fn", None), expr.dtype, reach] += 1
    return found


def _reach(loops: Loops, index: Dim, along: Axis) -> str:
    linear = linear_in(loops.settled(index), along.var)
    stride = None if linear is None else linear[0]
    if stride == 0:
        return "once"
    return "near" if stride in (1, -1) or (stride is not None and is_stretch_factor(stride)) else "far"
