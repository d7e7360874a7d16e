"""Tiles that a contraction is compiled with on x86.

Each variant is code of its own (some 15 to 25 ms to generate), so there are at most two that a first call may need: one
for a few rows, which reads the right operand where it lies, once, and one for all others, which packs it. A third one,
where the number of columns is unknown, is for a vector of them at most.

Where the columns are known to fill them, and the caches keep up (``blocking.py``), tiles that pack are low and wide:
the right operand is read in long pieces of each row. With 8 rows over weights that no cache holds, pieces of 96 columns
are read in three quarters of the time that pieces of 48 take; with hundreds of rows, where arithmetic decides, 4x96 and
8x48 are equals there. Elsewhere one low kernel packs the panels of several high tiles, which comes to the same. Reading
it where it lies again for every tile of rows is no way to save the packing: rows a multiple of 4 KiB apart fall into
few sets of the caches.
"""

from __future__ import annotations

from dataclasses import replace

from dyn.dtypes import DType
from dyn.schedule.kernel import Operand, Tile
from dyn.schedule.sizes import ContractVariant, Reach
from dyn.schedule.target import Target
from dyn.schedule.units import Unit
from dyn.schedule.x86.blocking import LEFT_ROWS_OF_FEW, CacheBlocking, blocking, streamed_stride
from dyn.schedule.x86.units import reads_as_it_lies, reads_words, tile_unit_of, unit_of
from dyn.shapes import Dim, SymExpr

#: Up to how many rows dot products beat transposing the right operand.
DOT_ROWS = 32
#: Up to how many rows the right operand is read once, where it lies, with 16 registers and with more: what belongs to a
#: row stays in these.
_FEW_ROWS = (4, 8)
#: Vectors of columns of a GRID iteration that turns squares of the right operand.
_TURNED_VECTORS = 4
#: Rows of a tile over panels, at the most.
_MOST_PANEL_ROWS = 8
#: Accumulators in tile registers, of which there are eight: two by two, beside two for each operand.
_ROWS_OF_TILES, _COLUMNS_OF_TILES = 2, 2
#: Up to how many rows over panels vectors are as quick as tile registers, or some percent quicker.
_VECTOR_ROWS = 4
#: Bytes of a row of the right operand that a GRID iteration streams; where it lies, a thread reads as many of these one
#: after the other as it has, where it is computed each by itself.
_STREAMED_BYTES, _COMPUTED_BYTES = 512, 1024


def contract_schedules(
    target: Target, dtype: DType, reach: Reach, *, cols: Dim | None = None, result_rows: Dim | None = None
) -> tuple[ContractVariant, ...]:
    """The variants of a contraction whose accumulators have a dtype, in order of their rows: disjoint, and covering.

    ``cols``, where it is a number, chooses among tiles of the same speed one that divides it. With ``result_rows``,
    where both are numbers, it tells how many GRID iterations there are.

    All add up in the order of the reduced dimension, so that which of them runs cannot be seen in the result, but for
    the one for few rows and a transposed right operand, which adds up by lanes. Squares that are turned in registers
    take a third longer where they come from the caches, and are for targets that ask for one order.
    """
    lanes = target.lanes(dtype.itemsize)
    lhs_lies, rhs_lies = [reads_as_it_lies(target, own, dtype) for own in (reach.lhs, reach.rhs)]
    if reach.rhs_panels is not None:
        return _from_panels(target, dtype, reach, *reach.rhs_panels)
    if reach.computed_panels:
        return _computed_from_panels(target, dtype, reach, reach.computed_panels)
    if reach.panel_columns:
        return (_packed_from_panels(target, dtype, reach, reach.panel_columns),)
    col_contiguous, red_contiguous = reach.rhs_columns and rhs_lies, reach.rhs_reduced and rhs_lies
    unit = unit_of(target, reach.lhs, reach.rhs, dtype) if reach.whole else None
    if unit is not None and not (target.avx512 or reach.rhs_columns or reach.rhs_reduced):
        unit = None  # computed words are put together element by element, where masks are branches
    if unit is not None and dtype.is_float and target.batch_invariant:
        unit = None  # it rounds as few rows, which are read as they lie, do not
    tiles = tile_unit_of(target, reach.lhs, reach.rhs, dtype) if reach.whole else None
    unit = tiles if tiles is not None else unit
    rows, vectors = _tile(target, dtype, cols, wide=col_contiguous) if unit is None else _word_tile(unit, cols, lanes)
    own = blocking(target)
    panels = own.panels  # those that take turns, or several times as many
    packs_both = not reach.lhs_reduced or reach.lhs is not dtype or unit is not None
    if packs_both:
        panels *= max(own.left_vectors // (vectors * panels), 1)
    most = own.rows
    if packs_both:
        most = _packed_rows(own, result_rows, cols, panels * vectors * lanes)
    chunk = max(most // rows, 1) * rows
    staged = (Operand.RHS,) if unit is None else (Operand.LHS, Operand.RHS)
    main = Tile(rows, vectors * lanes, staged, unit="" if unit is None else unit.name)
    note = f"packed {rows}x{vectors * lanes}"
    note += f", {unit.name}" if unit is not None else ""
    last: tuple[ContractVariant, ...] = (ContractVariant(main, chunk, panels * vectors * lanes, 0, None, note),)
    if isinstance(cols, SymExpr) and vectors > 1 and dtype.itemsize >= 4:
        # A tile multiplies whole vectors, two of three of them idle where there are few columns.
        narrow, few = replace(main, columns=lanes), f"packed {rows}x{lanes}, at most {lanes} columns"
        last = (ContractVariant(narrow, chunk, lanes, 0, None, few, adds_alike=True, max_cols=lanes), *last)
    streamed = reach.rhs if col_contiguous else reach.rhs_computed
    direct = streamed is not None or (red_contiguous and reach.lhs_reduced and lhs_lies)
    if not direct or dtype.itemsize < 4 or target.vector_bytes < 32:
        return last
    rows = few = _FEW_ROWS[target.registers >= 32]
    in_order = streamed is not None or target.batch_invariant
    if streamed is not None:
        piece = (_STREAMED_BYTES if col_contiguous else _COMPUTED_BYTES) // streamed.itemsize
        columns, way = _streamed_columns(target, dtype, piece, cols), "streamed"
    elif in_order:
        columns, way = _TURNED_VECTORS * lanes, "turned"
    else:
        rows, few, columns, way = 4, DOT_ROWS, 3 * lanes, "dots"
    low = Tile(rows, columns, (), in_order=in_order and streamed is None)
    note, alike = f"{way} {rows}x{columns}, at most {few} rows", in_order and (unit is None or not dtype.is_float)
    return (
        ContractVariant(
            low, few, columns, 0, few, note, adds_alike=alike, merges_chunks=col_contiguous or way == "dots"
        ),
        *[replace(variant, min_rows=few + 1) for variant in last],
    )


def _from_panels(target: Target, dtype: DType, reach: Reach, width: int, group: int) -> tuple[ContractVariant, ...]:
    """The variants of a right operand that lies in panels: nothing is packed but a left operand that does not lie along
    the reduced dimension. One is for any number of rows, but for those that tile registers have."""
    unit = unit_of(target, reach.lhs, reach.rhs, dtype) if group > 1 else None
    if group > 1 and (unit is None or unit.group != group):  # they are words of a left operand that is another by now
        return (_packed_from_panels(target, dtype, reach, width),)

    def variant(unit: Unit | None, rows: int) -> ContractVariant:
        lies = reach.lhs_reduced and reads_as_it_lies(target, reach.lhs, dtype)
        if unit is not None:
            lies = reach.lhs_reduced and reads_words(unit, reach.lhs, reach.reduced_factor)
        most = blocking(target).rows if lies else blocking(target).left_rows
        staged = () if lies else (Operand.LHS,)
        tile = Tile(rows, width, staged, unit="" if unit is None else unit.name, from_panels=True)
        note = f"{rows}x{width} from panels" + (f", {unit.name}" if unit is not None else "")
        return ContractVariant(tile, max(most // rows, 1) * rows, width, 0, None, note, in_panel=True)

    vectors = variant(unit, _panel_rows(target, dtype, width, sums=unit is not None and unit.signs_left))
    tiles = tile_unit_of(target, reach.lhs, reach.rhs, dtype, for_all_rows=True) if unit is not None else None
    if tiles is None:
        return (vectors,)
    whole = variant(tiles, _ROWS_OF_TILES * tiles.rows)
    if dtype.is_float:  # one unit for all rows: a row's bits do not depend on its batch
        return (whole,)
    low = replace(vectors, max_rows=_VECTOR_ROWS, note=f"{vectors.note}, at most {_VECTOR_ROWS} rows", adds_alike=True)
    return (low, replace(whole, min_rows=_VECTOR_ROWS + 1))


def _computed_from_panels(target: Target, dtype: DType, reach: Reach, width: int) -> tuple[ContractVariant, ...]:
    """The variants of a right operand that is computed from panels: in registers for a few rows, packed for more."""
    few = _FEW_ROWS[target.registers >= 32]
    low = ContractVariant(
        Tile(few, width, ()), few, width, 0, few, f"computed {few}x{width} from panels, at most {few} rows",
        adds_alike=True, in_panel=True,
    )  # fmt: skip
    return (low, replace(_packed_from_panels(target, dtype, reach, width), min_rows=few + 1))


def _packed_from_panels(target: Target, dtype: DType, reach: Reach, width: int) -> ContractVariant:
    """The variant, for any number of rows, that packs a right operand by panels of ``width`` columns."""
    own, rows = blocking(target), _panel_rows(target, dtype, width)
    lies = reach.lhs_reduced and reads_as_it_lies(target, reach.lhs, dtype)
    most = own.rows if lies and reach.lhs is dtype else own.left_rows
    tile = Tile(rows, width, (Operand.RHS,))
    chunk = max(most // rows, 1) * rows
    return ContractVariant(tile, chunk, width, 0, None, f"packed {rows}x{width} from panels", in_panel=True)


def _panel_rows(target: Target, dtype: DType, width: int, *, sums: bool = False) -> int:
    """Rows of a tile as wide as a panel, whose accumulators take three quarters of the registers at most, or some more
    with ``sums`` of the columns."""
    lanes = target.lanes(dtype.itemsize)
    if sums:
        return min((target.registers - 5) * lanes // width - 1, _MOST_PANEL_ROWS)
    return min(target.registers * 3 // 4 * lanes // width, _MOST_PANEL_ROWS)


def _word_tile(unit: Unit, cols: Dim | None, lanes: int) -> tuple[int, int]:
    """Accumulators of a unit that takes words, beside which each column may have one more."""
    if unit.rows > 1:
        return _ROWS_OF_TILES * unit.rows, _COLUMNS_OF_TILES
    if unit.vector_bytes < 64:
        return (4 if unit.signs_left else 6), 2
    return (12, 2) if isinstance(cols, int) and cols % (3 * lanes) and cols % (2 * lanes) == 0 else (8, 3)


def _streamed_columns(target: Target, dtype: DType, piece: int, cols: Dim | None) -> int:
    """Columns of a GRID iteration that streams the right operand: about ``piece``, and of known columns an even number
    of such pieces, none of them much smaller than the others."""
    lanes = target.lanes(dtype.itemsize)
    columns = min(piece, streamed_stride(_FEW_ROWS[target.registers >= 32], dtype.itemsize, lanes))
    if isinstance(cols, int):
        pieces = max(round(cols / columns), 1)
        pieces += pieces % 2 if pieces > 1 else 0
        columns = -(-cols // pieces)
    return max(-(-columns // lanes), 1) * lanes


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
