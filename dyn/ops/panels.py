"""Matrices that lie in panels: a few columns of all rows, one panel behind the other, as products read them best.

Panel ``p`` of width ``w`` has the columns from ``p * w`` on, rows one behind the other, each ``w`` elements long.
Columns of the last panel that the matrix has not are 0.
"""

from __future__ import annotations

import numpy as np

from dyn.ir.builder import Builder
from dyn.ir.core import Op, Value
from dyn.ir.differentiate import zeros
from dyn.ir.opdef import Attrs, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.ops.rules import view
from dyn.ops.transform_rules import linear, pointwise_batch
from dyn.shapes import Dim, RelKind, floordiv, mod


def to_panels(b: Builder, x: Value, width: int) -> Value:
    """The matrices ``x[..., rows, columns]`` in panels ``[..., ⌈columns / width⌉, rows, width]``."""
    *batch, rows, columns = x.shape
    panels = floordiv(columns + width - 1, width)
    none = (0,) * (len(batch) + 2)
    after = (*none[:-1], panels * width - columns)
    zero = zeros(b, TensorType(x.dtype, ()))
    padded = b.op("pad", x, zero, edge_padding_low=none, edge_padding_high=after, interior_padding=none)
    cut = b.op("reshape", padded, shape=(*batch, rows, panels, width))
    n = len(batch)
    return b.op("transpose", cut, permutation=(*range(n), n + 1, n, n + 2))


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), columns = operands, attrs["columns"]
    if x.rank < 3:
        raise ctx.fail(f"{x} are no panels: they have an axis of panels, one of rows and one of columns")
    *batch, panels, rows, width = x.shape
    ctx.require(RelKind.GE, columns, 0, "a matrix has no negative number of columns")
    ctx.require(RelKind.GE, panels * width, columns, f"{panels} panels of {width} columns hold {columns} of them")
    return (TensorType(x.dtype, (*batch, rows, columns), x.weak),)


def _place(op: Op, index: tuple[Dim, ...]) -> tuple[Dim, ...]:
    *batch, row, column = index
    width = op.operands[0].shape[-1]
    if width == 0:
        return (*batch, 0, row, 0)  # there are no elements
    return (*batch, floordiv(column, width), row, mod(column, width))


def _reference(x: np.ndarray, columns: int) -> np.ndarray:
    *batch, panels, rows, width = x.shape
    return np.moveaxis(x, -3, -2).reshape(*batch, rows, panels * width)[..., :columns]


def _vjp(b: Builder, op: Op, cts: tuple[Value, ...]) -> tuple[Value]:
    return (to_panels(b, cts[0], int(op.operands[0].shape[-1])),)


def _samples() -> list[Sample]:
    shapes = [((1, 3, 4), 4), ((2, 3, 4), 5), ((2, 3, 4), 8), ((2, 0, 4), 7), ((0, 3, 4), 0), ((2, 3, 5, 2), 5)]
    return [
        Sample((np.arange(np.prod(shape), dtype=np.float32).reshape(shape),), {"columns": columns})
        for shape, columns in shapes
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
