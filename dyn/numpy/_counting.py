"""Counts of integers, and histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import InvalidValueError, NotYetError, ShapeError, UnsupportedOpError
from dyn.numpy._axes import shape_in, text_of
from dyn.numpy._binary import minimum
from dyn.numpy._broadcast import expand
from dyn.numpy._creation import linspace
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._indexing.nonzero import scattered
from dyn.numpy._indexing.selection import diff, where
from dyn.numpy._indexing.take import size_of
from dyn.numpy._manipulation import view
from dyn.numpy._operands import cast, emit, in_int64, like, operand, promote, shape_of, size_from_value, to_float
from dyn.numpy._options import check_rising, numbers_in, one_of, whole_number
from dyn.numpy._public import Array, ArrayLike, Size, public
from dyn.numpy._reductions import max as max_of
from dyn.numpy._reductions import min as min_of
from dyn.numpy._reductions import sum as sum_of
from dyn.numpy._sorting.search import array_of, places_in, vector
from dyn.numpy._unary import filled, real_float
from dyn.shapes import Dim, Reason, Relation, RelKind, dim_max, product
from dyn.source import user_loc
from dyn.trace.dims import wrap_dim
from dyn.trace.tracer import Tracer

__all__ = ["bincount", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd"]


def _counted(places: Tracer, weights: Tracer | None, length: Dim) -> Tracer:
    """The sums of the weights, or of ones, at each place; places outside count for nothing."""
    if weights is None:
        weights = filled(places, 1)
    start = emit("broadcast_in_dim", like(weights, 0), shape=(length,), dims=())
    return scattered(start, places, weights, "add")


def _same_size(what: str, weights: Tracer, x: Tracer) -> None:
    for axis, (a, b) in enumerate(zip(shape_of(weights), shape_of(x), strict=False)):
        reason = Reason(f"{what} has a weight for each element on axis {axis}", user_loc())
        x._trace.require(Relation(RelKind.EQ, a, b, reason))
    if weights.ndim != x.ndim:
        raise ShapeError(
            f"{what}: the weights {text_of(weights)} have {weights.ndim} axes, and {text_of(x)} has {x.ndim}.",
            loc=user_loc(),
            remedy="give one weight for each element.",
        )


def _some(x: Tracer) -> Tracer:
    """Tell whether a vector has an element."""
    size: Array = size_of(x, shape_of(x)[0])
    return size > 0


@public
def bincount(
    x: ArrayLike, weights: ArrayLike | None = None, minlength: Size = 0, *, length: Size | None = None
) -> Array:
    """Count of each of the numbers 0, 1, 2, … in a vector, or the sum of weights of each.

    As in JAX negative integers count as 0, where NumPy raises, and those of ``length`` or more are left out.

    Args:
        x: vector of integers or booleans.
        weights: vector of as many numbers; None: all are 1.
        minlength: least size of the result, an int or a dimension.
        length: size of the result, an int or a dimension; None: one more than the greatest integer, found out when the
            program runs.

    Returns:
        A vector of int64 counts, or of sums in the dtype of the weights, of integers in the default float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is not of integers.
        ShapeError: if ``x`` is no vector, or there is not a weight for each, at the call at the latest.

    Example:
        >>> dnp.bincount(np.array([1, 3, 1]))
        array([0, 2, 0, 1])
    """
    value = vector("bincount", array_of("bincount", x, weights, minlength, length))
    if not (value.element_type.is_integer or value.element_type is dtypes.bool_):
        raise UnsupportedOpError(
            f"bincount counts integers, not {value.element_type.name}.",
            loc=user_loc(),
            remedy="convert the array with .astype('int32').",
        )
    places = in_int64(value)
    places = emit("maximum", places, filled(places, 0))
    if length is None:
        most: Array = minimum(max_of(places, initial=0), 2**63 - 2) + 1
        count = where(_some(places), most, 0)
        length = wrap_dim(
            value._trace, size_from_value(count, "bincount", "one more than the greatest number of bincount")
        )
    trace = value._trace
    count, least = shape_in(trace, (length, minlength), "bincount")
    own: Tracer | None = None
    if weights is not None:
        own = array_of("bincount", weights, value)
        own = cast(own, to_float(own.element_type))
        _same_size("bincount", own, value)
    ones = filled(cast(value, dtypes.int64), 1)
    return _counted(places, ones if own is None else own, trace.facts.simplify(dim_max(count, least)))


# ---- bins ------------------------------------------------------------------------------------------------------------


#: NumPy's rules for the number of bins.
_RULES = ("auto", "doane", "fd", "rice", "scott", "sqrt", "stone", "sturges")


def _bin_count(what: str, bins: Any) -> int:
    if isinstance(bins, str):
        one_of(what, "rule for bins", bins, _RULES)
        raise NotYetError(
            f"{what} with bins={bins!r} has a data-dependent shape; data-dependent shapes come later.",
            loc=user_loc(),
            remedy="give the number of bins, or their edges.",
        )
    return whole_number(what, "the number of bins", bins, 1)


def _check_limits(what: str, limits: Any) -> None:
    """Check the two ends of bins as far as they are numbers that are known."""
    numbers = numbers_in(list(limits))
    if len(limits) != 2 or not all(map(math.isfinite, numbers)) or numbers != sorted(numbers):
        raise InvalidValueError(
            f"{what}: range is {limits!r}.", loc=user_loc(), remedy="give two finite numbers, the lower one first."
        )


def _edges(what: str, x: Tracer, bins: Any, limits: Any, element: DType) -> Tracer:
    """The edges of bins: as they are given, or of equal width between the limits, or the least and the greatest."""
    if (hasattr(bins, "shape") and getattr(bins, "shape", ()) != ()) or isinstance(bins, list | tuple):
        check_rising(what, "bins", bins)
        return vector(what, array_of(what, bins, x))
    count = _bin_count(what, bins)
    low: Array
    high: Array
    if limits is None:
        wide = cast(x, element)
        low, high = min_of(wide, initial=float("inf")), max_of(wide, initial=-float("inf"))
        nothing = emit("compare", size_of(x, product(shape_of(x))), like(size_of(x, 0), 0), direction="EQ")
        low, high = where(nothing, 0.0, low), where(nothing, 1.0, high)
    else:
        _check_limits(what, limits)
        low, high = (cast(promote(what, x, v)[1], element) for v in limits)
    same = low == high
    low, high = where(same, low - 0.5, low), where(same, high + 0.5, high)
    return linspace(low, high, count + 1, dtype=element)


def _bin_of(x: Tracer, edges: Tracer) -> Tracer:
    """The number of the bin that each element lies in, the last one with both its edges; -1 for none."""
    (size,) = shape_of(edges)
    x, edges = promote("histogram", x, edges)
    place: Array = places_in(edges, x, True)
    at_end = emit("compare", x, expand(getitem(edges, -1), shape_of(x)), direction="EQ")
    bins: Array = size_of(edges, size - 1)
    number = where(at_end, bins, place) - 1
    outside = (number >= bins) | emit("compare", x, x, direction="NE")
    return where(outside, -1, number)


@public
def histogram_bin_edges(a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None) -> Array:
    """Edges of the bins of :func:`histogram`.

    Args:
        a: array of any real dtype: elements to count.
        bins: number of bins, an int, or a vector of rising edges.
        range: least and greatest edge, a pair; None: the least and greatest element, 0 and 1 of none.
        weights: taken for NumPy's sake; edges do not depend on them.

    Returns:
        A vector of ``bins + 1`` edges, in the dtype of ``a``, of integers in the default float dtype.

    Raises:
        InvalidValueError: if there is no bin, edges do not rise, or ``range`` is no pair of finite rising numbers.
        NotYetError: if ``bins`` is the name of a rule, such as ``"auto"``.

    Example:
        >>> dnp.histogram_bin_edges(np.array([0.0, 4.0]), 2)
        array([0., 2., 4.])
    """
    value = array_of("histogram_bin_edges", a, bins)
    return _edges("histogram_bin_edges", value, bins, range, to_float(value.element_type))


@public
def histogram(
    a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None, density: bool = False
) -> tuple[Array, Array]:
    """Counts of the elements in each of a row of bins.

    A bin has its lower edge, the last one both. Elements outside, and NaN, are left out.

    Args:
        a: array of any real dtype, of any shape.
        bins: number of bins of equal width, an int, or a vector of rising edges, whose size may be symbolic.
        range: least and greatest edge, a pair; None: the least and greatest element, 0 and 1 of none.
        weights: array of the shape of ``a``: how much each element counts; None: 1.
        density: whether counts are scaled so that their integral is 1.

    Returns:
        The counts, int64, or sums in the weights' dtype, or floats with ``density``; and the edges, one more.

    Raises:
        InvalidValueError: if there is no bin, edges do not rise, or ``range`` is no pair of finite rising numbers.
        NotYetError: if ``bins`` is the name of a rule, such as ``"auto"``.
        UnsupportedOpError: if ``a`` is complex.
        ShapeError: if there is not a weight for each element, at the call at the latest.

    Example:
        >>> dnp.histogram(np.array([0.0, 1.0, 4.0]), 2)
        (array([2, 1]), array([0., 2., 4.]))
    """
    value = array_of("histogram", a, bins, weights)
    (wide,) = real_float("histogram", value)
    edges = _edges("histogram", wide, bins, range, wide.element_type)
    flat = view(wide, (product(shape_of(wide)),))
    own = None if weights is None else array_of("histogram", weights, value)
    if own is not None:
        _same_size("histogram", own, value)
        own = view(own, shape_of(flat))
    found = _counted(_bin_of(flat, edges), own, shape_of(edges)[0] - 1)
    if not density:
        return found, edges
    counts: Array = cast(found, wide.element_type)
    return counts / diff(edges) / sum_of(counts), edges


@public
def histogramdd(
    sample: ArrayLike | Sequence[ArrayLike], bins: Any = 10, range: Any = None, weights: ArrayLike | None = None,
    density: bool = False,
) -> tuple[Array, list[Array]]:  # fmt: skip
    """Counts of points in the cells of a grid of bins.

    Args:
        sample: matrix with a row for each point, whose number of columns is known, or a list of vectors of coordinates.
        bins: number of bins or vector of edges for all coordinates, or a list with one for each.
        range: list of pairs, the least and greatest edge of each coordinate; None: the least and greatest element.
        weights: vector with how much each point counts; None: 1.
        density: whether counts are scaled so that their integral is 1.

    Returns:
        The counts as floats, as in NumPy, with an axis for each coordinate; and the list of their edges.

    Raises:
        ShapeError: if there are not bins, ranges and weights for all, or the number of columns is symbolic.
        InvalidValueError: if there is no bin, edges do not rise, or a range is no pair of finite rising numbers.
        NotYetError: if ``bins`` is the name of a rule, such as ``"auto"``.
        UnsupportedOpError: if ``sample`` is complex.

    Example:
        >>> dnp.histogramdd([np.array([0.0, 1.0]), np.array([0.0, 1.0])], 2)[0]
        array([[1., 0.],
               [0., 1.]])
    """
    coordinates = _coordinates(sample, weights)
    count = len(coordinates)
    several = list(bins) if isinstance(bins, list | tuple) else [bins] * count
    limits: list[Any] = [None] * count if range is None else list(range)
    if len(several) != count or len(limits) != count:
        raise ShapeError(
            f"histogramdd: there are {count} coordinates, {len(several)} bins and {len(limits)} ranges.",
            loc=user_loc(),
            remedy="give one of each for each coordinate, or a number of bins for all.",
        )
    edges = [
        _edges("histogramdd", x, b, r, x.element_type) for x, b, r in zip(coordinates, several, limits, strict=True)
    ]
    dims = [shape_of(e)[0] - 1 for e in edges]
    flat: Array = filled(cast(coordinates[0], dtypes.int64), 0)
    outside: Array = filled(cast(coordinates[0], dtypes.bool_), False)
    for x, e, size in zip(coordinates, edges, dims, strict=True):
        number: Array = _bin_of(x, e)
        outside = outside | (number < 0)
        flat = flat * expand(size_of(x, size), shape_of(x)) + number
    own = filled(coordinates[0], 1) if weights is None else array_of("histogramdd", weights, flat)
    own = cast(own, to_float(own.element_type))
    _same_size("histogramdd", own, flat)
    counts: Array = view(_counted(where(outside, -1, flat), own, product(dims)), tuple(dims))
    if not density:
        return counts, list(edges)
    total = sum_of(counts)
    for axis, e in enumerate(edges):
        width = diff(e)
        counts = counts / view(width, tuple(shape_of(width)[0] if a == axis else 1 for a in _axes(dims)))
    return counts / total, list(edges)


def _axes(dims: Sequence[Dim]) -> Sequence[int]:
    return tuple(number for number, _ in enumerate(dims))


def _coordinates(sample: Any, weights: Any) -> list[Tracer]:
    """The coordinates of points as vectors of one float dtype."""
    if isinstance(sample, list | tuple):
        return [vector("histogramdd", x) for x in real_float("histogramdd", *sample)]
    (value,) = real_float("histogramdd", operand("histogramdd", sample, weights))
    if value.ndim != 2 or not isinstance(shape_of(value)[1], int):
        raise ShapeError(
            f"histogramdd takes a row for each point: {text_of(value)} has no known number of coordinates.",
            loc=user_loc(),
            remedy="pass a list of vectors, one for each coordinate.",
        )
    columns = shape_of(value)[1]
    assert isinstance(columns, int)
    return [getitem(value, (slice(None), number)) for number in _axes([0] * columns)]


@public
def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None,
    density: bool = False,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Counts of points of the plane in the cells of a grid of bins: :func:`histogramdd` of two coordinates.

    Args:
        x: vector of first coordinates.
        y: vector of as many second coordinates.
        bins: number of bins or vector of edges for both, or a pair with one for each.
        range: pair of pairs, the least and greatest edge of each coordinate; None: the least and greatest element.
        weights: vector with how much each point counts; None: 1.
        density: whether counts are scaled so that their integral is 1.

    Returns:
        The counts as floats, a matrix, the edges of the rows, and those of the columns.

    Raises:
        ShapeError: if the vectors are not equally long, at the call at the latest.
        InvalidValueError: if there is no bin, edges do not rise, or a range is no pair of finite rising numbers.
        NotYetError: if ``bins`` is the name of a rule, such as ``"auto"``.
        UnsupportedOpError: if a coordinate is complex.
    """
    pair = bins if isinstance(bins, list | tuple) and len(bins) == 2 else (bins, bins)
    found, edges = histogramdd((x, y), pair, range, weights, density)
    return found, edges[0], edges[1]
