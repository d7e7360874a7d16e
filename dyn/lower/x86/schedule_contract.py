"""Which tiles a contraction is compiled with on x86.

Each variant is code of its own (some 15 to 25 ms to generate), so there are at most two: one for a few rows, where the
right operand is read once and the memory decides, and one for all others. Both add up in the same order, so which of
them runs cannot be seen in the result.
"""

from __future__ import annotations

from dataclasses import dataclass

from dyn.dtypes import DType
from dyn.lower.kernel import TileSchedule
from dyn.lower.target import Target
from dyn.shapes import Dim

#: Rows that one GRID iteration takes: so many that packing the right operand again for each costs nothing.
ROW_CHUNK = 256
#: The same, where the left operand is packed too: as many as its block in scratch has.
PACKED_ROW_CHUNK = 96
#: Panels that share a packed left operand.
PACKED_PANELS = 4


@dataclass(frozen=True, slots=True)
class ContractVariant:
    """A schedule, and for which row extents it is meant: ``min_rows`` to ``max_rows``, both included.

    One GRID iteration should take ``row_chunk`` rows and ``col_panel`` columns: whole tiles of the schedule.
    """

    schedule: TileSchedule
    row_chunk: int
    col_panel: int
    min_rows: int
    max_rows: int | None
    note: str


def contract_schedules(
    target: Target, dtype: DType, *, col_contiguous: bool, lhs_contiguous: bool = True, cols: Dim | None = None
) -> tuple[ContractVariant, ...]:
    """The variants of a contraction whose accumulators have a dtype, in order of their rows: disjoint, and covering.

    ``col_contiguous`` says that neighbouring columns of the right operand lie next to each other, ``lhs_contiguous``
    that the reduced dimension of the left one does, and that both are plain loads of ``dtype``. ``cols``, where it is
    a number, chooses among tiles of about the same speed one that divides it.
    """
    lanes = target.lanes(dtype.itemsize)
    rows, vectors = _tile(target, dtype, cols)
    panels = 1 if lhs_contiguous else PACKED_PANELS
    chunk = ROW_CHUNK if lhs_contiguous else PACKED_ROW_CHUNK
    chunk = max(chunk // rows, 1) * rows
    main = TileSchedule(rows, vectors, pack_rhs=True, unroll=1)
    name = f"{rows}x{vectors * lanes}"
    if not col_contiguous or dtype.itemsize < 4:
        return (ContractVariant(main, chunk, panels * vectors * lanes, 0, None, f"packed {name}"),)
    low_rows, low_vectors = _low_tile(target)
    low = TileSchedule(low_rows, low_vectors, pack_rhs=False, unroll=1)
    few = rows - 1
    low_name = f"{low_rows}x{low_vectors * lanes}"
    return (
        ContractVariant(low, chunk, low_vectors * lanes, 0, few, f"direct {low_name}, at most {few} rows"),
        ContractVariant(main, chunk, panels * vectors * lanes, few + 1, None, f"packed {name}"),
    )


def _tile(target: Target, dtype: DType, cols: Dim | None) -> tuple[int, int]:
    """Accumulators in three quarters of the registers: enough in flight to hide the latency of a multiply-add, and
    enough arithmetic for each load."""
    if dtype.itemsize < 4:  # products of bytes are computed in wider vectors
        return 4, 1
    if target.registers < 32:
        return (6, 2) if target.vector_bytes == 32 else (4, 2)
    if isinstance(cols, int):
        lanes = target.lanes(dtype.itemsize)
        for rows, vectors in ((8, 3), (6, 4), (12, 2)):
            if cols % (vectors * lanes) == 0:
                return rows, vectors
    return 8, 3


def _low_tile(target: Target) -> tuple[int, int]:
    """Low and wide: long pieces of each row of the right operand, which is read once."""
    if target.registers < 32:
        return (4, 3) if target.vector_bytes == 32 else (2, 4)
    return 4, 6
