"""Layouts in memory of contractions' operands, as threads see them that bring these to shared memory."""

from __future__ import annotations

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Apply, Digits, Expr, Load
from dyn.schedule.kernel_walks import walk_exprs
from dyn.schedule.strided import own_digits
from dyn.shapes import Symbol, free_symbols, linear_in


def sum_dtype(dtype: DType) -> DType:
    """The dtype of accumulators, and of operands in shared memory: integers wrap through an unsigned one, of which
    narrow ones are the low bits."""
    if dtype.is_float:
        return dtype
    return dtypes.uint64 if dtype.bits == 64 else dtypes.uint32


def lies_along_steps(expr: Expr, own: Symbol, red: Symbol, digits: tuple[Digits, ...]) -> bool:
    """Return True if neighbours along the contracted axis lie next to each other, and those along the operand's own
    axis do not."""

    def fastest(symbol: Symbol) -> Symbol:
        found = own_digits(expr, symbol, digits)
        return symbol if found is None else found.parts[-1][0]

    return not _contiguous(expr, fastest(own)) and _contiguous(expr, fastest(red))


def plain_load(expr: Expr, own: Symbol, red: Symbol, digits: tuple[Digits, ...]) -> Load | None:
    """The load that an operand is, where it lies in memory in the order of one of its axes, and steps are equally far
    apart from one another; converted, perhaps."""
    if any(own_digits(expr, symbol, digits) is not None for symbol in (own, red)):
        return None
    along = red if lies_along_steps(expr, own, red, digits) else own
    load = expr
    while isinstance(load, Apply) and load.fn is Scalar.CAST:
        load = load.args[0]
    if not isinstance(load, Load) or load.bound or load.mask is not None:
        return None
    linear, steps = linear_in(load.index, along), linear_in(load.index, red)
    if linear is None or linear[0] != 1 or steps is None or own in free_symbols(steps[0]):
        return None
    return load


def can_be_copied(expr: Expr, own: Symbol, red: Symbol, digits: tuple[Digits, ...]) -> bool:
    """Return True if an operand goes to shared memory as it lies, in words of the dtype that sums are computed in."""
    load, word = plain_load(expr, own, red, digits), sum_dtype(expr.dtype)
    if load is None or load.dtype.itemsize != word.itemsize:
        return False
    return load.dtype is word or not (load.dtype.is_float or word.is_float)


def _contiguous(expr: Expr, along: Symbol) -> bool:
    """Return True if some load reads neighbours for neighbouring values of a symbol."""
    loads = [node for node in walk_exprs((expr,)) if isinstance(node, Load)]
    strides = [linear_in(load.index, along) for load in loads]
    return any(linear is not None and linear[0] == 1 for linear in strides)
