"""Special functions of NumPy, and the windows that are made of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dyn import dtypes
from dyn.numpy._axes import shape_in
from dyn.numpy._creation import indices
from dyn.numpy._indexing.selection import where
from dyn.numpy._operands import cast, default_float, emit, made
from dyn.numpy._public import Array, ArrayLike, Size, public, trace_of
from dyn.numpy._trig import cos, sin
from dyn.numpy._unary import abs as abs_of
from dyn.numpy._unary import composed, exp, filled, real_float, sqrt
from dyn.shapes import dim_max
from dyn.trace.tracer import Tracer

__all__ = ["bartlett", "blackman", "hamming", "hanning", "i0", "kaiser", "sinc"]


@public
def sinc(x: ArrayLike, /) -> Array:
    """``sin(pi * x) / (pi * x)``, element by element, and 1 at 0.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.sinc(np.array([0.0, 0.5]))
        array([1.        , 0.63661977])
    """
    (value,) = real_float("sinc", x)

    def formula(v: Array) -> Array:
        # Around 0 Taylor's series, of which every derivative is right: that of the quotient cancels there.
        small = abs_of(v) < 0.25
        square = where(small, v * math.pi, 0.0) ** 2
        series = square * _SINC[-1] + _SINC[-2]
        for factor in reversed(_SINC[:-2]):
            series = series * square + factor
        angle = where(small, 1.0, v) * math.pi
        return where(small, series, sin(angle) / angle)

    return composed(formula, value)


#: Taylor's coefficients of ``sin(t) / t`` in powers of ``t**2``: below pi / 4 the rest is 1e-19 of it.
_SINC = tuple((-1) ** k / math.factorial(2 * k + 1) for k in range(9))


#: ``exp(-x) * i0(x)`` for 0 <= x <= 8 as Chebyshev polynomials of ``x / 4 - 1``, computed with 40 digits.
_NEAR = (
    0.33839763720473803, -0.3046826723431984, 0.17162090152220877, -0.09490109704804764, 0.04930528423967071,
    -0.02373741480589947, 0.010546460394594998, -0.004324309995050576, 0.0016394756169413357, -0.0005763755745385824,
    0.00018850288509584165, -5.754195010082104e-05, 1.6448448070728896e-05, -4.4167383584587505e-06,
    1.1173875391201037e-06, -2.670793853940612e-07, 6.046995022541919e-08, -1.300025009986248e-08,
    2.6598237246823866e-09, -5.189795601635263e-10, 9.675809035373237e-11, -1.726826291441556e-11,
    2.95505266312964e-12, -4.856446783111929e-13, 7.676185498604936e-14, -1.1685332877993451e-14,
    1.715391285555133e-15, -2.431279846547955e-16, 3.3307945188222384e-17, -4.4153416464793395e-18,
)  # fmt: skip
#: ``sqrt(x) * exp(-x) * i0(x)`` for x >= 8 as Chebyshev polynomials of ``16 / x - 1``, computed with 40 digits.
_FAR = (
    0.4022452055070544, 0.0033691164782556943, 6.889758346916825e-05, 2.8913705208347567e-06, 2.0489185894690638e-07,
    2.266668990498178e-08, 3.3962320257083865e-09, 4.94060238822497e-10, 1.1889147107846439e-11,
    -3.1499165279632416e-11, -1.3215811840447713e-11, -1.7941785315068062e-12, 7.180124451383666e-13,
    3.8527783827421426e-13, 1.54008621752141e-14, -4.150569347287222e-14, -9.554846698828307e-15,
    3.811680669352621e-15, 1.7725601330565245e-15, -3.425485619677142e-16, -2.827623980516646e-16,
    3.461222867695658e-17, 4.465621420302078e-17, -4.8305044859640105e-18, -7.233180488043844e-18,
)  # fmt: skip


def _chebyshev(x: Array, coefficients: Sequence[float]) -> Array:
    """The sum of Chebyshev polynomials by C. W. Clenshaw's recurrence (MTAC 9, 1955)."""
    first, second = x * 0, x * 0
    for c in reversed(coefficients[1:]):
        first, second = 2 * x * first - second + c, first
    return x * first - second + coefficients[0]


def _scaled_i0(size: Array, element: dtypes.DType) -> Array:
    """``exp(-x) * i0(x)`` of ``x >= 0``."""
    least = 1e-9 if element is dtypes.float32 else 1e-18
    near, far = ([c for c in part if math.fabs(c) > least] for part in (_NEAR, _FAR))
    outside = size > 8
    inner, outer = where(outside, 8.0, size), where(outside, size, 8.0)
    return where(outside, _chebyshev(16 / outer - 1, far) / sqrt(outer), _chebyshev(inner / 4 - 1, near))


@public
def i0(x: ArrayLike, /) -> Array:
    """Modified Bessel function of the first kind, of order 0, element by element.

    Computed by Chebyshev series of ``exp(-x) * i0(x)`` below 8 and of ``sqrt(x) * exp(-x) * i0(x)`` above (C. W.
    Clenshaw, "Chebyshev series for mathematical functions", 1962), whose coefficients were computed with 40 digits.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype. Infinite
        where it overflows.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.i0(np.array([0.0, 1.0]))
        array([1.        , 1.26606588])
    """
    (value,) = real_float("i0", x)

    def formula(v: Tracer) -> Tracer:
        size = abs_of(v)
        return exp(size) * _scaled_i0(size, v.element_type)

    return composed(formula, value)


# ---- windows ---------------------------------------------------------------------------------------------------------


def _numbers(what: str, M: Size) -> tuple[Array, Array]:
    """The numbers from 0 to M - 1, and the last of them (1 where it is less), as float64."""
    trace = trace_of(M)
    (count,) = shape_in(trace, M, what)
    numbers = indices(trace, (count,), 0, dtypes.float64)
    return numbers, made(trace, "dim_size", size=trace.facts.simplify(dim_max(count - 1, 1)), dtype=dtypes.float64)


def _window(numbers: Tracer, value: Tracer, alone: Array) -> Tracer:
    """The window in the default float; of a single element it is 1."""
    return cast(where(alone, 1.0, value), default_float())


def _alone(M: Size) -> Array:
    """Tell whether a window has one element."""
    trace = trace_of(M)
    (count,) = shape_in(trace, M, "a window")
    size = made(trace, "dim_size", size=count, dtype=dtypes.int64)
    return emit("compare", size, filled(size, 1), direction="EQ")


def _cosines(what: str, M: Size, weights: Sequence[float]) -> Array:
    numbers, last = _numbers(what, M)
    total: Array = numbers * 0 + weights[0]
    for order, weight in enumerate(weights[1:], 1):
        total = total + weight * cos(numbers * (2 * math.pi * order) / last)
    return _window(numbers, total, _alone(M))


@public
def bartlett(M: Size) -> Array:
    """Bartlett window: a triangle that is 0 at both ends and 1 in the middle.

    Args:
        M: number of points, an int or a dimension such as ``x.shape[0]``.

    Returns:
        An array of the default float dtype, of shape ``(M,)``: nothing for 0, ``[1]`` for 1.

    Raises:
        ShapeError: if ``M`` is negative.

    Example:
        >>> dnp.bartlett(5)
        dyn.Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    numbers, last = _numbers("bartlett", M)
    return _window(numbers, 1 - abs_of(2 * numbers / last - 1), _alone(M))


@public
def blackman(M: Size) -> Array:
    """Blackman window: ``0.42 - 0.5 cos(t) + 0.08 cos(2 t)``, with t from 0 to 2 pi.

    Args:
        M: number of points, an int or a dimension such as ``x.shape[0]``.

    Returns:
        An array of the default float dtype, of shape ``(M,)``: nothing for 0, ``[1]`` for 1.

    Raises:
        ShapeError: if ``M`` is negative.
    """
    return _cosines("blackman", M, (0.42, -0.5, 0.08))


@public
def hamming(M: Size) -> Array:
    """Hamming window: ``0.54 - 0.46 cos(t)``, with t from 0 to 2 pi.

    Args:
        M: number of points, an int or a dimension such as ``x.shape[0]``.

    Returns:
        An array of the default float dtype, of shape ``(M,)``: nothing for 0, ``[1]`` for 1.

    Raises:
        ShapeError: if ``M`` is negative.

    Example:
        >>> dnp.hamming(5)
        dyn.Array([0.08, 0.54, 1.  , 0.54, 0.08], dtype=float32)
    """
    return _cosines("hamming", M, (0.54, -0.46))


@public
def hanning(M: Size) -> Array:
    """Hann window: ``0.5 - 0.5 cos(t)``, with t from 0 to 2 pi.

    Args:
        M: number of points, an int or a dimension such as ``x.shape[0]``.

    Returns:
        An array of the default float dtype, of shape ``(M,)``: nothing for 0, ``[1]`` for 1.

    Raises:
        ShapeError: if ``M`` is negative.

    Example:
        >>> dnp.hanning(5)
        dyn.Array([0. , 0.5, 1. , 0.5, 0. ], dtype=float32)
    """
    return _cosines("hanning", M, (0.5, -0.5))


@public
def kaiser(M: Size, beta: ArrayLike) -> Array:
    """Kaiser window: ``i0(beta * sqrt(1 - t**2)) / i0(beta)``, with t from -1 to 1.

    Args:
        M: number of points, an int or a dimension such as ``x.shape[0]``.
        beta: a number, or an array without axes: the greater, the narrower the window; 0 gives ones.

    Returns:
        An array of the default float dtype, of shape ``(M,)``: nothing for 0, ``[1]`` for 1.

    Raises:
        ShapeError: if ``M`` is negative.
    """
    numbers, last = _numbers("kaiser", M)
    height = where(True, beta, cast(last, dtypes.float64))
    ratio = (2 * numbers - last) / last
    return _window(numbers, i0(height * sqrt(where(ratio * ratio < 1, 1 - ratio * ratio, 0.0))) / i0(height), _alone(M))
