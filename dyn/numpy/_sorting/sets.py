"""Operations on arrays as sets, in order, by one sort of both together.

Equal elements stand side by side then, and since sorting keeps the order of what is equal, those of the first array
before those of the second: the ends of such a group say which arrays it comes from. As in NumPy NaN is one element of
an array, and no element of two.
"""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import InvalidValueError, UnsupportedOpError
from dyn.numpy._axes import all_axes, text_of
from dyn.numpy._broadcast import expand
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._indexing.nonzero import pack
from dyn.numpy._indexing.take import size_of, take
from dyn.numpy._joining import concatenate
from dyn.numpy._logic import truth
from dyn.numpy._manipulation import view
from dyn.numpy._operands import (
    cast,
    constant,
    emit,
    emit_all,
    made,
    promote,
    shape_of,
    size_from_value,
    size_in,
    tracer,
)
from dyn.numpy._public import Array, ArrayLike, Axis, Size, public
from dyn.numpy._reductions import fold
from dyn.numpy._sorting.search import array_of, isin, never_empty
from dyn.numpy._sorting.unique import unique
from dyn.numpy._unary import filled
from dyn.shapes import Dim, dim_min
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["intersect1d", "setdiff1d", "setxor1d", "trim_zeros", "union1d"]


def _flat(what: str, x: ArrayLike, *others: Any) -> Tracer:
    """All elements of an array in row-major order."""
    value = array_of(what, x, *others)
    if value.element_type.kind is Kind.COMPLEX:
        raise UnsupportedOpError(
            f"{what} does not take {value.element_type.name}.", loc=user_loc(), remedy="take the parts of it."
        )
    return view(value, (value._value.type.size,))


class _Together:
    """Two vectors of one dtype in one order, and the groups of equal elements in it."""

    def __init__(self, first: Tracer, second: Tracer) -> None:
        self.of = (first, second)
        self.sizes = (shape_of(first)[0], shape_of(second)[0])
        joined: Tracer = concatenate([first, second])
        self.numbers = made(joined._trace, "iota", shape=shape_of(joined), dimension=0, dtype=dtypes.int64)
        self.sorted, self.order = emit_all("sort", joined, self.numbers, dimension=0, descending=False)
        self.second = emit("compare", self.order, self._spread(self.sizes[0]), direction="GE")
        self.starts = emit("xor", self._continues(), filled(self.second, True))

    def _spread(self, size: Dim) -> Tracer:
        return expand(size_of(self.numbers, size), shape_of(self.numbers))

    def _moved(self, x: Tracer, by: int) -> Tracer:
        """``x`` moved: at each place the element ``by`` places behind it, at the ends the last one."""
        return take(x, emit("add", self.numbers, filled(self.numbers, by)), mode="clip")

    def _continues(self) -> Tracer:
        """Tell whether an element is equal to the one before."""
        before = self._moved(self.sorted, -1)
        equal = emit("compare", self.sorted, before, direction="EQ")
        if self.sorted.element_type.is_float:
            nans = [emit("compare", v, v, direction="NE") for v in (self.sorted, before)]
            one_side = emit("compare", self.second, self._moved(self.second, -1), direction="EQ")
            equal = emit("or", equal, emit("and", emit("and", *nans), one_side))
        return emit("and", equal, emit("compare", self.numbers, filled(self.numbers, 0), direction="GT"))

    def heads(self) -> Tracer:
        """Place where each element's group begins."""
        marked = emit("select", self.starts, self.numbers, filled(self.numbers, 0))
        return emit("cumulative", marked, dimension=0, combine="maximum", reverse=False)

    def ends(self) -> Tracer:
        """Tell whether an element is the last of its group."""
        last = emit("subtract", self._spread(shape_of(self.numbers)[0]), filled(self.numbers, 1))
        return emit("or", self._moved(self.starts, 1), emit("compare", self.numbers, last, direction="EQ"))

    def common(self) -> Tracer:
        """Mark where the second array's part of a group begins behind one of the first array."""
        behind = emit("and", self.second, emit("xor", self.starts, filled(self.starts, True)))
        return emit("and", behind, emit("xor", self._moved(self.second, -1), filled(self.second, True)))

    def only_first(self) -> Tracer:
        """The ends of groups that have nothing of the second array."""
        return emit("and", self.ends(), emit("xor", self.second, filled(self.second, True)))

    def only_one(self) -> Tracer:
        """The ends of groups that come from one of the arrays."""
        begins = take(self.second, self.heads(), mode="clip")
        return emit("and", self.ends(), emit("compare", begins, self.second, direction="EQ"))


class _Chosen:
    """The marked elements of two arrays: how many there are, measured or given, and what stands there."""

    def __init__(self, what: str, arrays: tuple[Tracer, Tracer], mask: Tracer, limit: Dim, size: Size | None) -> None:
        self.mask, self.trace = mask, mask._trace
        self.count = emit("reduce", cast(mask, dtypes.int64), axes=(0,), combine="add", nonempty=False)
        self.given = size is not None
        if size is not None:
            self.size = size_in(self.trace, size, what)
        else:
            origin = f"the number of elements in {what} of {text_of(arrays[0])} and {text_of(arrays[1])}"
            self.size = size_from_value(self.count, what, origin, limit)

    def of(self, x: Tracer) -> Tracer:
        """The elements of ``x`` at the marked places; zeros behind them, where a given size is more than there is."""
        return pack(x, self.mask, self.size)

    def filled_up(self, found: Tracer, fill: Tracer) -> Tracer:
        """``found``, and behind it, where a given size is more than there is, the scalar ``fill``."""
        if not self.given:
            return found
        shape = shape_of(found)
        places = made(self.trace, "iota", shape=shape, dimension=0, dtype=dtypes.int64)
        there = emit("compare", places, expand(self.count, shape), direction="LT")
        return emit("select", there, found, expand(fill, shape))

    def values(self, both: _Together, fill_value: Any) -> Tracer:
        """The first element of each marked group; behind them the fill value, or the least of them."""
        found = take(never_empty(both.sorted, 0), self.of(both.heads()), mode="clip")
        if not self.given:
            return found
        least = take(never_empty(found, 0), 0, mode="clip")
        zero = constant(self.trace, 0, found.element_type)
        some = emit("compare", self.count, constant(self.trace, 0, dtypes.int64), direction="GT")
        least = emit("select", some, least, zero)
        return self.filled_up(found, least if fill_value is None else _fill(least, fill_value))


def _fill(like: Tracer, fill_value: Any) -> Tracer:
    return cast(tracer(like._trace, fill_value, "fill_value"), like.element_type)


@public
def union1d(x: ArrayLike, y: ArrayLike, /, *, size: Size | None = None, fill_value: Any = None) -> Array:
    """Distinct elements of two arrays, in order.

    Args:
        x: array of any real dtype; of lists and of more axes all elements.
        y: array of any real dtype.
        size: None: as many as there are, a dim that is found out when the program runs; an int or a dimension: so many,
            what is more being left out.
        fill_value: value of what is missing, where ``size`` is more than there are; None: the least element.

    Returns:
        A vector of the dtype that both promote to.

    Raises:
        UnsupportedOpError: if one of them is complex.

    Example:
        >>> dnp.union1d(np.array([3, 1]), np.array([2, 3]))
        array([1, 2, 3])
    """
    first, second = promote("union1d", _flat("union1d", x, y, size), _flat("union1d", y, x, size))
    return unique(concatenate([first, second]), size=size, fill_value=fill_value)


def _together(what: str, x: ArrayLike, y: ArrayLike, size: Size | None) -> _Together:
    first, second = promote(what, _flat(what, x, y, size), _flat(what, y, x, size))
    return _Together(first, second)


@public
def intersect1d(
    x: ArrayLike, y: ArrayLike, /, assume_unique: bool = False, return_indices: bool = False, *,
    size: Size | None = None, fill_value: Any = None,
) -> Any:  # fmt: skip
    """Distinct elements that two arrays both have, in order.

    Args:
        x: array of any real dtype; of lists and of more axes all elements.
        y: array of any real dtype.
        assume_unique: hint that changes nothing here.
        return_indices: whether the places where each stands first in ``x`` and in ``y``, in row-major order, are given
            too.
        size: None: as many as there are, a dim that is found out when the program runs; an int or a dimension: so many,
            what is more being left out.
        fill_value: value of what is missing, where ``size`` is more than there are; None: the least element, or 0 where
            there is none. Its places are the sizes of the arrays.

    Returns:
        A vector of the dtype that both promote to; with ``return_indices`` a tuple of it and two vectors of int64.

    Raises:
        UnsupportedOpError: if one of them is complex.

    Example:
        >>> dnp.intersect1d(np.array([3, 1, 3]), np.array([2, 3]))
        array([3])
    """
    both = _together("intersect1d", x, y, size)
    found = _Chosen("intersect1d", both.of, both.common(), dim_min(*both.sizes), size)
    if not return_indices:
        return found.values(both, fill_value)
    before, after = (size_of(both.numbers, n) for n in both.sizes)
    heads = take(both.order, both.heads(), mode="clip")
    seconds = emit("subtract", both.order, expand(before, shape_of(both.order)))
    return (
        found.values(both, fill_value),
        found.filled_up(found.of(heads), before),
        found.filled_up(found.of(seconds), after),
    )


@public
def setxor1d(
    x: ArrayLike, y: ArrayLike, /, assume_unique: bool = False, *, size: Size | None = None, fill_value: Any = None
) -> Array:
    """Distinct elements that one of two arrays has and the other has not, in order.

    Args:
        x: array of any real dtype; of lists and of more axes all elements.
        y: array of any real dtype.
        assume_unique: hint that changes nothing here.
        size: None: as many as there are, a dim that is found out when the program runs; an int or a dimension: so many,
            what is more being left out.
        fill_value: value of what is missing, where ``size`` is more than there are; None: the least element, or 0 where
            there is none.

    Returns:
        A vector of the dtype that both promote to.

    Raises:
        UnsupportedOpError: if one of them is complex.

    Example:
        >>> dnp.setxor1d(np.array([3, 1]), np.array([2, 3]))
        array([1, 2])
    """
    both = _together("setxor1d", x, y, size)
    found = _Chosen("setxor1d", both.of, both.only_one(), shape_of(both.numbers)[0], size)
    return found.values(both, fill_value)


@public
def setdiff1d(
    x: ArrayLike, y: ArrayLike, /, assume_unique: bool = False, *, size: Size | None = None, fill_value: Any = None
) -> Array:
    """Distinct elements of one array that another has not, in order.

    Args:
        x: array of any real dtype; of lists and of more axes all elements.
        y: array of any real dtype.
        assume_unique: whether elements of ``x`` are given in their own order, and as often as they stand there.
        size: None: as many as there are, a dim that is found out when the program runs; an int or a dimension: so many,
            what is more being left out.
        fill_value: value of what is missing, where ``size`` is more than there are; None: 0.

    Returns:
        A vector of the dtype of ``x``.

    Raises:
        UnsupportedOpError: if one of them is complex.

    Example:
        >>> dnp.setdiff1d(np.array([3, 1, 2]), np.array([2]))
        array([1, 3])
    """
    own = _flat("setdiff1d", x, y, size)
    other = _flat("setdiff1d", y, own)
    zero = constant(own._trace, 0, own.element_type)
    fill = zero if fill_value is None else _fill(zero, fill_value)
    if assume_unique:
        found = _Chosen("setdiff1d", (own, other), isin(own, other, invert=True), shape_of(own)[0], size)
        return found.filled_up(found.of(own), fill)
    both = _together("setdiff1d", own, other, size)
    found = _Chosen("setdiff1d", both.of, both.only_first(), both.sizes[0], size)
    # Taken from the array itself: in the common dtype a great integer may be a float.
    places = found.of(take(both.order, both.heads(), mode="clip"))
    return found.filled_up(take(never_empty(own, 0), places, mode="clip"), fill)


# ---- zeros at the ends -----------------------------------------------------------------------------------------------


@public
def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Axis = None) -> Array:
    """Array without the zeros at the ends of axes.

    How much is left is found out when the program runs. Of zeros alone it is nothing.

    Args:
        filt: array of any dtype, of one axis or more.
        trim: ends to trim: ``"f"`` the front, ``"b"`` the back, ``"fb"`` both.
        axis: axis or axes; None: all.

    Returns:
        An array of the dtype of ``filt``.

    Raises:
        InvalidValueError: if ``trim`` is another one.
        ShapeError: if an axis is not one of ``filt``.

    Example:
        >>> dnp.trim_zeros(np.array([0, 1, 0, 2, 0]))
        array([1, 0, 2])
    """
    value = array_of("trim_zeros", filt)
    ends = trim.lower()
    if ends not in ("f", "b", "fb", "bf"):
        raise InvalidValueError(
            f"trim_zeros: {trim!r} names no ends.", loc=user_loc(), remedy="use 'f' for the front, 'b' for the back."
        )
    axes, mask = all_axes("trim_zeros", axis, value.ndim), truth(value)
    slices = [_trimmed(mask, a, ends) if a in axes else slice(None) for a in range(value.ndim)]
    return getitem(value, tuple(slices))


def _trimmed(mask: Tracer, axis: int, ends: str) -> slice:
    """Slice of an axis from the first to the last place where something is true."""
    others = tuple(a for a in range(mask.ndim) if a != axis)
    marked = fold(mask, "or", others, False) if others else mask
    (size,) = shape_of(marked)
    places = made(mask._trace, "iota", shape=(size,), dimension=0, dtype=dtypes.int64)
    behind = emit("add", places, filled(places, 1))
    whole = expand(size_of(mask, size), (size,))
    start = emit("reduce", emit("select", marked, places, whole), axes=(0,), combine="minimum", nonempty=False)
    stop = emit(
        "reduce", emit("select", marked, behind, filled(behind, 0)), axes=(0,), combine="maximum", nonempty=False
    )
    return slice(start if "f" in ends else None, stop if "b" in ends else None)
