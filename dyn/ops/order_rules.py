"""Derivatives of sorting and of running reductions, by what stood where.

A result element that *is* an operand element passes its cotangent to that one: a scatter along the axis, and for
tangents a gather. Both need the place of that element, which is found by the op itself, with places beside or in it.
"""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.places import gather_numbers, scatter_numbers
from dyn.ops.transform_rules import again
from dyn.ops.windows import Windows
from dyn.shapes import Dim


def _along(rank: int, axis: int) -> Windows:
    """An element along ``axis`` for each element of an array of places on it: NumPy's take_along_axis."""
    others = tuple(a for a in range(rank) if a != axis)
    return Windows(rank, (), (axis,), others, others, (axis,), rank, False)


def take_along(b: Any, x: Value, places: Value, axis: int) -> Value:
    """The elements of ``x`` at places on an axis; along the others ``places`` has the sizes of ``x``."""
    rank = len(x.shape)
    return b.op("gather", x, places, **gather_numbers(_along(rank, axis), (1,) * rank))


def add_along(b: Any, ct: Value, places: Value, axis: int, size: Dim | None = None) -> Value:
    """Zeros, with the elements of ``ct`` added at places on an axis: the transpose of ``take_along``.

    There are as many zeros as elements, but ``size`` along the axis, where that is given.
    """
    shape = ct.shape if size is None else (*ct.shape[:axis], size, *ct.shape[axis + 1 :])
    numbers = scatter_numbers(_along(len(shape), axis), "add")
    return b.op("scatter", zeros(b, TensorType(ct.dtype, shape)), places, ct, **numbers)


def put_along(b: Any, x: Value, places: Value, axis: int) -> Value:
    """The elements of ``x`` put at places on an axis, a place each."""
    return b.op("scatter", x, places, x, **scatter_numbers(_along(len(x.shape), axis), "replace"))


# --- sort ---------------------------------------------------------------------------------------------------------


def _order(b: Any, op: Op) -> Value:
    """Where each element of the sorted arrays stood: places, sorted beside them."""
    axis = op.attrs["dimension"]
    places = b.op("iota", shape=op.operands[0].shape, dimension=axis, dtype=dtypes.int64)
    return again(b, op, (*op.operands, places))[-1]


def sort_vjp(b: Any, op: Op, cts: tuple[Any, ...]) -> tuple[Value | None, ...]:
    order = _order(b, op)
    return tuple(None if ct is None else add_along(b, ct, order, op.attrs["dimension"]) for ct in cts)


def sort_jvp(b: Any, op: Op, tangents: tuple[Any, ...]) -> tuple[Value | None, ...]:
    order = _order(b, op)
    return tuple(None if t is None else take_along(b, t, order, op.attrs["dimension"]) for t in tangents)


# --- running reductions -------------------------------------------------------------------------------------------


def cumulative_vjp(b: Any, op: Op, cts: tuple[Any, ...]) -> tuple[Value]:
    """Of a sum the running sum from the other side; of an extreme to the element that it is; of a product in shares."""
    (ct,), axis = cts, op.attrs["dimension"]
    if op.attrs["combine"] == "add":
        return (_sums(b, op, ct, back=True),)
    if op.attrs["combine"] != "multiply":
        return (add_along(b, ct, _chosen(b, op), axis),)
    a, p = Arithmetic(b), _Factors(b, op)
    smooth = a.div(_sums(b, op, a.mul(ct, op.result), back=True), p.nonzero)
    at_first = _sums(b, op, a.mul(ct, p.without_first), back=True)
    return (a.where(p.first, at_first, a.where(p.zero, 0, smooth)),)


def cumulative_jvp(b: Any, op: Op, tangents: tuple[Any, ...]) -> tuple[Value]:
    (t,), axis = tangents, op.attrs["dimension"]
    if op.attrs["combine"] == "add":
        return (_sums(b, op, t),)
    if op.attrs["combine"] != "multiply":
        return (take_along(b, t, _chosen(b, op), axis),)
    a, p = Arithmetic(b), _Factors(b, op)
    smooth = a.mul(op.result, _sums(b, op, a.where(p.zero, 0, a.div(t, p.nonzero))))
    from_first = a.mul(p.without_first, _sums(b, op, a.where(p.first, t, 0)))
    return (a.where(a.cmp(p.zeros, "EQ", 0), smooth, from_first),)


def _sums(b: Any, op: Op, x: Value, *, back: bool = False) -> Value:
    """The running sum of ``x`` in the op's direction; from the other side with ``back``."""
    axis, reverse = op.attrs["dimension"], op.attrs["reverse"]
    return b.op("cumulative", x, dimension=axis, combine="add", reverse=reverse is not back)


def _chosen(b: Any, op: Op) -> Value:
    """The place of the element that each running extreme is: of equal ones, the last so far, as in PyTorch.

    An element that equals the extreme up to itself is that extreme, or is NaN, which stays; the place is the furthest
    so far of one that does. (JAX's derivative at equal elements depends on how it shares out the work.)
    """
    (x,), y, a = op.operands, op.result, Arithmetic(b)
    axis, reverse = op.attrs["dimension"], op.attrs["reverse"]
    is_it = b.op("or", a.cmp(x, "EQ", y), a.cmp(x, "NE", x))
    places = b.op("iota", shape=x.shape, dimension=axis, dtype=dtypes.int64)
    marked = a.where(is_it, places, 2**63 - 1 if reverse else 0)
    return b.op("cumulative", marked, dimension=axis, combine="minimum" if reverse else "maximum", reverse=reverse)


class _Factors:
    """What the derivative of a running product needs, zeros among the factors included.

    Up to the first zero each factor's share is the product over it; after that, only the first zero moves what comes
    until the second one, by the product without it. Only the first derivative is right where there are zeros.
    """

    def __init__(self, b: Any, op: Op) -> None:
        (x,), a = op.operands, Arithmetic(b)
        axis, reverse = op.attrs["dimension"], op.attrs["reverse"]
        self.zero = a.cmp(x, "EQ", 0)
        self.nonzero = a.where(self.zero, 1, x)
        #: How many zeros there are so far.
        self.zeros = _sums(b, op, b.op("convert", self.zero, dtype=dtypes.int64))
        self.first = b.op("and", self.zero, a.cmp(self.zeros, "EQ", 1))
        others = a.where(self.first, 1, x)
        self.without_first = b.op("cumulative", others, dimension=axis, combine="multiply", reverse=reverse)
