"""Indices in ``x[...]``: the elements that one takes, in a form that reading and writing share.

Slices clamp as in NumPy, also where sizes are undecided: ``x[:n]`` has ``min(n, x.shape[0])`` rows. A number out of
range is a ShapeError, at once or when called.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import OutOfRangeError, ShapeError, UnsupportedOpError
from dyn.frozen import record
from dyn.numpy._axes import text_of
from dyn.numpy._broadcast import expand, join_shapes
from dyn.numpy._indexing.nonzero import mask_indices, merged_by_mask
from dyn.numpy._manipulation import view
from dyn.numpy._operands import (
    cast,
    constant,
    emit,
    in_int64,
    made,
    shape_of,
    size_from_value,
    size_in,
    tracer,
    vector_of,
)
from dyn.shapes import Dim, Reason, Relation, RelKind, dim_max, dim_min, floordiv, format_dim
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.data_dependent import is_bound
from dyn.trace.dims import SymbolicDim, counted_from_front
from dyn.trace.lift import is_liftable
from dyn.trace.tracer import Tracer


@record()
class SliceRange:
    """The elements that a slice or a number takes of an axis: of ``length`` from ``start`` on every ``step``-th."""

    start: Dim
    length: Dim
    step: int = 1
    #: The axis is reversed first.
    backwards: bool = False

    @property
    def count(self) -> Dim:
        """Number of elements that are taken."""
        return floordiv(self.length + (self.step - 1), self.step)


@record()
class Selection:
    """The elements that an index takes of an array.

    They are taken in two steps: a box, ``ranges``, one for each axis; and in it, where there are ``arrays``, the
    places that those say, each on its axis, together. What is taken has a *layout*: the axes of the box that have no
    array, with those of the arrays, which have one shape, at ``place`` among them. NumPy's result has the same
    elements in the same order, without the axes of numbers and with new ones: ``shape``.
    """

    ranges: tuple[SliceRange, ...]
    #: The axis and the places of each index array.
    arrays: tuple[tuple[int, Tracer], ...]
    #: The shape that the index arrays have together.
    batch: tuple[Dim, ...]
    place: int
    shape: tuple[Dim, ...]

    @property
    def looked_up(self) -> tuple[int, ...]:
        """The axes that have an index array."""
        return tuple(axis for axis, _ in self.arrays)

    def layout(self) -> tuple[Dim, ...]:
        """The shape of what is taken."""
        box = [r.count for axis, r in enumerate(self.ranges) if axis not in self.looked_up]
        return (*box[: self.place], *self.batch, *box[self.place :])

    def window_dims(self) -> tuple[int, ...]:
        """The axes of the layout that are axes of the box, in order."""
        count = len(self.ranges) - len(self.arrays)
        return tuple(d if d < self.place else d + len(self.batch) for d in range(count))


def select(x: Tracer, index: Any) -> Selection:
    """The selection of ``x[index]``. Raises ShapeError where that is not there, UnsupportedOpError for no index."""
    items = _expanded(x, index if isinstance(index, tuple) else (index,))
    ranges: list[SliceRange] = []
    arrays: list[tuple[int, Tracer]] = []
    #: The result's sizes so far, and which items are numbers or arrays: these are *advanced* where there is an array.
    shape: list[Dim] = []
    advanced: list[int] = []
    first = 0
    for place, item in enumerate(items):
        if item is None:
            shape.append(1)
            continue
        axis = len(ranges)
        if isinstance(item, slice):
            ranges.append(_sliced(x, axis, item))
            shape.append(x._trace.facts.simplify(ranges[-1].count))
            continue
        if not advanced:
            first = len(shape)
        advanced.append(place)
        array = _array_index(x, item)
        if array is None:
            ranges.append(SliceRange(position(x, axis, item), 1))
        else:
            ranges.append(SliceRange(0, shape_of(x)[axis]))
            arrays.append((axis, array))
    if not arrays:
        return Selection(tuple(ranges), (), (), 0, tuple(shape))
    batch = join_shapes("x[...]", x._trace, [shape_of(array) for _, array in arrays])
    spread = tuple((axis, expand(array, batch)) for axis, array in arrays)
    if _apart(advanced):  # with something between them NumPy puts their axes first
        return Selection(tuple(ranges), spread, batch, 0, (*batch, *shape))
    before = sum(1 for item in items[: advanced[0]] if item is not None)
    return Selection(tuple(ranges), spread, batch, before, (*shape[:first], *batch, *shape[first:]))


def _apart(places: list[int]) -> bool:
    return places != list(range(places[0], places[-1] + 1))


def _expanded(x: Tracer, items: tuple[Any, ...]) -> list[Any]:
    """The items with Ellipsis, and what is missing, as full slices, and masks as the places that they take."""
    dots = [place for place, item in enumerate(items) if item is Ellipsis]
    masks = {place: mask for place, item in enumerate(items) if (mask := _as_mask(x, item)) is not None}
    used = sum(
        masks[place].ndim if place in masks else 1
        for place, item in enumerate(items)
        if item is not None and item is not Ellipsis
    )
    if len(dots) > 1 or used > x.ndim:
        problem = "has more than one Ellipsis" if len(dots) > 1 else f"has {used} entries for {x.ndim} axes"
        raise ShapeError(
            f"the index of {text_of(x)} {problem}.", loc=user_loc(), remedy="index each axis at most once."
        )
    found: list[Any] = []
    fill = [slice(None)] * (x.ndim - used)
    axis = 0
    for place, item in enumerate(items):
        if item is Ellipsis:
            found += fill
            axis += len(fill)
        elif place in masks:
            found += mask_indices(x, axis, masks[place])
            axis += masks[place].ndim
        else:
            found.append(item)
            axis += item is not None
    return found if dots else [*found, *fill]


def merged(x: Tracer, index: Any) -> tuple[Tracer, Any]:
    """An array and an index of it that take the same elements; where a mask stands for several axes in front, and the
    rest are whole, with one axis for these, so that each element has one place and not one for each axis."""
    first, *rest = index if isinstance(index, tuple) and index else (index,)
    whole = all(item is Ellipsis or (isinstance(item, slice) and item == slice(None)) for item in rest)
    mask = _as_mask(x, first) if whole and len(rest) < x.ndim else None
    if mask is None or not 1 < mask.ndim <= x.ndim or len(rest) > x.ndim - mask.ndim:
        return x, index
    return merged_by_mask(x, mask)


def _as_mask(x: Tracer, item: Any) -> Tracer | None:
    """An index that is an array of booleans: it stands for the places where it is true, an array for each axis."""
    if isinstance(item, list) and item and not any(isinstance(each, SymbolicDim | Tracer) for each in item):
        if isinstance(np.array(item).flat[0], np.bool_):
            item = np.array(item)
    if not isinstance(item, Tracer | np.ndarray) and not hasattr(type(item), "__array__"):
        return None
    if not is_liftable(item) or tracer(x._trace, item, "x[...]").element_type.kind is not Kind.BOOL:
        return None
    return tracer(x._trace, item, "x[...]")


def with_axes_for_booleans(x: Tracer, index: Any) -> tuple[Tracer, Any, tuple[int, ...]]:
    """An array and an index of it in which no single boolean is, and the axes that the array has in their place.

    NumPy takes ``x[b]`` for an axis of one element, of which it has all or none; several booleans are for one axis, and
    are joined by "and".
    """
    items = index if isinstance(index, tuple) else (index,)
    booleans = [item for item in items if _is_boolean(x, item)]
    if not booleans:
        return x, index, ()
    left = [_axes_of(x, item) for item in items]
    first = next(place for place, item in enumerate(items) if _is_boolean(x, item))
    axis = sum(left[:first])
    if any(item is Ellipsis for item in items[:first]):
        axis += x.ndim - sum(left)
    known = [bool(item) for item in booleans if isinstance(item, bool | np.bool_)]
    computed = [tracer(x._trace, item, "x[...]") for item in booleans if not isinstance(item, bool | np.bool_)]
    others = [item for item in items if item is not None and item is not Ellipsis and not _is_boolean(x, item)]
    if not all(known) or (not computed and all(isinstance(item, slice) for item in others)):
        taken: Any = slice(0, 1 if all(known) else 0)  # of a size that is known
    elif not computed:
        taken = constant(x._trace, 0, dtypes.int64)
        taken = view(taken, (1,))
    else:
        mask = computed[0]
        for one in computed[1:]:
            mask = emit("and", mask, one)
        taken = view(mask, (1,))
    changed = [*items[:first], taken, *[item for item in items[first + 1 :] if not _is_boolean(x, item)]]
    shape = list(shape_of(x))
    shape.insert(axis, 1)
    return view(x, tuple(shape)), tuple(changed), (axis,)


def _axes_of(x: Tracer, item: Any) -> int:
    """The number of axes that an item of an index stands for, an Ellipsis aside."""
    if item is None or item is Ellipsis or _is_boolean(x, item):
        return 0
    mask = _as_mask(x, item)
    return 1 if mask is None else mask.ndim


def _is_boolean(x: Tracer, item: Any) -> bool:
    """Whether an item of an index is one boolean."""
    if isinstance(item, bool | np.bool_):
        return True
    if isinstance(item, Tracer):
        return item.ndim == 0 and item.element_type.kind is Kind.BOOL
    return getattr(item, "ndim", None) == 0 and getattr(item, "dtype", None) == np.bool_


# ---- slices ----------------------------------------------------------------------------------------------------------


def _sliced(x: Tracer, axis: int, item: slice) -> SliceRange:
    trace, size = x._trace, shape_of(x)[axis]
    step = 1 if item.step is None or isinstance(item.step, Tracer) else size_in(trace, item.step, "a slice")
    if isinstance(item.step, Tracer) or not isinstance(step, int) or step == 0:
        raise UnsupportedOpError(
            f"a slice does not take the step {item.step!r}.", loc=user_loc(), remedy="use an int other than 0."
        )
    step = max(-(2**62), min(step, 2**62))  # longer than any axis, and no sum with a size wraps
    start, stop = (None if b is None else _bound(x, axis, b, step) for b in (item.start, item.stop))
    if step < 0:  # position p is size - 1 - p of the reversed axis
        start, stop = (None if p is None else size - 1 - p for p in (start, stop))
    # What counts from the end, ``size - c`` and ``size`` more where that is negative, is no further than the end.
    within = step > 0 and not isinstance(item.stop, Tracer) and _counts_from_end(trace, item.stop, size)
    first = 0 if start is None else start
    last = size if stop is None else stop if within else _at_most(trace, stop, size)
    # limit - max(first, 0) is min(limit, limit - first): x[-k:] has min(size, k) elements.
    inside = _never_negative(trace, first)
    length = trace.facts.simplify(dim_max(last - first if inside else dim_min(last, last - first), 0))
    place = _start(trace, first if inside else dim_max(first, 0), dim_max(last, 0), length, size)
    return SliceRange(place, length, abs(step), step < 0)


def _start(trace: Trace, first: Dim, limit: Dim, length: Dim, size: Dim) -> Dim:
    """The start of a slice, in a form whose place inside of the axis is proved if one is.

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


def _bound(x: Tracer, axis: int, value: Any, step: int) -> Dim:
    """A bound of a slice, counted from the front: below 0 where it lies before the first element."""
    trace, size = x._trace, shape_of(x)[axis]
    if not isinstance(value, Tracer):
        return _from_end(trace, size_in(trace, value, "a slice"), size, backwards=step < 0)
    if step < 0 or value.ndim or not value.element_type.is_integer:
        problem = "with a step below 0" if step < 0 else f"that is {value._value.type}"
        raise UnsupportedOpError(
            f"a slice does not take a traced bound {problem}.",
            loc=user_loc(),
            remedy="use integer scalars, and reverse with dyn.numpy.flip.",
        )
    # What is measured is a size: the place inside of the axis. A bound of the trace around a region is measured there,
    # if the axis is known there: then the slice's size is, too.
    around = value._trace
    is_around = trace.may_read(around) and around.program is trace.program
    home = around if is_around and is_bound(around, size) else trace
    bound = in_int64(tracer(home, value, "a slice"))
    whole = made(home, "dim_size", size=size, dtype=dtypes.int64)
    zero, end = constant(home, 0, dtypes.int64), cast(whole, dtypes.int64)
    negative = emit("compare", bound, zero, direction="LT")
    counted = emit("select", negative, emit("add", bound, end), bound)
    place = emit("minimum", emit("maximum", counted, zero), end)
    return size_from_value(place, "bound", f"a bound of a slice of axis {axis} of {text_of(x)}", size)


def _counts_from_end(trace: Trace, bound: Any, size: Dim) -> bool:
    """Tell whether a bound of a slice, before it is counted from the front, is the size less a number."""
    short = None if bound is None else size - size_in(trace, bound, "a slice")
    return isinstance(short, int) and short >= 0


def _never_negative(trace: Trace, dim: Dim) -> bool:
    return dim >= 0 if isinstance(dim, int) else trace.facts.ge(dim, 0).proved


def _from_end(trace: Trace, dim: Dim, size: Dim, *, backwards: bool = False) -> Dim:
    """A bound counted from the front; below 0 where it lies before the first element."""
    facts = trace.facts
    one_sign = isinstance(dim, int) or facts.ge(dim, 0).proved or facts.ge(-1, dim).proved
    if not one_sign and _negative_is_nothing(trace, dim, size, -1 if backwards else 0):
        return dim
    return counted_from_front(facts, dim, size)


def _negative_is_nothing(trace: Trace, dim: Dim, size: Dim, last: int) -> bool:
    """Tell whether ``dim`` counted from the end would lie at or before place ``last`` whenever it is negative.

    Then it clamps to the same place without being counted from the end: ``x[: n - 1]`` of n rows. That place is the
    first element, 0, for a slice that goes forwards, and before it for one that goes backwards.
    """
    reason = Reason("a bound is negative")
    return trace.facts.implies(Relation(RelKind.GE, -1, dim, reason), Relation(RelKind.GE, last, size + dim, reason))


# ---- numbers and arrays ----------------------------------------------------------------------------------------------


def _array_index(x: Tracer, item: Any) -> Tracer | None:
    """An index that is an array or a traced number; None for a number that is known or a dimension."""
    if isinstance(item, list):
        if any(isinstance(number, SymbolicDim | Tracer) for number in item) and all(map(is_number, item)):
            return vector_of(x._trace, item)
        item = np.array(item, np.int64) if not item else np.array(item)
    # Other libraries' arrays have __index__ too: with axes they are no numbers.
    is_array = isinstance(item, Tracer | np.ndarray) or getattr(item, "ndim", 0) > 0
    if isinstance(item, SymbolicDim) or (not is_array and hasattr(type(item), "__index__")):
        return None
    if not is_liftable(item) or isinstance(item, float | complex):
        raise UnsupportedOpError(
            f"an array cannot be indexed with the {type(item).__name__} {item!r}.",
            loc=user_loc(),
            remedy="use numbers, slices, None, Ellipsis, dimensions or an integer array.",
        )
    array = tracer(x._trace, item, "x[...]")
    if not array.element_type.is_integer:
        raise UnsupportedOpError(
            f"an array cannot be indexed with {array.element_type.name} elements.",
            loc=user_loc(),
            remedy="convert the index with .astype('int32').",
        )
    return array


def is_number(item: Any) -> bool:
    if isinstance(item, Tracer):
        return item.ndim == 0 and item.element_type.is_integer
    return isinstance(item, SymbolicDim | int | np.integer) and not isinstance(item, bool)


def position(x: Tracer, axis: int, item: Any, *, behind: int = 0) -> Dim:
    """The place, from the front, of the one element that a number or a dimension takes; demands that it is inside.

    So many places ``behind`` the last element are inside too.
    """
    trace, size = x._trace, shape_of(x)[axis]
    dim = size_in(trace, item, "an index")
    if isinstance(dim, int):
        need: Dim = dim + 1 - behind if dim >= 0 else -dim
        if trace.facts.ge(size, need).refuted:
            raise OutOfRangeError(
                f"the index {dim} is outside of axis {axis} of {text_of(x)}, which has {format_dim(size)} elements.",
                loc=user_loc(),
                remedy=f"use an index from {format_dim(-size)} to {format_dim(size - 1 + behind)}.",
            )
    text = f"the index {format_dim(dim)} is inside of axis {axis}"
    reason = Reason(text, user_loc(), error=OutOfRangeError, remedy="use an index that the axis has.")
    if not isinstance(dim, int) or dim >= 0:
        trace.require(Relation(RelKind.GE, size + behind, dim + 1, reason))
    if not isinstance(dim, int) or dim < 0:
        trace.require(Relation(RelKind.GE, size + dim, 0, reason))
    return trace.facts.simplify(_from_end(trace, dim, size))
