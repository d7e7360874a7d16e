"""``x.at[index]``: arrays with some elements changed, as in JAX (jax.numpy.ndarray.at). Nothing is changed in place.

The index is what ``x[index]`` takes, or a mask of the leading axes of ``x``. ``mode`` says what an index array (or a
number beside it) does that is out of range: without one, or with "promise_in_bounds", reading takes the nearest
element, writing leaves the update out, and a number is a ShapeError; "clip" moves the place inside; "drop" and "fill"
leave updates out, and ``get`` gives ``fill_value`` there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from dyn.eager import eager_function
from dyn.errors import UnsupportedOpError
from dyn.numpy._indexing.portable_index import index_of, portable
from dyn.numpy._indexing.update import IndexOptions, items_of, taken, updated
from dyn.numpy._public import Array, ArrayLike, found_trace
from dyn.source import user_loc
from dyn.specialize.runtime_arguments import is_array
from dyn.trace.tracer import Tracer

__all__ = ["At", "AtIndex"]

F = TypeVar("F", bound=Callable[..., Any])

_MODES = (None, "promise_in_bounds", "clip", "drop", "fill")


class At:
    """``x.at``: index it to say which elements are meant. See ``jax.numpy.ndarray.at``."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self._array, index)

    def __repr__(self) -> str:
        return f"{self._array!r}.at"


class AtIndex:
    """``x.at[index]``: each method gives a new array, of the dtype of ``x`` unless it says something else.

    Values broadcast to the shape of ``x[index]``. Where an index names a place several times, all of its updates are
    taken, in their order: of values that are set the last one stays. ``indices_are_sorted`` promises what nothing
    gains from here; ``unique_indices`` that no place is named twice, which gives ``apply`` a derivative.
    """

    __slots__ = ("_array", "_index")

    def __init__(self, array: Array, index: Any) -> None:
        self._array, self._index = array, index

    def __repr__(self) -> str:
        return f"{self._array!r}.at[{self._index!r}]"

    def get(
        self, *, indices_are_sorted: bool = False, unique_indices: bool = False, mode: str | None = None,
        fill_value: ArrayLike | None = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """``x[index]``. ``fill_value`` is for "fill": without it NaN, the least signed, the greatest unsigned, True."""
        options = _options(mode, wrap_negative_indices, unique_indices)
        if found_trace(self._array, *items_of(self._index)) is None:
            index = portable(self._array, self._index, options)
            return _get(self._array, index, options, fill_value)
        return taken(self._array, self._index, options, fill_value)

    def set(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """``x`` with ``x[index] = values``."""
        return self._update("set", values, _options(mode, wrap_negative_indices, unique_indices))

    def add(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """``x`` with ``x[index] += values``."""
        return self._update("add", values, _options(mode, wrap_negative_indices, unique_indices))

    def subtract(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """``x`` with ``x[index] -= values``."""
        return self._update("subtract", values, _options(mode, wrap_negative_indices, unique_indices))

    def multiply(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """``x`` with ``x[index] *= values``."""
        return self._update("multiply", values, _options(mode, wrap_negative_indices, unique_indices))

    mul = multiply

    def divide(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """``x`` with ``x[index] /= values``; of integers the whole array in the default float dtype."""
        return self._update("divide", values, _options(mode, wrap_negative_indices, unique_indices))

    def power(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """``x`` with ``x[index] **= values``."""
        return self._update("power", values, _options(mode, wrap_negative_indices, unique_indices))

    def min(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """``x`` with ``x[index] = minimum(x[index], values)``."""
        return self._update("min", values, _options(mode, wrap_negative_indices, unique_indices))

    def max(
        self, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """``x`` with ``x[index] = maximum(x[index], values)``."""
        return self._update("max", values, _options(mode, wrap_negative_indices, unique_indices))

    def apply(
        self, func: Callable[[Any], Any], *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """``x`` with ``func`` applied to the elements, as often as their places are named.

        ``func`` is elementwise and keeps the dtype. Beside index arrays it has no derivative, as in JAX, unless
        ``unique_indices`` promises that no place is named twice.
        """
        return self._update("apply", func, _options(mode, wrap_negative_indices, unique_indices))

    def _update(self, how: str, values: Any, options: IndexOptions) -> Array:
        if found_trace(self._array, values, *items_of(self._index)) is None:
            index = portable(self._array, self._index, options)
            values = np.array(values) if isinstance(values, list | tuple) else values
            while is_array(values) and values.ndim and values.shape[0] == 1:  # which is known here, and not in a trace
                values = values[0]
            return _put(self._array, index, values, how, options)
        return updated(self._array, self._index, values, how, options)


def _options(mode: Any, wrap: bool, unique: bool) -> IndexOptions:
    if mode not in _MODES:
        raise UnsupportedOpError(
            f"x.at[...]: {mode!r} is no mode.",
            loc=user_loc(),
            remedy="use 'drop', 'clip', 'fill' or 'promise_in_bounds', or leave it out.",
        )
    return _same_options(mode, bool(wrap), bool(unique))


#: Equal ones are one object, which is how the native entry knows them.
_same_options = functools.lru_cache(IndexOptions)


def _outside(fn: F) -> F:
    """A function that is called outside of traces alone."""
    return eager_function(fn, lambda args, kwargs: None, lambda args, kwargs: fn(*args, **kwargs))


@_outside
def _get(x: ArrayLike, parts: tuple[Any, ...], options: IndexOptions, fill_value: ArrayLike) -> Tracer:
    return taken(x, index_of(parts), options, fill_value)


@_outside
def _put(x: ArrayLike, parts: tuple[Any, ...], values: ArrayLike, how: str, options: IndexOptions) -> Tracer:
    return updated(x, index_of(parts), values, how, options)
