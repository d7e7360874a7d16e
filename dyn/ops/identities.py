"""Simplifications that many ops share: ``OpDef.simplify``.

Each keeps every bit of every result, signed zeros, infinities and NaNs included: ``x + 0.0`` stays, for it makes 0.0 of
-0.0, and ``x + -0.0`` goes. What a rule gives is taken only where its type is the op's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dyn.dtypes import DType, Kind
from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.shapes import product

#: Takes the builder and the op; gives values in its stead, or None.
Rule = Callable[[Any, Any], tuple[Any, ...] | None]

Array = np.ndarray[Any, Any]


def first_of(*rules: Rule) -> Rule:
    """The rule that is the first of several rules which has a result."""

    def rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
        return next((found for each in rules if (found := each(b, op)) is not None), None)

    return rule


def nothing(b: Builder, op: Op) -> tuple[Value, ...]:
    """The op is its operand, always."""
    return op.operands[:1]


# --- elementwise --------------------------------------------------------------------------------------------------


def involution(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """``f(f(x)) == x``"""
    inner = b.producer(op.operands[0], op.opdef)
    return inner.operands if inner is not None else None


def idempotent(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """``f(f(x)) == f(x)``"""
    return op.operands if b.producer(op.operands[0], op.opdef) is not None else None


def idempotent_reals(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """``f(f(x)) == f(x)`` of real numbers; of complex ones but for rounding."""
    return None if op.result.dtype.kind is Kind.COMPLEX else idempotent(b, op)


def of_itself(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """``f(x, x) == x``"""
    return op.operands[:1] if op.operands[0] is op.operands[1] else None


def neutral(ints: int, floats: float, *, left: bool = False, bits: int | None = None) -> Rule:
    """``f(x, e) == x``, and with ``left`` ``f(e, x) == x``: ``e`` is ``ints``, ``floats``, or ``bits`` of a bool.

    Complex numbers have no such ``e``: the zeros of their other parts take part.
    """

    def is_neutral(array: Array | None, dtype: DType) -> bool:
        if array is None or dtype.kind is Kind.COMPLEX or (dtype.kind is Kind.BOOL and bits is None):
            return False
        if dtype.is_float and floats == 0 and not dtype.floating.has_zero:
            return False
        e = floats if dtype.is_float else bits if dtype.kind is Kind.BOOL else ints
        return array.tobytes() == np.array(e).astype(dtype.np).tobytes()

    def rule(b: Builder, op: Op) -> tuple[Value, ...] | None:
        x, y = op.operands
        if is_neutral(b.uniform(y), y.dtype):
            return (x,)
        return (y,) if left and is_neutral(b.uniform(x), x.dtype) else None

    return rule


def one_branch(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """A select whose branches are one value, or whose condition is known."""
    pred, on_true, on_false = op.operands
    if on_true is on_false:
        return (on_true,)
    known = b.uniform(pred)
    return None if known is None else (on_true if known.item() else on_false,)


def holds(wide: DType, narrow: DType) -> bool:
    """Whether ``wide`` has every value of ``narrow``. Complex dtypes are not considered."""
    if Kind.COMPLEX in (wide.kind, narrow.kind):
        return False
    if wide is narrow:
        return True
    if narrow.kind is Kind.BOOL:
        return not wide.is_float or wide.floating.has_zero
    if narrow.is_integer and wide.is_integer:
        return bool(np.can_cast(narrow.np, wide.np, "safe"))
    if narrow.is_integer and wide.is_float:
        return narrow.bits - (narrow.kind is Kind.INT) <= wide.floating.digits
    return narrow.is_float and wide.is_float and wide.floating.holds(narrow.floating)


def converted_once(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """A conversion to the type that is there, or of a value that was brought to a wider dtype before."""
    (x,), to = op.operands, op.result.dtype
    if x.type == op.result.type:
        return (x,)
    inner = b.producer(x, op.opdef)
    if inner is None or not holds(x.dtype, inner.operands[0].dtype):
        return None
    source = inner.operands[0]
    # From an integer to a smaller one wraps, by way of a float saturates.
    if source.dtype.is_integer and x.dtype.is_float and to.is_integer and not holds(to, source.dtype):
        return None
    if source.type == op.result.type:
        return (source,)
    return (b.op("convert", source, **op.attrs),)


# --- views --------------------------------------------------------------------------------------------------------


def reshaped_once(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """A reshape to the shape that is there, or of a reshape."""
    (x,) = op.operands
    if x.shape == op.result.shape:
        return (x,)
    inner = b.producer(x, op.opdef)
    if inner is None:
        return None
    source = inner.operands[0]
    if source.shape == op.result.shape:
        return (source,)
    if not b.facts.eq(source.type.size, product(op.result.shape)).proved:
        return None
    return (b.op("reshape", source, shape=op.attrs["shape"]),)


def transposed_once(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """A transpose that moves nothing, or of a transpose."""
    (x,), permutation = op.operands, op.attrs["permutation"]
    inner = b.producer(x, op.opdef)
    if inner is not None:
        x, permutation = inner.operands[0], tuple([inner.attrs["permutation"][p] for p in permutation])
    if list(permutation) == sorted(permutation):
        return (x,)
    return None if inner is None else (b.op("transpose", x, permutation=permutation),)


def broadcast_once(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """A broadcast to the shape that is there, or of a broadcast."""
    (x,), shape = op.operands, op.result.shape
    if x.shape == shape:
        return (x,)
    inner = b.producer(x, op.opdef)
    if inner is None:
        return None
    source = inner.operands[0]
    dims = tuple([op.attrs["dims"][d] for d in inner.attrs["dims"]])
    for size, target in zip(source.shape, dims, strict=True):
        # That each step fits makes the two fit together; but the proof must not need a new fact.
        if size != 1 and size is not shape[target] and not b.facts.broadcasts_to(size, shape[target]).proved:
            return None
    return (b.op("broadcast_in_dim", source, shape=op.attrs["shape"], dims=dims),)


def whole_slice(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """A slice of everything."""
    (x,), attrs = op.operands, op.attrs
    everything = all(s == 0 for s in attrs["start"]) and all(s == 1 for s in attrs["strides"])
    return (x,) if everything and tuple(attrs["limit"]) == x.shape else None


def joined_once(b: Builder, op: Op) -> tuple[Value, ...] | None:
    """A concatenation of one array, or with empty ones among them."""
    axis = op.attrs["dimension"]
    full = [v for v in op.operands if v.shape[axis] != 0]
    if len(full) == 1:
        return (full[0],)
    if not full or len(full) == len(op.operands):
        return None
    return (b.op("concatenate", *full, dimension=axis),)
