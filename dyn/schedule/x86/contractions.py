"""Tiles that a contraction is compiled with on x86.

Each variant is code of its own (some 15 to 25 ms to generate), so there are at most two that a first call may need: one
for a single tile of rows, which reads the right operand where it lies, once, and one for all others, which packs it. A
third one, where the number of columns is unknown, is for a vector of them at most.

Where the columns are known to fill them, and the caches keep up (``blocking.py``), tiles are low and wide: the right
operand is read in long pieces of each row. With 8 rows over weights that no cache holds, pieces of 96 columns are read
in three quarters of the time that pieces of 48 take; with hundreds of rows, where arithmetic decides, 4x96 and 8x48 are
equals there. Elsewhere one low kernel packs the panels of several high tiles, which comes to the same. Reading it where
it lies again for every tile of rows is no way to save the packing: rows a multiple of 4 KiB apart fall into few sets of
the caches.
"""

from __future__ import annotations

from dataclasses import replace

from dyn.dtypes import DType
from dyn.schedule.kernel import Operand, Tile
from dyn.schedule.sizes import ContractVariant
from dyn.schedule.target import Target
from dyn.schedule.x86.blocking import LEFT_ROWS_OF_FEW, CacheBlocking, blocking
from dyn.shapes import Dim, SymExpr

#: Up to how many rows dot products beat transposing the right operand.
DOT_ROWS = 32


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

    ``col_contiguous`` says that the right operand is a plain load of ``dtype`` in which neighbouring columns lie next
    to each other, ``red_contiguous`` the same of the reduced dimension (a transposed weight); ``lhs_contiguous`` that
    the left operand is such a load, with the reduced dimension contiguous. ``cols``, where it is a number, chooses
    among tiles of the same speed one that divides it. With ``result_rows``, where both are numbers, it tells how many
    GRID iterations there are.

    A packing variant adds up in the order of the reduced dimension, and so does a direct one for contiguous columns:
    which of those runs cannot be seen in the result. The direct one for a transposed operand adds up by lanes.
    """
    lanes = target.lanes(dtype.itemsize)
    rows, vectors = _tile(target, dtype, cols, wide=col_contiguous)
    own = blocking(target)
    panels = own.panels  # those that take turns, or several times as many
    if not lhs_contiguous:
        panels *= max(own.left_vectors // (vectors * panels), 1)
    most = own.rows
    if not lhs_contiguous:
        most = _packed_rows(own, result_rows, cols, panels * vectors * lanes)
    chunk = max(most // rows, 1) * rows
    main = Tile(rows, vectors * lanes, (Operand.RHS,))
    note = f"packed {rows}x{vectors * lanes}"
    last: tuple[ContractVariant, ...] = (ContractVariant(main, chunk, panels * vectors * lanes, 0, None, note),)
    if isinstance(cols, SymExpr) and vectors > 1 and dtype.itemsize >= 4:
        # A tile multiplies whole vectors, two of three of them idle where there are few columns.
        narrow, few = Tile(rows, lanes, (Operand.RHS,)), f"packed {rows}x{lanes}, at most {lanes} columns"
        last = (ContractVariant(narrow, chunk, lanes, 0, None, few, adds_alike=True, max_cols=lanes), *last)
    direct = col_contiguous or (red_contiguous and lhs_contiguous)
    if not direct or dtype.itemsize < 4 or target.vector_bytes < 32:
        return last
    low_rows, low_vectors = _low_tile(target) if col_contiguous else (4, 3)
    few = low_rows if col_contiguous else DOT_ROWS
    low = Tile(low_rows, low_vectors * lanes, ())
    low_note = f"{'direct' if col_contiguous else 'dots'} {low_rows}x{low_vectors * lanes}, at most {few} rows"
    return (
        ContractVariant(low, chunk, low_vectors * lanes, 0, few, low_note, adds_alike=col_contiguous),
        *[replace(variant, min_rows=few + 1) for variant in last],
    )


def _packed_rows(own: CacheBlocking, rows: Dim | None, cols: Dim | None, panel: int) -> int:
    """Rows of a GRID iteration that packs both operands, ``panel`` columns of them."""
    if (
        isinstance(rows, int)
        and isinstance(cols, int)
        and -(-rows // own.left_rows) * -(-cols // panel) < own.left_grid
    ):
        return LEFT_ROWS_OF_FEW
    return own.left_rows


def _tile(target: Target, dtype: DType, cols: Dim | None, *, wide: bool) -> tuple[int, int]:
    """Accumulators in three quarters of the registers: enough in flight to hide the latency of a multiply-add, and
    enough arithmetic for each load. ``wide`` says that long pieces of the right operand's rows are worth having."""
    if dtype.itemsize < 4:  # products of bytes are computed in wider vectors
        return 4, 1
    if target.registers < 32:
        return (6, 2) if target.vector_bytes == 32 else (4, 2)
    if isinstance(cols, int):
        lanes = target.lanes(dtype.itemsize)
        for rows, vectors in ((4, 6), (8, 3), (6, 4), (12, 2)):
            if cols % (vectors * lanes) == 0 and (vectors < 6 or (wide and blocking(target).low_tiles)):
                return rows, vectors
    return 8, 3


def _low_tile(target: Target) -> tuple[int, int]:
    """Low and wide: long pieces of each row of the right operand, which is read once."""
    return (4, 6) if target.registers >= 32 else (4, 3)
