"""Elements of tensors of sizes, and arithmetic on them.

An element is a dim, a truth value, a question about dims that is not decided (:class:`Open`), or what a division leaves
on the way to one that rounds down (:class:`Rounded`, :class:`Sign`). A function takes what is asked for, and elements;
it raises :class:`UnknownError` where the result is none of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dyn.dtypes import DType, Kind
from dyn.interop.stablehlo.hlo import HloOp
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

#: What an expression has that is a size; a product of such has not many more.
_MOST_TERMS, _HIGHEST_DEGREE = 64, 16
_ASKED = Reason("asked by an imported program")


@dataclass(frozen=True, slots=True)
class Open:
    """A truth value that is not decided: all of some relations hold, or with ``any`` one of them."""

    relations: frozenset[tuple[RelKind, Dim, Dim]]
    any: bool = False


@dataclass(frozen=True, slots=True)
class Rounded:
    """A quotient, rounded to 0, of a dividend that may be negative, and a divisor that is at least 1.

    The quotient, or with ``rest`` the rest, and ``more``. Producers correct it to one that rounds down, which a dim is;
    nothing else is done with it here.
    """

    dividend: Dim
    divisor: Dim
    rest: bool
    more: Dim = 0


@dataclass(frozen=True, slots=True)
class Sign:
    """The sign of a dim of which it is not known."""

    of: Dim


class UnknownError(Exception):
    """The result depends on data, or is no size."""


def relation_of(kind: RelKind, lhs: Dim, rhs: Dim) -> Relation:
    return Relation(kind, lhs, rhs, _ASKED)


@dataclass(frozen=True, slots=True)
class ElementsQuery:
    """The operation that is computed, what is known of dims, and its result: its elements and its shape.

    A size is None where nobody wrote down how long a vector of sizes is.
    """

    op: HloOp
    facts: Facts
    dtype: DType
    written: tuple[int | None, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the result; UnknownError where it was not written down."""
        found = tuple([d for d in self.written if d is not None])
        if len(found) != len(self.written):
            raise UnknownError
        return found

    def holds(self, kind: RelKind, lhs: Dim, rhs: Dim) -> bool | Open:
        answer = self.facts.ask(relation_of(kind, lhs, rhs))
        if answer.proved:
            return True
        return False if answer.refuted else Open(frozenset({(kind, lhs, rhs)}))

    def wrapped(self, value: Any) -> Any:
        """Numbers as the dtype has them; dims are taken to fit."""
        if isinstance(value, SymExpr) and not _is_small(value):
            raise UnknownError
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        return int(np.array(value & (1 << self.dtype.bits) - 1, np.uint64).astype(self.dtype.np))


def _is_small(dim: SymExpr) -> bool:
    """Tell whether an expression is of a kind that programs have; squares of squares of sums are no sizes."""
    degrees = [sum(power for _, power in mono.factors) for mono, _ in dim.terms]
    return len(degrees) <= _MOST_TERMS and max(degrees, default=0) <= _HIGHEST_DEGREE


def ints(*values: Any) -> bool:
    return all(isinstance(v, int) for v in values)


def number(value: Any) -> Dim:
    """The dim that an element is."""
    numbers(value)
    return value


def numbers(*values: Any) -> None:
    if not all(isinstance(v, int | SymExpr) and not isinstance(v, bool) for v in values):
        raise UnknownError


def add(a: ElementsQuery, x: Any, y: Any) -> Any:
    if isinstance(x, bool | Open):
        return either(a, x, y)
    if isinstance(x, Rounded):
        numbers(y)
        return replace(x, more=x.more + y)
    if isinstance(y, Rounded):
        return add(a, y, x)
    numbers(x, y)
    return x + y


def multiply(a: ElementsQuery, x: Any, y: Any) -> Any:
    if isinstance(x, bool | Open):
        return both(a, x, y)
    numbers(x, y)
    return x * y


def subtract(a: ElementsQuery, x: Any, y: Any) -> Any:
    if isinstance(x, Rounded):
        return add(a, x, negate(a, y))
    numbers(x, y)
    return x - y


def divide(a: ElementsQuery, x: Any, y: Any) -> Any:
    """Rounded to 0: of what is not negative that is down."""
    numbers(x, y)
    if ints(x, y):
        if y == 0:
            raise UnknownError
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    if not a.facts.ge(y, 1).proved:
        raise UnknownError
    if a.facts.divides(y, x).proved:
        return floordiv(_without_rests(x, y), y)
    return floordiv(x, y) if a.facts.ge(x, 0).proved else Rounded(x, y, rest=False)


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


def remainder(a: ElementsQuery, x: Any, y: Any) -> Any:
    numbers(x, y)
    if ints(x, y):
        return x - y * divide(a, x, y)
    if not a.facts.ge(y, 1).proved:
        raise UnknownError
    exact = a.facts.ge(x, 0).proved or a.facts.divides(y, x).proved
    return mod(x, y) if exact else Rounded(x, y, rest=True)


def floor_divide(a: ElementsQuery, x: Any, y: Any) -> Any:
    """Rounded down."""
    numbers(x, y)
    if not a.facts.ge(y, 1).proved:
        raise UnknownError
    return floordiv(x, y)


def ceil_divide(a: ElementsQuery, x: Any, y: Any) -> Any:
    """Rounded up."""
    numbers(x, y)
    return floor_divide(a, x + y - 1, y)


def floor_remainder(a: ElementsQuery, x: Any, y: Any) -> Any:
    numbers(x, y)
    if not a.facts.ge(y, 1).proved:
        raise UnknownError
    return mod(x, y)


def extreme(dims: Callable[..., Dim], truths: Callable[..., Any]) -> Callable[..., Any]:
    def fn(a: ElementsQuery, x: Any, y: Any) -> Any:
        if isinstance(x, bool | Open):
            return truths(a, x, y)
        numbers(x, y)
        return dims(x, y)

    return fn


def sign(a: ElementsQuery, x: Any) -> Any:
    numbers(x)
    if ints(x):
        return (x > 0) - (x < 0)
    if a.facts.ge(x, 1).proved:
        return 1
    if a.facts.ge(x, 0).proved:
        return dim_min(x, 1)
    return -1 if a.facts.ge(-1, x).proved else Sign(x)


def negate(a: ElementsQuery, x: Any) -> Any:
    numbers(x)
    return -x


def clamp(a: ElementsQuery, low: Any, x: Any, high: Any) -> Any:
    numbers(low, x, high)
    return dim_min(dim_max(x, low), high)


# --- truth values -----------------------------------------------------------------------------------------------------


def compare(a: ElementsQuery, x: Any, y: Any) -> Any:
    direction = a.op.attrs["comparison_direction"].value
    if isinstance(y, bool) and isinstance(x, bool | Open) and direction in ("EQ", "NE"):
        return x if y is (direction == "EQ") else opposite(a, x)
    if isinstance(x, Sign | Rounded):
        return _compare_signs(a, x, y, direction)
    return _relation(a, direction, number(x), number(y))


def _relation(a: ElementsQuery, direction: str, x: Dim, y: Dim) -> bool | Open:
    match direction:
        case "EQ":
            return a.holds(RelKind.EQ, x, y)
        case "NE":
            return a.holds(RelKind.NONZERO, x - y, 0)
        case "GE":
            return a.holds(RelKind.GE, x, y)
        case "GT":
            return a.holds(RelKind.GE, x, y + 1)
        case "LE":
            return a.holds(RelKind.GE, y, x)
        case _:
            return a.holds(RelKind.GE, y, x + 1)


def _compare_signs(a: ElementsQuery, x: Sign | Rounded, y: Any, direction: str) -> Any:
    """The questions before a quotient is corrected: whether the signs differ, whether there is a rest, and its sign."""
    if isinstance(x, Sign) and (direction, y) == ("NE", 1):
        return a.holds(RelKind.GE, 0, x.of)
    if isinstance(x, Rounded) and x.rest and x.more == 0 and y == 0:
        rest = (RelKind.NONZERO, mod(x.dividend, x.divisor), 0)
        match direction:
            case "NE":
                return a.holds(*rest)
            case "EQ":
                return opposite(a, a.holds(*rest))
            case "LT":  # it has the sign of the dividend
                return both(a, a.holds(*rest), a.holds(RelKind.GE, 0, x.dividend))
            case _:
                pass
    raise UnknownError


def _rounded_down(a: ElementsQuery, chosen: Open, left: Rounded, right: Rounded) -> Dim:
    """``select(n <= 0 and n % k != 0, n / k - 1, n / k)``, or of the rest, that and ``k``: what rounds down."""
    n, k = right.dividend, right.divisor
    asked = frozenset({(RelKind.NONZERO, mod(n, k), 0), (RelKind.GE, 0, n)})
    corrected = replace(right, more=right.more + (k if right.rest else -1))
    known = {r for r in asked if a.holds(*r) is True}
    if (chosen.any and len(chosen.relations) > 1) or chosen.relations | known != asked or left != corrected:
        raise UnknownError
    return (mod(n, k) if right.rest else floordiv(n, k)) + right.more


def both(a: ElementsQuery, x: Any, y: Any) -> Any:
    if x is False or y is False:
        return False
    if x is True:
        return y
    if y is True:
        return x
    if not (isinstance(x, Open) and isinstance(y, Open)) or any(o.any and len(o.relations) > 1 for o in (x, y)):
        raise UnknownError
    both = x.relations | y.relations
    return False if _contradicts(both) else Open(both)


def _contradicts(relations: frozenset[tuple[RelKind, Dim, Dim]]) -> bool:
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


def either(a: ElementsQuery, x: Any, y: Any) -> Any:
    if x is True or y is True:
        return True
    if x is False:
        return y
    if y is False:
        return x
    if not (isinstance(x, Open) and isinstance(y, Open)) or any(not o.any and len(o.relations) > 1 for o in (x, y)):
        raise UnknownError
    return Open(x.relations | y.relations, any=True)


def opposite(a: ElementsQuery, x: Any) -> Any:
    if isinstance(x, bool):
        return not x
    if isinstance(x, Open) and len(x.relations) == 1:
        ((kind, lhs, rhs),) = x.relations
        match kind:
            case RelKind.EQ:
                return Open(frozenset({(RelKind.NONZERO, lhs - rhs, 0)}))
            case RelKind.NONZERO:
                return Open(frozenset({(RelKind.EQ, lhs, 0)}))
            case RelKind.GE:
                return Open(frozenset({(RelKind.GE, rhs, lhs + 1)}))
            case _:
                pass
    if isinstance(x, int):
        return ~x
    raise UnknownError


def select(a: ElementsQuery, chosen: Any, left: Any, right: Any) -> Any:
    """Also what NumPy's broadcasting of two sizes computes: ``select(a == 1, b, a)``."""
    if isinstance(chosen, bool):
        return left if chosen else right
    if left is right or (ints(left, right) and left == right):
        return left
    if isinstance(chosen, Open) and isinstance(left, Rounded) and isinstance(right, Rounded):
        return _rounded_down(a, chosen, left, right)
    if isinstance(chosen, Open) and len(chosen.relations) == 1:
        return _select_by(a, chosen, number(left), number(right))
    raise UnknownError


def _select_by(a: ElementsQuery, chosen: Open, left: Dim, right: Dim) -> Dim:
    ((kind, lhs, rhs),) = chosen.relations
    if kind is RelKind.EQ and (lhs, rhs) == (right, 1) and a.facts.broadcasts(left, right).proved:
        return broadcast_dims(left, right)
    if kind is RelKind.GE and (lhs, rhs) == (left, right):
        return dim_max(left, right)
    if kind is RelKind.GE and (lhs, rhs) == (right, left):
        return dim_min(left, right)
    raise UnknownError


def convert(a: ElementsQuery, x: Any) -> Any:
    if a.dtype.kind is Kind.BOOL:
        return x if isinstance(x, bool | Open) else a.holds(RelKind.NONZERO, x, 0)
    if isinstance(x, Open):
        raise UnknownError
    return int(x) if isinstance(x, bool) else x  # of what is rounded, or a sign: as it is


maximum = extreme(dim_max, either)
minimum = extreme(dim_min, both)


def xor(a: ElementsQuery, x: Any, y: Any) -> Any:
    if isinstance(x, bool) and isinstance(y, bool):
        return x is not y
    if ints(x, y):
        return x ^ y
    raise UnknownError


def absolute(a: ElementsQuery, x: Any) -> Any:
    numbers(x)
    return abs(x) if ints(x) else x if a.facts.ge(x, 0).proved else dim_max(x, -x)


def bitwise(truths: Callable[..., Any], bits: Callable[[int, int], int]) -> Callable[..., Any]:
    def fn(a: ElementsQuery, x: Any, y: Any) -> Any:
        if a.dtype.kind is Kind.BOOL:
            return truths(a, x, y)
        if not ints(x, y):
            raise UnknownError
        return bits(x, y)

    return fn
