"""Elements of tensors of sizes, and arithmetic on them.

An element is a dim, a truth value, a condition on dims that is not decided (:mod:`dyn.interop.sizes.conditions`), or
what a division leaves on the way to one that rounds down (:class:`Rounded`, :class:`Sign`). A function takes what is
known (:class:`SizeQuery`), and elements; it raises :class:`UnknownError` where the result is none of these.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from dyn.dtypes import DType, Kind
from dyn.errors import ShapeError
from dyn.interop.sizes.conditions import Comparison, Condition, Junction, equal, joined, negated, ordered
from dyn.interop.sizes.ratios import Ratio
from dyn.interop.sizes.values import Array, boxed, each
from dyn.shapes import (
    Dim,
    Facts,
    Opaque,
    OpaqueKind,
    Reason,
    Relation,
    RelKind,
    SymExpr,
    dim_max,
    dim_min,
    floordiv,
    mod,
)
from dyn.shapes import broadcast as broadcast_dims
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.size_comparisons import ComparisonSymbol

#: What an expression has that is a size; a product of such has not many more.
_MOST_TERMS, _HIGHEST_DEGREE = 64, 16


@dataclass(frozen=True, slots=True)
class Rounded:
    """A ratio that is rounded to 0, of a dividend that may be negative; or the ``rest`` by that quotient; and ``more``.

    Producers correct it to one that rounds down, which a dim is; nothing else is done with it here.
    """

    of: Ratio
    rest: bool
    more: Dim = 0


@dataclass(frozen=True, slots=True)
class Sign:
    """The sign of a dim of which it is not known."""

    of: Dim


class UnknownError(Exception):
    """The result depends on data, or is no size."""


#: Comparisons by Python's symbols.
Symbol = ComparisonSymbol | Literal["!="]


@dataclass(frozen=True, slots=True)
class SizeQuery:
    """Facts where elements are computed, with the dtype of the result, and the trace that may demand more.

    Without a trace a program is only read: what is not proved is unknown.
    """

    facts: Facts
    dtype: DType
    trace: Trace | None = None

    def holds(self, symbol: Symbol, lhs: Dim, rhs: Dim) -> bool | Condition:
        """``lhs == rhs``, or another comparison: True or False where it is proved or refuted, or else the condition."""
        match symbol:
            case "==":
                return self.decided(equal(lhs, rhs))
            case "!=":
                return self.decided(negated(equal(lhs, rhs)))
            case _:
                return self.decided(ordered(symbol, lhs, rhs))

    def broadcasts(self, lhs: Dim, rhs: Dim) -> bool | Condition:
        """Whether two sizes broadcast, in the same way."""
        answer = self.facts.broadcasts(lhs, rhs)
        if answer.proved or answer.refuted:
            return answer.proved
        either_is_one = joined(False, equal(lhs, 1), equal(rhs, 1))
        return joined(False, equal(lhs, rhs), either_is_one)

    def decided(self, condition: bool | Condition) -> bool | Condition:
        """A condition, as True or False where it is proved or refuted."""
        if isinstance(condition, bool):
            return condition
        answer = condition.proved(self.facts)
        return condition if answer is None else answer

    def require_divisor(self, dim: Dim) -> None:
        """Make sure that a dim divides: it is at least 1 by proof, or a trace demands that it is not 0."""
        if self.facts.ge(dim, 1).proved:
            return
        if self.trace is None:
            raise UnknownError
        if dim == 0:
            raise ShapeError("a size is divided by 0.", loc=user_loc())
        if not isinstance(dim, int):
            self.trace.require(Relation(RelKind.NONZERO, dim, 0, Reason("a size is divided by it", user_loc())))

    def wrapped(self, value: Any) -> Any:
        """Numbers as the dtype has them; dims are taken to fit, but for those of numbers that leave no room for it."""
        if isinstance(value, SymExpr) and not (_is_small(value) and largest_number(value) < 1 << (self.dtype.bits - 2)):
            raise UnknownError
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        return int(np.array(value & (1 << self.dtype.bits) - 1, np.uint64).astype(self.dtype.np))


#: Arithmetic of elements: what is known, and elements.
ElementFunction = Callable[..., Any]


def each_element(a: SizeQuery, fn: ElementFunction, *arrays: Array) -> Array:
    """``fn`` of the elements of arrays, broadcast together."""
    return each(lambda *elements: fn(a, *elements))(*arrays)


def reduce_elements(a: SizeQuery, fn: ElementFunction, x: Array, axes: Sequence[int], init: Any) -> Array:
    """``fn`` of all elements along axes, from ``init`` on."""
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    shape = [x.shape[axis] for axis in kept]
    # The length is no -1: there is none to find where another size is 0.
    rows = x.astype(object).transpose(*kept, *axes).reshape(*shape, math.prod([x.shape[axis] for axis in axes]))
    made = boxed(init, shape)
    for place in np.ndindex(made.shape):
        made[place] = functools.reduce(functools.partial(fn, a), rows[place], init)
    return made


def _is_small(dim: SymExpr) -> bool:
    """Tell whether an expression is of a kind that programs have; squares of squares of sums are no sizes."""
    degrees = [sum(power for _, power in mono.factors) for mono, _ in dim.terms]
    return len(degrees) <= _MOST_TERMS and max(degrees, default=0) <= _HIGHEST_DEGREE


def largest_number(dim: SymExpr) -> int:
    """The largest size of a number that an expression has: of its factors, and of its constant."""
    return max(map(abs, [dim.constant, *[factor for _, factor in dim.terms]]))


def ints(*values: Any) -> bool:
    return all(isinstance(v, int) for v in values)


def is_truth(value: Any) -> bool:
    """Tell whether an element is a truth value, decided or not."""
    return isinstance(value, bool | Comparison | Junction)


def number(value: Any) -> Dim:
    """The dim that an element is."""
    numbers(value)
    return value


def numbers(*values: Any) -> None:
    if not all(isinstance(v, int | SymExpr) and not isinstance(v, bool) for v in values):
        raise UnknownError


def add(a: SizeQuery, x: Any, y: Any) -> Any:
    if is_truth(x):
        return either(a, x, y)
    if isinstance(x, Rounded):
        numbers(y)
        return replace(x, more=x.more + y)
    if isinstance(y, Rounded):
        return add(a, y, x)
    numbers(x, y)
    return x + y


def multiply(a: SizeQuery, x: Any, y: Any) -> Any:
    if is_truth(x):
        return both(a, x, y)
    numbers(x, y)
    return x * y


def subtract(a: SizeQuery, x: Any, y: Any) -> Any:
    if isinstance(x, Rounded):
        return add(a, x, negate(a, y))
    numbers(x, y)
    return x - y


def divide(a: SizeQuery, x: Any, y: Any) -> Any:
    """Rounded to 0: of what is not negative that is down."""
    numbers(x, y)
    if ints(x, y):
        if y == 0:
            a.require_divisor(y)
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    _require_positive(a, y)
    if a.facts.divides(y, x).proved:
        return floordiv(_without_rests(x, y), y)
    return floordiv(x, y) if a.facts.ge(x, 0).proved else Rounded(Ratio(x, y), rest=False)


def _require_positive(a: SizeQuery, divisor: Dim) -> None:
    if not a.facts.ge(divisor, 0).proved:
        raise UnknownError
    a.require_divisor(divisor)


def _without_rests(dim: Dim, divisor: Dim) -> Dim:
    """A dim in which ``mod(n, divisor)`` is ``n - divisor*floordiv(n, divisor)``.

    Of what ``divisor`` divides nothing is left to round then: ``(n - mod(n, 8)) / 8`` is ``floordiv(n, 8)``.
    """
    for mono, factor in dim.terms if isinstance(dim, SymExpr) and isinstance(divisor, int) else ():
        (atom, power), *others = mono.factors
        if others or power != 1 or not isinstance(atom, Opaque) or atom.kind is not OpaqueKind.MOD:
            continue
        n, by = atom.args
        if by == divisor:
            dim = dim + factor * (n - divisor * floordiv(n, divisor) - mod(n, divisor))
    return dim


def remainder(a: SizeQuery, x: Any, y: Any) -> Any:
    numbers(x, y)
    if ints(x, y):
        return x - y * divide(a, x, y)
    _require_positive(a, y)
    exact = a.facts.ge(x, 0).proved or a.facts.divides(y, x).proved
    return mod(x, y) if exact else Rounded(Ratio(x, y), rest=True)


def floor_divide(a: SizeQuery, x: Any, y: Any) -> Any:
    """Rounded down."""
    numbers(x, y)
    a.require_divisor(y)
    return floordiv(x, y)


def ceil_divide(a: SizeQuery, x: Any, y: Any) -> Any:
    """Rounded up."""
    numbers(x, y)
    return floor_divide(a, x + y - 1, y)


def floor_remainder(a: SizeQuery, x: Any, y: Any) -> Any:
    numbers(x, y)
    a.require_divisor(y)
    return mod(x, y)


def extreme(dims: Callable[..., Dim], truths: ElementFunction) -> ElementFunction:
    def fn(a: SizeQuery, x: Any, y: Any) -> Any:
        if is_truth(x):
            return truths(a, x, y)
        numbers(x, y)
        return dims(x, y)

    return fn


def sign(a: SizeQuery, x: Any) -> Any:
    numbers(x)
    if ints(x):
        return (x > 0) - (x < 0)
    if a.facts.ge(x, 1).proved:
        return 1
    if a.facts.ge(x, 0).proved:
        return dim_min(x, 1)
    return -1 if a.facts.ge(-1, x).proved else Sign(x)


def negate(a: SizeQuery, x: Any) -> Any:
    numbers(x)
    return -x


def clamp(a: SizeQuery, low: Any, x: Any, high: Any) -> Any:
    numbers(low, x, high)
    return dim_min(dim_max(x, low), high)


# --- truth values -----------------------------------------------------------------------------------------------------


def comparing(symbol: Symbol) -> ElementFunction:
    """The function of two elements that compares them."""

    def compare(a: SizeQuery, x: Any, y: Any) -> Any:
        if isinstance(y, bool) and is_truth(x) and symbol in ("==", "!="):
            return x if y is (symbol == "==") else negated(x)
        if isinstance(x, Sign | Rounded):
            return _compare_signs(a, x, y, symbol)
        return a.holds(symbol, number(x), number(y))

    return compare


def _compare_signs(a: SizeQuery, x: Sign | Rounded, y: Any, symbol: Symbol) -> Any:
    """The questions before a quotient is corrected: whether the signs differ, whether there is a rest, and its sign."""
    if isinstance(x, Sign) and (symbol, y) == ("!=", 1):
        return a.holds("<=", x.of, 0)
    if isinstance(x, Rounded) and x.rest and x.more == 0 and y == 0:
        has_rest = a.holds("!=", x.of.rest(), 0)
        match symbol:
            case "!=":
                return has_rest
            case "==":
                return negated(has_rest)
            case "<":  # it has the sign of the dividend
                return both(a, has_rest, a.holds("<=", x.of.dividend, 0))
            case _:
                pass
    raise UnknownError


def _rounded_down(a: SizeQuery, chosen: Condition, left: Rounded, right: Rounded) -> Dim:
    """``select(n <= 0 and n % k != 0, n / k - 1, n / k)``, or of the rest, that and ``k``: what rounds down."""
    ratio = right.of
    asked = [Comparison.of("==", ratio.rest(), 0).negated(), Comparison.of("<=", ratio.dividend, 0)]
    open_ones = {fact for one in asked if one.proved(a.facts) is not True for fact in conjuncts(one) or ()}
    corrected = replace(right, more=right.more + (ratio.divisor if right.rest else -1))
    if conjuncts(chosen) != open_ones or left != corrected:
        raise UnknownError
    return (ratio.rest() if right.rest else ratio.floor()) + right.more


#: A relation without its reason: the kind and both sides.
Fact = tuple[RelKind, Dim, Dim]


def conjuncts(condition: Condition) -> set[Fact] | None:
    """The relations all of which hold where a condition does; None for one that is no such thing."""
    if isinstance(condition, Comparison):
        yes = condition.yes
        return {(yes.kind, yes.lhs, yes.rhs)}
    parts = [conjuncts(part) for part in condition.parts]
    whole = [part for part in parts if part is not None]
    return set[Fact]().union(*whole) if condition.every and len(whole) == len(parts) else None


def both(a: SizeQuery, x: Any, y: Any) -> Any:
    if not (is_truth(x) and is_truth(y)):
        raise UnknownError
    made = joined(True, x, y)
    return False if not isinstance(made, bool) and _contradicts(conjuncts(made) or set()) else made


def _contradicts(relations: set[Fact]) -> bool:
    """Tell whether they cannot all hold: what a division that rounds down asks before it corrects one that rounds to 0.

    It asks whether the rest of ``n`` is not 0 and the sign of ``n``, which is ``min(n, 1)``, is not 1. But a number
    that leaves a rest is not 0.
    """
    unlike = {lhs for kind, lhs, _ in relations if kind is RelKind.NONZERO}
    dividends = [atom.args[0] for dim in unlike if (atom := opaque(dim)) is not None and atom.kind is OpaqueKind.MOD]
    return any(dim_min(n, 1) - 1 in unlike for n in dividends)


def opaque(dim: Dim) -> Opaque | None:
    """The opaque term that a dim is."""
    atom = dim.is_atom if isinstance(dim, SymExpr) else None
    return atom if isinstance(atom, Opaque) else None


def either(a: SizeQuery, x: Any, y: Any) -> Any:
    if not (is_truth(x) and is_truth(y)):
        raise UnknownError
    return joined(False, x, y)


def opposite(a: SizeQuery, x: Any) -> Any:
    if is_truth(x):
        return negated(x)
    if ints(x):
        return ~x
    raise UnknownError


def select(a: SizeQuery, chosen: Any, left: Any, right: Any) -> Any:
    """Also what NumPy's broadcasting of two sizes computes: ``select(a == 1, b, a)``."""
    if isinstance(chosen, bool):
        return left if chosen else right
    if left is right or (ints(left, right) and left == right):
        return left
    if isinstance(chosen, Comparison | Junction) and isinstance(left, Rounded) and isinstance(right, Rounded):
        return _rounded_down(a, chosen, left, right)
    if isinstance(chosen, Comparison):
        return _select_by(a, chosen.yes, number(left), number(right))
    raise UnknownError


def _select_by(a: SizeQuery, chosen: Relation, left: Dim, right: Dim) -> Dim:
    kind, lhs, rhs = chosen.kind, chosen.lhs, chosen.rhs
    if kind is RelKind.EQ and (lhs, rhs) == (right, 1) and a.facts.broadcasts(left, right).proved:
        return broadcast_dims(left, right)
    if kind is RelKind.GE and (lhs, rhs) == (left, right):
        return dim_max(left, right)
    if kind is RelKind.GE and (lhs, rhs) == (right, left):
        return dim_min(left, right)
    raise UnknownError


def convert(a: SizeQuery, x: Any) -> Any:
    if a.dtype.kind is Kind.BOOL:
        return x if is_truth(x) else a.holds("!=", number(x), 0)
    if isinstance(x, Comparison | Junction):
        raise UnknownError
    return int(x) if isinstance(x, bool) else x  # of what is rounded, or a sign: as it is


maximum = extreme(dim_max, either)
minimum = extreme(dim_min, both)


def xor(a: SizeQuery, x: Any, y: Any) -> Any:
    if isinstance(x, bool) and isinstance(y, bool):
        return x is not y
    if ints(x, y):
        return x ^ y
    raise UnknownError


def absolute(a: SizeQuery, x: Any) -> Any:
    numbers(x)
    return abs(x) if ints(x) else x if a.facts.ge(x, 0).proved else dim_max(x, -x)


def bitwise(truths: Callable[..., Any], bits: Callable[[int, int], int]) -> Callable[..., Any]:
    def fn(a: SizeQuery, x: Any, y: Any) -> Any:
        if a.dtype.kind is Kind.BOOL:
            return truths(a, x, y)
        if not ints(x, y):
            raise UnknownError
        return bits(x, y)

    return fn
