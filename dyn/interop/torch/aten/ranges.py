"""Indices that tensors hold, checked as PyTorch checks them: at each call, before anything is written.

An index that is out of range takes the nearest element in dyn, and is an error in PyTorch. So a program finds out which
index is furthest off, and demands that the axis has it. That is one more pass over the indices, unless it is known
where they come from.
"""

from __future__ import annotations

from typing import Any

import dyn.numpy as dnp
from dyn.errors import OutOfRangeError
from dyn.interop.torch.sizes import measured
from dyn.ir.core import Op, Value
from dyn.ir.opdef import REGISTRY, OpKind
from dyn.shapes import Dim, Reason, Relation, RelKind, dim_min, product
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.dims import unwrap_dim
from dyn.trace.measured import once
from dyn.trace.tracer import Tracer

#: An index that is further off than this is told as this one: sums with it stay within 64 bits.
_FAR = 1 << 62
_IOTA, _SORT, _CONVERT = (REGISTRY[name] for name in ("iota", "sort", "convert"))
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
    bound = _bound(trace, at._value)
    if bound is not None and trace.facts.ge(dim, bound).proved:
        return

    def make() -> tuple[Value, Dim]:
        some = Reason("an index is of an axis that has elements", user_loc(), error=OutOfRangeError, remedy=_REMEDY)
        trace.require(Relation(RelKind.GE, dim, dim_min(1, product(at.dims)), some))
        wide = at.astype("int64")
        # Without a sign the numbers that are negative are the greatest: one pass finds what is furthest off.
        place = (wide + size if wraps else wide).astype("uint64")
        worst = dnp.max(place, initial=dnp.asarray(0, dtype="uint64")).astype("int64")
        worst = worst - size if wraps else worst
        is_some = dnp.asarray(at.size) > 0
        high = measured(
            trace, dnp.where(is_some & (worst >= 0), dnp.minimum(worst, _FAR) + 1, 0), "the greatest index + 1"
        )
        low = measured(
            trace, dnp.where(is_some & (worst < 0), -dnp.maximum(worst, -_FAR), 0), "the least index, negated"
        )
        loc = user_loc()
        for least, most, index in ((dim, high, high - 1), (dim if wraps else 0, low, -low)):
            reason = Reason.about(form, (index, dim), loc, OutOfRangeError, _REMEDY)
            trace.require(Relation(RelKind.GE, least, most, reason))
        return at._value, high

    once(trace, ("in range", at._value, dim, wraps), make)


def _bound(trace: Trace, value: Value) -> Dim | None:
    """A dim that indices are less than, none of them negative: those of an iota, sorted perhaps with other values."""
    while (op := _producer(trace, value)) is not None:
        if op.opdef is _IOTA:
            axis = op.attrs["dimension"]
            assert isinstance(axis, int)
            return value.shape[axis]
        if op.opdef is _SORT:
            value = op.operands[op.results.index(value)]
        elif op.opdef.kind is OpKind.VIEW or (op.opdef is _CONVERT and op.operands[0].dtype.kind is value.dtype.kind):
            value = op.operands[0]
        else:
            return None
    return None


def _producer(trace: Trace, value: Value) -> Op | None:
    here: Trace | None = trace
    while here is not None:
        op = here.builder.producer(value)
        if op is not None:
            return op
        here = here.outer
    return None
