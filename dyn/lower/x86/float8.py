"""Conversions between float32 and floats of 8 bits, by arithmetic on the bits, for every format that dtypes describe.

Both directions are those of ml_dtypes and XLA: encoding rounds to nearest, ties to even, and what is past the greatest
number is infinity, or NaN where there is none. Nothing here computes with denormal numbers, which takes a hundred
cycles.
"""

from __future__ import annotations

from dyn.dtypes import DType, Special
from dyn.lower.x86.llvm_text import VType, constant
from dyn.lower.x86.machine import Machine

_INFINITY = 0x7F800000
_NAN = 0x7FC00000


def decode(m: Machine, dtype: DType, ty: VType, a: str) -> str:
    """The bits of a float of 8 bits (``ty`` is i8) as float32. Exact; a NaN keeps its sign."""
    fn, form, bits, single = m.fn, dtype.floating, ty.of("i32"), ty.of("float")
    code = fn.cast("zext", ty, a, bits)
    if form.special is Special.POWERS:
        return fn.cast("bitcast", bits, _power(m, bits, code), single)
    size = fn.op("and", bits, code, constant(0x7F, bits))
    moved = fn.op("shl", bits, size, constant(23 - form.fraction, bits))
    normal = fn.op("add", bits, moved, constant((127 - form.bias) << 23, bits))
    tiny = fn.op("fmul", single, fn.cast("sitofp", bits, size, single), constant(2.0**form.least, single))
    is_tiny = fn.op("icmp ult", bits, size, constant(1 << form.fraction, bits))
    number = fn.select(is_tiny, bits, fn.cast("bitcast", single, tiny, bits), normal)
    if form.special is Special.IEEE:
        infinite = constant(form.greatest + 1, bits)
        number = fn.select(fn.op("icmp eq", bits, size, infinite), bits, constant(_INFINITY, bits), number)
        number = fn.select(fn.op("icmp ugt", bits, size, infinite), bits, constant(_NAN, bits), number)
    elif form.special is Special.NAN:
        number = fn.select(fn.op("icmp eq", bits, size, constant(0x7F, bits)), bits, constant(_NAN, bits), number)
    else:
        number = fn.select(fn.op("icmp eq", bits, code, constant(0x80, bits)), bits, constant(_NAN, bits), number)
    sign = fn.op("shl", bits, fn.op("and", bits, code, constant(0x80, bits)), constant(24, bits))
    return fn.cast("bitcast", bits, fn.op("or", bits, number, sign), single)


def encode(m: Machine, dtype: DType, ty: VType, a: str) -> str:
    """A float32 as the bits of a float of 8 bits; a NaN keeps its sign where the format has two."""
    fn, form, bits = m.fn, dtype.floating, ty.of("i32")
    pattern = fn.cast("bitcast", ty, a, bits)
    size = fn.op("and", bits, pattern, constant(0x7FFFFFFF, bits))
    if form.special is Special.POWERS:
        return fn.cast("trunc", bits, _nearest_power(m, bits, pattern, size), ty.of("i8"))
    lost, least = 23 - form.fraction, (128 - form.bias) << 23  # the least normal number
    odd = fn.op("and", bits, fn.op("lshr", bits, size, constant(lost, bits)), constant(1, bits))
    up = constant((1 << (lost - 1)) - 1 - ((127 - form.bias) << 23), bits)
    normal = fn.op("lshr", bits, fn.op("add", bits, fn.op("add", bits, size, up), odd), constant(lost, bits))
    # Beside a number whose last bit is that of the least one, what is less than normal is rounded by an addition.
    beside = 2.0 ** (form.least + 23)
    near = fn.op("fadd", ty, fn.cast("bitcast", bits, size, ty), constant(beside, ty))
    offset = (form.least + 23 + 127) << 23
    tiny = fn.op("sub", bits, fn.cast("bitcast", ty, near, bits), constant(offset, bits))
    code = fn.select(fn.op("icmp ult", bits, size, constant(least, bits)), bits, tiny, normal)
    most = form.greatest
    past = {Special.IEEE: most + 1, Special.NAN: 0x7F, Special.NAN_AT_MINUS_ZERO: 0x80}[form.special]
    code = fn.select(fn.op("icmp ugt", bits, code, constant(most, bits)), bits, constant(past, bits), code)
    if form.special is Special.IEEE:
        quiet = constant(past | 1 << (form.fraction - 1), bits)
        code = fn.select(fn.op("icmp ugt", bits, size, constant(_INFINITY, bits)), bits, quiet, code)
    sign = fn.op("and", bits, fn.op("lshr", bits, pattern, constant(24, bits)), constant(0x80, bits))
    if form.special is Special.NAN_AT_MINUS_ZERO:
        sign = fn.select(fn.op("icmp eq", bits, code, constant(0, bits)), bits, constant(0, bits), sign)
    return fn.cast("trunc", bits, fn.op("or", bits, code, sign), ty.of("i8"))


def _power(m: Machine, bits: VType, code: str) -> str:
    """The code is the exponent, but for that of 2**-127, which float32 has as a denormal number, and of NaN."""
    fn = m.fn
    number = fn.op("shl", bits, code, constant(23, bits))
    number = fn.select(fn.op("icmp eq", bits, code, constant(0, bits)), bits, constant(1 << 22, bits), number)
    return fn.select(fn.op("icmp eq", bits, code, constant(0xFF, bits)), bits, constant(_NAN, bits), number)


def _nearest_power(m: Machine, bits: VType, pattern: str, size: str) -> str:
    """Rounded up from the middle, that of the two least powers too, of which one is a subnormal float32. What is not
    positive is NaN."""
    fn = m.fn
    small = fn.op("icmp ult", bits, size, constant(1 << 23, bits))
    half = fn.select(small, bits, constant(1 << 21, bits), constant(1 << 22, bits))
    code = fn.op("lshr", bits, fn.op("add", bits, size, half), constant(23, bits))
    # Less 1, 0 and what is negative are past all others.
    before = fn.op("sub", bits, pattern, constant(1, bits))
    outside = fn.op("icmp uge", bits, before, constant(_INFINITY - 1, bits))
    return fn.select(outside, bits, constant(0xFF, bits), code)
