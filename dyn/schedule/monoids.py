"""Monoids of states of several values: an extreme element and its place, moments, and sums of exponentials."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dyn import dtypes
from dyn.dtypes import DType
from dyn.ops.reduce import COMBINES, identity
from dyn.ops.scalar import Scalar
from dyn.schedule.expressions import ExprBuilder, literal
from dyn.schedule.kernel import Const, Expr, Monoid, Ref

State = tuple[Expr, ...]


def _monoid(init: tuple[Const, ...], combine: Callable[[ExprBuilder, State, State], State]) -> Monoid:
    left, right = (tuple(Ref(name, const.dtype) for const in init) for name in ("left", "right"))
    return Monoid(init, left, right, combine(ExprBuilder(), left, right))


def extreme_and_place(combine: str, dtype: DType, place: DType, *, nan_wins: bool) -> Monoid:
    """The maximum or minimum, and its place: of equal elements the least one.

    A NaN is beyond every number where ``nan_wins``; otherwise it is passed over. Of zeros either sign may be left.
    """
    init = literal(dtype, identity(combine, dtype)), literal(place, identity("minimum", place))
    return _monoid(init, partial(_better, COMBINES[combine], nan_wins and dtype.is_float))


def _better(combine: Scalar, nan_wins: bool, k: ExprBuilder, a: State, b: State) -> State:
    def is_(fn: Scalar, x: Expr, y: Expr) -> Expr:
        return k.apply(fn, [x, y], dtypes.bool_)

    wins = is_(Scalar.GT if combine is Scalar.MAX else Scalar.LT, b[0], a[0])
    ties = is_(Scalar.EQ, b[0], a[0])
    if nan_wins:
        nan = is_(Scalar.NE, b[0], b[0])
        wins = is_(Scalar.OR, wins, is_(Scalar.AND, nan, is_(Scalar.EQ, a[0], a[0])))
        ties = is_(Scalar.OR, ties, is_(Scalar.AND, nan, is_(Scalar.NE, a[0], a[0])))
    wins = is_(Scalar.OR, wins, is_(Scalar.AND, ties, is_(Scalar.LT, b[1], a[1])))
    return tuple(k.apply(Scalar.SELECT, [wins, y, x], x.dtype) for x, y in zip(a, b, strict=True))


def moments(dtype: DType) -> Monoid:
    """Number of elements, their mean, and the sum of their squared distances from it.

    Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances" (1979). An
    element is (1, x, 0). Where one is infinite the results are NaN.
    """
    return _monoid((literal(dtype, 0),) * 3, _pooled)


def _pooled(k: ExprBuilder, a: State, b: State) -> State:
    def of(fn: Scalar, x: Expr, y: Expr) -> Expr:
        return k.apply(fn, [x, y], x.dtype)

    count = of(Scalar.ADD, a[0], b[0])
    share = of(Scalar.DIV, b[0], of(Scalar.MAX, count, k.const(count.dtype, 1)))
    apart = of(Scalar.SUB, b[1], a[1])
    step = of(Scalar.MUL, apart, share)
    # A state of nothing has a factor of 0 before anything large meets the other one: no infinity is multiplied by it.
    between = of(Scalar.MUL, of(Scalar.MUL, step, a[0]), apart)
    return count, of(Scalar.ADD, a[1], step), of(Scalar.ADD, of(Scalar.ADD, a[2], b[2]), between)


def sums(dtype: DType, count: int) -> Monoid:
    """A few sums side by side."""
    return _monoid((literal(dtype, 0),) * count, _added)


def _added(k: ExprBuilder, a: State, b: State) -> State:
    return tuple(k.apply(Scalar.ADD, [x, y], x.dtype) for x, y in zip(a, b, strict=True))


def compensated_sum(dtype: DType) -> Monoid:
    """A sum, and what its additions have rounded away: an element is (x, 0).

    Knuth's TwoSum, "The Art of Computer Programming", volume 2 (1969), 4.2.2; with the errors added up beside, as in
    Ogita, Rump and Oishi, "Accurate sum and dot product" (2005). Once a sum is no number, neither is its error.
    """
    return _monoid((literal(dtype, 0),) * 2, _two_sums)


def _two_sums(k: ExprBuilder, a: State, b: State) -> State:
    def of(fn: Scalar, x: Expr, y: Expr) -> Expr:
        return k.apply(fn, [x, y], x.dtype)

    total = of(Scalar.ADD, a[0], b[0])
    added = of(Scalar.SUB, total, a[0])
    lost = of(Scalar.ADD, of(Scalar.SUB, a[0], of(Scalar.SUB, total, added)), of(Scalar.SUB, b[0], added))
    return total, of(Scalar.ADD, of(Scalar.ADD, a[1], b[1]), lost)


def sum_of_exponentials(dtype: DType) -> Monoid:
    """The maximum, and the sum of the exponentials of distances from it: an element is (x, 1).

    Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018). A maximum of -inf counts as 0 in the
    distances: then the sum is 0, also of elements that are all -inf.
    """
    return _monoid((literal(dtype, float("-inf")), literal(dtype, 0)), _rescaled)


def _rescaled(k: ExprBuilder, a: State, b: State) -> State:
    dtype = a[0].dtype
    top = k.apply(Scalar.MAX, [a[0], b[0]], dtype)
    base = finite_maximum(k, top)
    parts = [
        k.apply(Scalar.MUL, [s, k.apply(Scalar.EXP, [k.apply(Scalar.SUB, [m, base], dtype)], dtype)], dtype)
        for m, s in (a, b)
    ]
    return top, k.apply(Scalar.ADD, parts, dtype)


def finite_maximum(k: ExprBuilder, top: Expr) -> Expr:
    """A maximum from which distances are taken: 0 in place of -inf."""
    nothing = k.apply(Scalar.EQ, [top, k.const(top.dtype, float("-inf"))], dtypes.bool_)
    return k.apply(Scalar.SELECT, [nothing, k.const(top.dtype, 0), top], top.dtype)
