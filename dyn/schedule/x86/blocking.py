"""Cache blocking of contractions: one row a family of processors, chosen by the target's name.

The names are LLVM's. Nothing here is timed while compiling, and nothing of it shows in a result: every element takes
its multiply-adds in the order of the reduced dimension, wherever that is cut.
"""

from __future__ import annotations

from dyn.frozen import record
from dyn.schedule.target import Target


@record()
class CacheBlocking:
    """Cache blocking for a family of processors.

    ``low_tiles`` says that its second-level cache feeds tiles of four rows, six vectors a step. ``panels`` packed
    panels take turns at a tile of rows, and ``depth`` steps of the reduced dimension are packed at once (0: as many as
    fit). ``unroll`` steps are one iteration of the micro-kernel, and a packed panel is asked for ``ahead`` steps before
    it is read. One GRID iteration takes ``rows`` rows, in whole tiles: so many that packing for each costs little.

    Where the left operand is packed too, a GRID iteration takes ``left_rows`` rows by ``left_vectors`` vectors of
    columns, and packs ``left_depth`` steps (0: ``depth``) of as many rows as ``left_bytes`` hold. ``left_panels``
    panels share a packed block where the reduced dimension is cut. Of results whose known sizes are less than
    ``left_grid`` such pieces, one takes ``LEFT_ROWS_OF_FEW`` rows: there would be nothing to share among threads.
    """

    low_tiles: bool = True
    panels: int = 1
    depth: int = 0
    unroll: int = 1
    ahead: int = 0
    rows: int = 256
    left_rows: int = 96
    left_vectors: int = 12
    left_depth: int = 0
    left_bytes: int = 384 * 1024
    left_panels: int = 8
    left_grid: int = 1


#: Rows of a GRID iteration that packs both operands, where there are few.
LEFT_ROWS_OF_FEW = 96
#: Bytes of a packed panel of the right operand, by the bytes of a vector: with the accumulators and the rows at hand it
#: stays in the L2, of which machines with AVX-512 have 1 MiB or more.
PANEL_BYTES = {16: 192 * 1024, 32: 192 * 1024, 64: 384 * 1024}
#: Words of the reduced dimension that are packed at once for tile registers, which take more of them a cycle than the
#: second-level cache gives: measured on Emerald Rapids, where 1,536 took 1.1 to 1.6 times as long, and 128 the same.
WORDS_FOR_TILES = 256
#: Rows of partial accumulators: all that a GRID iteration takes.
PARTIAL_ROWS = 528
#: Bytes of all accumulators where the right operand is streamed: they stay in the first-level cache, which has 32 KiB
#: or more.
STREAMED_BYTES = 16384
#: Bytes of one of its rows that are read in one go. For one row and two ``LONG_PIECE``, which a processor's prefetchers
#: follow, and for three and four ``_PIECE``, whose lines are asked for; or for all of these as many as there are
#: accumulators for, where the right operand comes from memory. For more rows ``_PIECE``.
LONG_PIECE, _PIECE = 4096, 1024
#: The numbers of rows from which on arithmetic leaves time to ask for lines, and up to which pieces may be long.
ROWS_WITH_TIME, LONG_PIECE_ROWS = 3, 4
#: Bytes of a right operand from which on it is taken to come from memory: the weights of a program are many such.
FAR_BYTES = 6 << 20
#: For what is not packed, but read where it lies.
IN_PLACE = CacheBlocking()
#: Measured on Zen 5, whose second-level cache gives 64 bytes a cycle and keeps up with all that is asked of it.
_FIRST = CacheBlocking()
#: Measured on Zen 4: 264 rows by 192 columns, 320 steps of which are packed at once, are 570 KiB of its 1 MiB of
#: second-level cache.
_ZEN_4 = CacheBlocking(
    left_rows=264, left_vectors=12, left_depth=320, left_bytes=264 * 320 * 4, left_panels=4, left_grid=4
)
#: Measured on Cascade Lake. Its second-level cache gives half of that, less while it is filled, so tiles are high, and
#: the panels together with the rows at hand leave room in 1 MiB for what streams by. A panel's rows are asked for by
#: hand, for its prefetchers start late; pages are walked slowly, so panels are packed side by side. Packing reads rows
#: of the right operand that are pages apart, at a tenth of the speed of the rest, once for each block of rows of the
#: left one: these are as high as leaves the scratch of both below 1 MiB.
_INTEL_512 = CacheBlocking(
    low_tiles=False, panels=2, depth=768, unroll=2, ahead=8, rows=528,
    left_rows=264, left_vectors=16, left_depth=448, left_bytes=264 * 448 * 4, left_panels=4, left_grid=4,
)  # fmt: skip

_INTEL_512_NAMES = (
    "skylake-avx512", "cascadelake", "cooperlake", "cannonlake", "icelake-client", "icelake-server", "rocketlake",
    "tigerlake", "sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids",
)  # fmt: skip
#: Rows of processors whose vectors have 64 bytes.
_OF_512 = {**dict.fromkeys(_INTEL_512_NAMES, _INTEL_512), "znver4": _ZEN_4}


def streamed_heights(rows: int) -> list[int]:
    """The numbers of rows that there is code for where the right operand is streamed, for up to so many."""
    return [*[1 << power for power in range(rows.bit_length()) if 1 << power < rows], rows]


def streamed_stride(height: int, itemsize: int, lanes: int) -> int:
    """Elements from a row's accumulators to the next one's, where the right operand is streamed for so many rows: of
    many, which go two by two, there is one more where they are odd."""
    rows = height if height <= LONG_PIECE_ROWS else height + height % 2
    return STREAMED_BYTES // itemsize // rows // lanes * lanes


def streamed_piece(height: int, rhs: int, acc: int, lanes: int, *, far: bool) -> int:
    """Columns that are streamed one after the other, for so many rows; the bytes of an element and of its sum. ``far``
    says that the right operand comes from memory."""
    most = streamed_stride(height, acc, lanes)
    if height > LONG_PIECE_ROWS or (height >= ROWS_WITH_TIME and not far):
        return min(most, _PIECE // rhs // lanes * lanes)
    return most if far else min(most, LONG_PIECE // rhs // lanes * lanes)


def blocking(target: Target) -> CacheBlocking:
    """The blocking of a target; a processor of no known name gets the one for most."""
    return _OF_512.get(target.arch, _FIRST) if target.vector_bytes == 64 else _FIRST
