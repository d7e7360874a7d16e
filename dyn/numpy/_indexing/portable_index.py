"""Indices of concrete arrays in a form that one program serves, whatever the numbers in them.

A number or a slice in an index is part of a program, and there would be a program for each. As sizes of an array
without elements they are arguments, and dims in the program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyn.errors import ShapeError
from dyn.numpy._indexing.update import IndexOptions, items_of
from dyn.source import user_loc
from dyn.specialize.runtime_arguments import is_array


def fits(value: Any, dtype: np.dtype[Any]) -> bool:
    """Tell whether a value is no Python integer, or one that an integer dtype has."""
    if type(value) is not int or dtype.kind not in "iu":
        return True
    info = np.iinfo(dtype)
    return int(info.min) <= value <= int(info.max)


def portable(x: Any, index: Any, options: IndexOptions) -> tuple[Any, ...]:
    """An index of a concrete array in parts that programs can be found by: see ``index_of``."""
    items = items_of(index)
    used = sum(_axes_of(item) for item in items if item is not None and item is not Ellipsis)
    parts: list[Any] = []
    axis = 0
    for item in items:
        if item is Ellipsis:
            axis += max(x.ndim - used, 0)
            parts.append(("all",))
        elif item is None:
            parts.append(("new",))
        else:
            parts.append(_part(item, x.shape[axis] if axis < x.ndim else None, axis, options))
            axis += _axes_of(item)
    return tuple(parts)


def _axes_of(item: Any) -> int:
    """Number of axes that an item takes: a mask takes as many as it has."""
    if isinstance(item, bool | np.bool_):
        return 0
    if isinstance(item, list):
        item = np.array(item)
    return item.ndim if is_array(item) and item.dtype == np.bool_ else 1


def _part(item: Any, size: int | None, axis: int, options: IndexOptions) -> tuple[Any, ...]:
    if isinstance(item, list):
        item = np.array(item, np.int64) if not item else np.array(item)
    if isinstance(item, bool | np.bool_):
        return ("array", np.array(item))
    if isinstance(item, slice):
        if item == slice(None):
            return ("plain", item)
        if size is None or not all(_whole(p) for p in (item.start, item.stop, item.step)):
            return ("plain", item)
        if item.step is not None and int(item.step) == 0:
            return ("plain", item)
        start, stop, step = item.indices(size)
        if step > 0:
            return ("slice", str(step), np.empty((start, max(stop, start), 0), np.bool_))
        # From the end, as positive numbers: position p is size - 1 - p of the reversed axis.
        return ("slice", str(step), np.empty((size - 1 - start, size - 1 - min(stop, start), 0), np.bool_))
    if not is_array(item) and hasattr(type(item), "__index__"):
        number = int(item)
        if options.checked:
            return ("array", np.array(number, np.int64))
        if size is not None and not -size <= number < size:
            raise ShapeError(
                f"the index {number} is outside of axis {axis}, which has {size} elements.",
                loc=user_loc(),
                remedy=f"use an index from {-size} to {size - 1}, or say with mode= what is to become of it.",
            )
        return ("number", np.empty((number % size if size else 0, 0), np.bool_))
    return ("array", item) if is_array(item) else ("plain", item)


def _whole(value: Any) -> bool:
    return value is None or (not is_array(value) and hasattr(type(value), "__index__"))


def index_of(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """The index that ``portable`` took apart, in a trace."""
    items: list[Any] = []
    for kind, *given in parts:
        if kind == "slice":
            step, (start, stop) = int(given[0]), given[1].shape[:2]
            items.append(slice(start, stop, step) if step > 0 else slice(-1 - start, -1 - stop, step))
        elif kind == "number":
            items.append(given[0].shape[0])
        else:
            items.append({"all": Ellipsis, "new": None}[kind] if kind in ("all", "new") else given[0])
    return tuple(items)
