"""Panels of right operands that never change: how wide they are."""

from __future__ import annotations

from dyn.dtypes import DType
from dyn.schedule.target import Target
from dyn.schedule.x86.units import reads_as_it_lies

#: Vectors of a row of a panel, with 32 registers: with fewer, one row of a product takes longer than memory does, and
#: with more a tile has fewer rows.
_PANEL_VECTORS = 4


def panel_width(target: Target, dtype: DType, acc: DType, columns: int) -> int | None:
    """The columns of a panel in which a right operand of so many is kept for products that are summed in ``acc``; None
    where it is better read as it lies.

    It is as wide as a tile, which then reads a panel from its first to its last byte.
    """
    if not acc.is_float or acc.itemsize < 4 or not reads_as_it_lies(target, dtype, acc) or target.vector_bytes < 32:
        return None
    lanes = target.lanes(acc.itemsize)
    width = (_PANEL_VECTORS if target.registers >= 32 else _PANEL_VECTORS // 2) * lanes
    if columns <= width:
        return -(-columns // lanes) * lanes if columns >= lanes else None
    wide = width * 3 // 2
    return wide if columns % width and columns % wide == 0 else width
