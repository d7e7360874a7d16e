"""``x[...]``: numbers, slices, None, Ellipsis, dimensions, and integer arrays on one axis.

Slices clamp as in NumPy, also where sizes are undecided: ``x[:n]`` has ``min(n, x.shape[0])`` rows. A number out of
range is a ShapeError, at once or when called. Elements of integer arrays count from the end where negative, and clamp
to the axis where they are out of range.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyn.dtypes import Kind
from dyn.errors import NotYetError, ShapeError, UnsupportedOpError
from dyn.numpy._axes import text_of
from dyn.numpy._manipulation import moveaxis, view
from dyn.numpy._operands import emit, operand, shape_of, size_in, tracer
from dyn.shapes import Dim, Reason, Relation, RelKind, dim_max, dim_min, format_dim
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.dims import SymbolicDim
from dyn.trace.lift import is_liftable
from dyn.trace.tracer import Tracer


@dataclass(frozen=True, slots=True)
class _Range:
    """What a slice or a number takes of an axis: of the ``length`` elements from ``start`` on every ``step``-th."""

    start: Dim
    length: Dim
    step: int = 1
    #: The axis is reversed first.
    backwards: bool = False


def getitem(x: Any, index: Any) -> Tracer:
    """``x[index]``."""
    value = operand("x[...]", x)
    items = _expanded(value, index if isinstance(index, tuple) else (index,))
    ranges: list[_Range] = []
    #: The result's axes so far: None a new one, else an axis of ``value``.
    axes: list[int | None] = []
    arrays: list[tuple[int, Tracer]] = []
    advanced: list[int] = []
    for place, item in enumerate(items):
        if item is None:
            axes.append(None)
            continue
        axis = len(ranges)
        size = shape_of(value)[axis]
        if isinstance(item, slice):
            ranges.append(_sliced(value, axis, item))
            axes.append(axis)
            continue
        array = _array_index(value, item)
        advanced.append(place)
        if array is None:
            ranges.append(_Range(_position(value, axis, item), 1))
        else:
            ranges.append(_Range(0, size))
            arrays.append((axis, array))
            axes.append(axis)
    return _taken(_shaped(_cut(value, ranges), axes), value, axes, arrays, _in_front(items, advanced))


def _expanded(x: Tracer, items: tuple[Any, ...]) -> list[Any]:
    """The items with Ellipsis, and what is missing, as full slices."""
    dots = [place for place, item in enumerate(items) if item is Ellipsis]
    used = sum(1 for item in items if item is not None and item is not Ellipsis)
    if len(dots) > 1 or used > x.ndim:
        problem = "has more than one Ellipsis" if len(dots) > 1 else f"has {used} entries for {x.ndim} axes"
        raise ShapeError(
            f"the index of {text_of(x)} {problem}.", loc=user_loc(), remedy="index each axis at most once."
        )
    at = dots[0] if dots else len(items)
    fill = [slice(None)] * (x.ndim - used)
    return [*items[:at], *fill, *items[at + 1 :]]


# ---- slices ----------------------------------------------------------------------------------------------------------


def _sliced(x: Tracer, axis: int, item: slice) -> _Range:
    trace, size = x._trace, shape_of(x)[axis]
    step = 1 if item.step is None else _bound(trace, item.step)
    if not isinstance(step, int) or step == 0:
        raise UnsupportedOpError(
            f"a slice does not take the step {item.step!r}.", loc=user_loc(), remedy="use an int other than 0."
        )
    start, stop = (None if b is None else _from_end(trace, _bound(trace, b), size) for b in (item.start, item.stop))
    if step < 0:  # position p is size - 1 - p of the reversed axis
        start, stop = (None if p is None else size - 1 - p for p in (start, stop))
    first, last = 0 if start is None else start, size if stop is None else _at_most(trace, stop, size)
    # limit - max(first, 0) is min(limit, limit - first): x[-k:] has min(size, k) elements.
    inside = _never_negative(trace, first)
    length = trace.facts.simplify(dim_max(last - first if inside else dim_min(last, last - first), 0))
    place = _start(trace, first if inside else dim_max(first, 0), dim_max(last, 0), length, size)
    return _Range(place, length, abs(step), step < 0)


def _start(trace: Trace, first: Dim, limit: Dim, length: Dim, size: Dim) -> Dim:
    """Where a slice starts, in a form whose place inside of the axis is proved if one is.

    It is ``min(first, size)``, or ``limit - length``: where there are no elements any place inside will do.
    """
    facts = trace.facts
    start = facts.simplify(_at_most(trace, first, size))
    if not facts.ge(size, start + length).proved:
        behind = facts.simplify(limit - length)
        if facts.ge(behind, 0).proved and facts.ge(size, limit).proved:
            return behind
    return start


def _at_most(trace: Trace, dim: Dim, size: Dim) -> Dim:
    return dim if trace.facts.ge(size, dim).proved else dim_min(dim, size)


def _bound(trace: Trace, value: Any) -> Dim:
    if isinstance(value, Tracer) or (isinstance(value, np.ndarray) and value.ndim):
        raise NotYetError(
            "a slice with a traced bound has a data-dependent shape; data-dependent shapes come later.",
            loc=user_loc(),
            remedy="use a dimension or a number, or take the elements with dyn.numpy.take.",
        )
    return size_in(trace, value, "a slice")


def _never_negative(trace: Trace, dim: Dim) -> bool:
    return dim >= 0 if isinstance(dim, int) else trace.facts.ge(dim, 0).proved


def _from_end(trace: Trace, dim: Dim, size: Dim) -> Dim:
    """A bound counted from the front; below 0 where it lies before the first element."""
    if isinstance(dim, int):
        return dim if dim >= 0 else size + dim
    if _never_negative(trace, dim):
        return dim
    if trace.facts.ge(-1, dim).proved:
        return size + dim
    if _negative_is_nothing(trace, dim, size):
        return dim
    # ``size`` is added once where the bound is negative.
    return dim + size * dim_min(dim_max(-dim, 0), 1)


def _negative_is_nothing(trace: Trace, dim: Dim, size: Dim) -> bool:
    """Whether ``dim`` counted from the end would lie at or before the first element whenever it is negative.

    Then it clamps to the same place without being counted from the end: ``x[: n - 1]`` of n rows.
    """
    try:
        facts = trace.facts.assume(Relation(RelKind.GE, -1, dim, Reason("a bound is negative")))
    except ShapeError:
        return True
    return facts.ge(0, size + dim).proved


# ---- numbers and arrays ----------------------------------------------------------------------------------------------


def _array_index(x: Tracer, item: Any) -> Tracer | None:
    """An index that is an array or a traced number; None for a number that is known or a dimension."""
    if isinstance(item, list):
        item = np.array(item, np.int64) if not item else np.array(item)
    if isinstance(item, bool | np.bool_):
        _refuse_mask(x)
    if isinstance(item, SymbolicDim) or (not isinstance(item, Tracer) and hasattr(type(item), "__index__")):
        if not isinstance(item, np.ndarray):
            return None
    if not is_liftable(item) or isinstance(item, float | complex):
        raise UnsupportedOpError(
            f"an array cannot be indexed with the {type(item).__name__} {item!r}.",
            loc=user_loc(),
            remedy="use numbers, slices, None, Ellipsis, dimensions or an integer array.",
        )
    array = tracer(x._trace, item, "x[...]")
    if array.element_type.kind is Kind.BOOL:
        _refuse_mask(x)
    if not array.element_type.is_integer:
        raise UnsupportedOpError(
            f"an array cannot be indexed with {array.element_type.name} elements.",
            loc=user_loc(),
            remedy="convert the index with .astype('int32').",
        )
    return array


def _refuse_mask(x: Tracer) -> None:
    raise NotYetError(
        f"{x._value.name or 'x'}[mask] has a data-dependent shape; data-dependent shapes come later.",
        loc=user_loc(),
        remedy="keep the shape, and choose with dyn.numpy.where(mask, x, other).",
    )


def _position(x: Tracer, axis: int, item: Any) -> Dim:
    """Where the one element stands that a number or a dimension takes; demands that it is inside."""
    trace, size = x._trace, shape_of(x)[axis]
    dim = size_in(trace, item, "an index")
    if isinstance(dim, int):
        need: Dim = dim + 1 if dim >= 0 else -dim
        if trace.facts.ge(size, need).refuted:
            raise ShapeError(
                f"the index {dim} is outside of axis {axis} of {text_of(x)}, which has {format_dim(size)} elements.",
                loc=user_loc(),
                remedy=f"use an index from {format_dim(-size)} to {format_dim(size - 1)}.",
            )
    text = f"the index {format_dim(dim)} is inside of axis {axis}"
    reason = Reason(text, user_loc())
    if not isinstance(dim, int) or dim >= 0:
        trace.require(Relation(RelKind.GE, size, dim + 1, reason))
    if not isinstance(dim, int) or dim < 0:
        trace.require(Relation(RelKind.GE, size + dim, 0, reason))
    return trace.facts.simplify(_from_end(trace, dim, size))


# ---- putting it together ---------------------------------------------------------------------------------------------


def _cut(x: Tracer, ranges: Sequence[_Range]) -> Tracer:
    backwards = tuple(axis for axis, r in enumerate(ranges) if r.backwards)
    if backwards:
        x = emit("reverse", x, dimensions=backwards)
    if all(r.start == 0 and r.length is d and r.step == 1 for r, d in zip(ranges, shape_of(x), strict=True)):
        return x
    limits = tuple(x._trace.facts.simplify(r.start + r.length) for r in ranges)
    return emit("slice", x, start=tuple(r.start for r in ranges), limit=limits, strides=tuple(r.step for r in ranges))


def _shaped(x: Tracer, axes: Sequence[int | None]) -> Tracer:
    dims = shape_of(x)
    return view(x, tuple(1 if axis is None else dims[axis] for axis in axes))


def _in_front(items: Sequence[Any], advanced: Sequence[int]) -> bool:
    """Whether NumPy puts the axes of index arrays first: numbers and arrays with something between them."""
    return bool(advanced) and list(advanced) != list(range(advanced[0], advanced[-1] + 1))


def _taken(
    x: Tracer, whole: Tracer, axes: Sequence[int | None], arrays: Sequence[tuple[int, Tracer]], in_front: bool
) -> Tracer:
    """The elements of ``x`` that index arrays choose, each on its axis."""
    ranked = [array for _, array in arrays if array.ndim]
    if len(ranked) > 1:
        raise NotYetError(
            f"{whole._value.name or 'x'}[i, j] with arrays on several axes comes later.",
            loc=user_loc(),
            remedy="index one axis at a time, or reshape the axes to one and index that.",
        )
    for axis, array in reversed(arrays):
        x = emit("take", x, array, axis=axes.index(axis))
    if ranked and in_front:
        # The axes of the array stand where its axis was, less the axes in front that traced numbers took away.
        axis = next(axis for axis, array in arrays if array.ndim)
        place = axes.index(axis) - sum(1 for other, array in arrays if not array.ndim and other < axis)
        x = moveaxis(x, list(range(place, place + ranked[0].ndim)), list(range(ranked[0].ndim)))
    return x
