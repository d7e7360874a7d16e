"""Derivatives of sorting and of running reductions, by what stood where.

A result element that *is* an operand element passes its cotangent to that one: a scatter along the axis, and for
tangents a gather. Both need the place of that element, which is found by the op itself, with places beside or in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dyn import dtypes
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.inline_regions import build_region
from dyn.ir.opdef import JvpRule, VjpRule
from dyn.ir.types import TensorType
from dyn.ops.arithmetic import Arithmetic
from dyn.ops.decomposed_rules import jvp_by_parts, vjp_by_parts
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
    """Places where the elements of the sorted arrays stood before: sorted beside them."""
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
    """Cotangent of running folds: of a sum the running sum from the other side; of an extreme all of it to the element
    that it is; of a product in shares."""
    (ct,), axis = cts, op.attrs["dimension"]
    if op.attrs["combine"] == "add":
        return (_sums(b, op, ct, back=True),)
    if op.attrs["combine"] != "multiply":
        return (add_along(b, ct, _chosen(b, op), axis),)

    def smooth(inner: Any, x: Value, y: Value, ct: Value) -> Value:
        a = Arithmetic(inner)
        return a.div(_sums(inner, op, a.mul(ct, y), back=True), x)

    return _of_product(b, op, ct, smooth, vjp_by_parts(_running_product))


def cumulative_jvp(b: Any, op: Op, tangents: tuple[Any, ...]) -> tuple[Value]:
    (t,), axis = tangents, op.attrs["dimension"]
    if op.attrs["combine"] == "add":
        return (_sums(b, op, t),)
    if op.attrs["combine"] != "multiply":
        return (take_along(b, t, _chosen(b, op), axis),)

    def smooth(inner: Any, x: Value, y: Value, t: Value) -> Value:
        a = Arithmetic(inner)
        return a.mul(y, _sums(inner, op, a.div(t, x)))

    return _of_product(b, op, t, smooth, jvp_by_parts(_running_product))


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


def _of_product(b: Any, op: Op, moved: Value, smooth: Callable[..., Value], exact: VjpRule | JvpRule) -> tuple[Value]:
    """Derivative of a running product, applied to ``moved``: by division where no factor is 0, else by a scan.

    A derivative of the division is right where it is one; that of the scan is right everywhere.
    """
    (x,) = op.operands
    zero = Arithmetic(b).cmp(x, "EQ", 0)
    some = b.op("reduce", zero, axes=tuple(range(len(x.shape))), combine="or", nonempty=False)
    operands = (x, op.result, moved)
    types = [TensorType(v.dtype, v.shape) for v in operands]

    def by_steps(inner: Any, params: tuple[Value, ...]) -> list[Value]:
        (found,) = exact(inner, replace(op, operands=params[:1]), params[2:])
        return [found]

    regions = build_region(b, types, by_steps), build_region(b, types, lambda inner, params: [smooth(inner, *params)])
    return b.op_all("if", some, *operands, regions=regions)


def _running_product(b: Any, op: Op, operands: tuple[Value, ...]) -> tuple[Value]:
    """A running product as a scan, of halves in float32."""
    (x,), axis = operands, op.attrs["dimension"]
    half = x.dtype.is_narrow
    wide = b.op("convert", x, dtype=dtypes.float32) if half else x
    front = (axis, *(a for a in range(len(x.shape)) if a != axis))
    rows = b.op("transpose", wide, permutation=front)
    row = TensorType(rows.dtype, rows.shape[1:])
    one = Arithmetic(b).fill(Value(row), 1)

    def step(inner: Any, params: tuple[Value, ...]) -> list[Value]:
        made = inner.op("multiply", *params)
        return [made, made]

    region = build_region(b, [row, row], step)
    attrs = {"carries": 1, "length": rows.shape[0], "reverse": op.attrs["reverse"]}
    made = b.op_all("scan", one, rows, regions=(region,), **attrs)[1]
    made = b.op("transpose", made, permutation=tuple(front.index(a) for a in range(len(front))))
    return (b.op("convert", made, dtype=x.dtype) if half else made,)
