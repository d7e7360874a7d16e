"""Functions of one array, element by element. Shapes stay; a Python number or a dimension gives a 0-d array.

Functions that are not exact on integers compute in the default float dtype (float32, see ``dyn.config``) when they are
given integers or booleans.
"""

from __future__ import annotations

import math

from dyn.dtypes import Kind
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.numpy._broadcast import elementwise
from dyn.numpy._operands import emit, like, promote, shape_of, to_float
from dyn.numpy._public import Array, ArrayLike, public
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = [
    "abs", "absolute", "cbrt", "ceil", "conj", "conjugate", "cos", "cosh", "deg2rad", "degrees", "exp", "exp2",
    "expm1", "fabs", "floor", "imag", "log", "log10", "log1p", "log2", "negative", "positive", "rad2deg", "radians",
    "real", "reciprocal", "rint", "round", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh", "trunc",
]  # fmt: skip


def _float(name: str, what: str, x: ArrayLike) -> Tracer:
    return elementwise(name, what, x, choose=to_float)


def _one(what: str, x: ArrayLike) -> Tracer:
    (value,) = promote(what, x)
    return value


def _not_bool(what: str, x: ArrayLike, remedy: str) -> Tracer:
    value = _one(what, x)
    if value.element_type.kind is Kind.BOOL:
        raise UnsupportedOpError(f"{what} does not take booleans.", loc=user_loc(), remedy=remedy)
    return value


def filled(x: Tracer, value: bool | int | float) -> Tracer:
    """``value`` in the shape and dtype of ``x``."""
    scalar = like(x, value)
    shape = shape_of(x)
    return emit("broadcast_in_dim", scalar, shape=shape, dims=()) if shape else scalar


# ---- exponentials and logarithms -------------------------------------------------------------------------------------


@public
def exp(x: ArrayLike, /) -> Array:
    """``e ** x``."""
    return _float("exponential", "exp", x)


@public
def expm1(x: ArrayLike, /) -> Array:
    """``exp(x) - 1``, precise near 0."""
    return _float("exponential_minus_one", "expm1", x)


@public
def exp2(x: ArrayLike, /) -> Array:
    """``2 ** x``."""
    (value,) = promote("exp2", x, choose=to_float)
    return emit("power", filled(value, 2), value)


@public
def log(x: ArrayLike, /) -> Array:
    """The natural logarithm: -inf at 0, NaN below."""
    return _float("log", "log", x)


@public
def log1p(x: ArrayLike, /) -> Array:
    """``log(1 + x)``, precise near 0."""
    return _float("log_plus_one", "log1p", x)


def _log_base(what: str, x: ArrayLike, base: float) -> Tracer:
    value = _float("log", what, x)
    return emit("divide", value, filled(value, math.log(base)))


@public
def log2(x: ArrayLike, /) -> Array:
    """The logarithm to base 2."""
    return _log_base("log2", x, 2.0)


@public
def log10(x: ArrayLike, /) -> Array:
    """The logarithm to base 10."""
    return _log_base("log10", x, 10.0)


# ---- roots and powers ------------------------------------------------------------------------------------------------


@public
def sqrt(x: ArrayLike, /) -> Array:
    """The square root; NaN below 0."""
    return _float("sqrt", "sqrt", x)


@public
def cbrt(x: ArrayLike, /) -> Array:
    """The cube root, of negative numbers too."""
    return _float("cbrt", "cbrt", x)


@public
def square(x: ArrayLike, /) -> Array:
    """``x * x``, in the dtype of ``x``."""
    value = _not_bool("square", x, "convert them with .astype first.")
    return emit("multiply", value, value)


@public
def reciprocal(x: ArrayLike, /) -> Array:
    """``1 / x``; of integers the whole part, as in NumPy."""
    value = _not_bool("reciprocal", x, "convert them with .astype first.")
    return emit("divide", filled(value, 1), value)


# ---- trigonometry ----------------------------------------------------------------------------------------------------


@public
def sin(x: ArrayLike, /) -> Array:
    """The sine of radians."""
    return _float("sine", "sin", x)


@public
def cos(x: ArrayLike, /) -> Array:
    """The cosine of radians."""
    return _float("cosine", "cos", x)


@public
def tan(x: ArrayLike, /) -> Array:
    """The tangent of radians."""
    (value,) = promote("tan", x, choose=to_float)
    return emit("divide", emit("sine", value), emit("cosine", value))


@public
def tanh(x: ArrayLike, /) -> Array:
    """The hyperbolic tangent."""
    return _float("tanh", "tanh", x)


@public
def sinh(x: ArrayLike, /) -> Array:
    """The hyperbolic sine."""
    # With t = exp(|x|) - 1 it is (t + t / (t + 1)) / 2: precise near 0, and inf where t is.
    (value,) = promote("sinh", x, choose=to_float)
    t = emit("exponential_minus_one", emit("abs", value))
    share = emit("divide", t, emit("add", t, filled(t, 1)))
    finite = emit("is_finite", t)
    total = emit("add", t, emit("select", finite, share, filled(t, 1)))
    half = emit("multiply", total, filled(t, 0.5))
    negative_side = emit("compare", value, filled(value, 0), direction="LT")
    signed = emit("select", negative_side, emit("negate", half), half)
    zero = emit("compare", value, filled(value, 0), direction="EQ")
    return emit("select", zero, value, signed)


@public
def cosh(x: ArrayLike, /) -> Array:
    """The hyperbolic cosine."""
    (value,) = promote("cosh", x, choose=to_float)
    half = filled(value, 0.5)
    up = emit("exponential", emit("abs", value))
    return emit("add", emit("multiply", half, up), emit("divide", half, up))


@public
def deg2rad(x: ArrayLike, /) -> Array:
    """Degrees as radians."""
    (value,) = promote("deg2rad", x, choose=to_float)
    return emit("multiply", value, filled(value, math.pi / 180))


@public
def rad2deg(x: ArrayLike, /) -> Array:
    """Radians as degrees."""
    (value,) = promote("rad2deg", x, choose=to_float)
    return emit("multiply", value, filled(value, 180 / math.pi))


radians = deg2rad
degrees = rad2deg


# ---- signs and rounding ----------------------------------------------------------------------------------------------


@public
def negative(x: ArrayLike, /) -> Array:
    """``-x``; of unsigned integers modulo their range."""
    return emit("negate", _not_bool("negative", x, "use dyn.numpy.logical_not."))


@public
def positive(x: ArrayLike, /) -> Array:
    """``x`` itself."""
    return _not_bool("positive", x, "convert them with .astype first.")


@public
def abs(x: ArrayLike, /) -> Array:
    """The absolute value; of booleans and unsigned integers themselves."""
    value = _one("abs", x)
    return value if value.element_type.kind in (Kind.BOOL, Kind.UINT) else emit("abs", value)


absolute = abs


@public
def fabs(x: ArrayLike, /) -> Array:
    """The absolute value as a float."""
    return _float("abs", "fabs", x)


@public
def sign(x: ArrayLike, /) -> Array:
    """-1, 0 or 1; NaN where ``x`` is."""
    return emit("sign", _not_bool("sign", x, "convert them with .astype first."))


def _rounded(name: str, what: str, x: ArrayLike) -> Tracer:
    value = _one(what, x)
    return value if not value.element_type.is_float else emit(name, value)


@public
def floor(x: ArrayLike, /) -> Array:
    """The nearest whole number at or below, in the dtype of ``x``."""
    return _rounded("floor", "floor", x)


@public
def ceil(x: ArrayLike, /) -> Array:
    """The nearest whole number at or above, in the dtype of ``x``."""
    return _rounded("ceil", "ceil", x)


@public
def rint(x: ArrayLike, /) -> Array:
    """The nearest whole number, the even one of two."""
    return _rounded("round_nearest_even", "rint", x)


@public
def trunc(x: ArrayLike, /) -> Array:
    """The nearest whole number towards 0, in the dtype of ``x``."""
    value = _one("trunc", x)
    if not value.element_type.is_float:
        return value
    below = emit("compare", value, filled(value, 0), direction="LT")
    return emit("select", below, emit("ceil", value), emit("floor", value))


@public
def round(x: ArrayLike, /, decimals: int = 0) -> Array:
    """``x`` rounded to that many decimals, half to even, as ``numpy.round`` computes it."""
    value = _one("round", x)
    if decimals == 0 or (value.element_type.is_integer and decimals > 0):
        return _rounded("round_nearest_even", "round", value)
    if value.element_type.is_integer:
        raise NotYetError("round of integers to tens and hundreds comes later.", loc=user_loc())
    scale = filled(value, 10.0 ** (decimals if decimals > 0 else -decimals))
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return emit(back, emit("round_nearest_even", emit(there, value, scale)), scale)


# ---- parts of complex numbers ----------------------------------------------------------------------------------------


def _real_only(what: str, x: ArrayLike) -> Tracer:
    value = _one(what, x)
    if value.element_type.kind is Kind.COMPLEX:
        raise NotYetError(f"{what} of complex arrays comes later.", loc=user_loc())
    return value


@public
def conj(x: ArrayLike, /) -> Array:
    """The complex conjugate; a real array itself."""
    return _real_only("conj", x)


conjugate = conj


@public
def real(x: ArrayLike, /) -> Array:
    """The real part; a real array itself."""
    return _real_only("real", x)


@public
def imag(x: ArrayLike, /) -> Array:
    """The imaginary part; zeros for a real array."""
    return filled(_real_only("imag", x), 0)
