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


def _bytes(feature: str, vector_bytes: int) -> list[tuple[tuple[DType, DType], Unit]]:
    """Bytes by fours, of which the first operand is unsigned; exact, as its sums wrap."""
    unit = Unit("vpdpbusd", feature, (_U8, _I8), 4, vector_bytes=vector_bytes)
    other = Unit("vpdpbusd", feature, (_I8, _U8), 4, swapped=True, vector_bytes=vector_bytes)
    signed = Unit("vpdpbusd", feature, (_U8, _I8), 4, signs_left=True, vector_bytes=vector_bytes)
    return [((_U8, _I8), unit), ((_I8, _U8), other), ((_I8, _I8), signed)]


#: By the operands' dtypes. Of bfloat16 each product is rounded as it is added, and subnormal numbers count as 0.
_UNITS = (
    *_bytes("avx512vnni", 64),
    *_bytes("avxvnni", 32),
    ((_BF16, _BF16), Unit("vdpbf16ps", "avx512bf16", (_BF16, _BF16), 2, (dtypes.float32,))),
)
#: 16-bit integers by pairs, for all that these hold. Two products of the least ones are 2**31, which wraps as the sum
#: does.
_PAIRS = (
    Unit("vpmaddwd", "avx512bw", (_I16, _I16), 2),
    Unit("vpmaddwd", "avx2", (_I16, _I16), 2, vector_bytes=32),
)
#: Tiles of 16 rows of 64 bytes (AMX), of either sign, by 64 bytes along the contracted axis. Of bfloat16 the first
#: products of 16 words are added to one another, and the second ones, and then both sums to each other and to the
#: accumulator.
_TILES = (
    ((_I8, _I8), Unit("tdpbssd", "amx-int8", (_I8, _I8), 4, rows=16, steps=16)),
    ((_I8, _U8), Unit("tdpbsud", "amx-int8", (_I8, _U8), 4, rows=16, steps=16)),
    ((_U8, _I8), Unit("tdpbusd", "amx-int8", (_U8, _I8), 4, rows=16, steps=16)),
    ((_U8, _U8), Unit("tdpbuud", "amx-int8", (_U8, _U8), 4, rows=16, steps=16)),
    ((_BF16, _BF16), Unit("tdpbf16ps", "amx-bf16", (_BF16, _BF16), 2, (dtypes.float32,), rows=16, steps=16)),
)


def reads_words(unit: Unit, lhs: DType, factor: int) -> bool:
    """Whether a left operand whose rows lie along the reduced dimension, of a multiple of ``factor`` elements, is read
    in the words that it lies in."""
    return lhs.itemsize == unit.words[0].itemsize and factor % unit.group == 0


def tile_unit_of(target: Target, lhs: DType, rhs: DType, acc: DType, *, for_all_rows: bool = False) -> Unit | None:
    """The unit with accumulators in tile registers that multiplies rows of operands; None where there is none.

    Floats are added in another order than by vectors. A batch-invariant target takes it where it is the one
    ``for_all_rows``.
    """
    if acc.is_float and target.batch_invariant and not for_all_rows:
        return None
    rows = [unit for dtypes, unit in _TILES if dtypes == (lhs, rhs)]
    return next((unit for unit in rows if acc in unit.sums and _has(target, unit)), None)


def unit_of(target: Target, lhs: DType, rhs: DType, acc: DType) -> Unit | None:
    """The unit that multiplies operands of some dtypes in vectors; None where the accumulators' own arithmetic does."""
    rows = [unit for dtypes, unit in _UNITS if dtypes == (lhs, rhs)]
    rows += _PAIRS if all(_I16.holds(dtype) for dtype in (lhs, rhs)) else ()
    return next((unit for unit in rows if acc in unit.sums and _has(target, unit)), None)


def _has(target: Target, unit: Unit) -> bool:
    vectors = target.avx512 if unit.vector_bytes == 64 else target.vector_bytes == unit.vector_bytes
    return vectors and target.has(unit.feature)
