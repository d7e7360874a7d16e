"""Panels of right operands that never change: how they lie."""

from __future__ import annotations

from dyn.dtypes import DType
from dyn.schedule.target import Target
from dyn.schedule.x86.units import reads_as_it_lies, tile_unit_of, unit_of

#: Vectors of a row of a panel, with 32 registers: with fewer, one row of a product takes longer than memory does, and
#: with more a tile has fewer rows.
_PANEL_VECTORS = 4


def panel_layout(target: Target, lhs: DType, rhs: DType, acc: DType, columns: int) -> tuple[int, int] | None:
    """The columns of a panel in which a right operand is kept, and the rows of a step; None where it is better read as
    it lies.

    It is as wide as a tile, which then reads a panel from its first to its last byte, and has the words of a unit where
    that takes elements of its dtype.
    """
    unit = unit_of(target, lhs, rhs, acc)
    group = unit.group if unit is not None and unit.words[1] is rhs else 1
    is_read = group > 1 or (unit is None and acc.is_float and reads_as_it_lies(target, rhs, acc))
    if not is_read or acc.itemsize < 4 or target.vector_bytes < 32:
        return None
    lanes = target.lanes(acc.itemsize)
    vectors = _PANEL_VECTORS if target.registers >= 32 else _PANEL_VECTORS // 2
    signs = unit is not None and unit.signs_left  # each column has one more accumulator: more rows share it
    pairs = tile_unit_of(target, lhs, rhs, acc) is not None  # of tile registers, which many rows take
    width = (vectors - 1 if signs and not pairs else vectors) * lanes
    if columns <= width:
        return (-(-columns // lanes) * lanes, group) if columns >= lanes else None
    wide = width * 3 // 2
    return (wide if not signs and columns % width and columns % wide == 0 else width), group
