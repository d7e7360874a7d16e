"""Bodies of reductions that choose between two pairs of a value and a place, as argmax does.

Where such a body computes by comparisons alone, all that counts is which value is greater, or a NaN, and which place
comes first. These are a few cases, and the body is run in each.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from dyn.dtypes import DType, Kind
from dyn.frozen import record
from dyn.ir.core import Region
from dyn.ops.regions import region_values
from dyn.ops.scalar import COMPARISONS, Scalar

_NAN = float("nan")
_LESS, _EQUAL, _GREATER = (1.0, 2.0), (1.0, 1.0), (2.0, 1.0)
_COMPARE = {
    Scalar.EQ: operator.eq, Scalar.NE: operator.ne, Scalar.LT: operator.lt, Scalar.LE: operator.le,
    Scalar.GT: operator.gt, Scalar.GE: operator.ge,
}  # fmt: skip
_TRUTHS = {Scalar.AND: operator.and_, Scalar.OR: operator.or_, Scalar.XOR: operator.xor, Scalar.NOT: operator.not_}


@record()
class Choice:
    """The choice of the pair with the maximum or minimum; of equal ones the first, or the one of the least place.

    Where places come in increasing order the two are the same. A NaN is beyond every number where ``nan_wins``, and
    otherwise never chosen.
    """

    combine: str
    nan_wins: bool


def choice_of(region: Region) -> Choice | None:
    """The choice that a body of two arrays makes, the second one of places; None where it does anything else."""
    if len(region.results) != 2 or not region.params[1].dtype.is_integer:
        return None
    value = region.params[0].dtype
    if value.kind is Kind.COMPLEX:
        return None
    try:
        greater, less = _winner(region, _LESS), _winner(region, _GREATER)
        if greater == less or not _keeps_the_first(region, _EQUAL):
            return None
        combine = "maximum" if greater else "minimum"
        if not value.is_float:
            return Choice(combine, False)
        if _winner(region, (_NAN, 1.0)) or not _keeps_the_first(region, (_NAN, _NAN)):
            return None
        return Choice(combine, bool(_winner(region, (1.0, _NAN))))
    except _UnknownError:
        return None


class _UnknownError(Exception):
    """The body does more than compare, or takes the value of one pair and the place of the other."""


@record()
class _BodyParameter:
    """A parameter of the body: of the first or the second pair, its value or its place."""

    side: int
    part: int
    number: float


class _Chooser:
    """A ScalarBuilder that computes truths, and chooses among operands."""

    def apply(self, fn: Scalar, args: Sequence[Any], dtype: DType) -> Any:
        if fn is Scalar.SELECT and isinstance(args[0], bool):
            return args[1] if args[0] else args[2]
        if all(isinstance(arg, bool) for arg in args):
            if fn in _TRUTHS:
                return _TRUTHS[fn](*args)
        elif all(isinstance(arg, _BodyParameter) and arg.part == args[0].part for arg in args):
            numbers = [arg.number for arg in args]
            if fn in COMPARISONS:
                return _COMPARE[fn](*numbers)
            if fn in (Scalar.MAX, Scalar.MIN):
                first = numbers[0] >= numbers[1] if fn is Scalar.MAX else numbers[0] <= numbers[1]
                return args[0] if first or numbers[0] != numbers[0] else args[1]
        raise _UnknownError

    def const(self, dtype: DType, value: Any) -> bool:
        if dtype.kind is not Kind.BOOL:
            raise _UnknownError
        return bool(value)

    def _refuse(self, *args: Any) -> Any:
        raise _UnknownError

    index = bind = pair = parts = _refuse


def _sides(region: Region, values: tuple[float, float], places: tuple[float, float]) -> tuple[int, int]:
    """The pair that the value comes from, and the one that the place comes from."""
    args = [_BodyParameter(side, part, (values, places)[part][side]) for side in (0, 1) for part in (0, 1)]
    found: list[_BodyParameter] = []
    for part, result in enumerate(region_values(_CHOOSER, region, args)):
        if not isinstance(result, _BodyParameter) or result.part != part:
            raise _UnknownError
        found.append(result)
    return found[0].side, found[1].side


def _winner(region: Region, values: tuple[float, float]) -> int:
    """The pair that is chosen, whatever the places."""
    found = {_sides(region, values, places) for places in (_LESS, _EQUAL, _GREATER)}
    if found not in ({(0, 0)}, {(1, 1)}):
        raise _UnknownError
    return found.pop()[0]


def _keeps_the_first(region: Region, values: tuple[float, float]) -> bool:
    """Whether of equal values the one of lesser place is chosen, where that is the first."""
    return _sides(region, values, _LESS)[1] == 0


_CHOOSER: Any = _Chooser()
