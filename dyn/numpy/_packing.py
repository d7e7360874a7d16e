"""Bits of bytes as elements, and back."""

from __future__ import annotations

import numpy as np

from dyn import dtypes
from dyn.errors import UnsupportedOpError
from dyn.numpy._axes import one_axis
from dyn.numpy._bits import left_shift, right_shift
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._logic import truth
from dyn.numpy._manipulation import view
from dyn.numpy._operands import cast, constant, emit, made, operand, shape_of, size_in
from dyn.numpy._options import one_of
from dyn.numpy._public import Array, ArrayLike, Size, public
from dyn.numpy._reductions import sum as sum_of
from dyn.shapes import dim_max, floordiv, product
from dyn.source import user_loc
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

__all__ = ["packbits", "unpackbits"]


def _along(what: str, x: ArrayLike, axis: int | None, bitorder: str) -> tuple[Tracer, int]:
    one_of(what, "order", bitorder, ("big", "little"))
    value = operand(what, x)
    if axis is None:
        return view(value, (product(shape_of(value)),)), 0
    return value, one_axis(what, axis, value.ndim)


def _shifts(x: Tracer, axis: int, rank: int, bitorder: str) -> Tracer:
    """Distance of each of the eight bits on an axis from the lowest, as uint8."""
    shape = tuple(8 if a == axis else 1 for a in range(rank))
    numbers = made(x._trace, "iota", shape=shape, dimension=axis, dtype=dtypes.uint8)
    return numbers if bitorder == "little" else emit("reverse", numbers, dimensions=(axis,))


@public
def packbits(a: ArrayLike, /, axis: int | None = None, bitorder: str = "big") -> Array:
    """Each eight elements along an axis as the bits of a byte, 1 where one is not 0.

    Args:
        a: array of integers or booleans.
        axis: axis to go along; None: all elements, in one axis.
        bitorder: ``"big"``: the first is the highest bit; ``"little"``: the lowest.

    Returns:
        An array of uint8, whose axis has ``(n + 7) // 8`` elements; bits that are missing at the end are 0.

    Raises:
        UnsupportedOpError: if ``a`` is of neither integers nor booleans.
        InvalidValueError: if ``bitorder`` is another one.

    Example:
        >>> dnp.packbits(np.array([1, 0, 0, 0, 0, 0, 0, 1, 1]))
        array([129, 128], dtype=uint8)
    """
    value, number = _along("packbits", a, axis, bitorder)
    if value.element_type.is_inexact:
        raise UnsupportedOpError(
            f"packbits takes integers or booleans, not {value.element_type.name}.",
            loc=user_loc(),
            remedy="compare the array with 0 first.",
        )
    bits = cast(truth(value), dtypes.uint8)
    dims = shape_of(bits)
    count = value._trace.facts.simplify(floordiv(dims[number] + 7, 8))
    more = tuple(count * 8 - d if a == number else 0 for a, d in enumerate(dims))
    none = (0,) * bits.ndim
    zero = constant(value._trace, 0, dtypes.uint8)
    bits = emit("pad", bits, zero, edge_padding_low=none, edge_padding_high=more, interior_padding=none)
    split = view(bits, (*dims[:number], count, 8, *dims[number + 1 :]))
    weighted = left_shift(split, _shifts(split, number + 1, split.ndim, bitorder))
    return sum_of(weighted, number + 1, dtypes.uint8.np)


@public
def unpackbits(a: ArrayLike, /, axis: int | None = None, count: Size | None = None, bitorder: str = "big") -> Array:
    """Each byte along an axis as eight elements 0 and 1.

    Args:
        a: array of uint8.
        axis: axis to go along; None: all elements, in one axis.
        count: how many elements, zeros behind the last; a negative one leaves out so many at the end. An int or a
            dimension; None: all.
        bitorder: ``"big"``: the highest bit is the first; ``"little"``: the lowest.

    Returns:
        An array of uint8, whose axis has eight elements for one.

    Raises:
        UnsupportedOpError: if ``a`` is not uint8.
        InvalidValueError: if ``bitorder`` is another one.

    Example:
        >>> dnp.unpackbits(np.array([129], np.uint8))
        array([1, 0, 0, 0, 0, 0, 0, 1], dtype=uint8)
    """
    value, number = _along("unpackbits", a, axis, bitorder)
    if value.element_type is not dtypes.uint8:
        raise UnsupportedOpError(
            f"unpackbits takes uint8, not {value.element_type.name}.",
            loc=user_loc(),
            remedy="convert the array with .astype('uint8').",
        )
    dims = shape_of(value)
    wide = view(value, (*dims[: number + 1], 1, *dims[number + 1 :]))
    bits: Array = right_shift(wide, _shifts(wide, number + 1, wide.ndim, bitorder)) & np.uint8(1)
    flat = view(bits, (*dims[:number], dims[number] * 8, *dims[number + 1 :]))
    if count is None:
        return flat
    trace = value._trace
    wanted = size_in(trace, count, "unpackbits")
    if not isinstance(wanted, int) or wanted >= 0:
        missing = tuple(trace.facts.simplify(dim_max(wanted - d, 0)) if a == number else 0
                        for a, d in enumerate(shape_of(flat)))  # fmt: skip
        none = (0,) * flat.ndim
        zero = constant(trace, 0, dtypes.uint8)
        flat = emit("pad", flat, zero, edge_padding_low=none, edge_padding_high=missing, interior_padding=none)
    return getitem(flat, ((slice(None),) * number + (slice(None, wrap_dim(trace, wanted)),)))
