"""Distributions that are functions of other ones. Each follows ``jax.random`` step by step, from the same keys."""

from __future__ import annotations

import dyn.numpy as dnp
from dyn import dtypes
from dyn.dtypes import DType
from dyn.numpy._axes import shape_in
from dyn.numpy._operands import cast, default_float, emit, tracer
from dyn.numpy._public import Array, ArrayLike, DTypeLike, Key, Shape, Size, public
from dyn.random._continuous import exponential_floats, normal_floats
from dyn.random._gamma import drawn
from dyn.random._sampler import float_dtype, integer_dtype, one_key, parameter, shape_for, spread_to
from dyn.random._uniform import keys_of, unit_floats
from dyn.shapes import Dim
from dyn.trace.tracer import Tracer

__all__ = [
    "ball", "double_sided_maxwell", "f", "generalized_normal", "geometric", "maxwell", "rayleigh", "triangular", "wald",
    "weibull_min",
]  # fmt: skip


# ---- of uniform numbers ----------------------------------------------------------------------------------------------


@public
def geometric(key: Key, p: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Trials until one succeeds, each with a given probability.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        p: probability of success, of more than 0.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: integer dtype; None: int32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no integer one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.

    Example:
        >>> dyn.random.geometric(dyn.random.key(7), 1.0, (2,))
        array([1, 1], dtype=int32)
    """
    value = one_key("geometric", key, p, shape)
    chance = tracer(value._trace, p, "geometric")
    float_kind = default_float() if chance.weak or not chance.element_type.is_float else chance.element_type
    chance = parameter(value._trace, chance, "geometric", float_kind)
    dims = shape_for("geometric", value._trace, shape, [chance])
    u: Array = unit_floats(value, dims, float_kind)
    logs = dnp.log(dnp.where(u == 0, 1, u))
    trials = dnp.floor(logs / spread_to("geometric", dnp.log1p(-_array(chance)), dims)) + 1
    return cast(trials, integer_dtype("geometric", dtype, dtypes.int32))


def _array(x: Tracer) -> Array:
    """A tracer for arithmetic."""
    return x


@public
def rayleigh(key: Key, scale: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Floats of the density ``x * exp(-x*x / 2)``, x >= 0, times a scale.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        scale: factor of the numbers.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    value, chosen = one_key("rayleigh", key, scale, shape), float_dtype("rayleigh", dtype)
    width = parameter(value._trace, scale, "rayleigh", chosen)
    dims = shape_for("rayleigh", value._trace, shape, [width])
    u = unit_floats(value, dims, chosen)
    return spread_to("rayleigh", width, dims) * dnp.sqrt(dnp.log(u) * -2)


@public
def weibull_min(
    key: Key, scale: ArrayLike, concentration: ArrayLike, shape: Shape = (), dtype: DTypeLike = None
) -> Array:
    """Floats whose distribution function is ``1 - exp(-(x / scale)**concentration)``.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        scale: factor of the numbers.
        concentration: shape of the distribution, of more than 0.
        shape: sizes of what is drawn, with which the parameters broadcast.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of the shape that ``shape`` and the parameters broadcast to.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    value, chosen = one_key("weibull_min", key, scale, concentration, shape), float_dtype("weibull_min", dtype)
    width, power = (_array(parameter(value._trace, v, "weibull_min", chosen)) for v in (scale, concentration))
    u: Array = unit_floats(value, shape_in(value._trace, shape, "weibull_min"), chosen)
    return dnp.power(-dnp.log1p(-u), 1 / power) * width


@public
def triangular(
    key: Key, left: ArrayLike, mode: ArrayLike, right: ArrayLike, shape: Shape | None = None,
    dtype: DTypeLike = None,
) -> Array:  # fmt: skip
    """Floats between two bounds, whose density rises to a mode and falls behind it, in straight lines.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        left: least numbers.
        mode: likeliest numbers.
        right: greatest numbers.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    value, chosen = one_key("triangular", key, left, mode, right, shape), float_dtype("triangular", dtype)
    given = [parameter(value._trace, v, "triangular", chosen) for v in (left, mode, right)]
    dims = shape_for("triangular", value._trace, shape, given)
    low, top, high = (_array(spread_to("triangular", v, dims)) for v in given)
    u: Array = unit_floats(value, dims, chosen)
    rising = low + dnp.sqrt(u * (high - low) * (top - low))
    falling = high - dnp.sqrt((1 - u) * (high - low) * (high - top))
    return dnp.where(u < (top - low) / (high - low), rising, falling)


# ---- of normally distributed numbers ---------------------------------------------------------------------------------


def _lengths(key: Tracer, shape: tuple[Dim, ...], dtype: DType) -> Tracer:
    """Lengths of vectors of three normally distributed components."""
    x = normal_floats(key, (*shape, 3), dtype)
    return dnp.sqrt(dnp.sum(emit("multiply", x, x), -1))


def _signs(key: Tracer, shape: tuple[Dim, ...], dtype: DType) -> Tracer:
    """-1 or 1, as ``rademacher`` draws them."""
    u: Array = unit_floats(key, shape, default_float())
    return cast(dnp.where(u < 0.5, 1, -1), dtype)


@public
def maxwell(key: Key, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Floats of the density ``sqrt(2 / pi) * x*x * exp(-x*x / 2)``, x >= 0.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        shape: sizes of the result, ints or dimensions, which may be 0.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, or ``dtype`` no float one.
        ShapeError: if ``key`` is not one key, or a size is negative.
    """
    value, chosen = one_key("maxwell", key, shape), float_dtype("maxwell", dtype)
    return _lengths(value, shape_in(value._trace, shape, "maxwell"), chosen)


@public
def double_sided_maxwell(
    key: Key, loc: ArrayLike, scale: ArrayLike, shape: Shape = (), dtype: DTypeLike = None
) -> Array:
    """Numbers of :func:`maxwell` to either side of a place.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        loc: the place.
        scale: factor of the distances.
        shape: sizes in front of those that the parameters broadcast to; ``()``: those once more, as in JAX.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of the shape ``shape``, followed by what the parameters broadcast to.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    what = "double_sided_maxwell"
    value, chosen = one_key(what, key, loc, scale, shape), float_dtype(what, dtype)
    centre, width = (_array(parameter(value._trace, v, what, chosen)) for v in (loc, scale))
    own = shape_for(what, value._trace, None, [centre, width])
    given = shape_in(value._trace, shape, what)
    dims = (*(given if given else own), *own)
    first, second = keys_of(value, 2)
    return _array(_signs(second, dims, chosen)) * _lengths(first, dims, chosen) * width + centre


@public
def wald(key: Key, mean: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Floats of the inverse Gaussian distribution.

    By the transformation of J. R. Michael, W. R. Schucany and R. W. Haas, The American Statistician 30 (1976).

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        mean: mean of the distribution, of more than 0.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    value, chosen = one_key("wald", key, mean, shape), float_dtype("wald", dtype)
    centre = parameter(value._trace, mean, "wald", chosen)
    dims = shape_for("wald", value._trace, shape, [centre])
    m = _array(spread_to("wald", centre, dims))
    first, second = keys_of(value, 2)
    v: Array = normal_floats(first, dims, chosen)
    u: Array = unit_floats(second, dims, chosen)
    y = v * v
    x = m + m * m * y / 2 - m / 2 * dnp.sqrt(4 * m * y + m * m * (y * y))
    return dnp.where(u <= m / (m + x), x, m * m / x)


# ---- of gamma's ------------------------------------------------------------------------------------------------------


@public
def f(key: Key, dfnum: ArrayLike, dfden: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Quotients of two numbers of :func:`chisquare`, each over its degrees of freedom.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        dfnum: degrees of freedom of the numerator.
        dfden: degrees of freedom of the denominator.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    value, chosen = one_key("f", key, dfnum, dfden, shape), float_dtype("f", dtype)
    degrees = [parameter(value._trace, v, "f", chosen) for v in (dfnum, dfden)]
    dims = shape_for("f", value._trace, shape, degrees)
    keys = keys_of(value, 2)[::-1]
    above, below = (_over_degrees(k, _array(n), dims) for k, n in zip(keys, degrees, strict=True))
    return above / below


def _over_degrees(key: Tracer, degrees: Array, dims: tuple[Dim, ...]) -> Array:
    log = drawn("f", key, degrees / 2, dims, log_space=True)
    return dnp.exp(log) * 2 / spread_to("f", degrees, dims)


def _generalized(key: Tracer, p: Array, shape: tuple[Dim, ...]) -> Array:
    first, second = keys_of(key, 2)
    size: Array = drawn("generalized_normal", first, 1 / p, shape, log_space=False)
    return _array(_signs(second, shape, size.element_type)) * dnp.power(size, 1 / p)


@public
def generalized_normal(key: Key, p: ArrayLike, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Floats of the density ``exp(-|x|**p)`` over its integral.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        p: exponent, a number: 2 is a normal distribution, 1 Laplace's.
        shape: sizes of the result, ints or dimensions, which may be 0.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    what = "generalized_normal"
    value, chosen = one_key(what, key, p, shape), float_dtype(what, dtype)
    power = parameter(value._trace, p, what, chosen)
    return _generalized(value, power, shape_in(value._trace, shape, what))


@public
def ball(key: Key, d: Size, p: ArrayLike = 2, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    r"""Points spread evenly over the ball of radius 1 in a norm.

    By F. Barthe, O. Guédon, S. Mendelson and A. Naor, "A probabilistic approach to the geometry of the l_p^n-ball",
    2005, as in JAX.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        d: number of coordinates, an int or a dimension.
        p: order of the norm, a number.
        shape: sizes of the result, ints or dimensions, which may be 0.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of shape (\*shape, d).

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.

    Example:
        >>> dyn.random.ball(dyn.random.key(7), 3, shape=(2,)).shape
        (2, 3)
    """
    value, chosen = one_key("ball", key, d, p, shape), float_dtype("ball", dtype)
    power: Array = parameter(value._trace, p, "ball", chosen)
    dims = shape_in(value._trace, shape, "ball")
    (count,) = shape_in(value._trace, d, "ball")
    first, second = keys_of(value, 2)
    g = _generalized(first, power, (*dims, count))
    size = dnp.sum(dnp.power(dnp.abs(g), power), -1) + exponential_floats(second, dims, chosen)
    return g / dnp.expand_dims(dnp.power(size, 1 / power), -1)
