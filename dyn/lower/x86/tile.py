"""Contractions: a blocked matrix product around a micro-kernel in registers.

::

    for a block of rows                               # all of them, unless something is packed or blocked by rows
      for a block of columns
        for a block of the reduced dimension          # one, up to a few thousand elements
          pack the left operand's block               # if it cannot be read where it lies
          for a panel of columns                      # vectors*W wide; what is left over in narrow panels
            pack the right operand's panel            # unless it is read where it lies, the first time or always
            for a tile of rows                        # ``rows`` high; the last one may have half the height
              micro-kernel: tile accumulators in scratch (+)= left * right
              after the last block of the reduced dimension: the epilogue

Panels may come in groups, whose members take turns at each tile of rows: the innermost loop is then one over them, and
the first tile is as wide as all of them and as low, so that one kernel packs them in long pieces of each row.

The micro-kernels and the packing are functions (``tile_kernels.py``) that the loops here call through pointers chosen
per panel, so a tail costs no second copy of the nest. Accumulators go through a tile in the first-level cache: the
epilogue is then one loop over vectors, with one copy of its code however heavy it is, at the price of one store and
one load for each ``depth`` multiply-adds.

Scratch is bounded by constants, about 1 MiB in all: 384 KiB for the panel, 400 to 520 for a packed left operand, and a
block of partial accumulators when the reduced dimension may need more than one block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from dyn.lower.x86.tile_computed import ComputedColumns
from dyn.lower.x86.tile_dot import Dot
from dyn.lower.x86.tile_ints import Ints, known_factor
from dyn.lower.x86.tile_kernels import Micro, Operands, Rhs, can_transpose
from dyn.lower.x86.tile_pack import PackedBlock, Packer, Strided, define, own_digits, strided
from dyn.lower.x86.tile_parts import Cut, Epilogue, Panel, Rows, TilePart
from dyn.lower.x86.tile_stream import Stream
from dyn.lower.x86.tile_turned import Turned
from dyn.lower.x86.tile_words import WORD, WordPacker, in_words
from dyn.schedule.kernel import Expr, Load, Operand, TileContract
from dyn.schedule.panels import panels_in
from dyn.schedule.x86.blocking import IN_PLACE, STREAMED_BYTES, blocking
from dyn.schedule.x86.units import Unit, reads_as_it_lies, unit_of

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

#: Bytes of a packed panel of the right operand, by the bytes of a vector: with the accumulators and the rows at hand it
#: stays in the L2, of which machines with AVX-512 have 1 MiB or more.
PANEL_BYTES = {16: 192 * 1024, 32: 192 * 1024, 64: 384 * 1024}
#: Rows of partial accumulators: all that a GRID iteration takes.
PARTIAL_ROWS = 528


def emit_tile(em: KernelEmitter, tile: TileContract) -> None:
    """Emit a contraction in the open scope."""
    em.scopes.clobber()
    _Tile(em, tile).nest()
    em.scopes.clobber()


def _unit(em: KernelEmitter, tile: TileContract) -> Unit | None:
    if not tile.tile.unit:
        return None
    found = unit_of(em.target, tile.lhs.dtype, tile.rhs.dtype, tile.acc.dtype)
    if found is None or found.name != tile.tile.unit or tile.digits:
        raise ValueError(f"{em.target} has no unit {tile.tile.unit} for {tile.lhs.dtype} and {tile.rhs.dtype}")
    return found


class _Tile:
    """One contraction: what is decided while compiling, then the nest. Names of IR values are strings."""

    def __init__(self, em: KernelEmitter, tile: TileContract) -> None:
        #: What multiplies words, if they are multiplied in words: all that counts the reduced dimension counts these.
        self.unit = _unit(em, tile)
        #: The contraction of elements.
        self.elements = tile
        if self.unit is not None:
            tile = in_words(tile, self.unit)
        self.em, self.fn, self.tile = em, em.fn, tile
        self.ints = Ints(em.fn)
        itemsize = tile.acc.dtype.itemsize
        self.vec = em.register(tile.acc.dtype, em.target.lanes(itemsize))
        w = self.w = self.vec.lanes
        #: Vectors of words: accumulators of floats have words of integers too.
        self.words = self.vec if self.unit is None else em.register(WORD, w)
        self.height, self.vectors = tile.tile.rows, -(-tile.tile.columns // w)
        if isinstance(tile.row_extent, int):
            while self.height > 1 and tile.row_extent <= self.height // 2:
                self.height //= 2
        self.narrow = max(self.vectors // 3, 1)
        self.width = self.vectors * w

        stages = Operand.RHS in tile.tile.staged
        acc = tile.acc.dtype
        self.lhs = strided(tile.lhs, tile.row, tile.red, tile.digits)
        if self.lhs is not None and (self.lhs.fast != 1 or not self._lies(tile.lhs)):
            self.lhs = None
        if stages and tile.lhs.dtype is not acc:  # each is read for many panels: it is converted once
            self.lhs = None
        #: Whether the left operand is read where it lies, in words.
        self.left_words = self.unit is not None and Operand.LHS not in tile.tile.staged
        if self.left_words:
            own = self.elements
            self.lhs = strided(own.lhs, own.row, own.red, own.digits)
            if self.lhs is None or self.lhs.fast != 1:
                raise ValueError(f"{own.lhs} does not lie in words")
        self.rhs = strided(tile.rhs, tile.red, tile.col, tile.digits)
        if not self._lies(tile.rhs):
            self.rhs = None
        #: Whether the right operand is read where it lies along the reduced dimension.
        self.turns = not stages and not tile.tile.from_panels and self._turns()
        if self.rhs is not None and self.rhs.fast != 1 and not self.turns:
            self.rhs = None
        #: Whether the right operand lies in panels, as if it had been packed.
        self.in_panels = tile.tile.from_panels
        if self.in_panels:
            self.rhs = self._panels()
        if em.target.vector_bytes < 32 and stages:  # masked loads are branches
            self.rhs = None
        #: Whether one kernel takes a tile of any number of rows and columns: it streams, takes dot products, turns
        #: squares, or multiplies what it computes.
        whole = all(own_digits(tile.rhs, symbol, tile.digits) is None for symbol in (tile.red, tile.col))
        self.once = not stages and not self.in_panels and (self.rhs is not None or whole)
        #: PACKED if the panel is packed before the micro-kernels run.
        packed = self.rhs is None or self.in_panels
        self.mode = Rhs.DIRECT if self.once else Rhs.PACKED if packed else Rhs.PACKING
        #: Heights of the last tile, where it is a low one, the lowest first: over panels that lie there, arithmetic may
        #: be all that few rows take.
        self.heights = () if self.once else (max(self.height // 2, 1),)
        if self.in_panels:
            self.heights = tuple(height for height in (2, 4) if height < self.height)
        #: Elements from the accumulators of a row to the next one's: kernels that stream have one distance, whatever
        #: the columns, so that contractions share them.
        streams = self.once and not self.turns
        self.stride = max(STREAMED_BYTES // itemsize, self.width) if streams else self.width
        #: How panels are packed, for this target's caches.
        self.blocking = IN_PLACE if self.once else blocking(em.target)

        #: Panels that lie packed side by side, and take turns at each tile of rows.
        self.group = 1 if self.in_panels else self.blocking.panels
        most = PANEL_BYTES[em.target.vector_bytes] // (self.width * itemsize * self.group) // 64
        depth = self.blocking.left_depth if self.lhs is None else 0
        depth = depth if depth else self.blocking.depth
        self.block = min(depth // 64 if depth else most, most)
        self.block = max(self.block, 1) * 64
        #: Whether the reduced dimension may be cut, so that accumulators wait for the next block.
        packs = self.lhs is None or self.mode is not Rhs.DIRECT
        static = isinstance(tile.red_extent, int) and tile.red_extent <= self.block
        self.resumes = packs and not static

        self._panel_kinds()
        #: Rows of the first tile, where one kernel packs all panels of a group: as wide as they are, and as low. It is
        #: as if the first ``shift`` rows of that tile did not exist.
        self.lead = 0
        if self.mode is Rhs.PACKING and self.group > 1 and not self.has_narrow:
            across = self.group * self.vectors
            self.lead = max(min(self.height // self.group, (em.target.registers - 1) // across - 1), 1)
        self.shift = self.height - self.lead if self.lead else 0

        self.lhs_rows = 0
        if self.lhs is None:
            fits = self.blocking.left_bytes // (self.block * itemsize) // self.height
            self.lhs_rows = max(1 if self.once else fits, 2) * self.height
        most_rows = 2 * self.height if self.once else PARTIAL_ROWS
        self.partial_rows = self.lhs_rows if self.lhs_rows else most_rows // self.height * self.height
        self.tiles = max(self.partial_rows // self.height, 1) + (1 if self.lead else 0)
        self.panels = max(self.blocking.left_panels if self.lhs is None and not self.once else 1, self.group)
        self.epilogue = Epilogue(em, tile, self.vec)
        self._scratch(itemsize)
        self._leaves()
        # What ``nest`` finds first. ``slot`` is the number of elements from the accumulators of one tile to those of
        # the next: with one block of the reduced dimension all share a place.
        self.rows = self.row_tiles = self.slot = "0"
        #: For each of the heights, the first tile that is so low.
        self.firsts: list[str] = []

    def _panels(self) -> Strided:
        """The right operand's panels, whose columns are those of the tile, in words where a unit takes them."""
        found = panels_in(self.elements.rhs, self.elements.col, self.elements.red, self.width)
        group = 1 if self.unit is None else self.unit.group
        if found != (self.width, group) or not isinstance(self.elements.rhs, Load):
            raise ValueError(f"{self.elements.rhs} does not lie in panels of {self.width} columns by {group}")
        return Strided(self.elements.rhs.buffer, self.elements.rhs.index, self.width, 1)

    def _lies(self, operand: Expr) -> bool:
        return reads_as_it_lies(self.em.target, operand.dtype, self.tile.acc.dtype)

    def _turns(self) -> bool:
        if self.lhs is None or self.rhs is None or not can_transpose(self.vec):
            return False
        return self.rhs.slow == 1 and self.rhs.fast != 1

    def _scratch(self, itemsize: int) -> None:
        em, tile = self.em, self.tile
        most = self.panels - 1 + (-(-self.vectors // self.narrow) if self.has_narrow else 1)
        slots = self.tiles * most if self.resumes else 1
        self.acc = em.alloc_scratch(slots * self._slot() * itemsize)
        packed = (self._depth() * self.width * self.group + self.w) * itemsize
        packed = self.w * self.w * itemsize if self.turns else packed
        self.panel = em.alloc_scratch(packed) if self.turns or not (self.once or self.in_panels) else "null"
        lhs, rhs = tile.factors()
        #: The right operand in registers, where it is computed for a few rows.
        self.computed: ComputedColumns | None = None
        if self.once and self.rhs is None:
            self.computed = ComputedColumns(em, tile, self.vec, self._operands(Rhs.PACKED))
        elif self.rhs is None and self.unit is not None:
            self.rhs_packer = WordPacker(em, self.elements, self.unit, 1, tile.rhs, self.words, self.width)
        elif self.rhs is None:
            self.rhs_packer = Packer(em, rhs, tile.red, tile.col, self.vec, self.width, tile.digits)
        if self.lhs is None and self.unit is not None:
            self.lhs_packer = WordPacker(em, self.elements, self.unit, 0, tile.lhs, self.words, 0)
        elif self.lhs is None:
            self.lhs_packer = Packer(em, lhs, tile.row, tile.red, self.vec, 0, tile.digits)
        if self.lhs is None:
            # A line more than the block, or all rows would fall into one set of the cache.
            self.lhs_step = self._depth() + max(64 // itemsize, self.w)
            self.lhs_block = em.alloc_scratch((self.lhs_rows + self.w) * self.lhs_step * itemsize)

    def _slot(self) -> int:
        """The number of accumulators of a tile of rows."""
        return max(self.height * self.stride, self.lead * self.group * self.width)

    def _depth(self) -> int:
        """The most elements of the reduced dimension that are packed at once, a multiple of W."""
        red = self.tile.red_extent
        return min(self.block, -(-max(red, 1) // self.w) * self.w) if isinstance(red, int) else self.block

    def _panel_kinds(self) -> None:
        """Whether there may be narrow panels, and wide ones."""
        cols = self.tile.col_extent
        self.has_wide, narrow = True, True
        if isinstance(cols, int):
            full, rest = divmod(cols, self.width)
            self.has_wide = full > 0 or rest > self.width - self.narrow * self.w
            narrow = 0 < rest <= self.width - self.narrow * self.w
        self.has_narrow = narrow and not self.once and known_factor(cols) % self.width != 0

    def _leaves(self) -> None:
        """The micro-kernels that may be needed, by height and whether the panel is narrow."""
        tile = self.tile
        self.main = self.main_narrow = self.packing = ""
        self.lows: list[str] = []
        if self.computed is not None:
            return
        narrow = self.has_narrow
        vectors = self.vectors if self.has_wide or not narrow else self.narrow
        rhs = Rhs.DIRECT if self.mode is Rhs.DIRECT else Rhs.PACKED
        #: The micro-kernels for a wide panel, for a narrow one, for half a tile of rows, and the one that packs.
        self.main = self._leaf(self.height, vectors, rhs)
        self.main_narrow = self._leaf(self.height, self.narrow, rhs) if narrow else self.main
        whole = known_factor(tile.row_extent) % self.height == 0
        self.lows = [self.main if whole else self._leaf(height, vectors, rhs) for height in self.heights]
        self.packing = self.main
        if self.lead:
            self.packing = self._leaf(self.lead, self.group * vectors, Rhs.PACKING)
        elif self.mode is Rhs.PACKING:
            self.packing = self._leaf(self.height, vectors, Rhs.PACKING)

    def _operands(self, rhs: Rhs) -> Operands:
        """The dtypes that both operands are read in."""
        acc = self.tile.acc.dtype
        left = acc if self.lhs is None else self.elements.lhs.dtype
        packed = rhs is Rhs.PACKED and (self.unit is not None or not self.in_panels)
        return Operands(left, acc if packed else self.tile.rhs.dtype, acc)

    def _adds_by_pairs(self, operands: Operands) -> bool:
        """Whether more rows of such operands are added by pairs of floats."""
        unit = unit_of(self.em.target, operands.lhs, operands.rhs, operands.acc)
        return unit is not None and operands.acc.is_float and not self.em.target.batch_invariant

    def _leaf(self, rows: int, vectors: int, rhs: Rhs) -> str:
        own, red, target, operands = self.blocking, self.tile.red_extent, self.em.target, self._operands(rhs)
        if self.turns:
            kind = Turned if self.tile.tile.in_order else Dot
            leaf = kind(self.vec, rows, self.width, operands, target).leaf()
        elif self.once:
            leaf = Stream(self.vec, rows, self.stride, operands, target, self._adds_by_pairs(operands)).leaf()
        else:
            unroll = own.unroll if rows == self.height else 1
            micro = Micro(self.vec, rows, vectors, self.width, rhs, self.resumes, unroll, operands, target)
            if rhs is Rhs.PACKED:
                # Blocks of the reduced dimension are multiples of W, but for the last.
                ragged = not (unroll > 1 and self.w % unroll == 0 and known_factor(red) % unroll == 0)
                micro = replace(micro, ahead=own.ahead, ragged=ragged, unit=self.unit)
            elif self.lead:
                stride, apart = self.group * self.width, self._depth() * self.width
                micro = replace(micro, stride=stride, unroll=1, panel=self.vectors, apart=apart)
            leaf = micro.leaf()
        define(self.em, leaf)
        return f"@{leaf.name}"

    # --- the nest ----------------------------------------------------------------------------------------------

    def nest(self) -> None:
        em, fn, ints, tile = self.em, self.fn, self.ints, self.tile
        rows, cols, red = em.dim(tile.row_extent), em.dim(tile.col_extent), em.dim(tile.red_extent)
        blocks, depth = "1", red
        row_step, col_step = rows, cols
        if self.lhs is None:
            row_step = str(self.lhs_rows)
        if self.resumes:
            blocks = ints.most(ints.ceil_div(red, self.block), "1")
            even = ints.div(ints.add(red, ints.sub(blocks, "1")), blocks)
            depth = ints.mul(ints.ceil_div(even, self.w), str(self.w))
            once = ints.test("eq", blocks, "1")
            row_step = ints.pick(once, row_step, str(self.partial_rows))
            col_step = ints.pick(once, col_step, str(self.panels * self.width))
            self.slot = ints.pick(once, "0", str(self._slot()))
        with em.scope(guarded=True):
            # Where nothing is packed or cut by rows or columns, there is one block of all of them.
            down = fn.loop("0", rows, row_step, hint="rows") if self.resumes or self.lhs is None else None
            i0 = down.index if down is not None else "0"
            self._plan_rows(rows if down is None else ints.least(ints.sub(rows, i0), row_step))
            with em.scope(guarded=True):
                across = fn.loop("0", cols, col_step, hint="cols") if self.resumes else None
                j0 = across.index if across is not None else "0"
                width = cols if across is None else ints.least(ints.sub(cols, j0), col_step)
                with em.scope():
                    if self.resumes:
                        reds = fn.loop("0", blocks, 1, at_least_once=True, hint="reds")
                        k0 = ints.mul(reds.index, depth)
                        first = ints.test("eq", reds.index, "0")
                        last = ints.test("eq", ints.add(reds.index, "1"), blocks)
                        size = ints.least(ints.sub(red, k0), depth)
                        self._block(j0, width, TilePart(i0, k0, size, first, last))
                        reds.close()
                    else:
                        self._block(j0, width, TilePart(i0, "0", red, "true", "true"))
                if across is not None:
                    across.close()
            if down is not None:
                down.close()

    def _plan_rows(self, rows: str) -> None:
        """Cut a block of rows into tiles, of which the last may be low."""
        ints = self.ints
        self.rows = rows
        tiles = rows
        rows = ints.add(rows, str(self.shift))
        self.row_tiles = ints.ceil_div(rows, self.height)
        if self.shift:
            self.row_tiles = ints.least(self.row_tiles, tiles)  # none where there are no rows
        self.firsts = [
            ints.div(ints.add(rows, str(self.height - height - 1)), str(self.height)) for height in self.heights
        ]

    def _block(self, j0: str, width: str, part: TilePart) -> None:
        """One block of rows × columns × reduced dimension."""
        em, ints = self.em, self.ints
        if self.lhs is None:
            self.lhs_packer.pack(PackedBlock(part.i0, part.k0, self.rows, part.depth, self.lhs_block, self.lhs_step))
        narrow_width = str(self.narrow * self.w if self.has_narrow else self.width)
        whole = ints.div(width, str(self.width))
        covered = ints.mul(whole, str(self.width))
        rest = ints.sub(width, covered)
        # Narrow panels that would cost as much as a wide one are one.
        fits = ints.test("sgt", rest, ints.sub(str(self.width), narrow_width))
        wide = ints.add(whole, ints.pick(fits, "1", "0"))
        panels = ints.add(whole, ints.pick(fits, "1", ints.ceil_div(rest, int(narrow_width))))
        cut = Cut(j0, width, covered, wide, narrow_width)
        with em.scope(guarded=True):
            loop = self.fn.loop("0", panels, self.group, hint="panel")
            first = loop.index
            if self.group == 1:
                panel = self._cut(cut, first)
                source = self._source(panel, part, self.panel, pack=True)
                self._down(lambda tile: self._tile(tile, panel, part, self.panel, source))
            else:
                self._shared(cut, first, ints.least(ints.sub(panels, first), str(self.group)), part)
            loop.close()

    def _cut(self, cut: Cut, number: str) -> Panel:
        """A panel of a block, by its number."""
        ints = self.ints
        is_wide = ints.test("slt", number, cut.wide) if self.has_narrow else "true"
        at = ints.mul(number, str(self.width))
        size = str(self.width)
        if self.has_narrow:
            at_narrow = ints.add(cut.covered, ints.mul(ints.sub(number, cut.wide), cut.narrow_width))
            at = ints.pick(is_wide, at, at_narrow)
            size = ints.pick(is_wide, size, cut.narrow_width)
        return Panel(number, is_wide, ints.add(cut.j0, at), ints.least(ints.sub(cut.width, at), size))

    def _shared(self, cut: Cut, first: str, count: str, part: TilePart) -> None:
        """``count`` panels from number ``first`` on, which take every tile of rows while it is near."""
        em, ints = self.em, self.ints

        def each(count: str, do: Callable[[Panel, str], None]) -> None:
            with em.scope(guarded=True):
                loop = self.fn.loop("0", count, 1, hint="member")
                place = self.fn.gep(self.vec.elem, self.panel, ints.mul(loop.index, str(self._depth() * self.width)))
                do(self._cut(cut, ints.add(first, loop.index)), place)
                loop.close()

        if self.rhs is None:
            each(count, lambda panel, place: self._pack(panel, part, place))

        def tile(number: str) -> None:
            is_first = ints.test("eq", number, "0")

            def member(panel: Panel, place: str) -> None:
                if self.lead:
                    most = ints.least(ints.sub(ints.add(cut.j0, cut.width), panel.j), str(self.group * self.width))
                    panel = replace(panel, cols=ints.pick(is_first, most, panel.cols))
                self._tile(number, panel, part, place, self._source(panel, part, place, pack=False))

            # The first tile of rows packs all of the panels.
            each(ints.pick(is_first, "1", count) if self.lead else count, member)

        self._down(tile)

    def _down(self, tile: Callable[[str], None]) -> None:
        """Every tile of rows of the block."""
        with self.em.scope(guarded=True):
            loop = self.fn.loop("0", self.row_tiles, 1, hint="tile")
            tile(loop.index)
            loop.close()

    def _pack(self, panel: Panel, part: TilePart, place: str) -> None:
        self.rhs_packer.pack(PackedBlock(part.k0, panel.j, part.depth, panel.cols, place, self.width))

    def _source(self, panel: Panel, part: TilePart, place: str, *, pack: bool) -> tuple[str, str]:
        """Pointer to the right operand's panel, and the distance of its rows: in ``place``, if it has to be packed
        beforehand."""
        em, tile = self.em, self.tile
        if self.computed is not None:
            return "null", "0"
        if self.rhs is None:
            if pack:
                self._pack(panel, part, place)
            return place, str(self.width)
        with em.scope():
            em.bind(tile.red, self._element(part.k0, self.in_panels))
            em.bind(tile.col, panel.j)
            source = em.address(self.rhs.buffer, self.rhs.index)
        return source, em.dim(self.rhs.fast if self.turns else self.rhs.slow)

    def _tile(self, number: str, panel: Panel, part: TilePart, place: str, source: tuple[str, str]) -> None:
        """A tile of rows of a panel, which is packed in ``place``, or to be packed there by the first tile."""
        ints = self.ints
        main = ints.choose(panel.is_wide, self.main, self.main_narrow)
        kernel = main
        for first, low in zip(reversed(self.firsts), reversed(self.lows), strict=True):
            kernel = ints.choose(ints.test("slt", number, first), kernel, low)
        at = ints.sub(ints.mul(number, str(self.height)), str(self.shift))
        end = ints.least(self.rows, ints.add(at, str(self.height)))
        stride = str(self.stride)
        if self.mode is Rhs.PACKING:
            is_first = ints.test("eq", number, "0")
            kernel = ints.choose(is_first, self.packing, kernel)
            b, ldb = source
            source = ints.choose(is_first, b, place), ints.pick(is_first, ldb, str(self.width))
            if self.lead:
                stride = ints.pick(is_first, str(self.group * self.width), stride)
        rows = Rows(ints.most(at, "0") if self.shift else at, end, self._acc(panel, number), stride)
        self._call(kernel, rows, panel, part, source, place)

    def _left(self, part: TilePart, row: str) -> tuple[str, str]:
        """Pointer to the left operand's row, from the block of the reduced dimension on, and the distance of rows."""
        em, ints, tile = self.em, self.ints, self.tile
        if self.lhs is None:
            step = str(self.lhs_step)
            return self.fn.gep(self.vec.elem, self.lhs_block, ints.mul(row, step)), step
        with em.scope():
            em.bind(tile.row, ints.add(part.i0, row))
            em.bind(tile.red, self._element(part.k0, self.left_words))
            return em.address(self.lhs.buffer, self.lhs.index), em.dim(self.lhs.slow)

    def _element(self, step: str, in_words: bool) -> str:
        """The first element of a step of the reduced dimension, of an operand that is read where it lies."""
        return self.ints.mul(step, str(self.unit.group)) if self.unit is not None and in_words else step

    def _acc(self, panel: Panel, number: str) -> str:
        """Pointer to the accumulators of a tile of rows."""
        if not self.resumes:
            return self.acc
        slot = self.ints.add(self.ints.mul(panel.number, str(self.tiles)), number)
        return self.fn.gep(self.vec.elem, self.acc, self.ints.mul(slot, self.slot))

    def _call(self, kernel: str, rows: Rows, panel: Panel, part: TilePart, source: tuple[str, str], place: str) -> None:
        """A micro-kernel, and the epilogue for what it has finished."""
        ints = self.ints
        a, lda = self._left(part, rows.begin)
        if self.computed is not None:
            self.computed.emit(part, panel, rows, (a, lda))
            self.epilogue.emit(part, panel, rows)
            return
        b, ldb = source
        self.fn.emit(
            f"call void {kernel}(ptr {a}, i64 {lda}, i64 {ints.sub(rows.end, rows.begin)}, ptr {b}, i64 {ldb}, "
            f"i64 {panel.cols}, i64 {part.depth}, ptr {rows.acc}, i1 {part.first}, ptr {place})"
        )
        self.epilogue.emit(part, panel, rows)
