"""Differences and integrals of sampled functions."""

from __future__ import annotations

import math
from typing import Any

from dyn.errors import InvalidValueError, ShapeError
from dyn.numpy._axes import all_axes, one_axis, text_of
from dyn.numpy._binary import remainder
from dyn.numpy._cumulative import cumsum
from dyn.numpy._indexing.getitem import getitem
from dyn.numpy._indexing.selection import diff, where
from dyn.numpy._joining import concatenate
from dyn.numpy._manipulation import view
from dyn.numpy._operands import cast, operand, promote, shape_of, to_float
from dyn.numpy._public import Array, ArrayLike, Axis, public
from dyn.numpy._reductions import sum as sum_of
from dyn.numpy._sorting.search import array_of, demand_elements, vector
from dyn.numpy._unary import abs as abs_of
from dyn.numpy._unary import real_float
from dyn.shapes import product
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["ediff1d", "gradient", "trapezoid", "unwrap"]


def _at(x: Tracer, axis: int, part: slice) -> Array:
    return getitem(x, (slice(None),) * axis + (part,))


@public
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """Integral along an axis by the trapezoidal rule.

    Args:
        y: array of any dtype: heights, of integers in the default float dtype.
        x: places of the heights: a vector as long as the axis, or an array with the axes of ``y``; None: they lie
            ``dx`` apart.
        dx: distance, or the vector of the distances, where ``x`` is not given.
        axis: axis to integrate along.

    Returns:
        An array of the shape of ``y`` without the axis; 0 of one height or none.

    Raises:
        ShapeError: if ``axis`` is not one of ``y``, or the sizes do not fit.

    Example:
        >>> dnp.trapezoid(np.array([1.0, 2.0, 3.0]))
        array(4.)
    """
    value = operand("trapezoid", y, x, dx)
    value = cast(value, to_float(value.element_type))
    number = one_axis("trapezoid", axis, value.ndim)
    width: Any = dx
    if x is not None:
        places = array_of("trapezoid", x, value)
        if places.ndim == 1:
            steps = diff(places)
            width = view(steps, tuple(shape_of(steps)[0] if a == number else 1 for a in range(value.ndim)))
        else:
            width = diff(places, axis=one_axis("trapezoid", axis, places.ndim))
    elif getattr(dx, "ndim", 0):
        steps = vector("trapezoid", array_of("trapezoid", dx, value))
        width = view(steps, tuple(shape_of(steps)[0] if a == number else 1 for a in range(value.ndim)))
    means = (_at(value, number, slice(1, None)) + _at(value, number, slice(None, -1))) / 2
    return sum_of(means * width, number)


@public
def ediff1d(x: ArrayLike, /, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """Differences of neighbours among all elements, with others before and behind them.

    Args:
        x: array of any dtype, which is flattened.
        to_end: elements to put behind the differences, in any shape.
        to_begin: elements to put before them.

    Returns:
        A vector of the dtype of ``x``, of ``max(x.size - 1, 0)`` elements and those that were given.

    Example:
        >>> dnp.ediff1d(np.array([1, 4, 9]), to_begin=0)
        array([0, 3, 5])
    """
    value = array_of("ediff1d", x, to_end, to_begin)
    parts = [diff(view(value, (product(shape_of(value)),)))]
    for given, place in ((to_begin, 0), (to_end, len(parts) + 1)):
        if given is not None:
            more = cast(array_of("ediff1d", given, value), value.element_type)
            parts.insert(place, view(more, (product(shape_of(more)),)))
    return concatenate(parts)


@public
def unwrap(p: ArrayLike, /, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi) -> Array:
    """Steps of more than half a period taken the short way round, along an axis.

    Args:
        p: array of any real dtype: angles in radians unless ``period`` says otherwise.
        discont: steps of less stay as they are; it counts where it is more than half the period. None: half the period.
        axis: axis along which elements follow one another.
        period: length of the circle.

    Returns:
        An array of the shape of ``p``, in its dtype; of integers in the default float dtype.

    Raises:
        UnsupportedOpError: if ``p`` is complex.
        ShapeError: if ``axis`` is not one of ``p``.

    Example:
        >>> dnp.unwrap(np.array([0.0, 3.0, 6.5]), period=4)
        array([ 0. , -1. , -1.5])
    """
    (value,) = real_float("unwrap", p)
    number = one_axis("unwrap", axis, value.ndim)
    half = period / 2
    limit = half if discont is None else max(discont, half)
    steps: Array = diff(value, axis=number)
    short = remainder(steps + half, period) - half
    short = where((short == -half) & (steps > 0), half, short)  # a step of half a period keeps its direction
    change = where(abs_of(steps) < limit, 0, short - steps)
    moved = _at(value, number, slice(1, None)) + cumsum(change, axis=number)
    return concatenate([_at(value, number, slice(None, 1)), moved], axis=number)


# ---- gradient --------------------------------------------------------------------------------------------------------


@public
def gradient(f: ArrayLike, /, *varargs: ArrayLike, axis: Axis = None, edge_order: int = 1) -> Any:
    """Derivatives along axes by central differences, and one-sided ones at the ends.

    Uneven distances have B. Fornberg's weights of second order ("Generation of finite difference formulas on
    arbitrarily spaced grids", 1988), as in NumPy.

    Args:
        f: array of any dtype: samples, of integers in the default float dtype.
        *varargs: distances: none: 1; one: for all axes; or one for each axis, a number or the vector of its places.
        axis: axis or axes to differentiate along; None: all.
        edge_order: order of the differences at the ends, 1 or 2.

    Returns:
        An array of the shape of ``f``, or a list of them, one for each axis where there are several.

    Raises:
        ShapeError: if an axis has fewer than ``edge_order + 1`` elements, at the call at the latest, or if distances
            are missing.
        InvalidValueError: if ``edge_order`` is another one.

    Example:
        >>> dnp.gradient(np.array([1.0, 4.0, 9.0]))
        array([3., 4., 5.])
    """
    (value,) = promote("gradient", f, choose=to_float)
    axes = all_axes("gradient", axis, value.ndim)
    if isinstance(axis, tuple | list):
        axes = tuple(one_axis("gradient", a, value.ndim) for a in axis)
    if edge_order not in (1, 2):
        raise InvalidValueError(f"gradient: the edge order is {edge_order!r}.", loc=user_loc(), remedy="use 1 or 2.")
    spacings = list(varargs) if varargs else [1.0]
    if len(spacings) == 1:
        spacings = spacings * len(axes)
    if len(spacings) != len(axes):
        raise ShapeError(
            f"gradient: {len(spacings)} distances are given for {len(axes)} axes of {text_of(value)}.",
            loc=user_loc(),
            remedy="give one for all axes, or one for each.",
        )
    found: list[Array] = []
    for number, spacing in zip(axes, spacings, strict=True):
        demand_elements("gradient", value, number, edge_order + 1)
        if isinstance(spacing, list) or getattr(spacing, "ndim", 0):
            places = vector("gradient", array_of("gradient", spacing, value))
            found.append(_uneven(value, number, places, edge_order))
        else:
            found.append(_even(value, number, spacing, edge_order))
    return found[0] if len(found) == 1 else found


def _even(f: Tracer, axis: int, h: Any, order: int) -> Tracer:
    middle = (_at(f, axis, slice(2, None)) - _at(f, axis, slice(None, -2))) / (2 * h)
    ends: list[Array] = []
    for sign, places in ((1, (0, 1, 2)), (-1, (-1, -2, -3))):
        values = [_at(f, axis, _only(p)) for p in places[: order + 1]]
        weights = (-1, 1) if order == 1 else (-1.5, 2, -0.5)
        ends.append(sign * sum(v * w for v, w in zip(values, weights, strict=True)) / h)
    return concatenate([ends[0], middle, ends[1]], axis=axis)


def _only(place: int) -> slice:
    """The slice of one element."""
    return slice(place, place + 1 if place != -1 else None)


def _uneven(f: Tracer, axis: int, x: Tracer, order: int) -> Tracer:
    """Differences that are exact for parabolas, at places of any distance."""
    gaps: Array = diff(x)

    def along(v: Tracer) -> Array:
        return view(v, tuple(shape_of(v)[0] if a == axis else 1 for a in range(f.ndim)))

    before, behind = along(getitem(gaps, slice(None, -1))), along(getitem(gaps, slice(1, None)))
    left, own, right = (_at(f, axis, s) for s in (slice(None, -2), slice(1, -1), slice(2, None)))
    middle = (
        left * (-behind / (before * (before + behind)))
        + own * ((behind - before) / (before * behind))
        + right * (before / (behind * (before + behind)))
    )
    ends: list[Array] = []
    for sign, places in ((1, (0, 1, 2)), (-1, (-1, -2, -3))):
        near, far = (along(getitem(gaps, _only(p))) for p in (places[0], places[1] if order == 2 else places[0]))
        values = [_at(f, axis, _only(p)) for p in places[: order + 1]]
        if order == 1:
            ends.append(sign * (values[1] - values[0]) / near)
            continue
        weights = (-(2 * near + far) / (near * (near + far)), (near + far) / (near * far), -near / (far * (near + far)))
        ends.append(sign * sum(v * w for v, w in zip(values, weights, strict=True)))
    return concatenate([ends[0], middle, ends[1]], axis=axis)
