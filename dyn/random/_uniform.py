"""Bits, and what is computed from them by arithmetic alone: uniform floats and integers, and coins.

Each follows the arithmetic of ``jax.random`` step by step, with ``jax_threefry_partitionable`` as it is by default, and
gives the same numbers to the bit, but for two things in which JAX's numbers are not what they are said to be: floats
that round up to their bound, and integers of spans whose products overflow.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType, Kind
from dyn.errors import UnsupportedOpError
from dyn.numpy._axes import shape_in
from dyn.numpy._operands import cast, constant, default_float, emit, shape_of, tracer
from dyn.numpy._public import Array, ArrayLike, DTypeLike, Key, Shape, public
from dyn.numpy._unary import filled, flag
from dyn.random._keys import key_blocks, split_key
from dyn.random._sampler import float_dtype, integer_dtype, one_key, parameter, shape_for, spread_to
from dyn.shapes import Dim
from dyn.source import user_loc
from dyn.trace.context import Trace
from dyn.trace.dims import SymbolicDim
from dyn.trace.lift import dtype_of
from dyn.trace.tracer import Tracer

__all__ = ["bernoulli", "bits", "rademacher", "randint", "uniform"]

_FLOATS = tuple(d for d in dtypes.ALL if d.is_float)
#: Explicit bits of the mantissa.
MANTISSA = {d: d.floating.fraction for d in _FLOATS}
#: The least normal numbers.
TINY = {d: 2.0 ** (1 - d.floating.bias) for d in _FLOATS}


def random_bits(key: Tracer, width: int, shape: tuple[Dim, ...]) -> Tracer:
    """Unsigned integers of 8, 16, 32 or 64 random bits."""
    blocks = key_blocks(key, shape)
    if width == 64:
        return blocks
    upper = cast(emit("shift_right_logical", blocks, filled(blocks, 32)), dtypes.uint32)
    return cast(emit("xor", upper, cast(blocks, dtypes.uint32)), dtypes.UNSIGNED[width])


@public
def bits(key: Key, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """Random bits, as unsigned integers.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        shape: sizes of the result, ints or dimensions, which may be 0.
        dtype: unsigned integer dtype; None: uint32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, or ``dtype`` not an unsigned integer's.
        ShapeError: if ``key`` is not one key, or a size is negative.

    Example:
        >>> dyn.random.bits(dyn.random.key(7), (2,)).dtype
        dtype('uint32')
    """
    value = one_key("bits", key, shape)
    chosen = integer_dtype("bits", dtype, dtypes.uint32)
    return random_bits(value, chosen.bits, shape_in(value._trace, shape, "bits"))


# ---- floats ----------------------------------------------------------------------------------------------------------


def unit_floats(key: Tracer, shape: tuple[Dim, ...], dtype: DType) -> Tracer:
    """Floats in [0, 1): random bits as the mantissa of numbers in [1, 2), less 1."""
    mantissa, pattern = MANTISSA[dtype], dtypes.UNSIGNED[dtype.bits]
    width = dtype.bits if mantissa >= 8 else 8
    drawn = cast(random_bits(key, width, shape), pattern)
    fraction = emit("shift_right_logical", drawn, filled(drawn, width - mantissa))
    one = int(np.ones((), dtype.np).view(pattern.np))
    floats = emit("bitcast_convert", emit("or", fraction, filled(fraction, one)), dtype=dtype)
    return emit("subtract", floats, filled(floats, 1))


def floats_between(
    key: Tracer, shape: tuple[Dim, ...], low: Tracer, high: Tracer, what: str = "uniform", *, reaches: bool = True
) -> Tracer:
    """Floats in [low, high), of their dtype; the two broadcast to ``shape``.

    Where arithmetic ``reaches`` the bound, the number is the one below it.
    """
    dtype = low.element_type
    unit = unit_floats(key, shape, dtype)
    low, high = (spread_to(what, v, shape) for v in (low, high))
    span = emit("subtract", high, low)
    if dtype.bits > 16:  # XLA contracts the two; 16-bit floats it rounds in between
        scaled = emit("fused_multiply_add", unit, span, low)
    else:
        scaled = emit("add", emit("multiply", unit, span), low)
    if reaches:  # between -3e38 and 3e38 there is more than a float32 holds: parts of both are added
        rest = emit("subtract", filled(unit, 1), unit)
        mixed = emit("add", emit("multiply", rest, low), emit("multiply", unit, high))
        endless = emit("compare", emit("abs", span), filled(span, float("inf")), direction="EQ")
        scaled = emit("select", endless, mixed, scaled)
    drawn = emit("maximum", low, scaled)
    if not reaches:
        return drawn
    too_far = emit("and", *[emit("compare", v, high, direction=d) for v, d in ((scaled, "GE"), (low, "LT"))])
    return emit("select", too_far, emit("next_after", high, low), drawn)


def floats_from(key: Tracer, shape: tuple[Dim, ...], dtype: DType, low: float, high: float) -> Tracer:
    """Floats in [low, high) between two numbers."""
    least, bound = (constant(key._trace, end, dtype) for end in (low, high))
    return floats_between(key, shape, least, bound, reaches=_reaches(low, high, dtype))


def _reaches(low: float, high: float, dtype: DType) -> bool:
    """Whether the greatest float below 1, scaled to the numbers between two, may round to the upper one."""
    below, above = (float(np.asarray(end, np.float64).astype(dtype.np)) for end in (low, high))
    span = float(np.asarray(above - below, np.float64).astype(dtype.np))
    if not (math.isfinite(span) and below < above):
        return True
    exponent = math.frexp(above)[1] if above else math.frexp(TINY[dtype])[1]
    spacing = Fraction(2) ** (exponent - 1 - MANTISSA[dtype])
    left = Fraction(above) - Fraction(below) - (1 - Fraction(1, 2 ** MANTISSA[dtype])) * Fraction(span)
    # The product of 16-bit floats is rounded before the sum is.
    return left < (spacing if dtype.bits > 16 else 2 * spacing)


@public
def uniform(
    key: Key, shape: Shape = (), dtype: DTypeLike = None, minval: ArrayLike = 0.0, maxval: ArrayLike = 1.0
) -> Array:
    """Floats in [minval, maxval), each equally likely.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        shape: sizes of the result, ints or dimensions, which may be 0.
        dtype: float dtype of the result; None: the default float dtype, float32.
        minval: least number, which broadcasts to ``shape``, and has a gradient.
        maxval: bound that no number reaches, likewise.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no float one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.

    Example:
        >>> x = dyn.random.uniform(dyn.random.key(7), (1000,))
        >>> bool((x >= 0).all() and (x < 1).all())
        True
    """
    value = one_key("uniform", key, shape, minval, maxval)
    chosen, trace = float_dtype("uniform", dtype), value._trace
    dims = shape_in(trace, shape, "uniform")
    if type(minval) is type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return unit_floats(value, dims, chosen)
    if type(minval) in (int, float) and type(maxval) in (int, float):
        return floats_from(value, dims, chosen, minval, maxval)
    low, high = parameter(trace, minval, "uniform", chosen), parameter(trace, maxval, "uniform", chosen)
    return floats_between(value, dims, low, high)


# ---- integers --------------------------------------------------------------------------------------------------------


@public
def randint(key: Key, shape: Shape, minval: ArrayLike, maxval: ArrayLike, dtype: DTypeLike = None) -> Array:
    """Integers in [minval, maxval).

    They are remainders of twice as many random bits as the dtype has, so that some are likelier than others by
    ``span / 4**bits`` at most; 8 and 16 bits are drawn as 32. Other dtypes draw other numbers. Up to a span of
    ``2**(bits / 2)``, and where it is a power of two, they are JAX's; beyond, JAX's remainders are of products that
    overflow, and some numbers are likelier than others by half.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        shape: sizes of the result, ints or dimensions, which may be 0.
        minval: least integer, which broadcasts to ``shape``; of floats the whole part.
        maxval: integer behind the greatest, likewise.
        dtype: integer dtype; None: int32, as in JAX as it comes.

    Returns:
        An array of that shape and dtype; ``minval`` where there is nothing between the bounds.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``dtype`` no integer one, or a parameter complex.
        ShapeError: if ``key`` is not one key, a size is negative, or parameters do not broadcast, at the call at the
            latest.

    Example:
        >>> dyn.random.randint(dyn.random.key(7), (3,), 0, 1)
        array([0, 0, 0], dtype=int32)
    """
    value = one_key("randint", key, shape, minval, maxval)
    chosen, trace = integer_dtype("randint", dtype, dtypes.int32), value._trace
    drawn = dtypes.int32 if chosen.bits < 32 else chosen
    low, high = (_bound(trace, v) for v in (minval, maxval))
    if chosen.bits < 32:
        info = np.iinfo(chosen.np)
        low, high = _clipped(low, info.min, info.max, drawn), _clipped(high, info.min, int(info.max) + 1, drawn)
    dims = shape_in(trace, shape, "randint")
    return cast(integers_between(value, dims, low, high, drawn), chosen)


def _bound(trace: Trace, bound: Any) -> Tracer:
    """A bound as an integer array: of floats the whole part, as in JAX."""
    if isinstance(bound, int) and not isinstance(bound, SymbolicDim | bool):
        return constant(trace, bound, dtypes.int64 if bound < 2**63 else dtypes.uint64)
    value = tracer(trace, bound, "randint")
    if value.element_type.is_integer:
        return value
    if value.element_type.kind is Kind.COMPLEX:
        raise UnsupportedOpError(
            f"randint takes integers for its bounds, not {value.element_type.name}.",
            loc=user_loc(),
            remedy="convert them with .astype.",
        )
    return cast(value, dtypes.int64)


def _clipped(x: Tracer, low: int, high: int, dtype: DType) -> Tracer:
    """``x`` in another integer dtype, held between two numbers."""
    own = np.iinfo(x.element_type.np)
    least, most = (filled(x, min(max(v, int(own.min)), int(own.max))) for v in (low, high))
    return cast(emit("minimum", emit("maximum", x, least), most), dtype)


def integers_between(key: Tracer, shape: tuple[Dim, ...], low: Tracer, high: Tracer, dtype: DType) -> Tracer:
    """Integers in [low, high) from twice as many bits as they have: ``(upper * 2**bits + lower) % span``."""
    info, width = np.iinfo(dtype.np), dtype.bits
    own = np.iinfo(high.element_type.np)
    # Past the greatest number the range is closed, and has one element more.
    closed = flag("GT", high, min(int(info.max), int(own.max)))
    low, high = (_clipped(v, int(info.min), int(info.max), dtype) for v in (low, high))
    low, high, closed = (spread_to("randint", v, shape) for v in (low, high, closed))
    pair = split_key(key, (2,))
    upper, lower = (random_bits(_row(pair, i), width, shape) for i in (0, 1))
    some = emit("compare", high, low, direction="GT")
    span = cast(emit("subtract", high, low), dtypes.UNSIGNED[width])
    span = emit("select", some, span, filled(span, 1))
    span = emit("select", emit("and", closed, some), emit("add", span, filled(span, 1)), span)
    # A span of 2**bits is 0 here, by which the remainder is the dividend.
    offset = (_remainder_of_64 if width == 32 else _remainder_of_128)(upper, lower, span)
    return emit("add", low, cast(offset, dtype))


def _remainder_of_64(upper: Tracer, lower: Tracer, span: Tracer) -> Tracer:
    """The remainder of two words of 32 bits by another one."""
    upper, lower, wide = (cast(v, dtypes.uint64) for v in (upper, lower, span))
    both = emit("or", emit("shift_left", upper, filled(upper, 32)), lower)
    return cast(emit("remainder", both, wide), span.element_type)


def _remainder_of_128(upper: Tracer, lower: Tracer, span: Tracer) -> Tracer:
    """The remainder of two words of 64 bits by another one, where its products fit into one.

    Of a greater span the upper word of the product of the two and the span: each as likely too (Lemire, "Fast random
    integer generation in an interval", 2019).
    """
    # 2**bits % span, by way of its square root.
    root = emit("remainder", filled(span, 1 << 32), span)
    multiplier = emit("remainder", emit("multiply", root, root), span)
    offset = emit("multiply", emit("remainder", upper, span), multiplier)
    offset = emit("remainder", emit("add", offset, emit("remainder", lower, span)), span)
    product = emit("multiply", upper, span)
    total = emit("add", product, _upper_of_product(lower, span))
    carry = cast(emit("compare", total, product, direction="LT"), span.element_type)
    scaled = emit("add", _upper_of_product(upper, span), carry)
    power = emit("compare", emit("and", span, emit("subtract", span, filled(span, 1))), filled(span, 0), direction="EQ")
    fits = emit("or", power, emit("compare", span, filled(span, 1 << 32), direction="LE"))
    return emit("select", fits, offset, scaled)


def _upper_of_product(x: Tracer, y: Tracer) -> Tracer:
    """The upper word of the product of two words of 64 bits, by their halves."""
    half, low = filled(x, 32), filled(x, (1 << 32) - 1)
    (x1, x0), (y1, y0) = (
        (emit("shift_right_logical", v, half), emit("and", v, low)) for v in (x, y)
    )  # fmt: skip
    middle = emit("add", emit("multiply", x1, y0), emit("shift_right_logical", emit("multiply", x0, y0), half))
    other = emit("add", emit("multiply", x0, y1), emit("and", middle, low))
    high = emit("add", emit("multiply", x1, y1), emit("shift_right_logical", middle, half))
    return emit("add", high, emit("shift_right_logical", other, half))


def _row(pair: Tracer, number: int) -> Tracer:
    """One of several keys."""
    row = emit("slice", pair, start=(number, 0), limit=(number + 1, 2), strides=(1, 1))
    return emit("reshape", row, shape=(2,))


def keys_of(key: Tracer, count: int) -> list[Tracer]:
    """A few keys from one."""
    several = split_key(key, (count,))
    return [_row(several, number) for number in range(count)]


# ---- coins -----------------------------------------------------------------------------------------------------------


@public
def bernoulli(key: Key, p: ArrayLike = 0.5, shape: Shape | None = None, mode: str = "low") -> Array:
    """True with a given probability.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        p: probability, a float or an array of floats, of whose dtype floats are drawn to compare with.
        shape: sizes of the result, to which ``p`` broadcasts; None: those of ``p``.
        mode: ``"low"``, or ``"high"`` for twice as many bits, for very small probabilities.

    Returns:
        An array of booleans.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, ``p`` no float, or ``mode`` another one.
        ShapeError: if ``key`` is not one key, or ``p`` does not broadcast, at the call at the latest.

    Example:
        >>> dyn.random.bernoulli(dyn.random.key(7), 1.0, (2,))
        array([ True,  True])
    """
    value = one_key("bernoulli", key, p, shape)
    trace = value._trace
    chance = tracer(trace, p, "bernoulli")
    if chance.element_type.kind is not Kind.FLOAT:
        raise UnsupportedOpError(
            f"bernoulli takes a float probability, not {chance.element_type.name}.",
            loc=user_loc(),
            remedy="convert it with .astype('float32').",
        )
    chance = cast(chance, default_float() if chance.weak else chance.element_type)
    dims = shape_for("bernoulli", trace, shape, [chance])
    return _is_below(value, spread_to("bernoulli", chance, dims), checked_mode("bernoulli", mode))


def checked_mode(what: str, mode: str | None) -> str:
    """The mode that says how many bits are drawn: "low" or "high"; UnsupportedOpError for any other."""
    if mode not in (None, "low", "high"):
        raise UnsupportedOpError(f"{what}: {mode!r} is no mode.", loc=user_loc(), remedy="use 'low' or 'high'.")
    return "low" if mode is None else mode


def _is_below(key: Tracer, chance: Tracer, mode: str) -> Tracer:
    shape, dtype = shape_of(chance), chance.element_type
    if mode == "low":
        return emit("compare", unit_floats(key, shape, dtype), chance, direction="LT")
    coarse, fine = two_floats(key, shape, dtype)
    scaled = emit("multiply", fine, filled(fine, 2.0 ** -MANTISSA[dtype]))
    return emit("compare", scaled, emit("subtract", chance, coarse), direction="LT")


def two_floats(key: Tracer, shape: tuple[Dim, ...], dtype: DType) -> tuple[Tracer, Tracer]:
    """Two arrays of floats in [0, 1), drawn together."""
    both = unit_floats(key, (2, *shape), dtype)
    start, stop = (0,) * len(shape), tuple(shape)
    halves = [
        emit("slice", both, start=(i, *start), limit=(i + 1, *stop), strides=(1,) * (len(shape) + 1)) for i in (0, 1)
    ]
    first, second = (emit("reshape", half, shape=shape) for half in halves)
    return first, second


@public
def rademacher(key: Key, shape: Shape = (), dtype: DTypeLike = None) -> Array:
    """-1 or 1, each half of the time.

    Args:
        key: key, uint32 of shape (2,), as :func:`key` makes it.
        shape: sizes of the result, ints or dimensions, which may be 0.
        dtype: signed dtype; None: int32.

    Returns:
        An array of that shape and dtype.

    Raises:
        UnsupportedOpError: if ``key`` is not uint32, or ``dtype`` has no -1.
        ShapeError: if ``key`` is not one key, or a size is negative.

    Example:
        >>> abs(dyn.random.rademacher(dyn.random.key(7), (3,)))
        array([1, 1, 1], dtype=int32)
    """
    value = one_key("rademacher", key, shape)
    chosen = dtypes.int32 if dtype is None else _signed(dtype)
    unit = unit_floats(value, shape_in(value._trace, shape, "rademacher"), default_float())
    ones = cast(flag("LT", unit, 0.5), chosen)
    return emit("subtract", emit("add", ones, ones), filled(ones, 1))


def _signed(dtype: DTypeLike) -> DType:
    chosen = dtype_of(dtype)
    if chosen.kind in (Kind.UINT, Kind.BOOL):
        raise UnsupportedOpError(
            f"rademacher draws -1 too, which {chosen.name} does not have.", loc=user_loc(), remedy="use a signed dtype."
        )
    return chosen
