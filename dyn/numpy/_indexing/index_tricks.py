"""Grids and slices that are written as indices: ``mgrid[0:n, 0:m]``."""

from __future__ import annotations

from typing import Any

from numpy import index_exp, s_

from dyn.errors import UnsupportedOpError
from dyn.numpy._creation import arange, linspace
from dyn.numpy._joining import stack
from dyn.numpy._manipulation import broadcast_arrays, reshape
from dyn.numpy._public import Array
from dyn.source import user_loc

__all__ = ["index_exp", "mgrid", "ogrid", "s_"]


def _line(part: Any) -> Array:
    """The numbers of a slice: from start to stop in steps, or of a complex step so many, both ends among them."""
    if not isinstance(part, slice):
        raise UnsupportedOpError(
            f"a grid is made of slices, not of the {type(part).__name__} {part!r}.",
            loc=user_loc(),
            remedy="write mgrid[0:n, 0:m].",
        )
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        return linspace(start, part.stop, int(abs(part.step)))
    return arange(start, part.stop, 1 if part.step is None else part.step)


def _lines(key: Any) -> list[Array]:
    """A vector for each axis, on that axis."""
    parts = key if isinstance(key, tuple) else (key,)
    count = len(parts)
    return [
        reshape(_line(part), tuple(-1 if a == axis else 1 for a in range(count))) for axis, part in enumerate(parts)
    ]


class _Dense:
    """``mgrid[a:b, c:d:n*1j]``: the coordinates of a grid, as one array of one more axis in front.

    Bounds are ints, dimensions or floats; a complex step is a number of points.
    """

    def __getitem__(self, key: Any) -> Array:
        lines = broadcast_arrays(*_lines(key))
        return stack(lines) if isinstance(key, tuple) else lines[0]


class _Open:
    """``ogrid[a:b, c:d]``: the coordinates of a grid, as a tuple of arrays that broadcast to it; see ``mgrid``."""

    def __getitem__(self, key: Any) -> Any:
        lines = _lines(key)
        return tuple(lines) if isinstance(key, tuple) else lines[0]


mgrid = _Dense()
ogrid = _Open()
