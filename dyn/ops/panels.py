"""Matrices that lie in panels: a few columns of all rows, one panel behind the other, as products read them best.

Panel ``p`` of width ``w`` has the columns from ``p * w`` on, rows one behind the other. In a step there are ``group``
rows, an element of each for every column: what units multiply as words. Rows and columns that the matrix has not are 0.
Both may be those of several axes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.opdef import Attrs, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.rules import view
from dyn.ops.transform_rules import linear, pointwise_batch
from dyn.shapes import Dim, RelKind, floordiv, mod, product


def panel_shape(
    batch: Sequence[Dim], rows: Dim, columns: Dim, width: int, group: int
) -> tuple[Dim, ...]:  # fmt: skip
    """The shape of matrices in panels: ``[..., ⌈columns / width⌉, ⌈rows / group⌉, width, group]``."""
    return (*batch, floordiv(columns + width - 1, width), floordiv(rows + group - 1, group), width, group)


def to_panels(b: Builder, x: Value, width: int, group: int) -> Value:
    """The matrices ``x[..., rows, columns]`` in panels."""
    *batch, rows, columns = x.shape
    *_, panels, steps, _, _ = panel_shape(batch, rows, columns, width, group)
    none = (0,) * len(batch)
    after = (*none, steps * group - rows, panels * width - columns)
    zero = zeros(b, TensorType(x.dtype, ()))
    padded = b.op(
        "pad", x, zero, edge_padding_low=(*none, 0, 0), edge_padding_high=after, interior_padding=(*none, 0, 0)
    )
    cut = b.op("reshape", padded, shape=(*batch, steps, group, panels, width))
    n = len(batch)
    return b.op("transpose", cut, permutation=(*range(n), n + 2, n, n + 3, n + 1))


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), rows, columns = operands, attrs["rows"], attrs["columns"]
    if x.rank < 4:
        raise ctx.fail(f"{x} are no panels: they have axes of panels, steps, columns and rows of a step")
    *batch, panels, steps, width, group = x.shape
    for what, sizes, most in (("rows", rows, steps * group), ("columns", columns, panels * width)):
        for size in sizes:
            ctx.require(RelKind.GE, size, 0, f"a matrix has no negative number of {what}")
        ctx.require(RelKind.GE, most, product(sizes), f"panels of {most} {what} hold {product(sizes)} of them")
    return (TensorType(x.dtype, (*batch, *rows, *columns), x.weak),)


def _place(op: Op, index: tuple[Dim, ...]) -> tuple[Dim, ...]:
    rows, columns = op.attrs["rows"], op.attrs["columns"]
    *_, width, group = op.operands[0].shape
    batch = len(index) - len(rows) - len(columns)
    if width == 0 or group == 0:
        return (*index[:batch], 0, 0, 0, 0)  # there are no elements
    row = linear_place(index[batch : batch + len(rows)], rows)
    column = linear_place(index[batch + len(rows) :], columns)
    return (*index[:batch], floordiv(column, width), floordiv(row, group), mod(column, width), mod(row, group))


def linear_place(index: tuple[Dim, ...], sizes: tuple[Dim, ...]) -> Dim:
    """The number of an element among those of axes of these sizes, the last one the fastest."""
    place: Dim = 0
    for i, size in zip(index, sizes, strict=True):
        place = place * size + i
    return place


def _reference(x: np.ndarray, rows: tuple[int, ...], columns: tuple[int, ...]) -> np.ndarray:
    *batch, panels, steps, width, group = x.shape
    n = len(batch)
    lines = x.transpose(*range(n), n + 1, n + 3, n, n + 2).reshape(*batch, steps * group, panels * width)
    return lines[..., : math.prod(rows), : math.prod(columns)].reshape(*batch, *rows, *columns)


def _vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value]:
    *batch, _, _, width, group = op.operands[0].shape
    matrix = b.op("reshape", cts[0], shape=(*batch, product(op.attrs["rows"]), product(op.attrs["columns"])))
    return (to_panels(b, matrix, int(width), int(group)),)


def _samples() -> list[Sample]:
    shapes = [
        ((1, 3, 4, 1), (3,), (4,)), ((2, 3, 4, 1), (3,), (5,)), ((2, 3, 4, 1), (3,), (8,)), ((2, 0, 4, 1), (0,), (7,)),
        ((0, 3, 4, 1), (3,), (0,)), ((2, 3, 5, 2, 1), (5,), (5,)), ((2, 3, 4, 2), (6,), (7,)),
        ((2, 3, 4, 4), (9,), (5,)), ((2, 1, 3, 2, 2), (5,), (2,)), ((2, 6, 4, 1), (2, 3), (2, 3)),
        ((2, 3, 4, 2), (1, 5), (7, 1)),
    ]  # fmt: skip
    return [
        Sample((np.arange(np.prod(shape), dtype=np.float32).reshape(shape),), {"rows": rows, "columns": columns})
        for shape, rows, columns in shapes
    ]


from_panels = OpDef(
    "from_panels",
    OpKind.VIEW,
    types=_types,
    loops=view(_place),
    reference=_reference,
    samples=_samples,
    vjp=_vjp, jvp=linear(), batch=pointwise_batch,
)  # fmt: skip
