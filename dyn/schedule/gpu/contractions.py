"""Tiles of contractions on the ordinary cores of GPUs.

A block of threads has a tile of results, each of its threads a smaller one in registers. Slices of both operands go
through shared memory, two of them at a time: while one is multiplied, the next one is on its way. A thread's tile is
what decides: 8 × 8 accumulators take 16 elements from shared memory for 64 multiply-adds, as many as a multiprocessor
can read meanwhile, and leave room for two or three blocks beside one another in 65,536 registers.

Where there are few rows the right operand's bytes are all that counts. A block then has a narrow panel of columns, and
its threads share the steps of each slice, so that 16 KiB are on their way to every multiprocessor.

There are three kernels for any number of rows. The two high ones add up in the order of the contracted axis, so that
which of them runs cannot be seen; the low one has as many partial sums as there are parts of a slice.
"""

from __future__ import annotations

from dyn.dtypes import DType
from dyn.frozen import record
from dyn.schedule.kernel import Operand, Tile
from dyn.schedule.sizes import ContractVariant
from dyn.schedule.target import Target
from dyn.shapes import Dim


@record()
class ThreadBlocking:
    """A block's tile of results: ``rows`` × ``columns``, of which each thread has ``tile``.

    ``depth`` steps of the contracted axis are in shared memory together, and ``parts`` threads share them for one tile,
    each with partial sums of its own. The registers of a thread are limited to what leaves room for ``resident`` blocks
    on a multiprocessor, whose threads hide one another's waiting.
    """

    rows: int
    columns: int
    tile: Tile
    depth: int
    parts: int = 1
    resident: int = 2

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.rows // self.tile.rows * (self.columns // self.tile.columns) * self.parts


def _staged(rows: int, columns: int) -> Tile:
    return Tile(rows, columns, (Operand.LHS, Operand.RHS))


_LOW, _MIDDLE = _staged(8, 1), _staged(4, 4)
#: By bytes of an accumulator: for few rows, for some, and for many.
_BLOCKINGS = {
    4: (
        ThreadBlocking(8, 32, _LOW, depth=64, parts=8),
        ThreadBlocking(32, 64, _MIDDLE, depth=16),
        ThreadBlocking(128, 64, _staged(8, 8), depth=16),
    ),
    8: (
        ThreadBlocking(8, 32, _LOW, depth=32, parts=8),
        ThreadBlocking(32, 64, _MIDDLE, depth=16),
        ThreadBlocking(64, 64, _staged(8, 4), depth=8),
    ),
}


def blocking(dtype: DType, tile: Tile) -> ThreadBlocking | None:
    """The blocking that has a tile of accumulators; None where the table has no such tile."""
    return next((found for found in _of(dtype) if found.tile == tile), None)


def _of(dtype: DType) -> tuple[ThreadBlocking, ThreadBlocking, ThreadBlocking]:
    """Blockings by the word that sums are computed in: 32 bits for what is narrower."""
    return _BLOCKINGS[max(dtype.itemsize, 4)]


def contract_schedules(
    target: Target,
    dtype: DType,
    *,
    col_contiguous: bool,
    red_contiguous: bool = False,
    lhs_contiguous: bool = True,
    cols: Dim | None = None,
    result_rows: Dim | None = None,
) -> tuple[ContractVariant, ...]:
    """The variants of a contraction whose accumulators have a dtype, in order of their rows: disjoint, and covering.

    How operands lie in memory makes no difference to what is chosen: both go through shared memory.
    """
    low, middle, high = _of(dtype)

    def variant(of: ThreadBlocking, least: int, most: int | None, *, alike: bool = False) -> ContractVariant:
        note = f"tiles of {of.rows}x{of.columns}"
        note += "" if most is None else f", at most {most} rows"
        return ContractVariant(of.tile, of.rows, of.columns, least, most, note, adds_alike=alike)

    return (
        variant(low, 0, low.rows),
        variant(middle, low.rows + 1, middle.rows, alike=True),
        variant(high, middle.rows + 1, None),
    )
