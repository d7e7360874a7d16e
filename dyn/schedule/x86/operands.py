"""Operands of x86's contractions: which are read where they lie, and by which algorithm they are multiplied."""

from __future__ import annotations

from functools import partial

from dyn.schedule.kernel import Algorithm, Expr, Load, Operand, TileContract
from dyn.schedule.panels import panels_in
from dyn.schedule.strided import own_digits, strided
from dyn.schedule.target import Target
from dyn.schedule.units import Unit
from dyn.schedule.x86.units import reads_as_it_lies, tile_unit_of, unit_of
from dyn.shapes import as_dim, substitute


def unit_of_tile(tile: TileContract, target: Target) -> Unit | None:
    """The unit that a tile names.

    Raises:
        ValueError: where the target has no such unit for the operands.
    """
    if not tile.tile.unit:
        return None
    kinds = (unit_of, partial(tile_unit_of, for_all_rows=True)) if not tile.digits else ()
    units = [of(target, tile.lhs.dtype, tile.rhs.dtype, tile.acc.dtype) for of in kinds]
    found = next((unit for unit in units if unit is not None and unit.name == tile.tile.unit), None)
    if found is None:
        raise ValueError(f"{target} has no unit {tile.tile.unit} for {tile.lhs.dtype} and {tile.rhs.dtype}")
    return found


def left_where_it_lies(tile: TileContract, unit: Unit | None, target: Target) -> Expr | None:
    """The left operand of a contraction of elements, in words where a unit takes them; None where it is packed."""
    own = strided(tile.lhs, tile.row, tile.red, tile.digits)
    lies = own is not None and own.fast == 1
    if unit is not None:
        if Operand.LHS in tile.tile.staged:
            return None
        if not lies:
            raise ValueError(f"{tile.lhs} does not lie in words")
        return _in_words(tile, tile.lhs, unit)
    # Each is read for many panels: where those are packed, it is converted once.
    converts = Operand.RHS in tile.tile.staged and tile.lhs.dtype is not tile.acc.dtype
    return tile.lhs if lies and not converts and reads_as_it_lies(target, tile.lhs.dtype, tile.acc.dtype) else None


def right_panels(tile: TileContract, unit: Unit | None) -> Expr:
    """The right operand in panels, whose columns are those of the tile, in words where a unit takes them."""
    width, group = tile.tile.columns, 1 if unit is None else unit.group
    if panels_in(tile.rhs, tile.col, tile.red, width) != (width, group):
        raise ValueError(f"{tile.rhs} does not lie in panels of {width} columns by {group}")
    return tile.rhs if unit is None else _in_words(tile, tile.rhs, unit)


def right_operand(tile: TileContract, target: Target, *, left_lies: bool) -> tuple[Expr | None, Algorithm]:
    """The right operand that lies in no panels, where it lies or where it is computed, else None: it is packed. And the
    algorithm by which it is multiplied. ``tile`` is over words where a unit takes them."""
    own = strided(tile.rhs, tile.red, tile.col, tile.digits)
    own = own if reads_as_it_lies(target, tile.rhs.dtype, tile.acc.dtype) else None
    if Operand.RHS in tile.tile.staged:
        direct = own is not None and own.fast == 1 and target.vector_bytes >= 32  # no branch for a mask
        return (tile.rhs if direct else None), Algorithm.TILE
    if own is not None and own.fast == 1:
        return tile.rhs, Algorithm.STREAM
    if own is not None and own.slow == 1 and left_lies and tile.acc.dtype.itemsize >= 4:
        return tile.rhs, Algorithm.TURNED if tile.tile.in_order else Algorithm.DOTS
    whole = own_digits(tile.rhs, tile.col, tile.digits) is None
    return (tile.factors()[1], Algorithm.COMPUTED) if whole else (None, Algorithm.TILE)


def _in_words(tile: TileContract, operand: Expr, unit: Unit) -> Load:
    """Elements that lie in memory, over the words that they make."""
    assert isinstance(operand, Load)
    return Load(operand.buffer, substitute(operand.index, {tile.red: as_dim(tile.red) * unit.group}))
