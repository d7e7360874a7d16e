"""Places in sorted arrays, and what is found by them: steps, bins, membership, interpolation."""

from __future__ import annotations

from typing import Any

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import InvalidValueError, ShapeError, UnsupportedOpError
from dyn.numpy._axes import text_of
from dyn.numpy._broadcast import expand
from dyn.numpy._creation import asarray
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._indexing.selection import where
from dyn.numpy._indexing.take import size_of
from dyn.numpy._joining import concatenate
from dyn.numpy._logic import isfinite, isnan, logical_not
from dyn.numpy._manipulation import flip, view
from dyn.numpy._operands import cast, emit, like, operand, promote, shape_of, to_float, tracer
from dyn.numpy._options import check_rising, one_of
from dyn.numpy._public import Array, ArrayLike, checked, public, trace_of
from dyn.numpy._reductions import any as any_of
from dyn.numpy._reductions import fold
from dyn.numpy._sorting.sort import argsort, sort
from dyn.numpy._unary import filled, real_float
from dyn.ops.indexing.gather import take_attrs
from dyn.shapes import Dim, Reason, Relation, RelKind, SymExpr, dim_max
from dyn.source import user_loc
from dyn.trace import control
from dyn.trace.tracer import Tracer

__all__ = ["digitize", "interp", "isin", "searchsorted"]

#: Tables of a known size up to this are compared with as a whole, which fuses with what is around it.
_COMPARED = 32


def array_of(what: str, value: Any, *others: Any) -> Tracer:
    """An operand that may be a list."""
    if isinstance(value, list | tuple):
        value = asarray(value)
    return operand(what, value, *others)


def vector(what: str, x: Tracer) -> Tracer:
    """``x``, which has to have one axis."""
    if x.ndim != 1:
        raise ShapeError(
            f"{what} takes a vector there: {text_of(x)} has {x.ndim} axes.",
            loc=user_loc(),
            remedy="use .reshape(-1), or vmap over the other axes.",
        )
    return x


def never_empty(x: Tracer, axis: int, fill: float = 0) -> Tracer:
    """``x`` with one element along an axis that has none, so that elements may be taken from it."""
    more = x._trace.facts.simplify(dim_max(1 - shape_of(x)[axis], 0))
    if not isinstance(more, SymExpr) and not more:
        return x
    none: tuple[Dim, ...] = (0,) * x.ndim
    high = tuple(more if a == axis else 0 for a in range(x.ndim))
    return emit("pad", x, like(x, fill), edge_padding_low=none, edge_padding_high=high, interior_padding=none)


def demand_elements(what: str, x: Tracer, axis: int, least: int) -> None:
    """Demand that an axis has so many elements at least: proved, or checked at each call."""
    size = shape_of(x)[axis]
    text = f"{what} needs {least} element{'s' if least > 1 else ''} or more on axis {axis} of {text_of(x)}"
    x._trace.require(Relation(RelKind.GE, size, least, Reason(text, user_loc())))


def before(x: Tracer, y: Tracer) -> Tracer:
    """``x < y`` in the order of sorted arrays, where NaN is more than any number."""
    less = emit("compare", x, y, direction="LT")
    if not x.element_type.is_float:
        return less
    ordered = emit("compare", x, x, direction="EQ")
    return emit("or", less, emit("and", ordered, emit("compare", y, y, direction="NE")))


def _sided(side: str) -> bool:
    one_of("searchsorted", "side", side, ("left", "right"))
    return side == "right"


def _precedes(probe: Tracer, values: Tracer, right: bool) -> Tracer:
    """Tell whether an element of the table stands before the place where a value belongs."""
    if not right:
        return before(probe, values)
    return emit("xor", before(values, probe), filled(cast(probe, dtypes.bool_), True))


def places_in(table: Tracer, values: Tracer, right: bool) -> Tracer:
    """The places that values belong to in a sorted vector of their dtype, as int64.

    A binary search of all values together: the place grows by powers of two, the greatest first, as long as what
    stands before it stands before the value.
    """
    (size,) = shape_of(table)
    if isinstance(size, int) and size <= _COMPARED:
        rank = values.ndim
        shape = (*shape_of(values), size)
        spread = emit("broadcast_in_dim", values, shape=shape, dims=tuple(range(rank)))
        row = emit("broadcast_in_dim", table, shape=shape, dims=(rank,))
        return fold(cast(_precedes(row, spread, right), dtypes.int64), "add", (rank,), False)
    table = never_empty(table, 0)
    count = size_of(table, size)
    width = emit("subtract", filled(count, 63), emit("count_leading_zeros", count))
    first = emit("select", emit("compare", count, like(count, 0), direction="GT"),
                 emit("shift_left", like(count, 1), width), like(count, 0))  # fmt: skip

    def step(state: tuple[Tracer, Tracer]) -> tuple[Tracer, Tracer]:
        jump, place = state
        inner, shape = place._trace, shape_of(place)
        most, inside = (tracer(inner, v, "searchsorted") for v in (count, table))
        further = emit("add", place, expand(jump, shape))
        fits = emit("compare", further, expand(most, shape), direction="LE")
        at = emit("subtract", further, filled(further, 1))
        probe = emit("gather", inside, at, **take_attrs((size,), 0, len(shape)))
        goes = emit("and", fits, _precedes(probe, tracer(inner, values, "searchsorted"), right))
        return emit("shift_right_logical", jump, like(jump, 1)), emit("select", goes, further, place)

    start = filled(cast(values, dtypes.int64), 0)
    return control.while_loop(trace_of(start), lambda state: state[0] > 0, step, (first, start))[1]


@public
def searchsorted(
    a: ArrayLike, v: ArrayLike, /, side: str = "left", sorter: ArrayLike | None = None, *, method: str = "scan"
) -> Array:
    """Places that elements belong to in a sorted vector, by a binary search of all together.

    Args:
        a: vector of any real dtype, in rising order; NaN is more than any number.
        v: array of any real dtype, of any shape.
        side: ``"left"``: before elements that are equal; ``"right"``: behind them.
        sorter: vector of integers that puts ``a`` into order, as argsort gives it; None: it is in order.
        method: JAX's hint, which changes nothing here.

    Returns:
        An array of int64, of the shape of ``v``: from 0 to the size of ``a``.

    Raises:
        ShapeError: if ``a`` is no vector.
        InvalidValueError: if ``side`` is another one.
        UnsupportedOpError: if one of them is complex.

    Example:
        >>> dnp.searchsorted(np.array([1, 3, 5]), np.array([0, 3, 9]), side="right")
        array([0, 2, 3])
    """
    right = _sided(side)
    table, values = promote("searchsorted", *(asarray(x) if isinstance(x, list | tuple) else x for x in (a, v)))
    _real("searchsorted", vector("searchsorted", table))
    if sorter is not None:
        order = vector("searchsorted", operand("searchsorted", sorter, table))
        table = emit("gather", table, order, **take_attrs(shape_of(table), 0, 1))
    return places_in(table, values, right)


def _real(what: str, x: Tracer) -> Tracer:
    if x.element_type.kind is Kind.COMPLEX:
        raise UnsupportedOpError(
            f"{what} does not take {x.element_type.name}.", loc=user_loc(), remedy="use the real or imaginary part."
        )
    return x


def _monotonic(x: Any = None, bins: Any = (), *_: Any, **__: Any) -> None:
    check_rising("digitize", "bins", bins, either=True)


@checked(_monotonic)
@public
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False, *, method: str | None = None) -> Array:
    """Number of the bin that each element lies in: 0 before the first edge.

    Args:
        x: array of any real dtype, of any shape.
        bins: vector of edges, in rising or falling order, which may be found out when the program runs.
        right: whether an element that is an edge is in the bin that ends there, rather than in the one that begins.
        method: JAX's hint, which changes nothing here.

    Returns:
        An array of int64, of the shape of ``x``.

    Raises:
        InvalidValueError: if ``bins`` is a list in no order.
        ShapeError: if ``bins`` is no vector.
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.digitize(np.array([0.5, 1.0, 7.0]), np.array([1.0, 2.0]))
        array([0, 1, 2])
    """
    values, edges = promote("digitize", *(asarray(v) if isinstance(v, list | tuple) else v for v in (x, bins)))
    vector("digitize", _real("digitize", edges))
    falls = any_of(emit("compare", getitem(edges, slice(1, None)), getitem(edges, slice(None, -1)), direction="LT"))
    rising = where(falls, flip(edges), edges)
    place: Array = places_in(rising, values, not right)
    return where(falls, size_of(edges, shape_of(edges)[0]) - place, place)


@public
def isin(
    element: ArrayLike, test_elements: ArrayLike, /, assume_unique: bool = False, invert: bool = False, *,
    method: str = "auto",
) -> Array:  # fmt: skip
    """Tell of each element whether it is among others; NaN is among nothing.

    Args:
        element: array of any dtype, of any shape.
        test_elements: array of any dtype and shape.
        assume_unique: hint that changes nothing here.
        invert: whether it is told that elements are not among them.
        method: hint that changes nothing here.

    Returns:
        An array of booleans, of the shape of ``element``.

    Example:
        >>> dnp.isin(np.array([1, 2, 3]), np.array([3, 1]))
        array([ True, False,  True])
    """
    values, known = promote(
        "isin", *(asarray(v) if isinstance(v, list | tuple) else v for v in (element, test_elements))
    )
    table = view(known, (known._value.type.size,))
    (size,) = shape_of(table)
    if (isinstance(size, int) and size <= _COMPARED) or table.element_type.kind is Kind.COMPLEX:
        rank, shape = values.ndim, (*shape_of(values), size)
        spread = emit("broadcast_in_dim", values, shape=shape, dims=tuple(range(rank)))
        row = emit("broadcast_in_dim", table, shape=shape, dims=(rank,))
        found = fold(emit("compare", spread, row, direction="EQ"), "or", (rank,), False)
        return logical_not(found) if invert else found
    if table.element_type.kind is Kind.BOOL:
        table, values = cast(table, dtypes.int8), cast(values, dtypes.int8)
    ordered = sort(table)
    place = places_in(ordered, values, False)
    there = emit("gather", never_empty(ordered, 0), place, **take_attrs((size,), 0, values.ndim))
    inside = emit("compare", place, expand(size_of(table, size), shape_of(place)), direction="LT")
    found = emit("and", inside, emit("compare", there, values, direction="EQ"))
    return logical_not(found) if invert else found


# ---- interpolation ---------------------------------------------------------------------------------------------------


@public
def interp(
    x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: Any = None, right: Any = None, period: float | None = None
) -> Array:
    """Heights at given places of the line through points.

    Args:
        x: array of any real dtype: places.
        xp: vector of the points' places, in rising order unless ``period`` is given.
        fp: vector of the points' heights, as many; they may be complex.
        left: height before the first point; None: that of the first; ``"extrapolate"``: the line goes on, as in JAX.
        right: height behind the last point, likewise.
        period: length of a circle that the places lie on; None: they lie on a line. ``left`` and ``right`` do not count
            then.

    Returns:
        An array of the shape of ``x``, in a float dtype that has all of them; NaN where ``x`` is.

    Raises:
        ShapeError: if there is no point, or not a height for each, at the call at the latest.
        InvalidValueError: if ``period`` is 0.
        UnsupportedOpError: if ``x`` or ``xp`` is complex.

    Example:
        >>> dnp.interp(np.array([0.5, 5.0]), np.array([0.0, 1.0]), np.array([10.0, 20.0]))
        array([15., 20.])
    """
    values, points = real_float("interp", x, array_of("interp", xp, x, fp))
    heights = array_of("interp", fp, x)
    heights = cast(heights, dtypes.promote(to_float(heights.element_type), points.element_type))
    if heights.element_type.kind is not Kind.COMPLEX:
        values, points, heights = promote("interp", values, points, heights)
    vector("interp", points)
    demand_elements("interp", points, 0, 1)
    reason = Reason("interp has a height for each point", user_loc())
    points._trace.require(Relation(RelKind.EQ, shape_of(points)[0], shape_of(vector("interp", heights))[0], reason))
    if period is not None:
        if period == 0:
            raise InvalidValueError("interp: the period is 0.", loc=user_loc(), remedy="leave it out.")
        values, points, heights = _on_a_circle(values, points, heights, abs(period))
        left = right = None
    return _on_the_line(values, points, heights, left, right)


def _on_a_circle(x: Array, xp: Array, fp: Array, period: float) -> tuple[Tracer, Tracer, Tracer]:
    """The points in order, between the last one a turn before and the first one a turn later."""
    x, xp = x % period, xp % period
    order = argsort(xp)
    xp, fp = (emit("gather", v, order, **take_attrs(shape_of(xp), 0, 1)) for v in (xp, fp))
    first, last = (slice(None, 1), slice(-1, None))
    lowest: Array = getitem(xp, last)
    highest: Array = getitem(xp, first)
    points = concatenate([lowest - period, xp, highest + period])
    return x, points, concatenate([getitem(fp, last), fp, getitem(fp, first)])


def _on_the_line(x: Array, xp: Array, fp: Array, left: Any, right: Any) -> Tracer:
    (size,) = shape_of(xp)

    def at(table: Array, places: Tracer) -> Array:
        return emit("gather", table, places, **take_attrs((size,), 0, places.ndim))

    first, behind = getitem(xp, 0), getitem(xp, -1)
    ends: list[tuple[Any, Array, Array]] = []
    for given, beyond, end in ((left, x < first, 0), (right, x > behind, -1)):
        if not (isinstance(given, str) and given == "extrapolate"):
            ends.append((getitem(fp, end) if given is None else given, beyond, getitem(xp, end)))
    # What is not taken from the line is put on it nevertheless: an infinite slope would come into the derivative.
    place: Array = where(isnan(x), first, x)
    for _, beyond, end in ends:
        place = where(beyond, end, place)
    last = expand(size_of(xp, size - 1), shape_of(x))
    low = emit("subtract", places_in(xp, place, True), filled(last, 1))
    low = emit("maximum", emit("minimum", low, emit("subtract", last, filled(last, 1))), filled(last, 0))
    high = emit("minimum", emit("add", low, filled(low, 1)), last)
    x0, x1, y0, y1 = at(xp, low), at(xp, high), at(fp, low), at(fp, high)
    # Of points with one x, and of a single one, the line has no slope. At a point the line has the height of that
    # exactly, and its own slope; from or to an infinite height there is none.
    flat = x1 == x0
    at_end = (place == x1) & ~flat
    rise = y1 - y0
    rise = where(flat | ((at_end | (place == x0)) & ~isfinite(rise)), 0, rise) / where(flat, 1, x1 - x0)
    result = where(at_end, y1 - (x1 - place) * rise, y0 + (place - x0) * rise)
    result = where(isnan(x), x, result)
    for height, beyond, _ in ends:
        result = where(beyond, height, result)
    return cast(result, fp.element_type)
