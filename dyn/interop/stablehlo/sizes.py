"""Shape arithmetic read back: small integer tensors whose elements are sizes, computed while a program is read.

Producers compute sizes with tensors: ``get_dimension_size``, products, divisions that round down, a concatenation that
a ``dynamic_reshape`` takes. Here an element is a dim, a truth value, or a question about dims that is not decided
(:class:`Open`); where an operation's operands are known in this way, so is its result. Integers are those of their
dtype; sizes are taken to fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dyn.dtypes import DType, Kind
from dyn.ir.hlo import HloOp
from dyn.ops.codecs.indexing import combine_of
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

Array = np.ndarray[Any, Any]
#: What is not worth following.
LARGEST = 64
_ASKED = Reason("asked by an imported program")


@dataclass(frozen=True, slots=True)
class Open:
    """A truth value that is not decided: all of some relations hold, or with ``any`` one of them."""

    relations: frozenset[tuple[RelKind, Dim, Dim]]
    any: bool = False


@dataclass(frozen=True, slots=True)
class Rounded:
    """What a division that rounds to 0 gives of a dividend that may be negative, and a divisor that is at least 1.

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


class _UnknownError(Exception):
    """The result depends on data, or is no size."""


def relation_of(kind: RelKind, lhs: Dim, rhs: Dim) -> Relation:
    return Relation(kind, lhs, rhs, _ASKED)


def followed(dtype: DType) -> bool:
    """Whether tensors of a dtype may hold sizes."""
    return dtype.kind is Kind.BOOL or (dtype.kind is Kind.INT and dtype.bits >= 32)


def computed(op: HloOp, operands: Sequence[Array], facts: Facts) -> Array | None:
    """The elements of the result of an operation on sizes; None where they are none."""
    rule = _RULES.get(op.name)
    if rule is None:
        return None
    result = op.results[0].type
    if not followed(result.dtype) or any(d is None for d in result.shape):
        return None
    shape = tuple([int(d) for d in result.shape if isinstance(d, int)])
    if int(np.prod(shape, dtype=np.int64)) > LARGEST:
        return None
    try:
        made = rule(_Asked(op, facts, result.dtype, shape), *operands)
    except (_UnknownError, TypeError, KeyError, IndexError, ValueError):
        return None
    return np.broadcast_to(np.asarray(made, object), shape)


@dataclass(frozen=True, slots=True)
class _Asked:
    op: HloOp
    facts: Facts
    dtype: DType
    shape: tuple[int, ...]

    def holds(self, kind: RelKind, lhs: Dim, rhs: Dim) -> bool | Open:
        answer = self.facts.ask(relation_of(kind, lhs, rhs))
        if answer.proved:
            return True
        return False if answer.refuted else Open(frozenset({(kind, lhs, rhs)}))

    def wrapped(self, value: Any) -> Any:
        """Numbers as the dtype has them; dims are taken to fit."""
        if isinstance(value, bool) or not isinstance(value, int):
            return value
        return int(np.array(value & (1 << self.dtype.bits) - 1, np.uint64).astype(self.dtype.np))


Rule = Callable[..., Any]


def _each(fn: Callable[..., Any]) -> Rule:
    """A rule for each element."""

    def rule(a: _Asked, *operands: Array) -> Array:
        made = np.empty(a.shape, object)
        spread = [np.broadcast_to(x, a.shape) for x in operands]
        for place in np.ndindex(a.shape):
            made[place] = a.wrapped(fn(a, *(x[place] for x in spread)))
        return made

    return rule


def _ints(*values: Any) -> bool:
    return all(isinstance(v, int) for v in values)


def _numbers(*values: Any) -> None:
    if not all(isinstance(v, int | SymExpr) and not isinstance(v, bool) for v in values):
        raise _UnknownError


def _add(a: _Asked, x: Any, y: Any) -> Any:
    if isinstance(x, bool | Open):
        return _or(a, x, y)
    if isinstance(x, Rounded):
        _numbers(y)
        return replace(x, more=x.more + y)
    if isinstance(y, Rounded):
        return _add(a, y, x)
    _numbers(x, y)
    return x + y


def _multiply(a: _Asked, x: Any, y: Any) -> Any:
    if isinstance(x, bool | Open):
        return _and(a, x, y)
    _numbers(x, y)
    return x * y


def _subtract(a: _Asked, x: Any, y: Any) -> Any:
    if isinstance(x, Rounded):
        return _add(a, x, _negate(a, y))
    _numbers(x, y)
    return x - y


def _divide(a: _Asked, x: Any, y: Any) -> Any:
    """Rounded to 0: of what is not negative that is down."""
    _numbers(x, y)
    if _ints(x, y):
        if y == 0:
            raise _UnknownError
        return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
    if not a.facts.ge(y, 1).proved:
        raise _UnknownError
    exact = a.facts.ge(x, 0).proved or a.facts.divides(y, x).proved
    return floordiv(x, y) if exact else Rounded(x, y, rest=False)


def _remainder(a: _Asked, x: Any, y: Any) -> Any:
    _numbers(x, y)
    if _ints(x, y):
        return x - y * _divide(a, x, y)
    if not a.facts.ge(y, 1).proved:
        raise _UnknownError
    exact = a.facts.ge(x, 0).proved or a.facts.divides(y, x).proved
    return mod(x, y) if exact else Rounded(x, y, rest=True)


def _extreme(numbers: Callable[..., Dim], truths: Callable[..., Any]) -> Callable[..., Any]:
    def fn(a: _Asked, x: Any, y: Any) -> Any:
        if isinstance(x, bool | Open):
            return truths(a, x, y)
        _numbers(x, y)
        return numbers(x, y)

    return fn


def _sign(a: _Asked, x: Any) -> Any:
    _numbers(x)
    if _ints(x):
        return (x > 0) - (x < 0)
    if a.facts.ge(x, 1).proved:
        return 1
    if a.facts.ge(x, 0).proved:
        return dim_min(x, 1)
    return -1 if a.facts.ge(-1, x).proved else Sign(x)


def _negate(a: _Asked, x: Any) -> Any:
    _numbers(x)
    return -x


def _clamp(a: _Asked, low: Any, x: Any, high: Any) -> Any:
    _numbers(low, x, high)
    return dim_min(dim_max(x, low), high)


# --- truth values -----------------------------------------------------------------------------------------------------


def _compare(a: _Asked, x: Any, y: Any) -> Any:
    direction = a.op.attrs["comparison_direction"].value
    if isinstance(y, bool) and isinstance(x, bool | Open) and direction in ("EQ", "NE"):
        return x if y is (direction == "EQ") else _not(a, x)
    if isinstance(x, Sign | Rounded):
        return _compare_signs(a, x, y, direction)
    _numbers(x, y)
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


def _compare_signs(a: _Asked, x: Sign | Rounded, y: Any, direction: str) -> Any:
    """What is asked before a quotient is corrected: whether the signs differ, whether there is a rest, and its sign."""
    if isinstance(x, Sign) and (direction, y) == ("NE", 1):
        return a.holds(RelKind.GE, 0, x.of)
    if isinstance(x, Rounded) and x.rest and x.more == 0 and y == 0:
        rest = (RelKind.NONZERO, mod(x.dividend, x.divisor), 0)
        match direction:
            case "NE":
                return a.holds(*rest)
            case "EQ":
                return _not(a, a.holds(*rest))
            case "LT":  # it has the sign of the dividend
                return _and(a, a.holds(*rest), a.holds(RelKind.GE, 0, x.dividend))
            case _:
                pass
    raise _UnknownError


def _rounded_down(a: _Asked, chosen: Open, left: Rounded, right: Rounded) -> Dim:
    """``select(n <= 0 and n % k != 0, n / k - 1, n / k)``, or of the rest, that and ``k``: what rounds down."""
    n, k = right.dividend, right.divisor
    asked = frozenset({(RelKind.NONZERO, mod(n, k), 0), (RelKind.GE, 0, n)})
    corrected = replace(right, more=right.more + (k if right.rest else -1))
    known = {r for r in asked if a.holds(*r) is True}
    if (chosen.any and len(chosen.relations) > 1) or chosen.relations | known != asked or left != corrected:
        raise _UnknownError
    return (mod(n, k) if right.rest else floordiv(n, k)) + right.more


def _and(a: _Asked, x: Any, y: Any) -> Any:
    if x is False or y is False:
        return False
    if x is True:
        return y
    if y is True:
        return x
    if not (isinstance(x, Open) and isinstance(y, Open)) or any(o.any and len(o.relations) > 1 for o in (x, y)):
        raise _UnknownError
    both = x.relations | y.relations
    return False if _contradicts(both) else Open(both)


def _contradicts(relations: frozenset[tuple[RelKind, Dim, Dim]]) -> bool:
    """Whether they cannot all hold: what a division that rounds down asks before it corrects one that rounds to 0.

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


def _or(a: _Asked, x: Any, y: Any) -> Any:
    if x is True or y is True:
        return True
    if x is False:
        return y
    if y is False:
        return x
    if not (isinstance(x, Open) and isinstance(y, Open)) or any(not o.any and len(o.relations) > 1 for o in (x, y)):
        raise _UnknownError
    return Open(x.relations | y.relations, any=True)


def _not(a: _Asked, x: Any) -> Any:
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
    raise _UnknownError


def _select(a: _Asked, chosen: Any, left: Any, right: Any) -> Any:
    """Also what NumPy's broadcasting of two sizes computes: ``select(a == 1, b, a)``."""
    if isinstance(chosen, bool):
        return left if chosen else right
    if left is right or (_ints(left, right) and left == right):
        return left
    if isinstance(chosen, Open) and isinstance(left, Rounded) and isinstance(right, Rounded):
        return _rounded_down(a, chosen, left, right)
    if isinstance(chosen, Open) and len(chosen.relations) == 1:
        ((kind, lhs, rhs),) = chosen.relations
        _numbers(left, right)
        if kind is RelKind.EQ and (lhs, rhs) == (right, 1) and a.facts.broadcasts(left, right).proved:
            return broadcast_dims(left, right)
        if kind is RelKind.GE and (lhs, rhs) == (left, right):
            return dim_max(left, right)
        if kind is RelKind.GE and (lhs, rhs) == (right, left):
            return dim_min(left, right)
    raise _UnknownError


def _convert(a: _Asked, x: Any) -> Any:
    if a.dtype.kind is Kind.BOOL:
        return x if isinstance(x, bool | Open) else a.holds(RelKind.NONZERO, x, 0)
    if isinstance(x, Open):
        raise _UnknownError
    return int(x) if isinstance(x, bool) else x  # of what is rounded, or a sign: as it is


# --- shapes of the tensors --------------------------------------------------------------------------------------------


def _slice(a: _Asked, x: Array) -> Array:
    at = a.op.attrs
    numbers = zip(at["start_indices"], at["limit_indices"], at["strides"], strict=True)
    return x[tuple([slice(*n) for n in numbers])]


def _concatenate(a: _Asked, *parts: Array) -> Array:
    return np.concatenate(parts, axis=a.op.attrs["dimension"])


def _broadcast(a: _Asked, x: Array, *sizes: Array) -> Array:
    dims = a.op.attrs["broadcast_dimensions"]
    shape = [1] * len(a.shape)
    for axis, dim in enumerate(dims):
        shape[dim] = x.shape[axis]
    return np.broadcast_to(x.reshape(shape), a.shape)


def _iota(a: _Asked) -> Array:
    dimension = a.op.attrs["iota_dimension"]
    return np.indices(a.shape)[dimension].astype(object)


def _gather(a: _Asked, x: Array, places: Array) -> Any:
    """One element of a vector, or some of them."""
    numbers = a.op.attrs["dimension_numbers"]
    if x.ndim != 1 or a.op.attrs["slice_sizes"] != (1,) or not all(isinstance(p, int) for p in places.ravel()):
        raise _UnknownError
    if numbers.axes("operand_batching_dims"):
        raise _UnknownError
    return x[np.clip(places.astype(np.int64).ravel(), 0, len(x) - 1)].reshape(a.shape)


def _dynamic_slice(a: _Asked, x: Array, *starts: Array) -> Any:
    sizes = a.op.attrs["slice_sizes"]
    firsts = [int(s[()]) for s in starts if isinstance(s[()], int)]
    if len(firsts) != len(starts):
        raise _UnknownError
    places = [max(min(s, n - k), 0) for s, n, k in zip(firsts, x.shape, sizes, strict=True)]
    return x[tuple([slice(p, p + k) for p, k in zip(places, sizes, strict=True)])]


def _reduce(a: _Asked, x: Array, init: Array) -> Any:
    combine = combine_of(a.op.regions[0])
    fn = {"add": _add, "multiply": _multiply, "maximum": _maximum, "minimum": _minimum, "and": _and, "or": _or}
    if combine not in fn:
        raise _UnknownError
    axes = a.op.attrs["dimensions"]
    kept = [axis for axis in range(x.ndim) if axis not in axes]
    rows = x.transpose(*kept, *axes).reshape(*a.shape, -1)
    made = np.empty(a.shape, object)
    for place in np.ndindex(a.shape):
        total = init[()]
        for value in rows[place]:
            total = a.wrapped(fn[combine](a, total, value))
        made[place] = total
    return made


_maximum = _extreme(dim_max, _or)
_minimum = _extreme(dim_min, _and)


def _xor(a: _Asked, x: Any, y: Any) -> Any:
    if isinstance(x, bool) and isinstance(y, bool):
        return x is not y
    if _ints(x, y):
        return x ^ y
    raise _UnknownError


def _abs(a: _Asked, x: Any) -> Any:
    _numbers(x)
    return abs(x) if _ints(x) else x if a.facts.ge(x, 0).proved else dim_max(x, -x)


def _bitwise(truths: Callable[..., Any], numbers: Callable[[int, int], int]) -> Callable[..., Any]:
    def fn(a: _Asked, x: Any, y: Any) -> Any:
        if a.dtype.kind is Kind.BOOL:
            return truths(a, x, y)
        if not _ints(x, y):
            raise _UnknownError
        return numbers(x, y)

    return fn


_RULES: Mapping[str, Rule] = {
    "stablehlo.add": _each(_add),
    "stablehlo.subtract": _each(_subtract),
    "stablehlo.multiply": _each(_multiply),
    "stablehlo.divide": _each(_divide),
    "stablehlo.remainder": _each(_remainder),
    "stablehlo.maximum": _each(_maximum),
    "stablehlo.minimum": _each(_minimum),
    "stablehlo.negate": _each(_negate),
    "stablehlo.abs": _each(_abs),
    "stablehlo.sign": _each(_sign),
    "stablehlo.clamp": _each(_clamp),
    "stablehlo.compare": _each(_compare),
    "stablehlo.and": _each(_bitwise(_and, lambda x, y: x & y)),
    "stablehlo.or": _each(_bitwise(_or, lambda x, y: x | y)),
    "stablehlo.xor": _each(_xor),
    "stablehlo.not": _each(_not),
    "stablehlo.select": _each(_select),
    "stablehlo.convert": _each(_convert),
    "stablehlo.constant": lambda a: a.op.attrs["value"].astype(object),
    "stablehlo.iota": _iota,
    "stablehlo.reshape": lambda a, x: x.reshape(a.shape),
    "stablehlo.dynamic_reshape": lambda a, x, sizes: x.reshape(a.shape),
    "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.dynamic_broadcast_in_dim": _broadcast,
    "stablehlo.transpose": lambda a, x: x.transpose(a.op.attrs["permutation"]),
    "stablehlo.concatenate": _concatenate,
    "stablehlo.slice": _slice,
    "stablehlo.gather": _gather,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.reduce": _reduce,
    "arith.constant": lambda a: np.asarray(a.op.attrs["value"], object),
    "arith.addi": _each(_add),
    "arith.subi": _each(_subtract),
    "arith.muli": _each(_multiply),
    "arith.divsi": _each(_divide),
    "arith.divui": _each(_divide),
    "arith.remsi": _each(_remainder),
    "arith.maxsi": _each(_maximum),
    "arith.minsi": _each(_minimum),
    "arith.index_cast": _each(_convert),
    "tensor.from_elements": lambda a, *parts: np.array([p[()] for p in parts], object).reshape(a.shape),
    "tensor.extract": lambda a, x, *places: x[tuple([int(p[()]) for p in places])],
    "shape.num_elements": lambda a, x: _product(x),
}


def _product(x: Array) -> Any:
    total: Dim = 1
    for size in x.ravel():
        total = total * size
    return np.asarray(total, object)
