"""Operands of contractions that lie in memory as a matrix with strides."""

from __future__ import annotations

from dyn.frozen import record
from dyn.schedule.kernel import Buffer, Digits, Expr, Load
from dyn.schedule.kernel_walks import expr_dims
from dyn.shapes import Dim, Symbol, SymExpr, free_symbols, linear_in


@record()
class Strided:
    """A plain load whose index is linear: ``base + i*slow + j*fast``, in elements."""

    buffer: Buffer
    index: Dim
    slow: Dim
    fast: Dim


def own_digits(expr: Expr, symbol: Symbol, digits: tuple[Digits, ...]) -> Digits | None:
    """The digits of a symbol that an operand is written in, if it is written in any."""
    used = {s for dim in expr_dims((expr,)) for s in free_symbols(dim)}
    for found in digits:
        if symbol in free_symbols(found.value) and not used.isdisjoint([part for part, _ in found.parts]):
            return found
    return None


def strided(expr: Expr, i: Symbol, j: Symbol, digits: tuple[Digits, ...] = ()) -> Strided | None:
    """The operand as a plain strided load, if it is one."""
    if not isinstance(expr, Load) or expr.bound or expr.mask is not None:
        return None
    if own_digits(expr, i, digits) is not None or own_digits(expr, j, digits) is not None:
        return None
    along_j = linear_in(expr.index, j)
    if along_j is None:
        return None
    fast, rest = along_j
    along_i = linear_in(rest, i)
    if along_i is None or (isinstance(fast, SymExpr) and i in fast.symbols):
        return None
    return Strided(expr.buffer, expr.index, along_i[0], fast)
