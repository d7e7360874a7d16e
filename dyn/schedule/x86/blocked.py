"""Contractions of x86 kernels as loops around packs and multiplications.

::

    for a block of rows                               # all of them, unless something is packed or blocked by rows
      for a block of columns
        for a block of the reduced dimension          # one, up to a few thousand elements
          pack the left operand's block               # if it cannot be read where it lies
          for a panel of columns                      # as wide as the tile; what is left over in narrow panels
            pack the right operand's panel            # unless it is read where it lies, the first time or always
            for a tile of rows                        # as high as the tile, but for the last one
              multiply: accumulators in scratch (+)= left * right
              after the last block of the reduced dimension: the epilogue

Panels may come in groups, whose members take turns at each tile of rows: the innermost loop is then one over them, and
the first tile is as wide as all of them and as low, so that one multiplication packs them in long pieces of each row.

Accumulators go through a tile in the first-level cache: the epilogue is then one loop over vectors, with one copy of
its code however heavy it is, at the price of one store and one load for each block of the reduced dimension.

Scratch is bounded by constants, about 1 MiB in all: 384 KiB for the panel, 400 to 520 for a packed left operand, and a
block of partial accumulators when the reduced dimension may need more than one block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from dyn.frozen import record
from dyn.schedule.expressions import Rewriter
from dyn.schedule.kernel import (
    Algorithm,
    Buffer,
    ColumnSums,
    Expr,
    Interval,
    Kernel,
    Load,
    Loop,
    Multiply,
    Pack,
    PackedWords,
    PanelPlaces,
    Role,
    Space,
    Stmt,
    Tile,
    TileContract,
    known_factor,
    most_iterations,
)
from dyn.schedule.statements import Stmts, ceil_div, for_chunks, for_each, let, name_extent, replace_contractions, when
from dyn.schedule.strided import strided
from dyn.schedule.target import Target
from dyn.schedule.x86.blocking import (
    FAR_BYTES,
    IN_PLACE,
    PANEL_BYTES,
    PARTIAL_ROWS,
    STREAMED_BYTES,
    WORDS_FOR_TILES,
    blocking,
    streamed_heights,
    streamed_piece,
    streamed_stride,
)
from dyn.schedule.x86.digit_runs import in_runs
from dyn.schedule.x86.operands import left_where_it_lies, right_operand, right_panels, unit_of_tile
from dyn.schedule.x86.words import WORD, in_words, words_of
from dyn.shapes import Dim, as_dim, dim_max, dim_min, floordiv


def blocked(kernel: Kernel, target: Target) -> Kernel:
    """The kernel with loops around packs and multiplications in place of its contractions."""

    def made(tile: TileContract) -> tuple[Stmts, tuple[Buffer, ...]]:
        blocks = _Blocks(tile, target)
        return blocks.loops(), tuple(blocks.scratch)

    return replace_contractions(kernel, made)


@record(eq=False)
class _CacheBlock:
    """A block of rows, columns and the reduced dimension: whether its steps are the first and the last ones (1 or
    0)."""

    rows: Interval
    cols: Interval
    red: Interval
    first: Dim
    last: Dim


@record(eq=False)
class _Panel:
    """A panel by its number among those of a block, and its member of a group of them."""

    number: Dim
    member: Dim
    cols: Interval


class _Blocks:
    """One contraction: how its operands are read and what it is cut by, then the loops."""

    def __init__(self, tile: TileContract, target: Target) -> None:
        self.target = target
        #: The contraction of elements, and that of words, if a unit multiplies these.
        self.elements = tile
        self.unit = unit_of_tile(tile, target)
        self.tile = tile = tile if self.unit is None else in_words(tile, self.unit)
        #: The dtype of accumulators, and that of packed operands.
        self.dtype = tile.acc.dtype
        self.packed_dtype = self.dtype if self.unit is None else WORD
        self.in_panels = tile.tile.from_panels
        #: Where operands lie, if they are read there; else they are packed. A right operand that is computed in
        #: registers is an expression.
        self.left = left_where_it_lies(self.elements, self.unit, target)
        if self.in_panels:
            self.right, self.algorithm = right_panels(self.elements, self.unit), Algorithm.TILE
        else:
            self.right, self.algorithm = right_operand(tile, target, left_lies=self.left is not None)
        #: Whether the right operand is read once, by kernels that take any number of columns.
        self.once = self.algorithm is not Algorithm.TILE
        self._sizes()
        self._memory()

    def _sizes(self) -> None:
        """Decide what the contraction is cut by."""
        tile, target, itemsize = self.tile, self.target, self.dtype.itemsize
        self.lanes = target.lanes(itemsize)
        self.height, self.vectors = tile.tile.rows, -(-tile.tile.columns // self.lanes)
        if isinstance(tile.row_extent, int):
            while self.height > 1 and tile.row_extent <= self.height // 2:
                self.height //= 2
        self.width = self.vectors * self.lanes
        #: Elements from the accumulators of a row to the next one's: kernels that stream have one distance, whatever
        #: the columns, so that contractions share them.
        self.stride = self.width
        if self.algorithm in (Algorithm.STREAM, Algorithm.COMPUTED, Algorithm.DOTS):
            self.stride = max(streamed_stride(self.height, itemsize, self.lanes), self.width)
        #: How panels are packed, for this target's caches.
        self.blocking = IN_PLACE if self.once else blocking(target)
        #: Panels that lie packed side by side, and take turns at each tile of rows.
        self.group = 1 if self.in_panels else self.blocking.panels
        most = PANEL_BYTES[target.vector_bytes] // (self.width * itemsize * self.group) // 64
        depth = self.blocking.left_depth if self.left is None else 0
        depth = depth if depth else self.blocking.depth
        #: The most steps of the reduced dimension that are packed at once, and of these a multiple of W.
        self.block = max(min(depth // 64 if depth else most, most), 1) * 64
        if self.unit is not None and self.unit.rows > 1 and not self.in_panels:
            self.block = min(self.block, WORDS_FOR_TILES)
        red = tile.red_extent
        self.depth = min(self.block, -(-max(red, 1) // self.lanes) * self.lanes) if isinstance(red, int) else self.block
        #: Whether the reduced dimension may be cut, so that accumulators wait for the next block.
        packs = self.left is None or not self.once
        self.resumes = packs and not (isinstance(red, int) and red <= self.block)
        self._panel_kinds()
        #: Rows of the first tile, where one multiplication packs all panels of a group: as wide as they are, and as
        #: low. It is as if the first ``shift`` rows of that tile did not exist.
        self.packing = self.right is not None and not self.once and not self.in_panels
        self.lead = 0
        if self.packing and self.group > 1 and not self.narrow:
            across = self.group * self.vectors
            self.lead = max(min(self.height // self.group, (target.registers - 1) // across - 1), 1)
        self.shift = self.height - self.lead if self.lead else 0

    def _memory(self) -> None:
        """Scratch, and the blocks of rows and columns that it has room for."""
        itemsize = self.dtype.itemsize
        #: Rows of a block: of a packed left operand, or of accumulators that wait.
        self.block_rows = (2 * self.height if self.once else PARTIAL_ROWS) // self.height * self.height
        if self.left is None:
            fits = self.blocking.left_bytes // (self.block * itemsize) // self.height
            self.block_rows = max(1 if self.once else fits, 2) * self.height
        self.tiles = max(self.block_rows // self.height, 1) + (1 if self.lead else 0)
        self.panels = max(self.blocking.left_panels if self.left is None and not self.once else 1, self.group)
        #: Elements from the accumulators of one tile to those of the next.
        self.slot = max(self.height * self.stride, self.lead * self.group * self.width)
        most = self.panels - 1 + (-(-self.width // self.narrow) if self.narrow else 1)
        if self.algorithm is Algorithm.STREAM:  # a tile may be cut into several pieces
            self.slot = STREAMED_BYTES // itemsize
            least = min(self._streamed_piece(height, far=False) for height in streamed_heights(self.height))
            most = -(-self.panels * self.width // least)
        slots = self.tiles * most if self.resumes else 1
        self.acc = Buffer("acc", self.dtype, Space.SCRATCH, slots * self.slot)
        self.scratch = [self.acc]
        #: Elements from a packed panel of a group to the next one.
        self.panel_stride = self.depth * self.width
        if self.right is None or self.packing:
            self.panel = Buffer("panel", self.packed_dtype, Space.SCRATCH, self.panel_stride * self.group + self.lanes)
            self.scratch.append(self.panel)
        #: Sums of the columns of each panel of a group, which the first tile of rows makes.
        self.sums: Buffer | None = None
        if self.unit is not None and self.unit.signs_left:
            self.sums = Buffer("sums", self.dtype, Space.SCRATCH, self.width * self.group)
            self.scratch.append(self.sums)
        if self.left is None:
            # A line more than the block, or all rows would fall into one set of the cache.
            self.left_stride = self.depth + max(64 // itemsize, self.lanes)
            size = (self.block_rows + self.lanes) * self.left_stride
            self.left_block = Buffer("rows", self.packed_dtype, Space.SCRATCH, size)
            self.scratch.append(self.left_block)

    def _panel_kinds(self) -> None:
        """Columns of narrow panels, if there may be any, and whether there may be wide ones."""
        cols, lanes = self.tile.col_extent, self.lanes
        narrow = max(self.vectors // 3, 1) * lanes
        self.has_wide, has_narrow = True, True
        if isinstance(cols, int):
            full, rest = divmod(cols, self.width)
            self.has_wide = full > 0 or rest > self.width - narrow
            has_narrow = 0 < rest <= self.width - narrow
        self.narrow = narrow if has_narrow and not self.once and known_factor(cols) % self.width else 0

    # --- the loops -----------------------------------------------------------------------------------------------

    def loops(self) -> Stmts:
        """The loops, outermost first."""
        tile = self.tile
        row, col, red, steps = tile.row, tile.col, tile.red, tile.red_extent
        lets, blocks, depth, row_step, col_step = list[Stmt](), as_dim(1), steps, None, None

        def name(dim: Dim, own: str) -> Dim:
            made, named = let(dim, own)
            lets.extend(made)
            return named

        #: 0 where one block of the reduced dimension is all.
        self.several: Dim = 0
        if self.resumes:
            blocks = name(dim_max(ceil_div(steps, self.block), 1), "blocks")
            depth = name(ceil_div(ceil_div(steps, blocks), self.lanes), "vectors") * self.lanes
            self.several = name(dim_min(blocks - 1, 1), "several")
            most = most_iterations(tile.col_extent)
            if most is None or most > self.panels * self.width:
                col_step = name(dim_max(self.panels * self.width, (1 - self.several) * tile.col_extent), "columns")
        if self.resumes or self.left is None:
            row_step = self.block_rows

        def reds(rows: Interval, cols: Interval, n: Dim) -> Stmts:
            own, size = (), steps
            if self.resumes:
                own, size = name_extent(dim_min(steps - depth * n, depth), "steps")
            first, last = 1 - dim_min(n, 1), dim_max(n + 2 - blocks, 0)
            return (*own, *self._block(_CacheBlock(rows, cols, Interval(red, depth * n, size), first, last)))

        def columns(rows: Interval, j0: Dim, size: Dim) -> Stmts:
            return for_each(blocks, lambda n: reds(rows, Interval(col, j0, size), n), "reds")

        def rows(i0: Dim, size: Dim) -> Stmts:
            return for_chunks(tile.col_extent, col_step, lambda j0, n: columns(Interval(row, i0, size), j0, n), "cols")

        made = for_chunks(tile.row_extent, row_step, rows, "rows")
        return (*lets, *made)

    def _block(self, part: _CacheBlock) -> Stmts:
        """One block of rows × columns × reduced dimension."""
        packs, made = self.right is None, list[Stmt]()
        if self.left is None:
            value, words = self._packed_value(0)
            digits = self.tile.digits
            made.append(Pack(self.left_block, 0, self.left_stride, part.rows, part.red, value, 0, digits, words))
        lets, width = let(self._panel_width(part.rows.extent), "piece")
        made += lets
        lets, wide, count = self._count(part.cols.extent, width)
        made += lets
        tiles = self._row_tiles(part.rows.extent)

        def panel(number: Dim, member: Dim, make: Callable[[_Panel], Stmts]) -> Stmts:
            lets, cols = self._cut(part.cols, number, wide, width)
            return (*lets, *make(_Panel(number, member, cols)))

        def tile(panel: _Panel, t: Dim) -> Stmts:
            return self._tile(part, panel, t)

        if self.group == 1:

            def alone(panel: _Panel) -> Stmts:
                packed = (self._packed(part, panel),) if packs else ()
                return (*packed, *for_each(tiles, lambda t: tile(panel, t), "tile"))

            return (*made, *for_each(count, lambda n: panel(n, 0, alone), "panel"))

        def shared(n: Dim) -> Stmts:
            """Panels that take every tile of rows while it is near."""
            first = n * self.group
            members = dim_min(count - first, self.group)

            def of_members(count: Dim, make: Callable[[_Panel], Stmts]) -> Stmts:
                return for_each(count, lambda member: panel(first + member, member, make), "member")

            def tiled(t: Dim) -> Stmts:
                # The first tile of rows packs all of the panels.
                own = 1 + dim_min(t, 1) * (members - 1) if self.lead else members
                return of_members(own, lambda panel: tile(panel, t))

            packed = of_members(members, lambda panel: (self._packed(part, panel),)) if packs else ()
            return (*packed, *for_each(tiles, tiled, "tile"))

        return (*made, *for_each(ceil_div(count, self.group), shared, "panel"))

    def _panel_width(self, rows: Dim) -> Dim:
        """Columns of a panel, or of the wide ones, for so many rows."""
        if self.algorithm is Algorithm.STREAM:
            return self._piece(dim_min(rows, self.height))
        if self.algorithm is Algorithm.DOTS:  # rows of one tile read it once: it need not stay in a cache
            return self.stride + (self.width - self.stride) * dim_min(dim_max(rows - self.height, 0), 1)
        return self.width

    def _by_height(self, rows: Dim, of: Callable[[int], int]) -> Dim:
        """The number that belongs to the least height that so many rows are streamed by."""
        lower, *higher = streamed_heights(self.height)
        found: Dim = of(lower)
        for height in higher:
            found = found + (of(height) - of(lower)) * dim_min(dim_max(rows - lower, 0), 1)
            lower = height
        return found

    def _streamed(self, height: int) -> int:
        """The distance of the accumulators of so many rows that are streamed."""
        return streamed_stride(height, self.dtype.itemsize, self.lanes)

    def _piece(self, rows: Dim) -> Dim:
        """Columns that are streamed one after the other, for so many rows: more where the right operand is more than
        the caches hold."""
        tile, itemsize = self.tile, self.tile.rhs.dtype.itemsize
        own = strided(tile.rhs, tile.red, tile.col)
        assert own is not None
        is_far = dim_max(dim_min(floordiv(tile.red_extent * own.slow, FAR_BYTES // itemsize), 1), 0)
        near, far = [self._by_height(rows, partial(self._streamed_piece, far=far)) for far in (False, True)]
        return near + (far - near) * is_far

    def _streamed_piece(self, height: int, *, far: bool) -> int:
        """Columns of a piece for so many rows, of a right operand that the caches hold or not."""
        return streamed_piece(height, self.tile.rhs.dtype.itemsize, self.dtype.itemsize, self.lanes, far=far)

    def _count(self, cols: Dim, width: Dim) -> tuple[Stmts, Dim, Dim]:
        """The numbers of wide panels of so many columns and of all: narrow panels that would cost as much as a wide one
        are one."""
        if not self.narrow:
            count = ceil_div(cols, width)
            return (), count, count
        if not self.has_wide:
            return (), 0, ceil_div(cols, self.narrow)
        lets, wide = let(floordiv(cols + (self.narrow - 1), self.width), "wide")
        more, count = let(wide + ceil_div(dim_max(cols - wide * self.width, 0), self.narrow), "panels")
        return (*lets, *more), wide, count

    def _cut(self, cols: Interval, number: Dim, wide: Dim, width: Dim) -> tuple[Stmts, Interval]:
        """A panel of a block's columns, by its number, of which those below ``wide`` are wide."""
        if not (self.narrow and self.has_wide):
            width = self.narrow if self.narrow else width
            return (), Interval(cols.var, cols.start + number * width, dim_min(width, cols.extent - number * width))
        start = dim_min(number, wide) * self.width + dim_max(number - wide, 0) * self.narrow
        size = self.narrow + (self.width - self.narrow) * dim_min(dim_max(wide - number, 0), 1)
        lets, start = let(start, "column")
        more, extent = name_extent(dim_min(size, cols.extent - start), "width")
        return (*lets, *more), Interval(cols.var, cols.start + start, extent)

    def _row_tiles(self, rows: Dim) -> Dim:
        tiles = ceil_div(rows + self.shift, self.height)
        return dim_min(tiles, rows) if self.lead else tiles  # none where there are no rows

    def _packed(self, part: _CacheBlock, panel: _Panel) -> Stmt:
        """Packing of a panel of the right operand."""
        value, words = self._packed_value(1)
        place, digits = panel.member * self.panel_stride, self.tile.digits
        return Pack(self.panel, place, self.width, part.red, panel.cols, value, self.width, digits, words)

    def _packed_value(self, number: int) -> tuple[Expr, PackedWords | None]:
        """The value that is packed of the left operand (0) or the right one (1), and its words for a unit."""
        tile = self.tile
        if self.unit is None:
            return tile.factors()[number], None
        return (tile.lhs, tile.rhs)[number], words_of(self.elements, self.unit, number)

    def _tile(self, part: _CacheBlock, panel: _Panel, t: Dim) -> Stmts:
        """A tile of rows of a panel, and the epilogue for what it has finished."""
        lets, start = let(dim_max(t * self.height - self.shift, 0), "row") if self.shift else ((), t * self.height)
        end = t * self.height - self.shift + self.height
        size = dim_min(part.rows.extent, end) - start if self.shift else dim_min(part.rows.extent - start, self.height)
        more, size = name_extent(size, "height")
        rows = Interval(part.rows.var, part.rows.start + start, size)
        place: Dim = 0
        if self.resumes:
            last, place = let(self.several * (panel.number * self.tiles + t) * self.slot, "place")
            more = (*more, *last)
        cols, stride, is_first = panel.cols, as_dim(self.stride), 1 - dim_min(t, 1)
        if self.algorithm is Algorithm.STREAM:
            last, stride = let(self._by_height(rows.extent, self._streamed), "stride")
            more = (*more, *last)
        shape = replace(self.tile.tile, rows=self.height, columns=self.width)
        if self.sums is not None:
            first, others = [
                (self._multiply(part, panel, rows, place, shape, stride, makes_sums=makes),) for makes in (True, False)
            ]
            made = (*when(is_first, first), *when(dim_min(t, 1), others))
        elif not self.packing:
            made = in_runs(self._multiply(part, panel, rows, place, shape, stride), self.tile.digits)
        else:
            packing, wide, across = shape, panel, self.stride
            if not self.has_wide:
                packing = replace(shape, columns=self.narrow)
            if self.lead:
                across = self.group * self.width
                packing = replace(shape, rows=self.lead, columns=across)
                most = dim_min(part.cols.start + part.cols.extent - cols.start, across)
                wide = replace(panel, cols=replace(cols, extent=most))
                cols = replace(cols, extent=cols.extent + is_first * (most - cols.extent))
                stride = self.width + is_first * (across - self.width)
            packed = PanelPlaces(self.panel, panel.member * self.panel_stride, self.width, self.panel_stride)
            made = (
                *when(is_first, (self._multiply(part, wide, rows, place, packing, across, packed),)),
                *when(dim_min(t, 1), (self._multiply(part, panel, rows, place, shape, self.stride),)),
            )
        return (*lets, *more, *made, *when(part.last, (self._epilogue(rows, cols, place, stride),)))

    def _multiply(
        self, part: _CacheBlock, panel: _Panel, rows: Interval, place: Dim, shape: Tile, stride: Dim,
        packed: PanelPlaces | None = None, *, makes_sums: bool = False,
    ) -> Multiply:  # fmt: skip
        row, col, red = as_dim(self.tile.row), as_dim(self.tile.col), as_dim(self.tile.red) - part.red.start
        left, right = self.left, self.right
        if left is None:
            left = Load(self.left_block, (row - part.rows.start) * self.left_stride + red)
        if right is None or (self.packing and packed is None):
            right = Load(self.panel, panel.member * self.panel_stride + red * self.width + col - panel.cols.start)
        sums = None
        if self.sums is not None:
            sums = ColumnSums(self.sums, panel.member * self.width, makes_sums)
        return Multiply(
            self.acc, place, stride, rows, panel.cols, part.red, left, right, shape, self.algorithm, self.unit,
            part.first, packed, self.narrow if shape.columns > self.narrow else 0, sums,
        )  # fmt: skip

    def _epilogue(self, rows: Interval, cols: Interval, place: Dim, stride: Dim) -> Stmt:
        """The loops over a tile's accumulators: columns outside, rows inside, so that what depends on the column alone,
        such as a bias, is loaded once a tile."""
        tile = self.tile
        at = place + (as_dim(rows.var) - rows.start) * stride + as_dim(cols.var) - cols.start
        rewriter = Rewriter(lambda dim: dim)
        rewriter.exprs[id(tile.acc)] = Load(self.acc, at)
        inner = Loop(Role.SERIAL, rows.var, rows.extent, rewriter.block(tile.epilogue), start=rows.start)
        return Loop(Role.LANE, cols.var, cols.extent, (inner,), start=cols.start)
