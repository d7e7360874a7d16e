"""Axes and shapes as users write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn.errors import AxisError, ShapeError, UnsupportedOpError
from dyn.numpy._operands import size_in
from dyn.numpy._public import Axis
from dyn.shapes import Dim, Reason, Relation, RelKind, SymExpr, format_shape
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.tracer import Tracer


def one_axis(what: str, axis: Any, rank: int) -> int:
    """An axis as a number from 0; AxisError where an array of that rank has no such axis."""
    index = None if isinstance(axis, bool) else getattr(type(axis), "__index__", None)
    if index is None:
        raise UnsupportedOpError(
            f"{what}: an axis is an int, not the {type(axis).__name__} {axis!r}.",
            loc=user_loc(),
            remedy="pass the number of the axis.",
        )
    number = int(index(axis))
    if not -rank <= number < rank:
        allowed = f"from {-rank} to {rank - 1}" if rank else "none: it has no axes"
        raise AxisError(
            f"{what}: axis {number} is not an axis of an array with {rank} axes.",
            loc=user_loc(),
            remedy=f"its axes are {allowed}." if rank else "its axes are none: it is 0-d.",
        )
    return number % rank


def all_axes(what: str, axis: Axis | Any, rank: int) -> tuple[int, ...]:
    """Axes as sorted numbers from 0; None is all of them."""
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, tuple | list) else (axis,)
    return tuple(sorted(distinct_axes(what, given, rank)))


def distinct_axes(what: str, axes: Sequence[Any], rank: int) -> list[int]:
    """Axes as numbers from 0, in their order; ShapeError where one is there twice."""
    numbers = [one_axis(what, axis, rank) for axis in axes]
    if len(set(numbers)) != len(numbers):
        raise ShapeError(
            f"{what}: the axes {tuple(axes)} of an array with {rank} axes are not different.",
            loc=user_loc(),
            remedy="name each axis once.",
        )
    return numbers


def sizes_in(trace: Trace, shape: Any, what: str) -> list[Dim]:
    """A shape argument: one size or a sequence of sizes. Negative ints pass; the caller judges them."""
    if isinstance(shape, tuple | list):
        return [size_in(trace, size, what) for size in shape]
    return [size_in(trace, shape, what)]


def shape_in(trace: Trace, shape: Any, what: str) -> tuple[Dim, ...]:
    """A shape argument whose sizes are not negative: proved, or checked at each call."""
    sizes = tuple(sizes_in(trace, shape, what))
    for axis, size in enumerate(sizes):
        text = f"{what} makes axis {axis} with that many elements"
        _not_negative(trace, size, text, f"{what}: the shape {format_shape(sizes)} has a negative size.")
    return sizes


def times_in(trace: Trace, times: Any, what: str) -> tuple[Dim, ...]:
    """Numbers of repetitions, along one axis or several: proved not to be negative, or checked at each call.

    Bools count as 0 and 1, as in NumPy.
    """
    if isinstance(times, tuple | list):
        return tuple([number for each in times for number in times_in(trace, each, what)])
    (number,) = sizes_in(trace, int(times) if isinstance(times, bool) else times, what)
    text = f"{what} repeats nothing a negative number of times"
    _not_negative(trace, number, text, f"{what}: {number} is a negative number of repetitions.")
    return (number,)


def _not_negative(trace: Trace, size: Dim, text: str, problem: str) -> None:
    if isinstance(size, SymExpr):
        trace.require(Relation(RelKind.GE, size, 0, Reason(text, user_loc())))
    elif size < 0:
        raise ShapeError(problem, loc=user_loc(), remedy="sizes are 0 or more.")


def text_of(x: Tracer) -> str:
    """``x (3, n)``, or the shape alone where the array has no name."""
    name = x._value.name
    shape = format_shape(x._value.shape)
    return f"{name} {shape}" if name else shape
