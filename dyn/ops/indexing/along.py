"""Elements at places along one axis: read, put, and added up; NumPy's take_along_axis and put_along_axis."""

from __future__ import annotations

from typing import Any

from dyn.ir.builder import Builder
from dyn.ir.core import Value
from dyn.ir.differentiate import zeros
from dyn.ir.types import TensorType
from dyn.ops.indexing.dimension_numbers import Windows
from dyn.ops.indexing.places import gather_numbers, scatter_numbers
from dyn.shapes import Dim


def _along(rank: int, axis: int) -> Windows:
    """An element along ``axis`` for each element of an array of places on it: NumPy's take_along_axis."""
    others = tuple(a for a in range(rank) if a != axis)
    return Windows(rank, (), (axis,), others, others, (axis,), rank, False)


def take_along(b: Builder, x: Value, places: Value, axis: int) -> Value:
    """The elements of ``x`` at places on an axis; along the others ``places`` has the sizes of ``x``."""
    rank = len(x.shape)
    return b.op("gather", x, places, **gather_numbers(_along(rank, axis), (1,) * rank))


def add_along(b: Builder, ct: Value, places: Value, axis: int, size: Dim | None = None) -> Value:
    """Zeros, with the elements of ``ct`` added at places on an axis: the transpose of ``take_along``.

    There are as many zeros as elements, but ``size`` along the axis, where that is given.
    """
    shape = ct.shape if size is None else (*ct.shape[:axis], size, *ct.shape[axis + 1 :])
    numbers = along_numbers(len(shape), axis, "add")
    return b.op("scatter", zeros(b, TensorType(ct.dtype, shape)), places, ct, **numbers)


def along_numbers(rank: int, axis: int, combine: str) -> dict[str, Any]:
    """The attributes of a scatter of elements to places on an axis; those that lie outside of it are left out."""
    return scatter_numbers(_along(rank, axis), combine)


def put_along(b: Builder, x: Value, places: Value, axis: int) -> Value:
    """The elements of ``x`` put at places on an axis, a place each."""
    return b.op("scatter", x, places, x, **along_numbers(len(x.shape), axis, "replace"))
