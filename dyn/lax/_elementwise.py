"""Raw elementwise operations, by ``jax.lax``'s names: operands of one dtype and shape, and nothing is converted.

Python numbers and dims take the dtype of the arrays beside them, and 0-d arrays their shape. ``dyn.numpy`` has the
functions that convert and broadcast.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from dyn import dtypes
from dyn.dtypes import Kind
from dyn.errors import NotYetError, UnsupportedOpError
from dyn.lax._operands import (
    Array,
    ArrayLike,
    DTypeLike,
    dtype_of,
    elementwise,
    lifted,
    lifted_all,
    one_shape,
    raw,
    settled,
    trace_of,
)
from dyn.ops.arithmetic import Arithmetic
from dyn.source import user_loc
from dyn.trace.tracer import Tracer


class RoundingMethod(IntEnum):
    """Rounding of halves by ``round``."""

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


def _one(name: str, public: str, text: str) -> Callable[[ArrayLike], Array]:
    def fn(x: ArrayLike) -> Array:
        return elementwise(name, public, x)

    fn.__name__ = fn.__qualname__ = public
    fn.__doc__ = text
    return raw(fn)


def _two(name: str, public: str, text: str, **attrs: Any) -> Callable[[ArrayLike, ArrayLike], Array]:
    def fn(x: ArrayLike, y: ArrayLike) -> Array:
        return elementwise(name, public, x, y, **attrs)

    fn.__name__ = fn.__qualname__ = public
    fn.__doc__ = text
    return raw(fn)


abs = _one("abs", "abs", "The absolute value; of complex numbers a float.")
acos = _one("acos", "acos", "The angle in [0, pi] whose cosine is ``x``; NaN outside of [-1, 1].")
acosh = _one("acosh", "acosh", "The number, not negative, whose hyperbolic cosine is ``x``; NaN below 1.")
asin = _one("asin", "asin", "The angle in [-pi/2, pi/2] whose sine is ``x``; NaN outside of [-1, 1].")
asinh = _one("asinh", "asinh", "The number whose hyperbolic sine is ``x``.")
atan = _one("atan", "atan", "The angle in [-pi/2, pi/2] whose tangent is ``x``.")
atanh = _one("atanh", "atanh", "The number whose hyperbolic tangent is ``x``; infinite at -1 and 1, NaN beyond.")
bitwise_not = _one("not", "bitwise_not", "Each bit turned round; of booleans the negation.")
cbrt = _one("cbrt", "cbrt", "The cube root, of negative numbers too.")
ceil = _one("ceil", "ceil", "The least whole number that is not less.")
clz = _one("count_leading_zeros", "clz", "How many bits above the highest that is set.")
cos = _one("cosine", "cos", "The cosine of radians.")
cosh = _one("cosh", "cosh", "The hyperbolic cosine.")
digamma = _one("digamma", "digamma", "The derivative of ``lgamma``; NaN at 0, -1, -2, …")
erf = _one("erf", "erf", "The error function.")
erf_inv = _one("erf_inv", "erf_inv", "Where ``erf`` has this value; infinite at -1 and 1, NaN beyond.")
erfc = _one("erfc", "erfc", "``1 - erf(x)``, precise where that is near 0.")
exp = _one("exponential", "exp", "``e ** x``.")
expm1 = _one("exponential_minus_one", "expm1", "``exp(x) - 1``, precise near 0.")
floor = _one("floor", "floor", "The greatest whole number that is not more.")
is_finite = _one("is_finite", "is_finite", "Whether ``x`` is neither infinite nor NaN.")
lgamma = _one("lgamma", "lgamma", "The logarithm of the absolute value of the gamma function.")
log = _one("log", "log", "The natural logarithm: -inf at 0, NaN below.")
log1p = _one("log_plus_one", "log1p", "``log(1 + x)``, precise near 0.")
logistic = _one("logistic", "logistic", "``1 / (1 + exp(-x))``.")
neg = _one("negate", "neg", "``-x``; of unsigned integers modulo their range.")
population_count = _one("popcnt", "population_count", "How many bits are set.")
rsqrt = _one("rsqrt", "rsqrt", "``1 / sqrt(x)``.")
sign = _one("sign", "sign", "-1, 0 or 1; NaN where ``x`` is; of complex numbers ``x / abs(x)``.")
sin = _one("sine", "sin", "The sine of radians.")
sinh = _one("sinh", "sinh", "The hyperbolic sine.")
sqrt = _one("sqrt", "sqrt", "The square root; NaN below 0.")
tan = _one("tan", "tan", "The tangent of radians.")
tanh = _one("tanh", "tanh", "The hyperbolic tangent.")

add = _two("add", "add", "``x + y``.")
atan2 = _two("atan2", "atan2", "The angle of the point (``y``, ``x``) from the first axis, in [-pi, pi].")
bitwise_and = _two("and", "bitwise_and", "``x & y`` of integers or booleans.")
bitwise_or = _two("or", "bitwise_or", "``x | y`` of integers or booleans.")
bitwise_xor = _two("xor", "bitwise_xor", "``x ^ y`` of integers or booleans.")
complex = _two("complex", "complex", "The complex number with these parts.")
div = _two("divide", "div", "``x / y``; of integers towards zero, and -1, all bits set, where ``y`` is 0.")
eq = _two("compare", "eq", "``x == y``.", direction="EQ")
ge = _two("compare", "ge", "``x >= y``.", direction="GE")
gt = _two("compare", "gt", "``x > y``.", direction="GT")
le = _two("compare", "le", "``x <= y``.", direction="LE")
lt = _two("compare", "lt", "``x < y``.", direction="LT")
max = _two("maximum", "max", "The greater of two; NaN where either is.")
min = _two("minimum", "min", "The lesser of two; NaN where either is.")
mul = _two("multiply", "mul", "``x * y``.")
ne = _two("compare", "ne", "``x != y``.", direction="NE")
nextafter = _two("next_after", "nextafter", "The next float after ``x`` towards ``y``.")
rem = _two(
    "remainder", "rem", "The remainder of ``x / y``, with the sign of ``x``; of integers ``x`` itself where ``y`` is 0."
)
shift_left = _two("shift_left", "shift_left", "``x << y`` of integers.")
shift_right_arithmetic = _two(
    "shift_right_arithmetic", "shift_right_arithmetic", "``x >> y`` of integers; the sign comes in from the left."
)
shift_right_logical = _two(
    "shift_right_logical", "shift_right_logical", "``x >> y`` of integers; zeros come in from the left."
)
sub = _two("subtract", "sub", "``x - y``.")


@raw
def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """``x ** y``; a float may have an integer exponent."""
    trace = trace_of(x, y)
    base, exponent = (lifted("pow", trace, v) for v in (x, y))
    if base.dtype.is_inexact and exponent.dtype.is_integer and not exponent.type.weak:
        exponent = trace.emit("convert", exponent, dtype=base.dtype)
    return elementwise("power", "pow", Tracer(trace, base), Tracer(trace, exponent))


@raw
def integer_pow(x: ArrayLike, y: int) -> Array:
    """``x ** y`` for a Python integer ``y``."""
    return elementwise("power", "integer_pow", x, int(y))


@raw
def square(x: ArrayLike) -> Array:
    """``x * x``."""
    return elementwise("multiply", "square", x, x)


@raw
def reciprocal(x: ArrayLike) -> Array:
    """``1 / x``."""
    trace = trace_of(x)
    value = lifted("reciprocal", trace, x)
    a = Arithmetic(trace.builder)
    return Tracer(trace, trace.emit("divide", a.fill(value, 1), value))


@raw
def exp2(x: ArrayLike) -> Array:
    """``2 ** x``."""
    return elementwise("power", "exp2", 2.0, x)


@raw
def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """The nearest whole number; halves away from zero, or to even ones."""
    even = rounding_method == RoundingMethod.TO_NEAREST_EVEN
    return elementwise("round_nearest_even" if even else "round_nearest_afz", "round", x)


@raw
def real(x: ArrayLike) -> Array:
    """The real part of complex numbers."""
    return elementwise("real", "real", x)


@raw
def imag(x: ArrayLike) -> Array:
    """The imaginary part of complex numbers."""
    return elementwise("imag", "imag", x)


@raw
def conj(x: ArrayLike) -> Array:
    """The complex number with the other imaginary part; of real numbers a complex one."""
    trace = trace_of(x)
    value = settled(trace, lifted("conj", trace, x))
    if value.dtype.kind is not Kind.COMPLEX:
        zero = Arithmetic(trace.builder).fill(value, 0)
        return Tracer(trace, trace.emit("complex", value, zero))
    parts = trace.emit("real", value), trace.emit("negate", trace.emit("imag", value))
    return Tracer(trace, trace.emit("complex", *parts))


@raw
def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """``x`` held between ``min`` and ``max``, which are scalars or arrays of its shape."""
    trace = trace_of(min, x, max)
    return Tracer(trace, trace.emit("clamp", *lifted_all("clamp", trace, (min, x, max))))


@raw
def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """``on_true`` where the boolean ``pred`` is true, else ``on_false``."""
    trace = trace_of(pred, on_true, on_false)
    flag, pair = lifted("select", trace, pred), lifted_all("select", trace, (on_true, on_false))
    return Tracer(trace, trace.emit("select", *one_shape(trace, [flag, *pair])))


@raw
def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """The case that ``which`` numbers, element by element: of booleans the second one where it is true."""
    trace = trace_of(which, *cases)
    number, found = lifted("select_n", trace, which), lifted_all("select_n", trace, cases)
    if number.dtype is dtypes.bool_ and len(found) == 2:
        return Tracer(trace, trace.emit("select", *one_shape(trace, [number, found[1], found[0]])))
    number, *found = one_shape(trace, [number, *found])
    a, chosen = Arithmetic(trace.builder), found[-1]
    for i, case in reversed(list(enumerate(found[:-1]))):
        chosen = a.where(a.cmp(number, "LE" if i == 0 else "EQ", i), case, chosen)
    return Tracer(trace, chosen)


@raw
def convert_element_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """The elements in another dtype, as ``x.astype`` converts them; of complex numbers to a real one the real parts."""
    trace = trace_of(operand)
    value, to = lifted("convert_element_type", trace, operand), dtype_of(new_dtype)
    if value.dtype.kind is Kind.COMPLEX and to.kind is not Kind.COMPLEX:
        value = trace.emit("real", value)
    return Tracer(trace, trace.emit("convert", value, dtype=to))


@raw
def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """Take the bits of an array as numbers of another dtype, as in ``jax.lax.bitcast_convert_type``.

    A narrower dtype makes several numbers of each, along a new last axis, lowest bits first; a wider one joins the
    last axis, which has as many elements as go into one (a ShapeError says so otherwise). Neither dtype may be bool or
    complex, unless they are the same.
    """
    trace = trace_of(operand)
    value, to = settled(trace, lifted("bitcast_convert_type", trace, operand)), dtype_of(new_dtype)
    if value.dtype is to:
        return Tracer(trace, value)
    name = "bitcast_convert" if value.dtype.bits == to.bits else "bitcast_regroup"
    return Tracer(trace, trace.emit(name, value, dtype=to))


@raw
def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """The nearest float with so many bits of exponent and mantissa, in the same dtype; it has no denormal numbers."""
    attrs = {"exponent_bits": int(exponent_bits), "mantissa_bits": int(mantissa_bits)}
    return elementwise("reduce_precision", "reduce_precision", operand, **attrs)


@raw
def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """The derivative number ``m``, 0 or 1, of ``digamma``."""
    if isinstance(m, int | float) and m in (0, 1):
        return elementwise("trigamma" if m else "digamma", "polygamma", x)
    raise NotYetError(f"polygamma of the order {m} comes later.", loc=user_loc(), remedy="use the order 0 or 1.")


def _later(name: str) -> Callable[..., Any]:
    def fn(*args: Any, **kwargs: Any) -> Any:
        raise NotYetError(f"{name} comes later.", loc=user_loc(), remedy="compute it outside of the compiled function.")

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"Not yet: raises NotYetError. {name} comes later."
    return fn


bessel_i0e, bessel_i1e = _later("bessel_i0e"), _later("bessel_i1e")
betainc, igamma, igammac = _later("betainc"), _later("igamma"), _later("igammac")
zeta = _later("zeta")


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Any) -> Array:
    """Refused: it has no key, so the same call gives other numbers each time."""
    raise UnsupportedOpError(
        "rng_uniform has a state that nobody passes to it: compiled programs have none.",
        loc=user_loc(),
        remedy="use dyn.random.uniform(key, shape, minval=a, maxval=b).",
    )
