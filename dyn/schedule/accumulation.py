"""Accumulations: what long sums are held in, so that many elements round little more than a few do.

Floats of up to 32 bits are added up in float32 by short runs, and the runs in float64. A sum of float64 is a pair: what
it comes to, and what the additions have rounded away. Running sums and products of floats of up to 32 bits are carried
in float64. Products that are folded, and extremes, are held in the dtype that they are computed in: each multiplication
rounds relatively to its result, so no tree is better than another.
"""

from __future__ import annotations

from collections.abc import Callable

from dyn import dtypes
from dyn.dtypes import DType
from dyn.frozen import record
from dyn.ir.core import Op
from dyn.ops.reduce import identity
from dyn.ops.scalar import Scalar
from dyn.schedule.expressions import ExprBuilder, literal
from dyn.schedule.kernel import Block, Const, Expr, Monoid, Ref, scalar_monoid
from dyn.schedule.monoids import compensated_sum

#: Functions whose results are rounded.
_ROUNDED = (Scalar.ADD, Scalar.MUL)


def accumulator(combine: Scalar, dtype: DType) -> DType:
    """Dtype in which a chain of many elements of a dtype is computed."""
    return dtype.accumulator if combine in _ROUNDED else dtype.wide


def start_of(op: Op) -> Const:
    """The identity that a reduction by a monoid starts from, in the dtype that its elements are computed in."""
    return literal(op.result.dtype.wide, identity(op.attrs["combine"], op.result.dtype))


@record(eq=False)
class Accumulation:
    """A scalar function as a monoid for many elements.

    An element, in the dtype that is computed in, is a state of the ``block``'s monoid, or where there is none of
    ``monoid``. ``finish`` is what a state comes to.
    """

    monoid: Monoid
    block: Block | None
    finish: Callable[[ExprBuilder, tuple[Expr, ...]], Expr]


def accumulation(combine: Scalar, start: Const) -> Accumulation:
    """The accumulation of a function that ``start`` is the identity of."""
    dtype = start.dtype
    if not dtype.is_float or combine is not Scalar.ADD:
        return Accumulation(scalar_monoid(combine, start), None, _first)
    wide = dtype.accumulator
    state = (Ref("run", dtype),)
    runs = scalar_monoid(combine, start)
    k = ExprBuilder()
    if wide is not dtype:
        monoid = scalar_monoid(combine, literal(wide, start.value))
        return Accumulation(monoid, Block(runs, state, (k.cast(state[0], wide),)), _first)
    return Accumulation(compensated_sum(dtype), Block(runs, state, (state[0], literal(dtype, 0))), _corrected)


def _first(k: ExprBuilder, state: tuple[Expr, ...]) -> Expr:
    return state[0]


def _corrected(k: ExprBuilder, state: tuple[Expr, ...]) -> Expr:
    """A sum and what it lacks; of infinities and NaN the sum alone, for what these lack is NaN."""
    total, error = state
    known = k.apply(Scalar.IS_FINITE, [error], dtypes.bool_)
    return k.apply(Scalar.SELECT, [known, k.apply(Scalar.ADD, [total, error], total.dtype), total], total.dtype)
