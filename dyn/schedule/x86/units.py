"""Units of x86: what multiplies and adds the elements of a tile, and in which dtypes it takes them."""

from __future__ import annotations

from dyn import dtypes
from dyn.dtypes import DType
from dyn.schedule.target import Target
from dyn.schedule.units import Unit

#: What is converted in a few instructions a vector.
_WIDENED = frozenset({
    dtypes.bfloat16, dtypes.float16, dtypes.float32, dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16,
    dtypes.int32, dtypes.uint32,
})  # fmt: skip


def reads_as_it_lies(target: Target, dtype: DType, acc: DType) -> bool:
    """Whether elements of a dtype may be converted to the accumulators' in registers, each time that they are read.

    Elements of less than 32 bits are read under a mask at the edges: without AVX-512 that is a branch for each.
    """
    return dtype is acc or (target.avx512 and dtype in _WIDENED and acc.itemsize >= 4)


_I8, _U8, _I16, _BF16 = dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.bfloat16
#: By the operands' dtypes. Bytes go by fours, of which the first operand is unsigned; exact, as its sums wrap. Of
#: bfloat16 each product is rounded as it is added, and subnormal numbers count as 0.
_UNITS = {
    (_U8, _I8): Unit("vpdpbusd", "avx512vnni", (_U8, _I8), 4),
    (_I8, _U8): Unit("vpdpbusd", "avx512vnni", (_I8, _U8), 4, swapped=True),
    (_I8, _I8): Unit("vpdpbusd", "avx512vnni", (_U8, _I8), 4, signs_left=True),
    (_BF16, _BF16): Unit("vdpbf16ps", "avx512bf16", (_BF16, _BF16), 2, (dtypes.float32,)),
}
#: 16-bit integers by pairs. Two products of the least ones are 2**31, which wraps as the sum does.
_PAIRS = Unit("vpmaddwd", "avx512bw", (_I16, _I16), 2)


def reads_words(unit: Unit, lhs: DType, factor: int) -> bool:
    """Whether a left operand whose rows lie along the reduced dimension, of a multiple of ``factor`` elements, is read
    in the words that it lies in."""
    return lhs.itemsize == unit.words[0].itemsize and factor % unit.group == 0


def unit_of(target: Target, lhs: DType, rhs: DType, acc: DType) -> Unit | None:
    """The unit that multiplies operands of some dtypes; None where the accumulators' own arithmetic does."""
    if not target.avx512:
        return None
    own = _UNITS.get((lhs, rhs))
    if own is not None and acc in own.sums and target.has(own.feature):
        return own
    return _PAIRS if acc in _PAIRS.sums and all(_I16.holds(dtype) for dtype in (lhs, rhs)) else None
