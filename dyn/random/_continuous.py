"""Continuous distributions, as functions of uniform floats.

Each follows ``jax.random`` step by step. Its logarithms and the like are dyn's, whose last bits may differ from XLA's.
"""

from __future__ import annotations

import math

import numpy as np

import dyn.numpy as dnp
from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.numpy._axes import shape_in
from dyn.numpy._operands import emit
from dyn.numpy._public import Array, ArrayLike, DTypeLike, Key, Shape, public
from dyn.numpy._unary import filled
from dyn.random._sampler import float_dtype, one_key, parameter, shape_for, spread_to
from dyn.random._uniform import (
    MANTISSA,
    TINY,
    checked_mode,
    floats_between,
    floats_from,
    keys_of,
    two_floats,
    unit_floats,
)
from dyn.shapes import Dim
from dyn.trace.tracer import Tracer

__all__ = [
    "cauchy", "exponential", "gumbel", "laplace", "logistic", "lognormal", "normal", "pareto", "truncated_normal",
]  # fmt: skip

_PARTS = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}


@public
def normal(key: Key, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Floats from the normal distribution of mean 0 and variance 1: the inverse of erf, of uniform floats.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        shape: sizes of the result, ints or dimensions, which may be 0.
        dtype: float or complex dtype, of which real and imaginary part have the variance 1/2 each; None: the default
            float dtype.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, or ``dtype`` no float one.
        ShapeError: if ``key`` is not one key, or a size is negative.

    Example:
        >>> dyn.random.normal(dyn.random.key(7), (2, 3)).shape
        (2, 3)
        >>> dyn.jit(lambda key, x: x + dyn.random.normal(key, x.shape))(dyn.random.key(7), np.zeros((0, 3), "f4")).shape
        (0, 3)
    """
    value = one_key("normal", key, shape)
    chosen = float_dtype("normal", dtype, complexes=True)
    return normal_floats(value, shape_in(value._trace, shape, "normal"), chosen)


def normal_floats(key: Tracer, shape: tuple[Dim, ...], dtype: DType) -> Tracer:
    """Normally distributed numbers of a float or complex dtype."""
    if dtype.kind is Kind.COMPLEX:
        real, imag = (normal_floats(k, shape, _PARTS[dtype]) for k in keys_of(key, 2))
        root = filled(real, math.sqrt(2))
        return emit("complex", emit("divide", real, root), emit("divide", imag, root))
    low = -1 + 2.0 ** -(MANTISSA[dtype] + 1)  # the number after -1
    return _scaled_inverse(floats_from(key, shape, dtype, low, 1.0))


def _scaled_inverse(u: Tracer) -> Tracer:
    inverse = emit("xla_erf_inv", u)
    return emit("multiply", filled(inverse, math.sqrt(2)), inverse)


@public
def truncated_normal(
    key: Key, lower: ArrayLike, upper: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None
) -> Array:
    """Floats from the normal distribution between two bounds, which they never are.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        lower: lower bounds.
        upper: upper bounds, no less.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    value = one_key("truncated_normal", key, lower, upper, shape)
    chosen, trace = float_dtype("truncated_normal", dtype), value._trace
    low, high = (parameter(trace, v, "truncated_normal", chosen) for v in (lower, upper))
    dims = shape_for("truncated_normal", trace, shape, [low, high])
    a, b = (emit("erf", emit("divide", v, filled(v, math.sqrt(2)))) for v in (low, high))
    drawn = _scaled_inverse(floats_between(value, dims, a, b, "truncated_normal"))
    return dnp.clip(drawn, dnp.nextafter(low, np.inf), dnp.nextafter(high, -np.inf))


@public
def exponential(key: Key, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Floats of the density ``exp(-x)``, x >= 0.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        shape: sizes of the result, ints or dimensions, which may be 0.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, or ``dtype`` no float one.
        ShapeError: if ``key`` is not one key, or a size is negative.

    Example:
        >>> dyn.random.exponential(dyn.random.key(7), (2,)).shape
        (2,)
    """
    value = one_key("exponential", key, shape)
    return exponential_floats(value, shape_in(value._trace, shape, "exponential"), float_dtype("exponential", dtype))


def exponential_floats(key: Tracer, shape: tuple[Dim, ...], dtype: DType) -> Tracer:
    return emit("negate", emit("log_plus_one", emit("negate", unit_floats(key, shape, dtype))))


@public
def gumbel(key: Key, shape: Shape = (), dtype: DTypeLike = None, mode: str | None = None) -> Array:
    """Floats of the density ``exp(-x - exp(-x))``.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        shape: sizes of the result, ints or dimensions, which may be 0.
        dtype: float dtype of the result; None: the default float dtype, float32.
        mode: ``"low"``, or ``"high"`` for twice as many bits, for the far tail; None: ``"low"``.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, or ``dtype`` no float one.
        ShapeError: if ``key`` is not one key, or a size is negative.
    """
    value = one_key("gumbel", key, shape)
    dims, chosen = shape_in(value._trace, shape, "gumbel"), float_dtype("gumbel", dtype)
    return gumbel_floats(value, dims, chosen, checked_mode("gumbel", mode))


def gumbel_floats(key: Tracer, shape: tuple[Dim, ...], dtype: DType, mode: str) -> Tracer:
    if mode == "low":
        return _double_log(emit("log", floats_from(key, shape, dtype, TINY[dtype], 1.0)))
    coarse, fine = two_floats(key, shape, dtype)
    more = emit("multiply", fine, filled(fine, 2.0 ** -MANTISSA[dtype]))
    both = emit("add", emit("add", coarse, more), filled(coarse, TINY[dtype]))
    x = emit("select", emit("compare", coarse, filled(coarse, 0.5), direction="GE"), coarse, both)
    return _double_log(emit("log_plus_one", emit("negate", x)))


def _double_log(log: Tracer) -> Tracer:
    """``-log(-log)``"""
    return emit("negate", emit("log", emit("negate", log)))


@public
def laplace(key: Key, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Floats of the density ``exp(-|x|) / 2``.

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
    value, chosen = one_key("laplace", key, shape), float_dtype("laplace", dtype)
    low = -1 + 2.0 ** -(MANTISSA[chosen] + 1)
    u = floats_from(value, shape_in(value._trace, shape, "laplace"), chosen, low, 1.0)
    return emit("multiply", emit("sign", u), emit("log_plus_one", emit("negate", emit("abs", u))))


@public
def logistic(key: Key, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Floats whose distribution function is ``1 / (1 + exp(-x))``.

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
    value, chosen = one_key("logistic", key, shape), float_dtype("logistic", dtype)
    u = floats_from(value, shape_in(value._trace, shape, "logistic"), chosen, TINY[chosen], 1.0)
    return emit("subtract", emit("log", u), emit("log_plus_one", emit("negate", u)))


@public
def cauchy(key: Key, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Floats of the density ``1 / (pi * (1 + x*x))``.

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
    value, chosen = one_key("cauchy", key, shape), float_dtype("cauchy", dtype)
    low = 2.0 ** -MANTISSA[chosen]
    u = floats_from(value, shape_in(value._trace, shape, "cauchy"), chosen, low, 1.0)
    return emit("tan", emit("multiply", filled(u, math.pi), emit("subtract", u, filled(u, 0.5))))


@public
def pareto(key: Key, b: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Floats of the density ``b / x**(b + 1)``, x >= 1.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        b: shape of the distribution, of more than 0.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    value, chosen = one_key("pareto", key, b, shape), float_dtype("pareto", dtype)
    power = parameter(value._trace, b, "pareto", chosen)
    dims = shape_for("pareto", value._trace, shape, [power])
    return emit(
        "exponential", emit("divide", exponential_floats(value, dims, chosen), spread_to("pareto", power, dims))
    )


@public
def lognormal(key: Key, sigma: ArrayLike = 1.0, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """``exp(sigma * x)`` of normally distributed x.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        sigma: deviation of the logarithms.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    value, chosen = one_key("lognormal", key, sigma, shape), float_dtype("lognormal", dtype)
    scale = parameter(value._trace, sigma, "lognormal", chosen)
    dims = shape_for("lognormal", value._trace, shape, [scale])
    return emit(
        "exponential", emit("multiply", normal_floats(value, dims, chosen), spread_to("lognormal", scale, dims))
    )
