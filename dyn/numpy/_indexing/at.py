"""``x.at[index]``: arrays with some elements changed, as in JAX (jax.numpy.ndarray.at). Nothing is changed in place.

The index is what ``x[index]`` takes, or a mask of the leading axes of ``x``. ``mode`` says what an index array (or a
number beside it) does that is out of range: without one, or with "promise_in_bounds", reading takes the nearest
element, writing leaves the update out, and a number is a ShapeError; "clip" moves the place inside; "drop" and "fill"
leave updates out, and ``get`` gives ``fill_value`` there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np

from dyn.eager import eager_function
from dyn.errors import UnsupportedOpError
from dyn.numpy._indexing.portable_index import IndexKinds, index_of, portable
from dyn.numpy._indexing.update import IndexOptions, items_of, taken, updated
from dyn.numpy._public import Array, ArrayLike, Shape, found_trace
from dyn.source import user_loc
from dyn.specialize.runtime_arguments import is_array
from dyn.trace.tracer import Tracer

__all__ = ["At", "AtIndex"]

F = TypeVar("F", bound=Callable[..., Any])

_MODES = (None, "promise_in_bounds", "clip", "drop", "fill")


def _updating(how: str, becomes: str, of_four: str) -> Any:
    """A method of :class:`AtIndex` that combines the elements at the index with values."""

    def method(
        self: AtIndex, values: ArrayLike, *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        return self._update(how, values, _options(mode, wrap_negative_indices, unique_indices))

    method.__name__, method.__qualname__ = how, f"AtIndex.{how}"
    method.__doc__ = f"""``x`` with ``{becomes}``.

        Args:
            values: array or number that broadcasts with ``x[index]``.
            indices_are_sorted: JAX's promise, from which nothing is gained here.
            unique_indices: JAX's promise that no place is named twice, from which nothing is gained here.
            mode: what becomes of an update whose index is out of range: ``"clip"`` moves it to the nearest place, any
                other leaves it out.
            wrap_negative_indices: True where negative indices count from the end; False where they are out of range.

        Returns:
            A new array of the shape of ``x``.

        Raises:
            ShapeError: if a number in the index is out of range, and there is no ``mode``; if the values do not fit.
            UnsupportedOpError: if there is no such mode.

        Example:
            >>> dnp.array([8, 4, 2]).at[1:].{how}(4).tolist()
            {of_four}
        """
    return method


class At:
    """``x.at``: index it to say which elements are meant, ``x.at[index].set(values)``. See ``jax.numpy.ndarray.at``.

    Args:
        array: array ``x``.
    """

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> AtIndex:
        return AtIndex(self._array, index)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise UnsupportedOpError(
            "x.at[i] = v: x.at gives new arrays, and changes none.",
            loc=user_loc(),
            remedy="write x[i] = v, or y = x.at[i].set(v).",
        )

    def __repr__(self) -> str:
        return f"{self._array!r}.at"


class AtIndex:
    """``x.at[index]``: each method gives a new array, of the dtype of ``x`` unless it says something else.

    Values broadcast to the shape of ``x[index]``. Where an index names a place several times, all of its updates are
    taken, in their order: of values that are set the last one stays.

    Args:
        array: array ``x``.
        index: what ``x[index]`` takes, or a mask of the leading axes.

    Example:
        >>> dnp.zeros(4).at[1:3].add(2).tolist()
        [0.0, 2.0, 2.0, 0.0]
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
        """Elements at the index: ``x[index]``.

        Args:
            indices_are_sorted: JAX's promise, from which nothing is gained here.
            unique_indices: JAX's promise that no place is named twice, from which nothing is gained here.
            mode: what an index array gives that is out of range: with ``"drop"`` and ``"fill"`` the ``fill_value``,
                with any other the nearest element.
            fill_value: what is given there; None: NaN, the least signed, the greatest unsigned integer, True.
            wrap_negative_indices: True where negative indices count from the end; False where they are out of range.

        Returns:
            An array of the dtype of ``x``.

        Raises:
            ShapeError: if a number in the index is out of range, and there is no ``mode``.
            UnsupportedOpError: if there is no such mode.

        Example:
            >>> dnp.arange(3).at[np.array([0, 7])].get(mode="fill", fill_value=-1).tolist()
            [0, -1]
        """
        options = _options(mode, wrap_negative_indices, unique_indices)
        if found_trace(self._array, *items_of(self._index)) is None:
            index = portable(self._array, self._index, options)
            return _get(self._array, index.kinds, index.sizes, index.arrays, options, fill_value)
        return taken(self._array, self._index, options, fill_value)

    set = _updating("set", "x[index] = values", "[8, 4, 4]")
    add = _updating("add", "x[index] += values", "[8, 8, 6]")
    subtract = _updating("subtract", "x[index] -= values", "[8, 0, -2]")
    multiply = mul = _updating("multiply", "x[index] *= values", "[8, 16, 8]")
    #: Of integers the whole array is given in the default float dtype.
    divide = _updating("divide", "x[index] /= values", "[8.0, 1.0, 0.5]")
    power = _updating("power", "x[index] **= values", "[8, 256, 16]")
    min = _updating("min", "x[index] = minimum(x[index], values)", "[8, 4, 2]")
    max = _updating("max", "x[index] = maximum(x[index], values)", "[8, 4, 4]")

    def apply(
        self, func: Callable[[Any], Any], *, indices_are_sorted: bool = False, unique_indices: bool = False,
        mode: str | None = None, wrap_negative_indices: bool = True,
    ) -> Array:  # fmt: skip
        """``x`` with a function applied to the elements, as often as their places are named.

        Beside index arrays it has no derivative, as in JAX, unless ``unique_indices`` promises that no place is named
        twice.

        Args:
            func: elementwise function of an array, which keeps its dtype.
            indices_are_sorted: JAX's promise, from which nothing is gained here.
            unique_indices: promise that no place is named twice.
            mode: what becomes of an update whose index is out of range: ``"clip"`` moves it to the nearest place, any
                other leaves it out.
            wrap_negative_indices: True where negative indices count from the end; False where they are out of range.

        Returns:
            A new array of the shape and dtype of ``x``.

        Raises:
            ShapeError: if a number in the index is out of range, and there is no ``mode``.
            UnsupportedOpError: if there is no such mode.

        Example:
            >>> dnp.array([1.0, 4.0, 9.0]).at[1:].apply(dnp.sqrt).tolist()
            [1.0, 2.0, 3.0]
        """
        return self._update("apply", func, _options(mode, wrap_negative_indices, unique_indices))

    def _update(self, how: str, values: Any, options: IndexOptions) -> Array:
        if found_trace(self._array, values, *items_of(self._index)) is None:
            index = portable(self._array, self._index, options)
            values = np.array(values) if isinstance(values, list | tuple) else values
            while is_array(values) and values.ndim and values.shape[0] == 1:  # which is known here, and not in a trace
                values = values[0]
            return _put(self._array, index.kinds, index.sizes, index.arrays, values, how, options)
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
def _get(
    x: ArrayLike, kinds: IndexKinds, sizes: Shape, index: tuple[Any, ...], options: IndexOptions, fill_value: ArrayLike
) -> Tracer:
    return taken(x, index_of(kinds, sizes, index), options, fill_value)


@_outside
def _put(
    x: ArrayLike, kinds: IndexKinds, sizes: Shape, index: tuple[Any, ...], values: ArrayLike, how: str,
    options: IndexOptions,
) -> Tracer:  # fmt: skip
    return updated(x, index_of(kinds, sizes, index), values, how, options)
