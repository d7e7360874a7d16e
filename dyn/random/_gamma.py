"""Distributions that are drawn by rejection, in compiled loops, with the draws of ``jax.random`` in its order.

A gradient with respect to gamma's parameter is that of the number that keeps its place in the distribution.
"""

from __future__ import annotations

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import ShapeError
from dyn.nn import softmax
from dyn.numpy._operands import cast, emit, shape_of, tracer
from dyn.numpy._public import Array, ArrayLike, DTypeLike, Key, Shape, public
from dyn.numpy._unary import filled
from dyn.random._continuous import normal_floats
from dyn.random._keys import split_key
from dyn.random._sampler import float_dtype, integer_dtype, one_key, parameter, shape_for, spread_to
from dyn.random._uniform import keys_of
from dyn.shapes import Dim
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = ["beta", "chisquare", "dirichlet", "gamma", "loggamma", "poisson", "t"]


def drawn(what: str, key: Tracer, a: Tracer, shape: tuple[Dim, ...], *, log_space: bool) -> Tracer:
    """Gamma's numbers with the parameters ``a``, each from a key of its own; 16-bit floats in float32."""
    dtype = a.element_type
    wide = cast(spread_to(what, a, shape), dtype.wide)
    return cast(emit("random_gamma", split_key(key, shape), wide, log_space=log_space), dtype)


@public
def gamma(key: Key, a: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Floats of the density ``x**(a - 1) * exp(-x)`` over its integral, by rejection.

    G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", 2000, in the order of JAX's draws.
    The gradient by ``a`` is that of the number that keeps its place in the distribution.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        a: shape of the distribution, of more than 0.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.

    Example:
        >>> dyn.random.gamma(dyn.random.key(7), 2.0, (3,)).shape
        (3,)
    """
    return _gamma("gamma", key, a, shape, dtype, log_space=False)


@public
def loggamma(key: Key, a: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Logarithms of what :func:`gamma` draws, exact where that is next to 0.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        a: shape of the distribution, of more than 0.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    return _gamma("loggamma", key, a, shape, dtype, log_space=True)


def _gamma(what: str, key: Key, a: ArrayLike, shape: Shape | None, dtype: DTypeLike, *, log_space: bool) -> Tracer:
    value = one_key(what, key, a, shape)
    alpha = parameter(value._trace, a, what, float_dtype(what, dtype))
    dims = shape_for(what, value._trace, shape, [alpha])
    return drawn(what, value, alpha, dims, log_space=log_space)


@public
def beta(key: Key, a: ArrayLike, b: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Floats of the density ``x**(a - 1) * (1 - x)**(b - 1)`` over its integral, 0 <= x <= 1.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        a: first parameter, of more than 0.
        b: second parameter, of more than 0.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    value, chosen = one_key("beta", key, a, b, shape), float_dtype("beta", dtype)
    first, second = (parameter(value._trace, v, "beta", chosen) for v in (a, b))
    dims = shape_for("beta", value._trace, shape, [first, second])
    logs = [drawn("beta", k, v, dims, log_space=True) for k, v in zip(keys_of(value, 2), (first, second), strict=True)]
    most = emit("maximum", *logs)
    x, y = (emit("exponential", emit("subtract", v, most)) for v in logs)
    return emit("divide", x, emit("add", x, y))


@public
def dirichlet(key: Key, alpha: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Probabilities along the last axis, of the density ``prod(x**(alpha - 1))`` over its integral.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        alpha: array of one axis or more: parameters of more than 0 along the last.
        shape: sizes in front of the last axis; None: those of ``alpha``.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of these sizes and the last one of ``alpha``, whose rows add up to 1.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.

    Example:
        >>> dyn.random.dirichlet(dyn.random.key(7), np.ones(3), (2,)).shape
        (2, 3)
    """
    value, chosen = one_key("dirichlet", key, alpha, shape), float_dtype("dirichlet", dtype)
    power = parameter(value._trace, alpha, "dirichlet", chosen)
    if not power.ndim:
        raise ShapeError(
            "dirichlet takes parameters with at least one axis, not a number.",
            loc=user_loc(),
            remedy="pass a vector with one parameter for each probability.",
        )
    batch = shape_of(power)[:-1] if shape is None else shape_for("dirichlet", value._trace, shape, [])
    return softmax(drawn("dirichlet", value, power, (*batch, shape_of(power)[-1]), log_space=True), -1)


@public
def chisquare(key: Key, df: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Sums of the squares of normally distributed numbers.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        df: degrees of freedom: how many numbers.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    value, half, dims = _half_degrees("chisquare", key, df, shape, float_dtype("chisquare", dtype))
    log = drawn("chisquare", value, half, dims, log_space=True)
    return emit("multiply", emit("exponential", log), filled(log, 2))


@public
def t(key: Key, df: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Floats from Student's t distribution.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        df: degrees of freedom, of more than 0.
        shape: sizes of the result, ints or dimensions, to which the parameters broadcast; None: what they broadcast to.
        dtype: float dtype of the result; None: the default float dtype, float32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.
    """
    chosen = float_dtype("t", dtype)
    value, half, dims = _half_degrees("t", key, df, shape, chosen)
    first, second = keys_of(value, 2)
    spread = emit("divide", spread_to("t", half, dims), drawn("t", second, half, dims, log_space=False))
    return emit("multiply", normal_floats(first, dims, chosen), emit("sqrt", spread))


def _half_degrees(
    what: str, key: Key, df: ArrayLike, shape: Shape | None, dtype: DType
) -> tuple[Tracer, Tracer, tuple[Dim, ...]]:
    value = one_key(what, key, df, shape)
    degrees = parameter(value._trace, df, what, dtype)
    return value, emit("divide", degrees, filled(degrees, 2)), shape_for(what, value._trace, shape, [degrees])


@public
def poisson(key: Key, lam: ArrayLike, shape: Shape | None = None, dtype: DTypeLike = None) -> Array:
    """Integers k of the probability ``lam**k * exp(-lam) / k!``.

    D. Knuth's method below a rate of 10, and W. Hörmann's transformed rejection from there on, as in JAX.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        lam: rate, an array of real numbers.
        shape: sizes of the result, ints or dimensions, to which ``lam`` broadcasts; None: those of ``lam``.
        dtype: integer dtype; None: int32.

    Returns:
        An array of that shape and dtype; -1 of a rate that is negative, infinite or NaN.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no integer one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.

    Example:
        >>> dyn.random.poisson(dyn.random.key(7), 0.0, (2,))
        array([0, 0], dtype=int32)
    """
    value = one_key("poisson", key, lam, shape)
    trace = value._trace
    rate = cast(tracer(trace, lam, "poisson"), dtypes.float32)
    dims = shape_for("poisson", trace, shape, [rate])
    chosen = integer_dtype("poisson", dtype, dtypes.int32)
    return emit("random_poisson", value, spread_to("poisson", rate, dims), dtype=chosen)
