"""Tiles of contractions on the ordinary cores of GPUs.

A block of threads has a tile of results, each of its threads a smaller one in registers. Slices of both operands go
through shared memory: while one is multiplied, the next one is on its way, or the next two where the device copies by
itself. A thread's tile is what decides: 8 × 8 accumulators take 16 elements from shared memory for 64 multiply-adds, as
many as a multiprocessor can read meanwhile, and leave room for two or three blocks beside one another in 65,536
registers.

Where there are few rows the right operand's bytes are all that counts. A block then has a narrow panel of columns, and
its threads share the steps of each slice, so that 16 KiB are on their way to every multiprocessor.

Where there are few results, tiles are smaller, so that there are blocks for all multiprocessors. NVIDIA's have work for
four warps at a time in two such blocks of two; AMD's, whose warps are twice as wide, want them from one block.

There are four kernels for any number of rows. All but the low one add up in the order of the contracted axis, so that
which of them runs cannot be seen; the low one has as many partial sums as there are parts of a slice.
"""

from __future__ import annotations

from dataclasses import replace

from dyn.dtypes import DType
from dyn.frozen import record
from dyn.schedule.gpu.slices import ACCESS
from dyn.schedule.kernel import Kernel, Operand, Tile, TileContract, most_iterations
from dyn.schedule.kernel_walks import walk_stmts
from dyn.schedule.sizes import ContractVariant, Reach
from dyn.schedule.target import Target
from dyn.shapes import Dim


@record()
class ThreadBlocking:
    """A block's tile of results: ``rows`` × ``columns``, of which each thread has ``tile``.

    ``depth`` steps of the contracted axis are in shared memory together, and ``parts`` threads share them for one tile,
    each with partial sums of its own. The registers of a thread are limited to what leaves room for ``resident`` blocks
    on a multiprocessor, whose threads hide one another's waiting. ``stages`` slices are there at a time of an operand
    that the device copies by itself; of others there are two.
    """

    rows: int
    columns: int
    tile: Tile
    depth: int
    parts: int = 1
    resident: int = 2
    stages: int = 3

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return self.tile.threads

    def rows_together(self, word: int) -> int:
        """Rows of a thread that lie side by side: as many as an access of shared memory has words of so many bytes.
        Such groups are as far apart as all threads together are long, so that a warp reads whole lines."""
        return min(ACCESS // word, self.tile.rows)

    def columns_together(self, word: int) -> int:
        """Columns of a thread that lie side by side, as rows do."""
        return min(ACCESS // word, self.tile.columns)

    def row_groups(self, word: int) -> int:
        """Groups of rows that a thread has."""
        return self.tile.rows // self.rows_together(word)

    def column_groups(self, word: int) -> int:
        """Groups of columns that a thread has."""
        return self.tile.columns // self.columns_together(word)

    def rows_at_once(self, word: int) -> int:
        """Rows of the block's tile that one group of each thread covers."""
        return self.rows // self.row_groups(word)


def _blocking(
    rows: int, columns: int, tile: tuple[int, int], depth: int, parts: int = 1, resident: int = 2
) -> ThreadBlocking:
    threads = rows // tile[0] * (columns // tile[1]) * parts
    return ThreadBlocking(rows, columns, Tile(*tile, (Operand.LHS, Operand.RHS), threads), depth, parts, resident)


#: By bytes of an accumulator and lanes of a warp: for few rows, for some, for few results, and for many.
_BLOCKINGS = {
    (4, 32): (
        _blocking(8, 32, (8, 1), depth=64, parts=8),
        _blocking(32, 64, (4, 4), depth=16),
        _blocking(64, 64, (8, 8), depth=16, resident=6),
        _blocking(128, 64, (8, 8), depth=16, resident=3),
    ),
    (4, 64): (
        _blocking(8, 32, (8, 1), depth=64, parts=8),
        _blocking(32, 64, (4, 4), depth=16),
        _blocking(64, 64, (4, 4), depth=16),
        _blocking(128, 64, (8, 8), depth=16),
    ),
    (8, 32): (
        _blocking(8, 32, (8, 1), depth=32, parts=8),
        _blocking(32, 64, (4, 4), depth=16),
        _blocking(64, 64, (8, 4), depth=8),
    ),
    (8, 64): (
        _blocking(8, 32, (8, 1), depth=32, parts=8),
        _blocking(32, 64, (4, 4), depth=16),
        _blocking(64, 64, (4, 4), depth=8),
        _blocking(64, 64, (8, 4), depth=8),
    ),
}
#: Up to how many results tiles are small, by lanes of a warp: those of two large tiles for each multiprocessor that a
#: device may have.
_FEW_RESULTS = {32: 256 * 128 * 64, 64: 512 * 128 * 64}


def blocking_of(kernel: Kernel, warp: int) -> ThreadBlocking | None:
    """The block's tile of a kernel that contracts, on a device with warps of so many lanes; None for others."""
    return next((tile_blocking(s, warp) for s in walk_stmts(kernel.body) if isinstance(s, TileContract)), None)


def tile_blocking(tile: TileContract, warp: int) -> ThreadBlocking:
    """The block's tile, which has room for all results of a GRID iteration."""
    found = blocking(tile.acc.dtype, tile.tile, warp)
    if found is None:
        raise ValueError(f"{tile.acc.dtype} has no blocks of threads with tiles of {tile.tile}")
    for extent, most in ((tile.row_extent, found.rows), (tile.col_extent, found.columns)):
        size = most_iterations(extent)
        if size is None or size > most:
            raise ValueError(f"{extent} results do not fit into a tile of {found.rows}x{found.columns}")
    return found


def blocking(dtype: DType, tile: Tile, warp: int) -> ThreadBlocking | None:
    """The blocking that has a tile of accumulators; None where the table has no such tile."""
    return next((found for found in blockings(dtype, warp) if found.tile == tile), None)


def blockings(dtype: DType, warp: int) -> tuple[ThreadBlocking, ...]:
    """Blockings by the word that sums are computed in: 32 bits for what is narrower."""
    return _BLOCKINGS[max(dtype.itemsize, 4), warp]


def contract_schedules(
    target: Target, dtype: DType, reach: Reach, *, cols: Dim | None = None, result_rows: Dim | None = None
) -> tuple[ContractVariant, ...]:
    """The variants of a contraction whose accumulators have a dtype, in order of their rows: disjoint, and covering.

    How operands lie in memory makes no difference to what is chosen: both go through shared memory.
    """
    low, middle, *small, high = blockings(dtype, target.warp)

    def variant(of: ThreadBlocking, least: int, most: int | None, *, alike: bool = False) -> ContractVariant:
        note = f"tiles of {of.rows}x{of.columns}"
        note += "" if most is None else f", at most {most} rows"
        return ContractVariant(of.tile, of.rows, of.columns, least, most, note, adds_alike=alike)

    few, least = _FEW_RESULTS[target.warp], middle.rows + 1
    first = () if target.batch_invariant else (variant(low, 0, low.rows),)  # it alone has partial sums
    return (
        *first,
        variant(middle, low.rows + 1 if first else 0, middle.rows, alike=True),
        *[replace(variant(of, least, None, alike=True), max_results=few) for of in small],
        variant(high, least, None),
    )
