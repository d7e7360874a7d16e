"""Cost of a GRID iteration, as a formula over the host's dims: a launch decides by it how many threads to use.

The unit is a byte moved, which takes about 1/32 ns: 32 GB/s, where a core's caches give more and its share of the
memory gives less. Arithmetic is counted in the same unit: a simple operation on an element is 1, a transcendental
function several, four multiply-adds of a contraction 1. It is meant to be right within a factor of two or three, for
sizes and threads change by hundreds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dyn.frozen import record
from dyn.schedule.kernel import Apply, Buffer, Expr, Kernel, Load, Loop, Stmt, Store, TileContract, Update
from dyn.schedule.kernel_walks import stmt_body, stmt_exprs, walk_exprs
from dyn.shapes import Dim, Opaque, OpaqueKind, Symbol, as_dim, dim_min, floordiv, free_symbols, product, substitute

#: A gathered element is a line of its own.
_GATHER = 16
#: How many iterations a loop is taken to have whose extent is a computed value.
_COMPUTED_EXTENT = 32
#: How many multiply-adds of a contraction make a unit.
_MULTIPLY_ADDS = 4


def iteration_cost(body: tuple[Stmt, ...], grid: Sequence[Loop]) -> Dim:
    """The cost of one iteration, the first: ``body`` is what the GRID loops enclose."""
    alone: dict[Symbol, Dim] = {loop.count: 1 for loop in grid if loop.count is not None}
    return _at_zero(substitute(_block(body), alone), frozenset([loop.var for loop in grid]))


def traffic(kernel: Kernel, sizes: Sequence[Dim]) -> tuple[Dim, ...]:
    """Elements of each global buffer that a launch loads and stores, where the kernel's dims are ``sizes``.

    Each access counts, so an element that is read again counts again: whoever asks for bytes of memory takes the lesser
    of this and what the buffer holds, which a kernel that keeps to its caches reads once. Loops that cut an extent into
    pieces count as the whole; of other loops whose extents change the first iteration stands for all.
    """
    counts: dict[int, Dim] = {id(buffer): 0 for buffer in kernel.buffers}
    own_sizes = dict(zip(kernel.dims, sizes, strict=True))
    own_sizes.update({loop.count: 1 for loop in kernel.grid()[0] if loop.count is not None})

    def add(buffer: Buffer, times: Dim) -> None:
        if id(buffer) in counts:
            counts[id(buffer)] = counts[id(buffer)] + times

    def visit(body: tuple[Stmt, ...], around: _Iterations) -> None:
        for stmt in body:
            inside = own = around
            if isinstance(stmt, Loop):
                inside = own = around.inside(stmt.var, expected_extent(stmt))
            elif isinstance(stmt, TileContract):
                inside = around.inside(stmt.row, stmt.row_extent).inside(stmt.col, stmt.col_extent)
                own = inside.inside(stmt.red, stmt.red_extent)
            elif isinstance(stmt, Store | Update):
                times = around.count()
                add(stmt.buffer, 2 * times if isinstance(stmt, Update) and stmt.combine is not None else times)
            for expr in walk_exprs(stmt_exprs(stmt)):
                if isinstance(expr, Load):
                    add(expr.buffer, own.count())
            visit(stmt_body(stmt), inside)

    visit(kernel.body, _Iterations(own_sizes))
    return tuple(counts[id(buffer)] for buffer in kernel.own_buffers) * kernel.copies


@record(eq=False)
class _Span:
    """Loops that go over ``extent`` together, nested as they are: ``index`` is the place that they are at."""

    variables: frozenset[Symbol]
    index: Dim
    extent: Dim


@record(eq=False)
class _Iterations:
    """Iterations of nested loops, outermost first. ``sizes`` are those that the kernel's dims stand for."""

    sizes: Mapping[Symbol, Dim]
    spans: tuple[_Span, ...] = ()

    def count(self) -> Dim:
        """The number of iterations of the innermost loop in all, where the first ones stand for others."""
        variables = frozenset[Symbol]().union(*[span.variables for span in self.spans])
        return product([_at_zero(span.extent, variables) for span in self.spans])

    def inside(self, var: Symbol, extent: Dim) -> _Iterations:
        """Those of one more loop, inside of the others."""
        spans = list(self.spans)
        span = _Span(frozenset({var}), as_dim(var), substitute(extent, self.sizes))
        while (cut := next((one for one in spans if _whole(one, span) is not None), None)) is not None:
            whole = _whole(cut, span)
            assert whole is not None
            spans.remove(cut)
            span = whole
        return _Iterations(self.sizes, (*spans, span))


def _whole(pieces: _Span, piece: _Span) -> _Span | None:
    """The span of a loop over pieces and of one over a piece; None where that is not what they are.

    A piece is ``min(size, whole - size*c)``, and what ``c`` counts are all ``ceil(whole / size)`` of them.
    """
    atom = None if isinstance(piece.extent, int) else piece.extent.is_atom
    if not isinstance(atom, Opaque) or atom.kind is not OpaqueKind.MIN:
        return None
    for size in atom.args:
        others = [arg for arg in atom.args if arg is not size]
        whole = dim_min(*others) + size * pieces.index
        cut = free_symbols(size) | free_symbols(whole)
        if pieces.variables.isdisjoint(cut) and floordiv(whole + size - 1, size) == pieces.extent:
            index = size * pieces.index + piece.index
            return _Span(pieces.variables | piece.variables, index, whole)
    return None


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
