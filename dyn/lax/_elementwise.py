"""Raw elementwise operations, by ``jax.lax``'s names: operands of one dtype and shape, and nothing is converted.

Python numbers and dims take the dtype of the arrays beside them, and 0-d arrays their shape. ``dyn.numpy`` has the
functions that convert and broadcast.

This file is longer than most: half of it says what each function takes and gives.
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
from dyn.trace.lift import dtype_of
from dyn.trace.tracer import Tracer


class RoundingMethod(IntEnum):
    """Rounding of halves by :func:`round`, by JAX's names.

    Attributes:
        AWAY_FROM_ZERO: 2.5 is 3.
        TO_NEAREST_EVEN: 2.5 is 2.
    """

    AWAY_FROM_ZERO = 0
    TO_NEAREST_EVEN = 1


#: Dtypes that operations take, as their docstrings say it.
_ANY = "any dtype"
_FLOAT = "any float dtype"
_INEXACT = "any float or complex dtype"
_NUMBER = "any dtype but bool"
_REAL = "any real dtype"
_REAL_NUMBER = "any real dtype but bool"
_INTEGER = "any integer dtype"
_BITS = "any integer dtype, or bool"


def _one(
    name: str, public: str, takes: str, text: str, gives: str = "and dtype of ``x``"
) -> Callable[[ArrayLike], Array]:
    """The op ``name`` of one array: a row of the table below, which the docstring is made of too."""

    def fn(x: ArrayLike) -> Array:
        return elementwise(name, public, x)

    fn.__name__ = fn.__qualname__ = public
    fn.__doc__ = f"""{text}

    Args:
        x: array of {takes}, of any shape; nothing is converted.

    Returns:
        An array of the shape {gives}.

    Raises:
        UnsupportedOpError: if ``x`` has another dtype.
    """
    return raw(fn)


def _two(
    name: str, public: str, takes: str, text: str, gives: str = "and dtype of both", **attrs: Any
) -> Callable[[ArrayLike, ArrayLike], Array]:
    """The op ``name`` of two arrays: a row of the table below, which the docstring is made of too."""

    def fn(x: ArrayLike, y: ArrayLike) -> Array:
        return elementwise(name, public, x, y, **attrs)

    fn.__name__ = fn.__qualname__ = public
    fn.__doc__ = f"""{text}

    Args:
        x: array of {takes}; a Python number or a dimension takes the dtype of the other, a 0-d array its shape.
        y: array of the same shape and dtype, likewise: nothing is converted or broadcast.

    Returns:
        An array of the shape {gives}.

    Raises:
        UnsupportedOpError: if the dtypes differ, or are others.
        ShapeError: if the shapes differ: at once where that is proved, otherwise when called.
    """
    return raw(fn)


abs = _one(
    "abs",
    "abs",
    _NUMBER,
    "Absolute value, element by element.",
    "of ``x``, in its dtype, of complex numbers in the float dtype of their parts",
)
acos = _one(
    "acos", "acos", _FLOAT, "Angle in [0, pi] whose cosine is ``x``, element by element; NaN outside of [-1, 1]."
)
acosh = _one(
    "acosh", "acosh", _FLOAT, "Number of 0 or more whose hyperbolic cosine is ``x``, element by element; NaN below 1."
)
asin = _one(
    "asin", "asin", _FLOAT, "Angle in [-pi/2, pi/2] whose sine is ``x``, element by element; NaN outside of [-1, 1]."
)
asinh = _one("asinh", "asinh", _FLOAT, "Number whose hyperbolic sine is ``x``, element by element.")
atan = _one("atan", "atan", _FLOAT, "Angle in [-pi/2, pi/2] whose tangent is ``x``, element by element.")
atanh = _one("atanh", "atanh", _FLOAT, "Number whose hyperbolic tangent is ``x``; infinite at -1 and 1, NaN beyond.")
bitwise_not = _one("not", "bitwise_not", _BITS, "Each bit turned round, element by element; of booleans the negation.")
cbrt = _one("cbrt", "cbrt", _FLOAT, "Cube root, element by element, of negative numbers too.")
ceil = _one("ceil", "ceil", _FLOAT, "Round up to a whole number, element by element.")
clz = _one(
    "count_leading_zeros",
    "clz",
    _INTEGER,
    "Number of bits above the highest that is set, element by element; of 0 all bits.",
)
cos = _one("cosine", "cos", _INEXACT, "Cosine of angles in radians, element by element.")
cosh = _one("cosh", "cosh", _FLOAT, "Hyperbolic cosine, element by element.")
digamma = _one("digamma", "digamma", _FLOAT, "Derivative of ``lgamma``, element by element; NaN at 0, -1, -2, …")
erf = _one("erf", "erf", _FLOAT, "Error function, element by element.")
erf_inv = _one(
    "erf_inv",
    "erf_inv",
    _FLOAT,
    "Inverse of the error function, within 4 units (``jax.lax.erf_inv``: 65); infinite at -1 and 1, NaN beyond.",
)
erfc = _one("erfc", "erfc", _FLOAT, "``1 - erf(x)``, element by element, precise where that is near 0.")
exp = _one("exponential", "exp", _INEXACT, "Exponential ``e ** x``, element by element.")
expm1 = _one("exponential_minus_one", "expm1", _INEXACT, "``exp(x) - 1``, element by element, precise near 0 too.")
floor = _one("floor", "floor", _FLOAT, "Round down to a whole number, element by element.")
is_finite = _one(
    "is_finite",
    "is_finite",
    _FLOAT,
    "Tell of each element whether it is neither infinite nor NaN.",
    "of ``x``, of booleans",
)
lgamma = _one("lgamma", "lgamma", _FLOAT, "Logarithm of the absolute value of the gamma function, element by element.")
log = _one("log", "log", _INEXACT, "Natural logarithm, element by element: -inf at 0, NaN of real numbers below.")
log1p = _one("log_plus_one", "log1p", _INEXACT, "``log(1 + x)``, element by element, precise near 0 too.")
logistic = _one("logistic", "logistic", _INEXACT, "``1 / (1 + exp(-x))``, element by element, without overflow.")
neg = _one("negate", "neg", _NUMBER, "``-x``, element by element; unsigned integers wrap around.")
population_count = _one("popcnt", "population_count", _INTEGER, "Number of bits that are set, element by element.")
rsqrt = _one("rsqrt", "rsqrt", _INEXACT, "``1 / sqrt(x)``, element by element: inf at 0.")
sign = _one(
    "sign", "sign", _NUMBER, "-1, 0 or 1, element by element; NaN where ``x`` is; of complex numbers ``x / abs(x)``."
)
sin = _one("sine", "sin", _INEXACT, "Sine of angles in radians, element by element.")
sinh = _one("sinh", "sinh", _FLOAT, "Hyperbolic sine, element by element.")
sqrt = _one("sqrt", "sqrt", _INEXACT, "Square root, element by element: NaN of real numbers below 0.")
tan = _one("tan", "tan", _INEXACT, "Tangent of angles in radians, element by element.")
tanh = _one("tanh", "tanh", _INEXACT, "Hyperbolic tangent, element by element.")

add = _two("add", "add", _NUMBER, "``x + y``, element by element; integers wrap around.")
atan2 = _two(
    "atan2", "atan2", _FLOAT, "Angle of the point (``y``, ``x``) from the first axis, in [-pi, pi], element by element."
)
bitwise_and = _two("and", "bitwise_and", _BITS, "``x & y``, bit by bit.")
bitwise_or = _two("or", "bitwise_or", _BITS, "``x | y``, bit by bit.")
bitwise_xor = _two("xor", "bitwise_xor", _BITS, "``x ^ y``, bit by bit.")
complex = _two(
    "complex",
    "complex",
    "float32 or float64",
    "Complex numbers of their real and imaginary parts.",
    "of both: complex64, or of float64 complex128",
)
div = _two(
    "divide",
    "div",
    _NUMBER,
    "``x / y``, element by element; of integers towards zero, and -1, all bits set, where ``y`` is 0.",
)
eq = _two(
    "compare",
    "eq",
    _ANY,
    "``x == y``, element by element; false where either is NaN.",
    "of both, of booleans",
    direction="EQ",
)
ge = _two(
    "compare",
    "ge",
    _REAL,
    "``x >= y``, element by element; false where either is NaN.",
    "of both, of booleans",
    direction="GE",
)
gt = _two(
    "compare",
    "gt",
    _REAL,
    "``x > y``, element by element; false where either is NaN.",
    "of both, of booleans",
    direction="GT",
)
le = _two(
    "compare",
    "le",
    _REAL,
    "``x <= y``, element by element; false where either is NaN.",
    "of both, of booleans",
    direction="LE",
)
lt = _two(
    "compare",
    "lt",
    _REAL,
    "``x < y``, element by element; false where either is NaN.",
    "of both, of booleans",
    direction="LT",
)
max = _two("maximum", "max", _REAL_NUMBER, "Greater one of two, element by element; NaN where either is.")
min = _two("minimum", "min", _REAL_NUMBER, "Lesser one of two, element by element; NaN where either is.")
mul = _two("multiply", "mul", _NUMBER, "``x * y``, element by element; integers wrap around.")
ne = _two(
    "compare",
    "ne",
    _ANY,
    "``x != y``, element by element; true where either is NaN.",
    "of both, of booleans",
    direction="NE",
)
nextafter = _two("next_after", "nextafter", _FLOAT, "Next float after ``x`` towards ``y``, element by element.")
rem = _two(
    "remainder",
    "rem",
    _REAL_NUMBER,
    "Remainder of ``x / y``, with the sign of ``x``; of integers ``x`` itself where ``y`` is 0.",
)
shift_left = _two(
    "shift_left",
    "shift_left",
    _INTEGER,
    "``x << y``, element by element; 0 where ``y`` is negative, or the number of bits or more.",
)
shift_right_arithmetic = _two(
    "shift_right_arithmetic",
    "shift_right_arithmetic",
    _INTEGER,
    "``x >> y``, element by element; the sign comes in from the left.",
)
shift_right_logical = _two(
    "shift_right_logical",
    "shift_right_logical",
    _INTEGER,
    "``x >> y``, element by element; zeros come in from the left.",
)
sub = _two("subtract", "sub", _NUMBER, "``x - y``, element by element; integers wrap around.")


@raw
def pow(x: ArrayLike, y: ArrayLike) -> Array:
    """``x ** y``, element by element; a float base may have an integer exponent.

    Args:
        x: array of any dtype but bool, of any shape; nothing is converted.
        y: array of the same shape and of the same dtype, or of integers beside floats or complex numbers; or a number.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        UnsupportedOpError: if the dtypes do not go together.
        ShapeError: if the shapes differ: at once where that is proved, otherwise when called.

    Example:
        >>> lax.pow(np.array([2.0, 3.0]), np.array([3, 2]))
        array([8., 9.])
    """
    trace = trace_of(x, y)
    base, exponent = (lifted("pow", trace, v) for v in (x, y))
    if base.dtype.is_inexact and exponent.dtype.is_integer and not exponent.type.weak:
        exponent = trace.emit("convert", exponent, dtype=base.dtype)
    return elementwise("power", "pow", Tracer(trace, base), Tracer(trace, exponent))


@raw
def integer_pow(x: ArrayLike, y: int) -> Array:
    """``x ** y`` for a Python integer ``y``.

    Args:
        x: array of any dtype but bool, of any shape; nothing is converted.
        y: an int; of integers a negative one gives 0, but of 1 and -1.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        UnsupportedOpError: if ``x`` has another dtype.

    Example:
        >>> lax.integer_pow(np.array([2.0, 3.0]), -1)
        array([0.5       , 0.33333333])
    """
    return elementwise("power", "integer_pow", x, int(y))


@raw
def square(x: ArrayLike) -> Array:
    """``x * x``, element by element; integers wrap around.

    Args:
        x: array of any dtype but bool, of any shape; nothing is converted.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        UnsupportedOpError: if ``x`` has another dtype.
    """
    return elementwise("multiply", "square", x, x)


@raw
def reciprocal(x: ArrayLike) -> Array:
    """``1 / x``, element by element; of integers towards zero, and -1 of 0.

    Args:
        x: array of any dtype but bool, of any shape; nothing is converted.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        UnsupportedOpError: if ``x`` has another dtype.
    """
    trace = trace_of(x)
    value = lifted("reciprocal", trace, x)
    a = Arithmetic(trace.builder)
    return Tracer(trace, trace.emit("divide", a.fill(value, 1), value))


@raw
def exp2(x: ArrayLike) -> Array:
    """``2 ** x``, element by element.

    Args:
        x: array of any float or complex dtype; nothing is converted.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        UnsupportedOpError: if ``x`` has another dtype.
    """
    return elementwise("power", "exp2", 2.0, x)


@raw
def round(x: ArrayLike, rounding_method: RoundingMethod = RoundingMethod.AWAY_FROM_ZERO) -> Array:
    """Round to the nearest whole number, element by element.

    Args:
        x: array of any float dtype; nothing is converted.
        rounding_method: rounding of halves: away from zero, where ``dyn.numpy.round`` takes the even ones, or to even
            ones.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        UnsupportedOpError: if ``x`` has another dtype.

    Example:
        >>> lax.round(np.array([0.5, 1.5])), lax.round(np.array([0.5, 1.5]), lax.RoundingMethod.TO_NEAREST_EVEN)
        (array([1., 2.]), array([0., 2.]))
    """
    even = rounding_method == RoundingMethod.TO_NEAREST_EVEN
    return elementwise("round_nearest_even" if even else "round_nearest_afz", "round", x)


@raw
def real(x: ArrayLike) -> Array:
    """Real parts of complex numbers.

    Args:
        x: array of complex64 or complex128.

    Returns:
        An array of the shape of ``x``, of float32 or float64.

    Raises:
        UnsupportedOpError: if ``x`` has another dtype.
    """
    return elementwise("real", "real", x)


@raw
def imag(x: ArrayLike) -> Array:
    """Imaginary parts of complex numbers.

    Args:
        x: array of complex64 or complex128.

    Returns:
        An array of the shape of ``x``, of float32 or float64.

    Raises:
        UnsupportedOpError: if ``x`` has another dtype.
    """
    return elementwise("imag", "imag", x)


@raw
def conj(x: ArrayLike) -> Array:
    """Complex conjugate, element by element; of floats complex numbers without an imaginary part.

    Args:
        x: array of float32, float64, complex64 or complex128.

    Returns:
        An array of the shape of ``x``, of complex64 or complex128.

    Raises:
        UnsupportedOpError: if ``x`` has another dtype.
    """
    trace = trace_of(x)
    value = settled(trace, lifted("conj", trace, x))
    if value.dtype.kind is not Kind.COMPLEX:
        zero = Arithmetic(trace.builder).fill(value, 0)
        return Tracer(trace, trace.emit("complex", value, zero))
    parts = trace.emit("real", value), trace.emit("negate", trace.emit("imag", value))
    return Tracer(trace, trace.emit("complex", *parts))


@raw
def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """Elements held between two bounds.

    Args:
        min: lower bound: a scalar, or an array of the shape of ``x``.
        x: array of any real dtype but bool.
        max: upper bound: a scalar, or an array of the shape of ``x``; it counts where it is the lesser one.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        UnsupportedOpError: if the dtypes differ, or are others.
        ShapeError: if a bound has another shape.

    Example:
        >>> lax.clamp(0.0, np.array([-1.0, 0.5, 2.0]), 1.0)
        array([0. , 0.5, 1. ])
    """
    trace = trace_of(min, x, max)
    return Tracer(trace, trace.emit("clamp", *lifted_all("clamp", trace, (min, x, max))))


@raw
def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Elements of one array where a condition is true, and of another elsewhere.

    Args:
        pred: array of booleans, or a scalar.
        on_true: array of any dtype.
        on_false: array of the same shape and dtype.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if the dtypes differ, or ``pred`` is not of booleans.
        ShapeError: if the shapes differ: at once where that is proved, otherwise when called.

    Example:
        >>> lax.select(np.array([True, False]), np.array([1, 2]), np.array([3, 4]))
        array([1, 4])
    """
    trace = trace_of(pred, on_true, on_false)
    flag, pair = lifted("select", trace, pred), lifted_all("select", trace, (on_true, on_false))
    return Tracer(trace, trace.emit("select", *one_shape(trace, [flag, *pair])))


@raw
def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Elements of the case that a number names, element by element.

    Args:
        which: array of booleans, for two cases, of which the second counts where it is true; or of int32, and the
            nearest case counts where it names none.
        *cases: arrays of one shape and dtype.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if the dtypes differ.
        ShapeError: if the shapes differ: at once where that is proved, otherwise when called.

    Example:
        >>> lax.select_n(np.array([True, False]), np.array([1, 2]), np.array([3, 4]))
        array([3, 2])
    """
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
    """Array in another dtype, as ``x.astype`` converts it.

    Args:
        operand: array of any dtype.
        new_dtype: dtype of the result; of complex numbers to a real one the real parts are taken.

    Returns:
        An array of the shape of ``operand``.

    Raises:
        UnsupportedOpError: if dyn has no such dtype.

    Example:
        >>> lax.convert_element_type(np.array([1.7, -1.7]), np.int32)
        array([ 1, -1], dtype=int32)
    """
    trace = trace_of(operand)
    value, to = lifted("convert_element_type", trace, operand), dtype_of(new_dtype)
    if value.dtype.kind is Kind.COMPLEX and to.kind is not Kind.COMPLEX:
        value = trace.emit("real", value)
    return Tracer(trace, trace.emit("convert", value, dtype=to))


@raw
def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """Bits of an array as numbers of another dtype, as in ``jax.lax.bitcast_convert_type``.

    Args:
        operand: array of any dtype but bool and complex ones, unless the dtype stays.
        new_dtype: dtype of the result. A narrower one makes several numbers of each, along a new last axis, lowest bits
            first; a wider one joins the last axis.

    Returns:
        An array of ``new_dtype``.

    Raises:
        ShapeError: if the last axis has not as many elements as go into one, at the call at the latest.
        UnsupportedOpError: if one dtype is bool or complex.

    Example:
        >>> lax.bitcast_convert_type(np.float32(1), np.int32)
        array(1065353216, dtype=int32)
    """
    trace = trace_of(operand)
    value, to = settled(trace, lifted("bitcast_convert_type", trace, operand)), dtype_of(new_dtype)
    if value.dtype is to:
        return Tracer(trace, value)
    name = "bitcast_convert" if value.dtype.bits == to.bits else "bitcast_regroup"
    return Tracer(trace, trace.emit(name, value, dtype=to))


@raw
def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Nearest float with fewer bits, in the same dtype; there are no denormal numbers.

    Args:
        operand: array of any float dtype.
        exponent_bits: bits of the exponent, an int of 1 or more.
        mantissa_bits: bits of the mantissa, an int of 0 or more.

    Returns:
        An array of the shape and dtype of ``operand``.

    Raises:
        UnsupportedOpError: if ``operand`` is not of floats.

    Example:
        >>> lax.reduce_precision(np.array([1 / 3]), 8, 7)
        array([0.33398438])
    """
    attrs = {"exponent_bits": int(exponent_bits), "mantissa_bits": int(mantissa_bits)}
    return elementwise("reduce_precision", "reduce_precision", operand, **attrs)


@raw
def polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    """Derivative of ``digamma``, of order 0 or 1.

    Args:
        m: 0 or 1, a Python number.
        x: array of any float dtype.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        NotYetError: if ``m`` is another one.
    """
    if isinstance(m, int | float) and m in (0, 1):
        return elementwise("trigamma" if m else "digamma", "polygamma", x)
    raise NotYetError(f"polygamma of the order {m} comes later.", loc=user_loc(), remedy="use the order 0 or 1.")


def _later(name: str) -> Callable[..., Any]:
    def fn(*args: Any, **kwargs: Any) -> Any:
        raise NotYetError(f"{name} comes later.", loc=user_loc(), remedy="compute it outside of the compiled function.")

    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = f"""Not there yet: ``jax.lax.{name}`` comes later.

    Args:
        *args: anything.
        **kwargs: anything.

    Returns:
        Nothing.

    Raises:
        NotYetError: always.
    """
    return fn


bessel_i0e, bessel_i1e = _later("bessel_i0e"), _later("bessel_i1e")
betainc, igamma, igammac = _later("betainc"), _later("igamma"), _later("igammac")
zeta = _later("zeta")


def rng_uniform(a: ArrayLike, b: ArrayLike, shape: Any) -> Array:
    """Not there: XLA's generator has a state that nobody passes to it, so the same call gives other numbers each time.

    Args:
        a: lower bound.
        b: upper bound.
        shape: shape of the result.

    Returns:
        Nothing.

    Raises:
        UnsupportedOpError: always; ``dyn.random.uniform`` draws from a key.
    """
    raise UnsupportedOpError(
        "rng_uniform has a state that nobody passes to it: compiled programs have none.",
        loc=user_loc(),
        remedy="use dyn.random.uniform(key, shape, minval=a, maxval=b).",
    )
