"""Indices of concrete arrays in a form that one program serves, whatever the numbers in them.

A number or a slice in an index is part of a program, and there would be a program for each. As sizes among the
arguments (``Shape`` in the annotations of the function that takes them) they are dims in the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyn.errors import ShapeError
from dyn.numpy._indexing.update import IndexOptions, items_of
from dyn.source import user_loc
from dyn.specialize.runtime_arguments import is_array

#: What each item of an index is: its kind, and what is part of the program.
IndexKinds = tuple[tuple[Any, ...], ...]


class PortableIndex:
    """An index as its items' kinds, the sizes that are the numbers in it, and its arrays."""

    def __init__(self) -> None:
        self.kinds: IndexKinds = ()
        self.sizes: tuple[int, ...] = ()
        self.arrays: tuple[Any, ...] = ()

    def add(self, *kind: Any, sizes: tuple[int, ...] = (), arrays: tuple[Any, ...] = ()) -> None:
        """Add an item."""
        self.kinds += (kind,)
        self.sizes += sizes
        self.arrays += arrays


def fits(value: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether a value is no Python integer, or one that an integer dtype has."""
    if type(value) is not int or dtype.kind not in "iu":
        return True
    info = np.iinfo(dtype)
    return int(info.min) <= value <= int(info.max)


def portable(x: Any, index: Any, options: IndexOptions) -> PortableIndex:
    """An index of a concrete array in parts that programs can be found by."""
    items = items_of(index)
    used = sum(_axes_of(item) for item in items if item is not None and item is not Ellipsis)
    made = PortableIndex()
    axis = 0
    for item in items:
        if item is Ellipsis:
            axis += max(x.ndim - used, 0)
            made.add("all")
        elif item is None:
            made.add("new")
        else:
            _add_part(made, item, x.shape[axis] if axis < x.ndim else None, axis, options)
            axis += _axes_of(item)
    return made


def _axes_of(item: Any) -> int:
    """Number of axes that an item takes: a mask takes as many as it has."""
    if isinstance(item, bool | np.bool_):
        return 0
    if isinstance(item, list):
        item = np.array(item)
    return item.ndim if is_array(item) and item.dtype == np.bool_ else 1


def _add_part(made: PortableIndex, item: Any, size: int | None, axis: int, options: IndexOptions) -> None:
    if isinstance(item, list):
        item = np.array(item, np.int64) if not item else np.array(item)
    if isinstance(item, bool | np.bool_):
        made.add("array", arrays=(np.array(item),))
    elif isinstance(item, slice):
        _add_slice(made, item, size)
    elif not is_array(item) and hasattr(type(item), "__index__"):
        number = int(item)
        if options.checked:
            made.add("array", arrays=(np.array(number, np.int64),))
            return
        if size is not None and not -size <= number < size:
            raise ShapeError(
                f"the index {number} is outside of axis {axis}, which has {size} elements.",
                loc=user_loc(),
                remedy=f"use an index from {-size} to {size - 1}, or say with mode= what is to become of it.",
            )
        made.add("number", sizes=(number % size if size else 0,))
    elif is_array(item):
        made.add("array", arrays=(item,))
    else:
        made.add("plain", item)


def _add_slice(made: PortableIndex, item: slice, size: int | None) -> None:
    bounds = (item.start, item.stop, item.step)
    no_step = item.step is not None and _whole(item.step) and int(item.step) == 0
    if size is None or item == slice(None) or no_step or not all(map(_whole, bounds)):
        made.add("plain", item)
        return
    start, stop, step = item.indices(size)
    if step > 0:
        made.add("slice", str(step), sizes=(start, max(stop, start)))
    else:
        # From the end, as positive numbers: position p is size - 1 - p of the reversed axis.
        made.add("slice", str(step), sizes=(size - 1 - start, size - 1 - min(stop, start)))


def _whole(value: Any) -> bool:
    return value is None or (not is_array(value) and hasattr(type(value), "__index__"))


def index_of(kinds: IndexKinds, sizes: Sequence[Any], arrays: Sequence[Any]) -> tuple[Any, ...]:
    """The index that ``portable`` took apart, in a trace."""
    items: list[Any] = []
    next_size, next_array = iter(sizes), iter(arrays)
    for kind, *given in kinds:
        if kind == "slice":
            step, start, stop = int(given[0]), next(next_size), next(next_size)
            items.append(slice(start, stop, step) if step > 0 else slice(-1 - start, -1 - stop, step))
        elif kind == "number":
            items.append(next(next_size))
        elif kind == "array":
            items.append(next(next_array))
        else:
            items.append({"all": Ellipsis, "new": None}[kind] if kind in ("all", "new") else given[0])
    return tuple(items)
