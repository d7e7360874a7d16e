"""Indices that tensors hold, checked as PyTorch and TensorFlow check them: at each call, before anything is written.

An index that is out of range takes the nearest element in dyn, and is an error there. So a program finds out which
index is furthest off, and demands that the axis has it. That is one more pass over the indices, unless it is known
where they come from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dyn.numpy as dnp
from dyn.errors import OutOfRangeError, ShapeError
from dyn.ir.builder import literal
from dyn.ir.core import Op, Value
from dyn.ir.opdef import REGISTRY, OpKind
from dyn.shapes import Dim, Facts, Reason, Relation, RelKind, SymExpr, dim_max, dim_min, product
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.data_dependent import dim_from_value, memoized_dim
from dyn.trace.dims import unwrap_dim
from dyn.trace.tracer import Tracer

#: An index that is further off than this is told as this one: sums with it stay within 64 bits.
_FAR = 1 << 62
_IOTA, _DIM_SIZE, _SORT, _CONVERT, _MINIMUM, _MAXIMUM = (
    REGISTRY[name] for name in ("iota", "dim_size", "sort", "convert", "minimum", "maximum")
)
_REMEDY = "use an index that the axis has."
#: The text of an index out of range, by its axis.
OUT = "index {{}} is out of bounds for dimension {} with size {{}}"


def require_in_range(at: Tracer, size: Any, form: str, *, wraps: bool = False) -> None:
    """Demand that an axis of ``size`` elements has all indices, counted from its end too where it ``wraps``.

    ``form`` is the text of the error, with the index and the size in its places ``{}``.
    """
    trace = at._trace.here
    dim = unwrap_dim(size)
    assert dim is not None, "it is a size"
    lowest, highest = _interval(trace, at._value)
    if lowest == 0 and highest is not None and trace.facts.gt(dim, highest).proved:
        return

    def make() -> tuple[Value, Dim]:
        some = Reason("an index is of an axis that has elements", user_loc(), error=OutOfRangeError, remedy=_REMEDY)
        trace.require(Relation(RelKind.GE, dim, dim_min(1, product(at.dims)), some))
        if _are_known(trace.facts, dim, lowest, highest, wraps=wraps):
            return at._value, dim
        wide = at.astype("int64")
        # Without a sign the numbers that are negative are the greatest: one pass finds what is furthest off.
        place = (wide + size if wraps else wide).astype("uint64")
        worst = dnp.max(place, initial=dnp.asarray(0, dtype="uint64")).astype("int64")
        worst = worst - size if wraps else worst
        is_some = dnp.asarray(at.size) > 0
        above = dnp.where(is_some & (worst >= 0), dnp.minimum(worst, _FAR) + 1, 0)
        below = dnp.where(is_some & (worst < 0), -dnp.maximum(worst, -_FAR), 0)
        loc = user_loc()
        high = dim_from_value(trace, above._value, "index_above", f"1 + the greatest index at {loc}")
        low = dim_from_value(trace, below._value, "index_below", f"minus the least index at {loc}")
        for least, most, index in ((dim, high, high - 1), (dim if wraps else 0, low, -low)):
            reason = Reason.about(form, (index, dim), loc, OutOfRangeError, _REMEDY)
            trace.require(Relation(RelKind.GE, least, most, reason))
        return at._value, high

    memoized_dim(trace, ("in range", at._value, dim, wraps), make)


def _are_known(facts: Facts, dim: Dim, least: Dim | None, most: Dim | None, *, wraps: bool) -> bool:
    """Whether numbers between these are proved to be indices of an axis that has elements."""
    if least is None or most is None:
        return False
    try:
        some = facts.assume(Relation(RelKind.GE, dim, 1, Reason("an axis has elements")))
    except ShapeError:  # it has none
        return False
    return some.gt(dim, most).proved and some.ge(least, -dim if wraps else 0).proved


def _interval(trace: Trace, value: Value) -> tuple[Dim | None, Dim | None]:
    """The least and the most that integers may be, as dims: those of an iota, sorted perhaps with other values, of a
    size, of a constant, and of what is clamped to these. None for what is not known."""
    op = _producer(trace, value)
    while op is not None:
        if op.opdef is _SORT:
            value = op.operands[op.results.index(value)]
        elif op.opdef.kind is OpKind.VIEW or (op.opdef is _CONVERT and _is_widened(op)):
            value = op.operands[0]
        else:
            break
        op = _producer(trace, value)
    if op is None:
        return None, None
    if op.opdef is _IOTA:
        axis = op.attrs["dimension"]
        assert isinstance(axis, int)
        return 0, value.shape[axis] - 1
    if op.opdef is _DIM_SIZE:
        dim = op.attrs["size"]
        assert isinstance(dim, int | SymExpr)
        return dim, dim
    if op.opdef in (_MINIMUM, _MAXIMUM):
        (low, high), (other_low, other_high) = [_interval(trace, one) for one in op.operands]
        if op.opdef is _MINIMUM:
            return _of_both(dim_min, low, other_low), _of_either(dim_min, high, other_high)
        return _of_either(dim_max, low, other_low), _of_both(dim_max, high, other_high)
    dense = literal(op)
    if dense is None or dense.element is None or not value.dtype.is_integer:
        return None, None
    return int(dense.element), int(dense.element)


def _is_widened(op: Op) -> bool:
    """Whether a conversion leaves integers as they are."""
    own, given = op.results[0].dtype, op.operands[0].dtype
    return own.kind is given.kind and own.itemsize >= given.itemsize


def _of_both(join: Callable[[Dim, Dim], Dim], a: Dim | None, b: Dim | None) -> Dim | None:
    return None if a is None or b is None else join(a, b)


def _of_either(join: Callable[[Dim, Dim], Dim], a: Dim | None, b: Dim | None) -> Dim | None:
    if a is None or b is None:
        return b if a is None else a
    return join(a, b)


def _producer(trace: Trace, value: Value) -> Op | None:
    here: Trace | None = trace
    while here is not None:
        op = here.builder.producer(value)
        if op is not None:
            return op
        here = here.outer
    return None
