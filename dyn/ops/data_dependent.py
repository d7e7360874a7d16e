"""A dim from a value: where the shapes behind it depend on what the program computes."""

from __future__ import annotations

import numpy as np

from dyn import dtypes
from dyn.ir.opdef import NOT_CONTINUOUS, Attrs, NoBatch, OpDef, OpKind, Sample, TypeContext
from dyn.ir.types import TensorType
from dyn.shapes import SymExpr, as_dim, symbol


def _types(ctx: TypeContext, operands: tuple[TensorType, ...], attrs: Attrs) -> tuple[TensorType, ...]:
    (x,), dim = operands, attrs["dim"]
    if x.rank or x.dtype is not dtypes.int64:
        raise ctx.unsupported(f"a dim is an int64 scalar, and this is {x}")
    if not isinstance(dim, SymExpr) or dim.is_symbol is None or not dim.is_symbol.data_dependent:
        raise ctx.fail(f"{dim} is no dim that can be measured")
    return (TensorType(dtypes.int64, ()),)


_ONE_SHAPE = NoBatch(
    "a size that depends on values would be another for each example, and arrays have one shape for all",
    "give the function a size of your own (size= of nonzero, unique and their kin), or map with dyn.lax.map over a "
    "function whose results have one shape.",
)

#: The number as it is, and from here on the size that the attribute ``dim``, a measured symbol, stands for. That it is
#: a size, and what else the facts say of it, is checked when it is known.
measure = OpDef(
    "measure",
    OpKind.DATA_DEPENDENT_SIZE,
    types=_types,
    loops=None,
    reference=lambda x, dim: np.asarray(x),
    samples=lambda: [
        Sample((np.array(n, np.int64),), {"dim": as_dim(symbol("k", "the operand", data_dependent=True))})
        for n in (0, 3)
    ],
    vjp=NOT_CONTINUOUS, jvp=NOT_CONTINUOUS, batch=_ONE_SHAPE,
)  # fmt: skip
