"""Arithmetic of two arrays, element by element, with NumPy's broadcasting and promotion.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

from dyn.dtypes import Kind
from dyn.errors import InvalidValueError, UnsupportedOpError
from dyn.numpy._broadcast import align, elementwise
from dyn.numpy._operands import cast, common_dtype, emit, promote, to_float
from dyn.numpy._public import Array, ArrayLike, Exponent, public
from dyn.numpy._slopes import with_slopes
from dyn.numpy._unary import composed, filled, flag, real_float, small_int
from dyn.source import user_loc
from dyn.trace.tracer import Tracer

__all__ = [
    "add", "clip", "divide", "divmod", "float_power", "floor_divide", "fmax", "fmin", "fmod", "heaviside", "hypot",
    "logaddexp", "logaddexp2", "maximum", "minimum", "mod", "multiply", "pow", "power", "remainder", "subtract",
    "true_divide",
]  # fmt: skip

#: Static integer exponents up to this are multiplied out.
_UNROLLED_POWER = 8


def _is_bool(x: Tracer) -> bool:
    return x.element_type.kind is Kind.BOOL


def _numeric(name: str, on_bool: str, what: str, x: ArrayLike, y: ArrayLike) -> Tracer:
    """An op that on booleans is a logical one."""
    a, b = align(what, promote(what, x, y))
    return emit(on_bool if _is_bool(a) else name, a, b)


def _no_bool(what: str, x: ArrayLike, y: ArrayLike) -> tuple[Tracer, Tracer]:
    a, b = align(what, promote(what, x, y))
    if _is_bool(a):
        raise UnsupportedOpError(
            f"{what} does not take two arrays of booleans.", loc=user_loc(), remedy="use logical_xor, or .astype first."
        )
    return a, b


def _small(what: str, x: ArrayLike, y: ArrayLike) -> tuple[Tracer, Tracer]:
    """Operands of one dtype and shape, booleans as int8."""
    a, b = align(what, promote(what, x, y, choose=small_int))
    return a, b


# ---- sums, products, quotients ---------------------------------------------------------------------------------------


@public
def add(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x + y``, element by element; of booleans whether either is true.

    Args:
        x: array of any dtype.
        y: array of any dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype.

    Raises:
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _numeric("add", "or", "add", x, y)


@public
def subtract(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x - y``, element by element.

    Args:
        x: array of any dtype.
        y: array of any dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype.

    Raises:
        UnsupportedOpError: if both are of booleans.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return emit("subtract", *_no_bool("subtract", x, y))


@public
def multiply(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x * y``, element by element; of booleans whether both are true.

    Args:
        x: array of any dtype.
        y: array of any dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype.

    Raises:
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _numeric("multiply", "and", "multiply", x, y)


@public
def true_divide(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x / y``, element by element.

    Args:
        x: array of any dtype.
        y: array of any dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype; of integers and booleans in the
        default float dtype.

    Raises:
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return elementwise("divide", "true_divide", x, y, choose=to_float)


divide = true_divide


@public
def floor_divide(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x // y``, element by element, rounded down as in Python.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype, int8 of two of booleans. Integers
        divided by 0 give 0.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    a, b = _small("floor_divide", x, y)
    if not a.element_type.is_float:
        quotient, off = emit("divide", a, b), _signs_differ(emit("remainder", a, b), b)
        if off is not None:
            quotient = emit("subtract", quotient, cast(off, a.element_type, weak=a.weak))
        return _none_by_zero(quotient, b)
    return with_slopes(_rounded_down, _no_slopes, a, b)


def _rounded_down(a: Tracer, b: Tracer) -> Tracer:
    """``a // b`` of floats. (a - rest) / b is whole but for rounding, as CPython and NumPy compute it."""
    rest = emit("remainder", a, b)
    off = _signs_differ(rest, b)
    assert off is not None
    whole = emit("subtract", emit("divide", emit("subtract", a, rest), b), cast(off, a.element_type, weak=a.weak))
    down = emit("floor", whole)
    up = emit("compare", emit("subtract", whole, down), filled(down, 0.5), direction="GT")
    down = emit("select", up, emit("add", down, filled(down, 1)), down)
    # A zero has the sign of the exact quotient, which is finite here: -1 // -2 is 0.0, and 0 // -2 is -0.0.
    exact = emit("divide", a, b)
    down = emit("select", flag("EQ", down, 0), emit("multiply", exact, filled(down, 0)), down)
    return emit("select", flag("EQ", b, 0), exact, down)


def _no_slopes(a: Tracer, b: Tracer) -> tuple[None, None]:
    """The slopes of steps."""
    return None, None


def _none_by_zero(result: Tracer, divisor: Tracer) -> Tracer:
    """0 where an integer was divided by 0, as in NumPy; ``lax`` has XLA's results there."""
    return emit("select", flag("EQ", divisor, 0), filled(result, 0), result)


def _signs_differ(rest: Tracer, divisor: Tracer) -> Tracer | None:
    """Mark where truncated division rounded up: the rest is not 0, and its sign is not the divisor's."""
    if rest.element_type.kind is Kind.UINT:
        return None
    opposite = emit("xor", flag("LT", rest, 0), flag("LT", divisor, 0))
    return emit("and", flag("NE", rest, 0), opposite)


@public
def remainder(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``x % y``, element by element, with the sign of ``y``, as in Python.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype, int8 of two of booleans. Integers
        modulo 0 give 0.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    a, b = _small("remainder", x, y)
    if not a.element_type.is_float:
        return _none_by_zero(_rest_of(a, b), b)
    return with_slopes(_rest_of_floats, _slopes_of_rest, a, b)


def _rest_of(a: Tracer, b: Tracer) -> Tracer:
    rest = emit("remainder", a, b)
    off = _signs_differ(rest, b)
    return rest if off is None else emit("select", off, emit("add", rest, b), rest)


def _rest_of_floats(a: Tracer, b: Tracer) -> Tracer:
    """``a % b``, of which a zero has the sign of ``b``."""
    zero = emit("select", flag("LT", b, 0), filled(b, -0.0), filled(b, 0.0))
    rest = _rest_of(a, b)
    return emit("select", flag("EQ", rest, 0), zero, rest)


def _slopes_of_rest(a: Tracer, b: Tracer) -> tuple[Tracer, Tracer]:
    return filled(a, 1), emit("negate", with_slopes(_rounded_down, _no_slopes, a, b))


mod = remainder


@public
def divmod(x: ArrayLike, y: ArrayLike, /) -> tuple[Array, Array]:
    """``(x // y, x % y)``, element by element: :func:`floor_divide` and :func:`remainder`.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``.

    Returns:
        Two arrays of the shape that both broadcast to, in their common dtype, int8 of two of booleans.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return floor_divide(x, y), remainder(x, y)


@public
def fmod(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Remainder of a division rounded towards 0, element by element: it has the sign of ``x``, as in C.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype, int8 of two of booleans. Integers
        modulo 0 give 0.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    a, b = _small("fmod", x, y)
    rest = emit("remainder", a, b)
    return rest if a.element_type.is_float else _none_by_zero(rest, b)


# ---- powers ----------------------------------------------------------------------------------------------------------


@public
def power(x: ArrayLike, y: Exponent, /) -> Array:
    """``x ** y``, element by element. Small whole numbers written as such multiply, and 0.5 is a square root.

    Args:
        x: array of any dtype.
        y: array of any dtype that broadcasts with ``x``, or a Python number.

    Returns:
        An array of the shape that both broadcast to, in their common dtype, int8 of two of booleans.

    Raises:
        InvalidValueError: if ``y`` is a negative whole number and ``x`` is of integers, as in NumPy.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    if type(y) in (int, float):
        (base,) = promote("power", x)
        result_of, _ = common_dtype([base, y])
        if not result_of.is_inexact and y < 0:
            raise InvalidValueError(
                f"integers to negative integer powers are not whole: x ** {y}.",
                loc=user_loc(),
                remedy="convert the array with .astype('float32'), or use dyn.numpy.float_power.",
            )
        if result_of.is_inexact or result_of.is_integer:
            value = _static_power(cast(base, result_of, weak=base.weak), y)
            if value is not None:
                return value
    return emit("power", *_small("power", x, y))


def _static_power(x: Tracer, exponent: int | float) -> Tracer | None:
    """``x ** exponent`` by multiplication or roots, where that is as good."""
    if x.element_type.is_float and builtins.abs(exponent) == 0.5:
        return emit("sqrt" if exponent > 0 else "rsqrt", x)
    if builtins.abs(exponent) > _UNROLLED_POWER or not math.isfinite(exponent) or exponent != int(exponent):
        return None
    left = builtins.abs(int(exponent))
    result: Tracer | None = None
    factor = x
    while left:
        if left & 1:
            result = factor if result is None else emit("multiply", result, factor)
        left >>= 1
        if left:
            factor = emit("multiply", factor, factor)
    if result is None:
        return filled(x, 1)
    return emit("divide", filled(x, 1), result) if exponent < 0 else result


@public
def float_power(x: ArrayLike, y: Exponent, /) -> Array:
    """``x ** y`` in floats, element by element.

    Args:
        x: array of any dtype.
        y: array of any dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype; of integers and booleans in the
        default float dtype.

    Raises:
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    if type(y) in (int, float):
        (base,) = promote("float_power", x, choose=to_float)
        return power(base, y)
    base, exponent = promote("float_power", x, y, choose=to_float)
    return power(base, exponent)


pow = power


@public
def hypot(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``sqrt(x * x + y * y)``, element by element, without overflow in between.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype; of integers and booleans in the
        default float dtype.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return composed(lambda a, b: with_slopes(_hypot, _direction, a, b), *align("hypot", real_float("hypot", x, y)))


def _hypot(x: Tracer, y: Tracer) -> Tracer:
    a, b = emit("abs", x), emit("abs", y)
    high, low = emit("maximum", a, b), emit("minimum", a, b)
    # Of (0, 0) and (inf, anything) the quotient has no use.
    plain = emit("or", flag("EQ", high, 0), flag("EQ", high, float("inf")))
    ratio = emit("select", plain, filled(high, 0), emit("divide", low, emit("select", plain, filled(high, 1), high)))
    root = emit("sqrt", emit("add", emit("multiply", ratio, ratio), filled(ratio, 1)))
    either = emit("or", flag("EQ", a, float("inf")), flag("EQ", b, float("inf")))
    return emit("select", either, filled(high, float("inf")), emit("multiply", high, root))


def _direction(x: Tracer, y: Tracer) -> tuple[Tracer, Tracer]:
    """The point on the unit circle in the direction of (``x``, ``y``); of (0, 0), which has none, zeros."""
    length = with_slopes(_hypot, _direction, x, y)
    none = flag("EQ", length, 0)
    safe = emit("select", none, filled(length, 1), length)
    across, up = (emit("select", none, filled(v, 0), emit("divide", v, safe)) for v in (x, y))
    return across, up


@public
def logaddexp(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``log(exp(x) + exp(y))``, element by element, without overflow in between.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype; of integers and booleans in the
        default float dtype.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return composed(
        lambda a, b: with_slopes(_logaddexp, _shares, a, b), *align("logaddexp", real_float("logaddexp", x, y))
    )


def _logaddexp(a: Tracer, b: Tracer) -> Tracer:
    tail = emit("log_plus_one", emit("exponential", emit("negate", emit("abs", _gap(a, b)))))
    return emit("add", emit("maximum", a, b), tail)


def _gap(a: Tracer, b: Tracer) -> Tracer:
    """``a - b``, and 0 where both are the same infinity."""
    endless = flag("EQ", emit("abs", a), float("inf"))
    alike = emit("and", endless, emit("compare", a, b, direction="EQ"))
    return emit("select", alike, filled(a, 0.0), emit("subtract", a, b))


def _shares(a: Tracer, b: Tracer) -> tuple[Tracer, Tracer]:
    """The shares of ``exp(a)`` and of ``exp(b)`` in their sum."""
    gap = _gap(a, b)
    return emit("logistic", gap), emit("logistic", emit("negate", gap))


@public
def logaddexp2(x: ArrayLike, y: ArrayLike, /) -> Array:
    """``log2(2**x + 2**y)``, element by element, without overflow in between.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype; of integers and booleans in the
        default float dtype.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return composed(
        lambda a, b: with_slopes(_logaddexp2, _shares_of_powers, a, b),
        *align("logaddexp2", real_float("logaddexp2", x, y)),
    )


def _logaddexp2(a: Tracer, b: Tracer) -> Tracer:
    gap = emit("negate", emit("abs", _gap(a, b)))
    share = emit("log_plus_one", emit("power", filled(gap, 2.0), gap))
    return emit("add", emit("maximum", a, b), emit("multiply", share, filled(share, 1 / math.log(2))))


def _shares_of_powers(a: Tracer, b: Tracer) -> tuple[Tracer, Tracer]:
    """The shares of ``2**a`` and of ``2**b`` in their sum."""
    gap = _gap(a, b)
    scaled = emit("multiply", gap, filled(gap, math.log(2)))
    return emit("logistic", scaled), emit("logistic", emit("negate", scaled))


# ---- the greater and the less ----------------------------------------------------------------------------------------


@public
def maximum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The greater of each two elements; NaN where either is.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _numeric("maximum", "or", "maximum", x, y)


@public
def minimum(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The less of each two elements; NaN where either is.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _numeric("minimum", "and", "minimum", x, y)


def _ignoring_nan(what: str, name: str, x: ArrayLike, y: ArrayLike) -> Tracer:
    a, b = align(what, promote(what, x, y))
    if not a.element_type.is_float:
        return _numeric(name, "or" if name == "maximum" else "and", what, a, b)
    a_nan, b_nan = (emit("compare", v, v, direction="NE") for v in (a, b))
    return emit("select", a_nan, b, emit("select", b_nan, a, emit(name, a, b)))


@public
def fmax(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The greater of each two elements; NaN only where both are.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _ignoring_nan("fmax", "maximum", x, y)


@public
def fmin(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The less of each two elements; NaN only where both are.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``.

    Returns:
        An array of the shape that both broadcast to, in their common dtype.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    return _ignoring_nan("fmin", "minimum", x, y)


@public
def heaviside(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Step function, element by element: 0 where ``x < 0``, 1 where ``x > 0``, ``y`` where it is 0; NaN stays.

    Args:
        x: array of any real dtype.
        y: array of any real dtype that broadcasts with ``x``: values where ``x`` is 0.

    Returns:
        An array of the shape that both broadcast to, in their common dtype; of integers and booleans in the
        default float dtype.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    a, b = align("heaviside", promote("heaviside", x, y, choose=to_float))
    step = emit("select", flag("LT", a, 0), filled(a, 0), emit("select", flag("GT", a, 0), filled(a, 1), a))
    return emit("select", flag("EQ", a, 0), b, step)


@public
def clip(x: ArrayLike, /, min: Any = None, max: Any = None, *, a_min: Any = None, a_max: Any = None) -> Array:
    """``x`` held between two bounds.

    Args:
        x: array of any real dtype.
        min: least value, an array that broadcasts with ``x``, or None.
        max: greatest value, as ``min``; it is what counts where it is less than ``min``.
        a_min: ``min`` by its name in NumPy.
        a_max: ``max`` by its name in NumPy.

    Returns:
        An array of the shape that all broadcast to, in their common dtype; NaN where one of them is.

    Raises:
        UnsupportedOpError: if one of them is complex.
        ShapeError: if the shapes do not broadcast; at the call where sizes are undecided until then.
    """
    low, high = (a_min if min is None else min), (a_max if max is None else max)
    (value,) = promote("clip", x)
    if low is not None:
        value = maximum(value, low)
    if high is not None:
        value = minimum(value, high)
    return value
