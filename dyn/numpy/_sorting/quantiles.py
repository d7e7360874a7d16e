"""Order statistics: medians, quantiles, partitions. All sort, and take elements of what is sorted.

The methods and their names are those of R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages", The
American Statistician 50 (1996), as NumPy has them.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import UnsupportedOpError
from dyn.frozen import record
from dyn.numpy._axes import all_axes, one_axis
from dyn.numpy._broadcast import expand
from dyn.numpy._indexing.selection import where
from dyn.numpy._indexing.take import size_of, take_along_axis
from dyn.numpy._logic import isnan, logical_not
from dyn.numpy._manipulation import moveaxis, permuted, view
from dyn.numpy._operands import cast, emit, operand, shape_of, to_float
from dyn.numpy._options import check_numbers, one_of
from dyn.numpy._public import Array, ArrayLike, Axis, checked, public
from dyn.numpy._reductions import fold
from dyn.numpy._sorting.search import array_of, never_empty
from dyn.numpy._sorting.sort import argsort, sort
from dyn.numpy._unary import ceil, filled, floor, rint
from dyn.shapes import Reason, Relation, RelKind, product
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = [
    "argpartition", "median", "nanmedian", "nanpercentile", "nanquantile", "partition", "percentile", "quantile",
]  # fmt: skip


# ---- partitions ------------------------------------------------------------------------------------------------------


def _check_kth(what: str, x: Tracer, kth: Any, axis: int) -> None:
    for k in kth if isinstance(kth, tuple | list) else (kth,):
        if isinstance(k, bool) or not hasattr(type(k), "__index__"):
            raise UnsupportedOpError(
                f"{what}: kth is an int or a list of ints, not the {type(k).__name__} {k!r}.",
                loc=user_loc(),
                remedy="pass the number of the element.",
            )
        number, size = int(k), shape_of(x)[axis]
        reason = Reason(f"{what} has element {number} of axis {axis}", user_loc())
        need = number + 1 if number >= 0 else -number
        x._trace.require(Relation(RelKind.GE, size, need, reason))


@public
def partition(x: ArrayLike, /, kth: Any, axis: int = -1) -> Array:
    """Elements in an order in which the k-th is the one of sorted elements, with none greater before it.

    The others are in order too: the array is sorted.

    Args:
        x: array of any real dtype, of any shape.
        kth: place or places, ints, from the end where negative.
        axis: axis to go along.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        ShapeError: if there is no such element, at the call at the latest.
        UnsupportedOpError: if ``x`` is complex, or ``kth`` no int.

    Example:
        >>> dnp.partition(np.array([3, 1, 2]), 1)
        array([1, 2, 3])
    """
    value = operand("partition", x)
    number = one_axis("partition", axis, value.ndim)
    _check_kth("partition", value, kth, number)
    return sort(value, number)


@public
def argpartition(x: ArrayLike, /, kth: Any, axis: int = -1) -> Array:
    """Places of elements in an order as that of :func:`partition`.

    Args:
        x: array of any real dtype, of any shape.
        kth: place or places, ints, from the end where negative.
        axis: axis to go along.

    Returns:
        An array of int64, of the shape of ``x``.

    Raises:
        ShapeError: if there is no such element, at the call at the latest.
        UnsupportedOpError: if ``x`` is complex, or ``kth`` no int.
    """
    value = operand("argpartition", x)
    number = one_axis("argpartition", axis, value.ndim)
    _check_kth("argpartition", value, kth, number)
    return argsort(value, number)


# ---- the methods -----------------------------------------------------------------------------------------------------


@record()
class _QuantilePosition:
    """Between which sorted elements a quantile lies: ``weight`` of the way from ``low`` to the next one.

    ``weight`` None says that it is the element itself.
    """

    low: Array
    weight: Array | None


def _continuous(alpha: float, beta: float) -> Callable[[Array, Array], _QuantilePosition]:
    def place(n: Array, q: Array) -> _QuantilePosition:
        at = n * q + (alpha + q * (1 - alpha - beta)) - 1
        return _QuantilePosition(floor(at), at - floor(at))

    return place


def _linear(n: Array, q: Array) -> _QuantilePosition:
    at = (n - 1) * q
    return _QuantilePosition(floor(at), at - floor(at))


def _midpoint(n: Array, q: Array) -> _QuantilePosition:
    at = (n - 1) * q
    return _QuantilePosition(floor(at), where(floor(at) == at, 0.0, 0.5))


def _averaged_inverted_cdf(n: Array, q: Array) -> _QuantilePosition:
    at = n * q - 1
    return _QuantilePosition(floor(at), where(floor(at) == at, 0.5, 1.0))


def _inverted_cdf(n: Array, q: Array) -> _QuantilePosition:
    return _QuantilePosition(ceil(n * q - 1), None)


def _closest_observation(n: Array, q: Array) -> _QuantilePosition:
    """The nearest one; of two as near the one whose number, from 1 on, is even."""
    at = n * q - 1.5
    low = floor(at)
    return _QuantilePosition(where((low == at) & (low % 2 == 1), low, low + 1), None)


def _whole(rounded: Callable[[Any], Any]) -> Callable[[Array, Array], _QuantilePosition]:
    return lambda n, q: _QuantilePosition(rounded((n - 1) * q), None)


_METHODS: dict[str, Callable[[Array, Array], _QuantilePosition]] = {
    "inverted_cdf": _inverted_cdf,
    "averaged_inverted_cdf": _averaged_inverted_cdf,
    "closest_observation": _closest_observation,
    "interpolated_inverted_cdf": _continuous(0, 1),
    "hazen": _continuous(0.5, 0.5),
    "weibull": _continuous(0, 0),
    "linear": _linear,
    "median_unbiased": _continuous(1 / 3, 1 / 3),
    "normal_unbiased": _continuous(3 / 8, 3 / 8),
    "lower": _whole(floor),
    "higher": _whole(ceil),
    "midpoint": _midpoint,
    "nearest": _whole(rint),
}


# ---- quantiles -------------------------------------------------------------------------------------------------------


def _rows(what: str, x: ArrayLike, axis: Axis, *others: Any) -> tuple[Tracer, tuple[int, ...]]:
    """The array with the axes that are reduced as its last one, and which these are."""
    value = operand(what, x, *others)
    if value.element_type.kind is Kind.COMPLEX:
        raise UnsupportedOpError(
            f"{what} does not take {value.element_type.name}: complex numbers have no order.",
            loc=user_loc(),
            remedy="use the real or imaginary part, or the absolute value.",
        )
    if value.element_type.kind is Kind.BOOL:
        value = cast(value, dtypes.int8)
    axes = all_axes(what, axis, value.ndim)
    rest = [a for a in range(value.ndim) if a not in axes]
    dims = shape_of(value)
    folded = product([dims[a] for a in axes])
    return view(permuted(value, (*rest, *axes)), (*(dims[a] for a in rest), folded)), axes


def _sorted_rows(rows: Tracer, ignore_nan: bool) -> tuple[Tracer, Tracer, Tracer | None]:
    """The rows in order, how many elements of each count, and which rows have a NaN where NaN counts.

    Of no elements a row is one NaN.
    """
    *lead, size = shape_of(rows)
    last = rows.ndim - 1
    inexact = rows.element_type.is_float
    count = size_of(rows, size)
    poisoned: Tracer | None = None
    if inexact and ignore_nan:
        count = fold(cast(logical_not(isnan(rows)), dtypes.int64), "add", (last,), False)
    elif inexact:
        poisoned = fold(isnan(rows), "or", (last,), False)
    ordered = never_empty(sort(rows, last), last, float("nan") if inexact else 0)
    return ordered, expand(count, tuple(lead)) if lead else count, poisoned


def _at(ordered: Tracer, place: Tracer, count: Tracer) -> Tracer:
    """Elements of rows, ``place`` of shape (…, k) brought between the first and the last that counts."""
    top = emit("maximum", emit("subtract", count, filled(count, 1)), filled(count, 0))
    inside = emit("minimum", emit("maximum", place, filled(place, 0)), top)
    return take_along_axis(ordered, inside, axis=-1)


def _quantiles(what: str, x: ArrayLike, q: Tracer, axis: Axis, method: str, keepdims: bool, ignore_nan: bool) -> Tracer:
    """``q`` is of float64, and any shape, whose axes come first in the result."""
    one_of(what, "method", method, _METHODS)
    rows, axes = _rows(what, x, axis, q)
    *lead, _ = shape_of(rows)
    flat = view(q, (q._value.type.size,))
    (several,) = shape_of(flat)
    ordered, count, poisoned = _sorted_rows(rows, ignore_nan)
    shape = (*lead, several)
    counts: Array = emit("broadcast_in_dim", count, shape=shape, dims=tuple(range(len(lead))))
    wanted = emit("broadcast_in_dim", flat, shape=shape, dims=(len(lead),))
    place = _METHODS[method](cast(counts, dtypes.float64), wanted)
    low = cast(place.low, dtypes.int64)
    found = _at(ordered, low, counts)
    if place.weight is not None:
        wide = cast(found, to_float(found.element_type))
        above = cast(_at(ordered, emit("add", low, filled(low, 1)), counts), wide.element_type)
        found = _between(wide, above, place.weight)
    if ordered.element_type.is_float:
        empty = counts == 0
        missing = empty if poisoned is None else empty | view(poisoned, (*lead, 1))
        found = where(missing | isnan(wanted), float("nan"), found)
    return _shaped(found, x, q, axes, keepdims)


def _between(low: Array, high: Array, weight: Array) -> Tracer:
    """``low + weight * (high - low)``, from the nearer end, so that neither end is missed; 16-bit floats in float32."""
    element = low.element_type
    if element.is_narrow:
        low, high = cast(low, dtypes.float32), cast(high, dtypes.float32)
    gap = high - low
    share: Array = cast(weight, low.element_type)
    return cast(where(share >= 0.5, high - gap * (1 - share), low + gap * share), element)


def _shaped(found: Tracer, x: ArrayLike, q: Tracer, axes: tuple[int, ...], keepdims: bool) -> Tracer:
    """(…, k) with the axes of ``q`` first, and those that were reduced of size 1 where they are kept."""
    own = shape_of(operand("quantile", x, q))
    kept = tuple(1 if a in axes else d for a, d in enumerate(own) if keepdims or a not in axes)
    return view(moveaxis(found, -1, 0), (*shape_of(q), *kept))


def _shares(what: str, x: ArrayLike, q: ArrayLike, scale: float) -> Tracer:
    value = array_of(what, q, x)
    if value.element_type.kind is Kind.COMPLEX:
        raise UnsupportedOpError(f"{what}: q is complex.", loc=user_loc(), remedy="pass real numbers.")
    share: Array = cast(value, dtypes.float64)
    return share if scale == 1 else share / scale


def _in_range(what: str, most: int) -> Callable[..., None]:
    def check(x: Any = None, q: Any = 0, *_: Any, **__: Any) -> None:
        check_numbers(what, "q", q, lambda number: 0 <= number <= most, f"use numbers from 0 to {most}.")

    return check


@checked(_in_range("quantile", 1))
@public
def quantile(
    x: ArrayLike, q: ArrayLike, /, axis: Axis = None, *, method: str = "linear", keepdims: bool = False
) -> Array:
    """Values below which given shares of the elements along axes lie.

    The methods are those of R. J. Hyndman and Y. Fan, "Sample quantiles in statistical packages", 1996, and NumPy's
    four discrete ones.

    Args:
        x: array of any real dtype, of any shape.
        q: shares from 0 to 1, a number or an array of any shape; elements of an array that lie outside count as the
            nearest end.
        axis: axis or axes to reduce; None: all.
        method: any of NumPy's: ``"linear"``, ``"lower"``, ``"higher"``, ``"nearest"``, ``"midpoint"``,
            ``"inverted_cdf"``, ``"averaged_inverted_cdf"``, ``"closest_observation"``, ``"interpolated_inverted_cdf"``,
            ``"hazen"``, ``"weibull"``, ``"median_unbiased"``, ``"normal_unbiased"``.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``q``, then that of ``x`` without the axes; of integers in the default float dtype,
        unless the method chooses an element. NaN where an element is NaN, and of no elements (NumPy raises).

    Raises:
        InvalidValueError: if ``q`` is a number outside of its range, or ``method`` another one.
        UnsupportedOpError: if ``x`` or ``q`` is complex.
        ShapeError: if an axis is not one of ``x``, or is named twice.

    Example:
        >>> dnp.quantile(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.75]))
        array([2., 3.])
    """
    return _quantiles("quantile", x, _shares("quantile", x, q, 1), axis, method, keepdims, False)


@checked(_in_range("percentile", 100))
@public
def percentile(
    x: ArrayLike, q: ArrayLike, /, axis: Axis = None, *, method: str = "linear", keepdims: bool = False
) -> Array:
    """Values below which given percentages of the elements along axes lie: :func:`quantile` of ``q / 100``.

    Args:
        x: array of any real dtype, of any shape.
        q: percentages from 0 to 100, a number or an array of any shape.
        axis: axis or axes to reduce; None: all.
        method: any of NumPy's: ``"linear"``, ``"lower"``, ``"higher"``, ``"nearest"``, ``"midpoint"``,
            ``"inverted_cdf"``, ``"averaged_inverted_cdf"``, ``"closest_observation"``, ``"interpolated_inverted_cdf"``,
            ``"hazen"``, ``"weibull"``, ``"median_unbiased"``, ``"normal_unbiased"``.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``q``, then that of ``x`` without the axes, as :func:`quantile` gives it.

    Raises:
        InvalidValueError: if ``q`` is a number outside of its range, or ``method`` another one.
        UnsupportedOpError: if ``x`` or ``q`` is complex.
        ShapeError: if an axis is not one of ``x``, or is named twice.

    Example:
        >>> dnp.percentile(np.array([1.0, 2.0, 4.0]), 50)
        array(2.)
    """
    return _quantiles("percentile", x, _shares("percentile", x, q, 100), axis, method, keepdims, False)


@checked(_in_range("nanquantile", 1))
@public
def nanquantile(
    x: ArrayLike, q: ArrayLike, /, axis: Axis = None, *, method: str = "linear", keepdims: bool = False
) -> Array:
    """:func:`quantile` of the elements that are not NaN.

    Args:
        x: array of any real dtype, of any shape.
        q: shares from 0 to 1, a number or an array of any shape.
        axis: axis or axes to reduce; None: all.
        method: any of NumPy's: ``"linear"``, ``"lower"``, ``"higher"``, ``"nearest"``, ``"midpoint"``,
            ``"inverted_cdf"``, ``"averaged_inverted_cdf"``, ``"closest_observation"``, ``"interpolated_inverted_cdf"``,
            ``"hazen"``, ``"weibull"``, ``"median_unbiased"``, ``"normal_unbiased"``.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``q``, then that of ``x`` without the axes; NaN where all elements are.

    Raises:
        InvalidValueError: if ``q`` is a number outside of its range, or ``method`` another one.
        UnsupportedOpError: if ``x`` or ``q`` is complex.
        ShapeError: if an axis is not one of ``x``, or is named twice.
    """
    return _quantiles("nanquantile", x, _shares("nanquantile", x, q, 1), axis, method, keepdims, True)


@checked(_in_range("nanpercentile", 100))
@public
def nanpercentile(
    x: ArrayLike, q: ArrayLike, /, axis: Axis = None, *, method: str = "linear", keepdims: bool = False
) -> Array:
    """:func:`percentile` of the elements that are not NaN.

    Args:
        x: array of any real dtype, of any shape.
        q: percentages from 0 to 100, a number or an array of any shape.
        axis: axis or axes to reduce; None: all.
        method: any of NumPy's: ``"linear"``, ``"lower"``, ``"higher"``, ``"nearest"``, ``"midpoint"``,
            ``"inverted_cdf"``, ``"averaged_inverted_cdf"``, ``"closest_observation"``, ``"interpolated_inverted_cdf"``,
            ``"hazen"``, ``"weibull"``, ``"median_unbiased"``, ``"normal_unbiased"``.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``q``, then that of ``x`` without the axes; NaN where all elements are.

    Raises:
        InvalidValueError: if ``q`` is a number outside of its range, or ``method`` another one.
        UnsupportedOpError: if ``x`` or ``q`` is complex.
        ShapeError: if an axis is not one of ``x``, or is named twice.
    """
    return _quantiles("nanpercentile", x, _shares("nanpercentile", x, q, 100), axis, method, keepdims, True)


# ---- medians ---------------------------------------------------------------------------------------------------------


def _median(what: str, x: ArrayLike, axis: Axis, keepdims: bool, ignore_nan: bool) -> Tracer:
    """The mean of the two elements in the middle, which are one where the number of elements is odd."""
    rows, axes = _rows(what, x, axis)
    ordered, count, poisoned = _sorted_rows(rows, ignore_nan)
    counts: Array = view(count, (*shape_of(count), 1))
    halves = (
        emit("shift_right_logical", c, filled(c, 1)) for c in (emit("subtract", counts, filled(counts, 1)), counts)
    )
    low, high = (_at(ordered, half, counts) for half in halves)
    element = to_float(low.element_type)
    wide = element.wide
    both: Array = emit("add", cast(low, wide), cast(high, wide))
    found = both / 2
    missing = counts == 0 if poisoned is None else (counts == 0) | view(poisoned, shape_of(counts))
    found = cast(where(missing, float("nan"), found), element)
    return _shaped(found, x, size_of(found, 0), axes, keepdims)


@public
def median(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """Middle element along axes in their order, or the mean of the two middle ones.

    Args:
        x: array of any real dtype, of any shape.
        axis: axis or axes to reduce; None: all.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``x`` without the axes; of integers in the default float dtype. NaN where an element is
        NaN, and of no elements.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
        ShapeError: if an axis is not one of ``x``, or is named twice.

    Example:
        >>> dnp.median(np.array([3.0, 1.0, 2.0, 10.0]))
        array(2.5)
    """
    return _median("median", x, axis, keepdims, False)


@public
def nanmedian(x: ArrayLike, /, axis: Axis = None, *, keepdims: bool = False) -> Array:
    """:func:`median` of the elements that are not NaN.

    Args:
        x: array of any real dtype, of any shape.
        axis: axis or axes to reduce; None: all.
        keepdims: whether these axes stay, with size 1.

    Returns:
        An array of the shape of ``x`` without the axes; NaN where all elements are.

    Raises:
        UnsupportedOpError: if ``x`` is complex.
        ShapeError: if an axis is not one of ``x``, or is named twice.
    """
    return _median("nanmedian", x, axis, keepdims, True)
