"""Kernels of one contraction, for tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Apply, Buffer, Expr, Kernel, Load, Loop, Ref, Role, Stmt, Store, Tile, TileContract
from dyn.shapes import Dim, as_dim, dim_min, floordiv, symbol

F32 = dtypes.float32


@dataclass(frozen=True)
class Axes:
    """The symbols of a contraction, as index expressions."""

    i: Dim
    j: Dim
    r: Dim
    m: Dim
    n: Dim
    k: Dim


#: Where an element of an operand lies.
LHS: dict[str, Callable[[Axes], Dim]] = {"mk": lambda x: x.i * x.k + x.r, "km": lambda x: x.r * x.m + x.i}
RHS: dict[str, Callable[[Axes], Dim]] = {"kn": lambda x: x.r * x.n + x.j, "nk": lambda x: x.j * x.k + x.r}
Make = Callable[[Axes, Expr], tuple[tuple[Buffer, ...], Stmt]]


def store_plain(dtype: DType) -> Make:
    c = Buffer("c", dtype)
    return lambda x, acc: ((c,), Store(c, x.i * x.n + x.j, acc))


def store_bias(dtype: DType) -> Make:
    c, bias = Buffer("c", dtype), Buffer("bias", dtype)

    def make(x: Axes, acc: Expr) -> tuple[tuple[Buffer, ...], Stmt]:
        value = Apply(Scalar.ADD, (acc, Load(bias, x.j)), dtype)
        return (c, bias), Store(c, x.i * x.n + x.j, value)

    return make


def contraction(
    name: str,
    lhs: str | Callable[[Axes], Expr],
    rhs: str | Callable[[Axes], Expr],
    tile: Tile,
    *,
    dtype: DType = F32,
    operands: tuple[DType, DType] | None = None,
    epilogue: Make | None = None,
    extents: tuple[int | None, int | None, int | None] = (None, None, None),
) -> Kernel:
    """``kernel(a, b, c, …)[m, n, k]``; a layout names a plain load, a function makes anything else."""
    m, n, k, i, j, r = [symbol(s) for s in "mnkijr"]
    dm, dn, dk = [as_dim(s) if given is None else given for s, given in zip((m, n, k), extents, strict=True)]
    axes = Axes(as_dim(i), as_dim(j), as_dim(r), dm, dn, dk)
    left, right = operands if operands is not None else (dtype, dtype)
    a, b = Buffer("a", left), Buffer("b", right)
    left_expr = Load(a, LHS[lhs](axes)) if isinstance(lhs, str) else _on(lhs(axes), a)
    right_expr = Load(b, RHS[rhs](axes)) if isinstance(rhs, str) else _on(rhs(axes), b)
    acc = Ref("acc", dtype)
    buffers, stmt = (epilogue if epilogue is not None else store_plain(dtype))(axes, acc)
    stmts = (TileContract(i, j, r, dm, dn, dk, left_expr, right_expr, acc, (stmt,), tile),)
    return Kernel(name, (a, b, *buffers), (m, n, k), (), stmts)


PLACE, PLACE_I8 = Buffer("place", F32), Buffer("place", dtypes.int8)


def _on(expr: Expr, buffer: Buffer) -> Expr:
    """The expression with loads of PLACE turned into loads of a buffer."""
    if isinstance(expr, Load) and expr.buffer in (PLACE, PLACE_I8):
        mask = _on(expr.mask, buffer) if expr.mask is not None else None
        other = _on(expr.other, buffer) if expr.other is not None else None
        return replace(expr, buffer=buffer, mask=mask, other=other)
    if isinstance(expr, Apply):
        return replace(expr, args=tuple(_on(arg, buffer) for arg in expr.args))
    return expr


def chunked(
    tile: Tile, rows: int, cols: int, lhs: str = "mk", static: int | None = None, rhs: str = "kn", dtype: DType = F32
) -> Kernel:
    """GRID loops over chunks of rows and columns, as a caller makes them."""
    m, n, k, i, j, r, p, q = [symbol(s) for s in "mnkijrpq"]
    dm, dk, dp, dq = [as_dim(s) for s in (m, k, p, q)]
    dn = as_dim(n) if static is None else static
    axes = Axes(dp * rows + as_dim(i), dq * cols + as_dim(j), as_dim(r), dm, dn, dk)
    a, b, c = Buffer("a", dtype), Buffer("b", dtype), Buffer("c", dtype)
    acc = Ref("acc", dtype)
    height, width = dim_min(rows, dm - dp * rows), dim_min(cols, dn - dq * cols)
    stmt = TileContract(
        i, j, r, height, width, dk, Load(a, LHS[lhs](axes)), Load(b, RHS[rhs](axes)), acc,
        (Store(c, axes.i * axes.n + axes.j, acc),), tile,
    )  # fmt: skip
    inner = Loop(Role.GRID, q, floordiv(dn + cols - 1, cols), (stmt,))
    return Kernel("chunks", (a, b, c), (m, n, k), (), (Loop(Role.GRID, p, floordiv(dm + rows - 1, rows), (inner,)),))


def joined(tile: Tile, cols: int) -> Kernel:
    """A batch of products whose GRID iterations over columns are one where they are neighbours."""
    g, m, n, k, i, j, r, p, q, t = [symbol(s) for s in "gmnkijrpqt"]
    dg, dm, dn, dk, dp, dq, dt = [as_dim(s) for s in (g, m, n, k, p, q, t)]
    row, col, red = as_dim(i), dq * cols + as_dim(j), as_dim(r)
    a, b, c, acc = Buffer("a", F32), Buffer("b", F32), Buffer("c", F32), Ref("acc", F32)
    lhs, rhs = Load(a, (dp * dm + row) * dk + red), Load(b, (dp * dk + red) * dn + col)
    store = Store(c, (dp * dm + row) * dn + col, acc)
    stmt = TileContract(i, j, r, dm, dim_min(dt * cols, dn - dq * cols), dk, lhs, rhs, acc, (store,), tile)
    inner = Loop(Role.GRID, q, floordiv(dn + cols - 1, cols), (stmt,), count=t)
    return Kernel("joined", (a, b, c), (g, m, n, k), (), (Loop(Role.GRID, p, dg, (inner,)),))
