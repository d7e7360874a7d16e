"""Functions of one array, element by element. Shapes stay; a Python number or a dimension gives a 0-d array.

Functions that are not exact on integers compute in the default float dtype (float32, see ``dyn.config``) when they are
given integers or booleans.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import ArgumentError, UnsupportedOpError
from dyn.numpy._broadcast import elementwise
from dyn.numpy._operands import cast, emit, like, promote, shape_of, to_float
from dyn.numpy._options import whole_number
from dyn.numpy._public import Array, ArrayLike, public
from dyn.numpy._slopes import with_slopes
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = [
    "abs", "absolute", "angle", "around", "cbrt", "ceil", "conj", "conjugate", "exp", "exp2", "expm1", "fabs", "floor",
    "imag", "log", "log10", "log1p", "log2", "negative", "positive", "real", "reciprocal", "rint", "round", "sign",
    "sqrt", "square", "trunc",
]  # fmt: skip


def one_op(
    module: str, name: str, op: str, summary: str, *, takes_complex: bool = True, example: str
) -> Callable[[ArrayLike], Array]:
    """A public function of floats that is one op: a row of a table, which its docstring is made of too."""

    def fn(x: ArrayLike, /) -> Array:
        return elementwise(op, name, x, choose=to_float)

    fn.__name__ = fn.__qualname__ = name
    fn.__module__ = module
    lines = [summary, "", "Args:"]
    lines += [f"    x: array of any {'' if takes_complex else 'real '}dtype, of any shape.", "", "Returns:"]
    lines += ["    An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype."]
    lines += [] if takes_complex else ["", "Raises:", "    UnsupportedOpError: if ``x`` is complex."]
    fn.__doc__ = "\n".join([*lines, "", "Example:", *[f"    {line}" for line in example.splitlines()]])
    return public(fn)


def _one(what: str, x: ArrayLike) -> Tracer:
    (value,) = promote(what, x)
    return value


def small_int(dtype: DType) -> DType:
    """The dtype that NumPy computes with where booleans are numbers: int8."""
    return dtypes.int8 if dtype.kind is Kind.BOOL else dtype


def _not_bool(what: str, x: ArrayLike, remedy: str) -> Tracer:
    value = _one(what, x)
    if value.element_type.kind is Kind.BOOL:
        raise UnsupportedOpError(f"{what} does not take booleans.", loc=user_loc(), remedy=remedy)
    return value


#: The greatest power of 10 that is a float.
_MOST_DECIMALS = 308


def filled(x: Tracer, value: bool | int | float) -> Tracer:
    """``value`` in the shape and dtype of ``x``."""
    scalar = like(x, value)
    shape = shape_of(x)
    return emit("broadcast_in_dim", scalar, shape=shape, dims=()) if shape else scalar


def flag(direction: str, x: Tracer, value: bool | int | float) -> Tracer:
    """Tell whether each element compares with a number."""
    return emit("compare", x, filled(x, value), direction=direction)


def composed(formula: Callable[..., Tracer], *values: Tracer) -> Tracer:
    """A formula of several ops; of 16-bit floats in float32, rounded once at its end."""
    dtype = values[0].element_type
    if not dtype.is_narrow:
        return formula(*values)
    wide = [cast(v, dtypes.float32, weak=v.weak) for v in values]
    return cast(formula(*wide), dtype, weak=all_weak(values))


def all_weak(values: Sequence[Tracer]) -> bool:
    return builtins.all(v.weak for v in values)


def real_float(what: str, *values: ArrayLike) -> list[Tracer]:
    """Operands of one float dtype; UnsupportedOpError for complex ones."""
    operands = promote(what, *values, choose=to_float)
    if operands[0].element_type.kind is Kind.COMPLEX:
        raise UnsupportedOpError(
            f"{what} does not take complex arrays.",
            loc=user_loc(),
            remedy="pass their real parts, imaginary parts or absolute values.",
        )
    return operands


# ---- exponentials and logarithms -------------------------------------------------------------------------------------


exp = one_op(
    __name__, "exp", "exponential", "Exponential ``e ** x``, element by element: inf where it overflows.",
    example=">>> dnp.exp(np.array([0.0, 1.0]))\narray([1.        , 2.71828183])",
)  # fmt: skip
expm1 = one_op(
    __name__, "expm1", "exponential_minus_one", "``exp(x) - 1``, element by element, precise near 0 too.",
    example=">>> dnp.expm1(np.array([0.0, 1e-10]))\narray([0.e+00, 1.e-10])",
)  # fmt: skip


@public
def exp2(x: ArrayLike, /) -> Array:
    """``2 ** x``, element by element.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Example:
        >>> dnp.exp2(np.array([3, -1]))
        array([8. , 0.5], dtype=float32)
    """
    (value,) = promote("exp2", x, choose=to_float)
    return emit("power", filled(value, 2), value)


log = one_op(
    __name__, "log", "log", "Natural logarithm, element by element: -inf at 0, NaN of real numbers below.",
    example=">>> dnp.log(np.array([1.0, 0.0]))\narray([  0., -inf])",
)  # fmt: skip
log1p = one_op(
    __name__, "log1p", "log_plus_one", "``log(1 + x)``, element by element, precise near 0 too: -inf at -1, NaN below.",
    example=">>> dnp.log1p(np.array([0.0, 1e-10]))\narray([0.e+00, 1.e-10])",
)  # fmt: skip


#: Of float32 and float64: the integers of that width, the fraction's bits, the exponent's bias, the bits of sqrt(1/2),
#: and of two powers of two the logarithms: below the first numbers are multiplied by the second, as denormals need it.
_FIELDS = {
    dtypes.float32: (dtypes.int32, 23, 127, 0x3F3504F3, -60.0, 64.0),
    dtypes.float64: (dtypes.int64, 52, 1023, 0x3FE6A09E667F3BCD, -500.0, 560.0),
}


def _log2(x: Tracer) -> Tracer:
    """The exponent, and the logarithm of a mantissa around 1: exact for powers of two.

    The mantissa is a product with a power of two, and not cut out of the bits: of denormal numbers too it is whole.
    """
    pattern, digits, bias, root, low, lift = _FIELDS[x.element_type]
    ordinary = emit("and", emit("is_finite", x), flag("GT", x, 0.0))
    safe = emit("select", ordinary, x, filled(x, 1.0))
    tiny = flag("LT", safe, 2.0**low)
    # Others are made smaller: the greatest numbers' inverse is denormal.
    normal = emit("multiply", safe, emit("select", tiny, filled(x, 2.0**lift), filled(x, 0.25)))
    bits = emit("bitcast_convert", normal, dtype=pattern)
    shift = filled(bits, digits)
    exponent = emit("shift_right_arithmetic", emit("subtract", bits, filled(bits, root)), shift)
    inverse = emit("shift_left", emit("subtract", filled(bits, bias), exponent), shift)
    part = emit("log", emit("multiply", normal, emit("bitcast_convert", inverse, dtype=x.element_type)))
    whole = emit("subtract", cast(exponent, x.element_type), emit("select", tiny, filled(x, lift), filled(x, -2.0)))
    result = emit("add", whole, emit("multiply", part, filled(part, 1 / math.log(2.0))))
    return emit("select", ordinary, result, emit("log", x))


def _slope_of_log2(x: Tracer) -> tuple[Tracer]:
    return (emit("divide", filled(x, 1 / math.log(2.0)), x),)


@public
def log2(x: ArrayLike, /) -> Array:
    """Logarithm to base 2, element by element, exact for powers of two: -inf at 0, NaN below.

    The exponent is taken out of the bits, and the logarithm of a mantissa around 1 is added to it.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Example:
        >>> dnp.log2(np.array([8.0, 0.5]))
        array([ 3., -1.])
    """
    (value,) = promote("log2", x, choose=to_float)
    if value.element_type.kind is Kind.COMPLEX:
        return _over(emit("log", value), math.log(2.0))
    return cast(composed(lambda v: with_slopes(_log2, _slope_of_log2, v), value), value.element_type, weak=value.weak)


def _over(x: Tracer, divisor: float) -> Tracer:
    return emit("divide", x, filled(x, divisor))


@public
def log10(x: ArrayLike, /) -> Array:
    """Logarithm to base 10, element by element: -inf at 0, NaN below.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Example:
        >>> dnp.log10(np.array([100.0, 0.1]))
        array([ 2., -1.])
    """
    (value,) = promote("log10", x, choose=to_float)
    return composed(lambda v: _over(emit("log", v), math.log(10.0)), value)


# ---- roots and powers ------------------------------------------------------------------------------------------------


sqrt = one_op(
    __name__, "sqrt", "sqrt", "Square root, element by element: NaN of real numbers below 0.",
    example=">>> dnp.sqrt(np.array([4.0, 9.0]))\narray([2., 3.])",
)  # fmt: skip
cbrt = one_op(
    __name__, "cbrt", "cbrt", "Cube root, element by element, of negative numbers too.", takes_complex=False,
    example=">>> dnp.cbrt(np.array([27.0, -8.0]))\narray([ 3., -2.])",
)  # fmt: skip


@public
def square(x: ArrayLike, /) -> Array:
    """``x * x``, element by element.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape and dtype of ``x``, int8 of booleans; integers wrap around.

    Example:
        >>> dnp.square(np.array([-3, 2]))
        array([9, 4])
    """
    (value,) = promote("square", x, choose=small_int)
    return emit("multiply", value, value)


@public
def reciprocal(x: ArrayLike, /) -> Array:
    """``1 / x``, element by element.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape and dtype of ``x``, int8 of booleans: of integers the whole part, as in NumPy, and 0 of 0.

    Example:
        >>> dnp.reciprocal(np.array([4.0, 0.5]))
        array([0.25, 2.  ])
    """
    (value,) = promote("reciprocal", x, choose=small_int)
    return emit("divide", filled(value, 1), value)


# ---- signs and rounding ----------------------------------------------------------------------------------------------


@public
def negative(x: ArrayLike, /) -> Array:
    """``-x``, element by element.

    Args:
        x: array of any dtype but bool, of any shape.

    Returns:
        An array of the shape and dtype of ``x``; unsigned integers wrap around.

    Raises:
        UnsupportedOpError: if ``x`` is of booleans.

    Example:
        >>> dnp.negative(np.array([1, 2], np.uint8))
        array([255, 254], dtype=uint8)
    """
    return emit("negate", _not_bool("negative", x, "use dyn.numpy.logical_not."))


@public
def positive(x: ArrayLike, /) -> Array:
    """``+x``: the array as it is.

    Args:
        x: array of any dtype but bool, of any shape.

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        UnsupportedOpError: if ``x`` is of booleans.
    """
    return _not_bool("positive", x, "convert them with .astype first.")


@public
def abs(x: ArrayLike, /) -> Array:
    """Absolute value, element by element.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of complex numbers in the float dtype of their parts. The least
        signed integer stays as it is.

    Example:
        >>> dnp.abs(np.array([-1.5, 2.0]))
        array([1.5, 2. ])
        >>> dnp.abs(np.array([3 + 4j]))
        array([5.])
    """
    value = _one("abs", x)
    return value if value.element_type.kind in (Kind.BOOL, Kind.UINT) else emit("abs", value)


absolute = abs


@public
def fabs(x: ArrayLike, /) -> Array:
    """Absolute value as a float, element by element.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in its dtype; of integers and booleans in the default float dtype.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.fabs(np.array([-3, 2]))
        array([3., 2.], dtype=float32)
    """
    (value,) = real_float("fabs", x)
    return emit("abs", value)


@public
def sign(x: ArrayLike, /) -> Array:
    """The sign of each element: -1, 0 or 1; of complex numbers ``x / abs(x)``.

    Args:
        x: array of any dtype but bool.

    Returns:
        An array of the shape and dtype of ``x``: NaN where ``x`` is, and 0 for -0, where ``dyn.lax.sign`` gives -0.

    Raises:
        UnsupportedOpError: if ``x`` is of booleans.
    """
    found = emit("sign", _not_bool("sign", x, "convert them with .astype first."))
    if found.element_type.kind not in (Kind.FLOAT, Kind.COMPLEX):
        return found
    return emit("select", flag("EQ", found, 0), filled(found, 0), found)  # XLA takes x + 0 for x, of -0 too


def _rounded(name: str, what: str, x: ArrayLike) -> Tracer:
    value = _no_complex(what, x)
    return value if not value.element_type.is_float else emit(name, value)


def _of_parts(rounded: Callable[[Tracer], Array], z: Tracer) -> Tracer:
    """Both parts of complex numbers, rounded."""
    return emit("complex", rounded(emit("real", z)), rounded(emit("imag", z)))


def _no_complex(what: str, x: ArrayLike) -> Tracer:
    value = _one(what, x)
    if value.element_type.kind is Kind.COMPLEX:
        raise UnsupportedOpError(
            f"{what} does not take complex arrays.", loc=user_loc(), remedy="round their real and imaginary parts."
        )
    return value


@public
def floor(x: ArrayLike, /) -> Array:
    """Round down to a whole number, element by element.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape and dtype of ``x``. Integers and booleans stay as they are.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.floor(np.array([-1.5, 1.5]))
        array([-2.,  1.])
    """
    return _rounded("floor", "floor", x)


@public
def ceil(x: ArrayLike, /) -> Array:
    """Round up to a whole number, element by element.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape and dtype of ``x``. Integers and booleans stay as they are.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.ceil(np.array([-1.5, 1.5]))
        array([-1.,  2.])
    """
    return _rounded("ceil", "ceil", x)


@public
def rint(x: ArrayLike, /) -> Array:
    """Round to the nearest whole number, and to the even one of two that are as near.

    Args:
        x: array of any dtype.

    Returns:
        An array of the shape of ``x``, of its dtype where that is float or complex (each part by itself), else of the
        default float dtype.
    """
    (value,) = promote("rint", x, choose=to_float)
    if value.element_type.kind is Kind.COMPLEX:
        return _of_parts(rint, value)
    return _rounded("round_nearest_even", "rint", value)


@public
def trunc(x: ArrayLike, /) -> Array:
    """Round towards 0 to a whole number, element by element.

    Args:
        x: array of any real dtype, of any shape.

    Returns:
        An array of the shape and dtype of ``x``. Integers and booleans stay as they are.

    Raises:
        UnsupportedOpError: if ``x`` is complex.

    Example:
        >>> dnp.trunc(np.array([-1.5, 1.5]))
        array([-1.,  1.])
    """
    value = _no_complex("trunc", x)
    if not value.element_type.is_float:
        return value
    below = emit("compare", value, filled(value, 0), direction="LT")
    return emit("select", below, emit("ceil", value), emit("floor", value))


@public
def round(x: ArrayLike, /, decimals: int = 0) -> Array:
    """Round to a number of decimals, and to the even one of two numbers that are as near.

    As NumPy computes it: ``x`` is multiplied by ``10**decimals``, rounded to whole numbers, and divided again.

    Args:
        x: array of any dtype but bool; of complex numbers each part is rounded.
        decimals: places behind the point; negative: rounds to tens, hundreds, …

    Returns:
        An array of the shape and dtype of ``x``.

    Raises:
        ArgumentError: if ``decimals`` is no integer, or beyond 308.
    """
    decimals = whole_number("round", "decimals", decimals)
    value = _one("round", x)
    if value.element_type.kind is Kind.COMPLEX:
        return _of_parts(lambda part: round(part, decimals), value)
    if decimals == 0 or (value.element_type.is_integer and decimals > 0):
        return _rounded("round_nearest_even", "round", value)
    if value.element_type.is_integer:
        return cast(round(cast(value, dtypes.float64), decimals), value.element_type)
    if builtins.abs(decimals) > _MOST_DECIMALS:
        raise ArgumentError(
            f"round: decimals is {decimals}, and no float is beyond 1e{_MOST_DECIMALS}.",
            loc=user_loc(),
            remedy=f"pass a number from {-_MOST_DECIMALS} to {_MOST_DECIMALS}.",
        )
    scale = filled(value, 10.0 ** (decimals if decimals > 0 else -decimals))
    there, back = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return emit(back, emit("round_nearest_even", emit(there, value, scale)), scale)


around = round


# ---- parts of complex numbers ----------------------------------------------------------------------------------------


@public
def conj(x: ArrayLike, /) -> Array:
    """Complex conjugate, element by element.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape and dtype of ``x``. A real array is given back as it is.

    Example:
        >>> dnp.conj(np.array([1 + 2j]))
        array([1.-2.j])
    """
    value = _one("conj", x)
    if value.element_type.kind is not Kind.COMPLEX:
        return value
    return emit("complex", emit("real", value), emit("negate", emit("imag", value)))


conjugate = conj


@public
def real(x: ArrayLike, /) -> Array:
    """Real part, element by element.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in the float dtype of complex numbers' parts; a real array is given back as it
        is.
    """
    value = _one("real", x)
    return emit("real", value) if value.element_type.kind is Kind.COMPLEX else value


@public
def imag(x: ArrayLike, /) -> Array:
    """Imaginary part, element by element.

    Args:
        x: array of any dtype, of any shape.

    Returns:
        An array of the shape of ``x``, in the float dtype of complex numbers' parts; zeros in its own dtype of a real
        array.
    """
    value = _one("imag", x)
    return emit("imag", value) if value.element_type.kind is Kind.COMPLEX else filled(value, 0)


@public
def angle(z: ArrayLike, deg: bool = False) -> Array:
    """Angle of each number in the complex plane, counter-clockwise from the positive real axis.

    Args:
        z: array of any dtype, of any shape; real numbers have the angle 0 or pi.
        deg: whether the angle is in degrees rather than in radians.

    Returns:
        An array of the shape of ``z``, in the float dtype of its parts, in [-pi, pi]; of integers in the default float
        dtype.

    Example:
        >>> dnp.angle(np.array([1j, -1.0]), deg=True)
        array([ 90., 180.])
    """
    (value,) = promote("angle", z, choose=to_float)
    if value.element_type.kind is Kind.COMPLEX:
        result = emit("atan2", emit("imag", value), emit("real", value))
    else:
        result = emit("atan2", filled(value, 0.0), value)
    return emit("multiply", result, filled(result, 180 / math.pi)) if deg else result
