"""Width of a LANE loop: the lanes of a vector, and how many vectors go through the body at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dyn import dtypes
from dyn.frozen import record
from dyn.lower.x86.scalars import TABLE
from dyn.lower.x86.squares import is_square
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Apply, Expr, Fold, Kernel, Load, Loop, Ref, Role, Stmt, Store, Update
from dyn.schedule.kernel_walks import stmt_exprs, walk_exprs, walk_stmts
from dyn.shapes import Dim, Symbol, SymExpr, linear_in

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

#: The most lanes where squares are transposed: each has a row of its own.
_MOST_ROWS = 32


@record()
class LanePlan:
    """Lanes of a vector, and the vectors that go through a loop's body together. A ``short`` loop has one copy of its
    body: it goes through a few vectors each time that it is come to."""

    width: int
    unroll: int
    short: bool = False


def lane_plan(em: KernelEmitter, loop: Loop) -> LanePlan:
    """A vector holds as many lanes as a register has of the widest float, or where there is none of the widest
    integer; narrower and wider values take parts of registers and several. Light bodies go four at a time to hide
    latencies, heavy ones fewer, to stay in the registers. Sums of columns and the like go eight at a time: each step
    reads a piece of a row, and the longer that is, the sooner prefetchers follow."""
    floats, integers = 0, 1
    weight, scattered, short = 0, False, False
    seen: set[int] = set()
    unrolled: dict[int, Symbol] = {}
    columns, chained, states = False, 1, 1

    def is_scattered(index: Dim, stmt: Stmt) -> bool:
        copies = unrolled.get(id(stmt))
        return _is_scattered(index, loop.var) and not (copies is not None and is_square(index, copies, loop.var))

    totals = set(map(id, _totals(loop)))
    for stmt in walk_stmts((loop,)):
        if isinstance(stmt, Loop) and stmt.role is Role.UNROLL:
            unrolled.update((id(inner), stmt.var) for inner in stmt.body)
        if isinstance(stmt, Store | Update):
            weight += 1
            if stmt.buffer.dtype in (dtypes.float32, dtypes.float64):
                floats = max(floats, stmt.buffer.dtype.itemsize)
            integers = max(integers, stmt.buffer.dtype.itemsize)
            scattered |= is_scattered(stmt.index, stmt)
            if isinstance(stmt, Update):
                weight += 2
                scattered |= any(em.varying(value) for _, value in stmt.bound)
        for expr in walk_exprs(stmt_exprs(stmt)):
            if id(expr) in seen or not em.varying(expr):
                continue
            seen.add(id(expr))
            integers = max(integers, expr.dtype.itemsize)
            if expr.dtype in (dtypes.float32, dtypes.float64) and id(expr) not in totals:
                floats = max(floats, expr.dtype.itemsize)
            if isinstance(expr, Apply):
                weight += TABLE[expr.fn].instructions
            elif isinstance(expr, Load):
                weight += 1
                short |= id(expr.buffer) in em.accumulators
                near = expr.mask is None and stretched_factor(em.kernel, expr.index, loop.var) is not None
                scattered |= not near and is_scattered(expr.index, stmt)
                scattered |= any(em.varying(value) for _, value in expr.bound)
        if isinstance(stmt, Loop):
            weight += sum(map(_monoid_weight, stmt.folds)) + len(stmt.carries)
            if stmt is not loop:
                columns |= bool(stmt.folds) and not stmt.bound  # rows that are picked are no run for prefetchers
                states = max(states, sum(len(fold.refs) for fold in stmt.folds) + len(stmt.carries))
                if stmt.order is not None:
                    chained = max(chained, 2 * len(stmt.folds))  # a run's state and the total
    width = em.target.lanes(floats if floats else max(integers, 4) if scattered else integers)
    if short:
        return LanePlan(width, 1, short=True)
    if unrolled:  # one vector at a time, and no more rows of squares than are soon compiled
        return LanePlan(min(width, _MOST_ROWS), 1)
    room = em.target.registers // 16  # how many bodies' values fit
    unroll = 4 if weight <= 12 * room else 2 if weight <= 32 * room else 1
    if columns and weight <= 4 * room:
        unroll = 8
    unroll = max(1, min(unroll, em.target.registers // (2 * chained)))
    unroll = min(unroll, 2) if scattered else unroll
    while unroll > 1 and (unroll * states > em.target.registers * 3 // 4 or _is_beyond(loop, width * unroll)):
        unroll //= 2
    return LanePlan(width, unroll)


def _is_beyond(loop: Loop, lanes: int) -> bool:
    """Whether a loop is known to have less iterations, and lanes have no order to keep."""
    return isinstance(loop.extent, int) and loop.extent < lanes and not loop.folds


def _totals(loop: Loop) -> Iterator[Expr]:
    """Totals of folds and carries, and the values added to them: wider than the elements where that is more exact, and
    then of several registers for a vector of these."""
    for stmt in walk_stmts((loop,)):
        yield from (e for e in walk_exprs(stmt_exprs(stmt)) if isinstance(e, Ref))
        for carry in stmt.carries if isinstance(stmt, Loop) else ():
            yield carry.value
            if isinstance(carry.value, Apply):
                yield from (e for e in carry.value.args if isinstance(e, Apply) and e.fn is Scalar.CAST)


def _monoid_weight(fold: Fold) -> int:
    """About how many instructions combine two states: an accumulator takes one for any scalar function."""
    if fold.scalar is not None:
        return 1
    return sum(TABLE[e.fn].instructions for e in walk_exprs(fold.monoid.result) if isinstance(e, Apply))


def stretched_factor(kernel: Kernel, index: Dim, var: Symbol) -> Symbol | None:
    """The factor of a lane's variable in an index, where that is a size parameter that is 0 or 1."""
    linear = linear_in(index, var)
    factor = linear[0].is_symbol if linear is not None and isinstance(linear[0], SymExpr) else None
    return factor if factor in kernel.factors else None


def _is_scattered(index: Dim, var: Symbol) -> bool:
    """Whether the lanes' elements are not neighbours: then each costs an instruction, and addresses fill registers."""
    linear = linear_in(index, var)
    return linear is None or linear[0] not in (0, 1, -1)
