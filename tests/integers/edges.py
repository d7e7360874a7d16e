"""Operands at the edges of every integer type, all crossed, and what ``dyn.integers`` says of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dyn import dtypes, integers
from dyn.dtypes import DType, Kind
from dyn.integers import IntegerType
from dyn.ops.scalar import Scalar

Array = np.ndarray[Any, Any]
INTEGERS = tuple(d for d in dtypes.ALL if d.is_integer)
FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)

#: The ops of ``integers.BINARY`` and ``integers.UNARY`` by the scalar function that their loops apply.
SCALARS: Mapping[Scalar, str] = {
    Scalar.ADD: "add", Scalar.SUB: "subtract", Scalar.MUL: "multiply", Scalar.DIV: "divide", Scalar.REM: "remainder",
    Scalar.POW: "power", Scalar.MAX: "maximum", Scalar.MIN: "minimum", Scalar.AND: "and", Scalar.OR: "or",
    Scalar.XOR: "xor", Scalar.SHL: "shift_left", Scalar.SHRL: "shift_right_logical",
    Scalar.SHRA: "shift_right_arithmetic", Scalar.NEG: "negate", Scalar.ABS: "abs", Scalar.SIGN: "sign",
    Scalar.NOT: "not", Scalar.POPCNT: "popcnt", Scalar.CLZ: "count_leading_zeros",
}  # fmt: skip


def integer_type(dtype: DType) -> IntegerType:
    return IntegerType(dtype.bits, dtype.kind is Kind.INT)


def edges(dtype: DType) -> list[int]:
    """The least and greatest numbers and those beside them, small ones, and those around the type's width."""
    t = integer_type(dtype)
    near = [t.least, t.least + 1, t.least + 2, t.most // 2, t.most - 1, t.most]
    small = [-9, -3, -2, -1, 0, 1, 2, 3, 7, 10]
    width = [t.bits - 1, t.bits, t.bits + 1, 1 << (t.bits // 2), (1 << (t.bits // 2)) + 1]
    return sorted({v for v in (*near, *small, *width, *[-w for w in width]) if t.least <= v <= t.most})


def pairs(dtype: DType) -> tuple[Array, Array]:
    """Every edge with every edge."""
    values = np.array(edges(dtype), dtype.np)
    a, b = np.meshgrid(values, values, indexing="ij")
    return a.ravel().copy(), b.ravel().copy()


def wanted(name: str, dtype: DType, *operands: Array) -> Array:
    """The results of an op."""
    t = integer_type(dtype)
    function: Callable[..., int] = {**integers.UNARY, **integers.BINARY}[name]
    return np.array([function(t, *values) for values in zip(*(a.tolist() for a in operands), strict=True)], dtype.np)


def float_edges(dtype: DType) -> Array:
    """Floats around the edges of every integer type, and what is none."""
    powers = [2.0**k for k in (7, 8, 15, 16, 31, 32, 63, 64)]
    near = [p + d for p in powers for d in (-1, -0.5, 0, 0.5, 1)]
    beside = [math.nextafter(p, to) for p in powers for to in (0, math.inf)]
    small = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 1e-30, 5e-324]
    values = [*near, *beside, *small, 1e30, 1.7e308, math.inf]
    with np.errstate(all="ignore"):
        return np.array([*values, *[-v for v in values], math.nan]).astype(dtype.np)


def converted(dtype: DType, operand: Array) -> Array:
    """The operand as integers of a dtype."""
    t = integer_type(dtype)
    whole = operand.dtype.kind in "iub"
    values = [integers.converted(t, int(v) if whole else float(v)) for v in operand]
    return np.array(values, dtype.np)


def assert_equal(got: Any, expected: Array, *operands: Array) -> None:
    """Exactly equal; the message has the first operands that are not."""
    got = np.asarray(got)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    bad = np.flatnonzero(got.ravel() != expected.ravel())[:5]
    told = [([a.ravel()[i] for a in operands], got.ravel()[i], expected.ravel()[i]) for i in bad]
    assert not told, "\n".join(f"of {a} it is {g}, not {e}" for a, g, e in told)
