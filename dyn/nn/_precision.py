"""Precision of functions that are made up of others."""

from __future__ import annotations

from dyn.dtypes import DType
from dyn.numpy._operands import cast, promote, to_float
from dyn.numpy._public import Array, ArrayLike


def wide(what: str, x: ArrayLike) -> tuple[Array, DType]:
    """``x`` in a float dtype, floats of 16 and 8 bits in float32; and the dtype that a result has.

    An operation rounds what it gives to its dtype. A function that is made of several rounds once, at its end
    (``rounded``): that is nearer to the right result, and a gelu that rounds eight times takes longer for it than to
    compute.
    """
    (value,) = promote(what, x, choose=to_float)
    dtype = value.element_type
    return (cast(value, dtype.wide) if dtype.is_narrow else value), dtype


def rounded(result: Array, dtype: DType) -> Array:
    """A result that was computed in float32, in the dtype that it has; others as they are."""
    return cast(result, dtype) if dtype.is_narrow else result
