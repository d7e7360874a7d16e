"""Cost of a GRID iteration, as a formula over the host's dims: a launch decides by it how many threads to use.

The unit is a byte moved, which takes about 1/32 ns: 32 GB/s, where a core's caches give more and its share of the
memory gives less. Arithmetic is counted in the same unit: a simple operation on an element is 1, a transcendental
function several, four multiply-adds of a contraction 1. It is meant to be right within a factor of two or three, for
sizes and threads change by hundreds.
"""

from __future__ import annotations

from collections.abc import Iterable

from dyn.schedule.kernel import Apply, Buffer, Expr, Kernel, Load, Loop, Stmt, Store, TileContract, Update
from dyn.schedule.kernel_walks import stmt_body, stmt_exprs, walk_exprs
from dyn.shapes import Dim, Symbol, floordiv, free_symbols, substitute

#: A gathered element is a line of its own.
_GATHER = 16
#: How many iterations a loop is taken to have whose extent is a computed value.
_COMPUTED_EXTENT = 32
#: How many multiply-adds of a contraction make a unit.
_MULTIPLY_ADDS = 4


def iteration_cost(body: tuple[Stmt, ...], grid: Iterable[Symbol]) -> Dim:
    """The cost of one iteration, the first: ``body`` is what the GRID loops over ``grid`` enclose."""
    return _at_zero(_block(body), frozenset(grid))


def traffic(kernel: Kernel) -> tuple[Dim, ...]:
    """Elements of each global buffer that a launch loads and stores, as formulas over the kernel's dims.

    Each access counts, so an element that is read again counts again: whoever asks for bytes of memory takes the lesser
    of this and what the buffer holds, which a kernel that keeps to its caches reads once.
    """
    counts: dict[int, Dim] = {id(buffer): 0 for buffer in kernel.buffers}

    def add(buffer: Buffer, times: Dim) -> None:
        if id(buffer) in counts:
            counts[id(buffer)] = counts[id(buffer)] + times

    def first(extent: Dim) -> Dim:
        return _at_zero(extent, free_symbols(extent) - frozenset(kernel.dims))

    def visit(body: tuple[Stmt, ...], times: Dim) -> None:
        for stmt in body:
            inside, own = times, times
            if isinstance(stmt, Loop):
                inside = own = times * first(expected_extent(stmt))
            elif isinstance(stmt, TileContract):
                inside = times * first(stmt.row_extent) * first(stmt.col_extent)
                own = inside * first(stmt.red_extent)
            else:
                add(stmt.buffer, 2 * times if isinstance(stmt, Update) and stmt.combine is not None else times)
            for expr in walk_exprs(stmt_exprs(stmt)):
                if isinstance(expr, Load):
                    add(expr.buffer, own)
            visit(stmt_body(stmt), inside)

    visit(kernel.body, 1)
    return tuple(counts[id(buffer)] for buffer in kernel.own_buffers) * kernel.copies


def _block(body: tuple[Stmt, ...]) -> Dim:
    total: Dim = 0
    for stmt in body:
        total = total + _stmt(stmt)
    return total


def _stmt(stmt: Stmt) -> Dim:
    own = sum(_node(expr) for expr in walk_exprs(stmt_exprs(stmt)))
    if isinstance(stmt, Store):
        return own + stmt.buffer.dtype.itemsize
    if isinstance(stmt, Update):
        return own + 2 * stmt.buffer.dtype.itemsize + (_GATHER if stmt.bound else 0)
    if isinstance(stmt, Loop):
        return expected_extent(stmt) * _at_zero(_block(stmt.body) + own, frozenset((stmt.var,)))
    assert isinstance(stmt, TileContract)
    rows, columns, reduced = stmt.row_extent, stmt.col_extent, stmt.red_extent
    inside = frozenset((stmt.row, stmt.col, stmt.red))
    operands = (rows * stmt.lhs.dtype.itemsize + columns * stmt.rhs.dtype.itemsize) * reduced
    arithmetic = floordiv(rows * columns * reduced, _MULTIPLY_ADDS)
    return arithmetic + operands + rows * columns * _at_zero(_block(stmt.epilogue), inside)


def expected_extent(loop: Loop) -> Dim:
    """The extent of a loop, or a number where that is a computed value."""
    return _COMPUTED_EXTENT if loop.bound else loop.extent


def _node(expr: Expr) -> int:
    if isinstance(expr, Load):
        return expr.dtype.itemsize + (_GATHER if expr.bound else 0)
    if isinstance(expr, Apply):
        return expr.fn.work
    return 0


def _at_zero(dim: Dim, symbols: frozenset[Symbol]) -> Dim:
    """A dim in the first iteration of some loops: ``min(8, n - 8*c)`` becomes ``min(8, n)``."""
    present = free_symbols(dim) & symbols
    return substitute(dim, dict.fromkeys(present, 0)) if present else dim
