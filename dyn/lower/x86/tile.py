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

The micro-kernels and the packing are functions (``tile_kernels.py``) that the loops here call through pointers chosen
per panel, so a tail costs no second copy of the nest. Accumulators go through a tile in the first-level cache: the
epilogue is then one loop over vectors, with one copy of its code however heavy it is, at the price of one store and
one load for each ``depth`` multiply-adds.

Scratch is bounded by constants, about 1 MiB in all: 384 KiB for the panel, about 400 for a packed left operand, and a
block of partial accumulators when the reduced dimension may need more than one block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dyn.lower.kernel import TileContract
from dyn.lower.x86.scopes import Lanes
from dyn.lower.x86.tile_dot import Dot
from dyn.lower.x86.tile_ints import Ints, known_factor
from dyn.lower.x86.tile_kernels import Micro, Rhs, can_transpose
from dyn.lower.x86.tile_pack import Block, Packer, define, strided

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

#: Bytes of a packed panel of the right operand, by the bytes of a vector: with the accumulators and the rows at hand it
#: stays in the L2, of which machines with AVX-512 have 1 MiB or more.
PANEL_BYTES = {16: 192 * 1024, 32: 192 * 1024, 64: 384 * 1024}
#: Bytes of a packed block of the left operand.
LHS_BYTES = 384 * 1024
#: Rows of partial accumulators.
PARTIAL_ROWS = 256
#: Panels that share one packed block of the left operand.
PANELS_PER_LHS = 8


def emit_tile(em: KernelEmitter, tile: TileContract) -> None:
    """Emit a contraction in the open scope."""
    em.scopes.clobber()
    _Tile(em, tile).nest()
    em.scopes.clobber()


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows from ``i0`` on, ``depth`` steps of the reduced dimension from ``k0``; whether these are the first and the
    last of them."""

    i0: str
    k0: str
    depth: str
    first: str
    last: str


@dataclass(frozen=True, slots=True)
class _Panel:
    """``cols`` columns from ``j`` on."""

    number: str
    is_wide: str
    j: str
    cols: str


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows ``begin`` to ``end`` of a block, and their accumulators."""

    begin: str
    end: str
    acc: str


class _Tile:
    """One contraction: what is decided while compiling, then the nest. Names of IR values are strings."""

    def __init__(self, em: KernelEmitter, tile: TileContract) -> None:
        self.em, self.fn, self.tile = em, em.fn, tile
        self.ints = Ints(em.fn)
        schedule = tile.schedule
        itemsize = tile.acc.dtype.itemsize
        self.vec = em.register(tile.acc.dtype, em.target.lanes(itemsize))
        w = self.w = self.vec.lanes
        self.height, self.vectors = schedule.rows, schedule.vectors
        if isinstance(tile.row_extent, int):
            while self.height > 1 and tile.row_extent <= self.height // 2:
                self.height //= 2
        self.half = max(self.height // 2, 1)
        self.narrow = max(self.vectors // 3, 1)
        self.width = self.vectors * w

        self.lhs = strided(tile.lhs, tile.row, tile.red, tile.digits)
        if self.lhs is not None and self.lhs.fast != 1:
            self.lhs = None
        self.rhs = strided(tile.rhs, tile.red, tile.col, tile.digits)
        #: Whether vectors lie along the reduced dimension.
        self.dots = not schedule.pack_rhs and self._dots()
        if self.rhs is not None and self.rhs.fast != 1 and not self.dots:
            self.rhs = None
        if em.target.vector_bytes < 32 and schedule.pack_rhs:  # masked loads are branches
            self.rhs = None
        #: PACKED if the panel is packed before the micro-kernels run.
        self.mode = Rhs.PACKED if self.rhs is None else Rhs.PACKING if schedule.pack_rhs else Rhs.DIRECT

        self.block = max(PANEL_BYTES[em.target.vector_bytes] // (self.width * itemsize) // 64, 1) * 64
        #: Whether the reduced dimension may be cut, so that accumulators wait for the next block.
        packs = self.lhs is None or self.mode is not Rhs.DIRECT
        static = isinstance(tile.red_extent, int) and tile.red_extent <= self.block
        self.resumes = packs and not static

        self.lhs_rows = 0
        if self.lhs is None:
            self.lhs_rows = max(LHS_BYTES // (self.block * itemsize) // self.height, 2) * self.height
        self.partial_rows = self.lhs_rows if self.lhs_rows else PARTIAL_ROWS // self.height * self.height
        self.tiles = max(self.partial_rows // self.height, 1)
        self.panels = PANELS_PER_LHS if self.lhs is None else 1
        self._scratch(itemsize)
        self._leaves()
        # What ``nest`` finds first. ``slot`` is the number of elements from the accumulators of one tile to those of
        # the next: with one block of the reduced dimension all share a place.
        self.rows = self.row_tiles = self.first_low = self.slot = "0"

    def _dots(self) -> bool:
        if self.lhs is None or self.rhs is None or not can_transpose(self.vec):
            return False
        return self.rhs.slow == 1 and self.rhs.fast != 1

    def _scratch(self, itemsize: int) -> None:
        em, tile = self.em, self.tile
        slots = self.tiles * (self.panels - 1 + -(-self.vectors // self.narrow)) if self.resumes else 1
        self.acc = em.alloc_scratch(slots * self.height * self.width * itemsize)
        packed = (self._depth() * self.width + self.w) * itemsize
        self.panel = em.alloc_scratch(packed) if self.mode is not Rhs.DIRECT else "null"
        if self.rhs is None:
            self.rhs_packer = Packer(em, tile.rhs, tile.red, tile.col, self.vec, self.width, tile.digits)
        if self.lhs is None:
            self.lhs_packer = Packer(em, tile.lhs, tile.row, tile.red, self.vec, 0, tile.digits)
            # A line more than the block, or all rows would fall into one set of the cache.
            self.lhs_step = self._depth() + max(64 // itemsize, self.w)
            self.lhs_block = em.alloc_scratch((self.lhs_rows + self.w) * self.lhs_step * itemsize)

    def _depth(self) -> int:
        """The most elements of the reduced dimension that are packed at once, a multiple of W."""
        red = self.tile.red_extent
        return min(self.block, -(-max(red, 1) // self.w) * self.w) if isinstance(red, int) else self.block

    def _leaves(self) -> None:
        """The micro-kernels that may be needed, by height and whether the panel is narrow."""
        tile = self.tile
        cols = tile.col_extent
        wide, narrow = True, True
        if isinstance(cols, int):
            full, rest = divmod(cols, self.width)
            wide = full > 0 or rest > self.width - self.narrow * self.w
            narrow = 0 < rest <= self.width - self.narrow * self.w
        if self.dots or known_factor(cols) % self.width == 0:
            narrow = False
        self.has_narrow = narrow
        vectors = self.vectors if wide or not narrow else self.narrow
        rhs = Rhs.DIRECT if self.mode is Rhs.DIRECT else Rhs.PACKED
        #: The micro-kernels for a wide panel, for a narrow one, for half a tile of rows, and the one that packs.
        self.main = self._leaf(self.height, vectors, rhs)
        self.main_narrow = self._leaf(self.height, self.narrow, rhs) if narrow else self.main
        whole = known_factor(tile.row_extent) % self.height == 0
        self.low = self.main if whole else self._leaf(self.half, vectors, rhs)
        self.packing = self._leaf(self.height, vectors, Rhs.PACKING) if self.mode is Rhs.PACKING else self.main

    def _leaf(self, rows: int, vectors: int, rhs: Rhs) -> str:
        fma, unroll = self.em.machine.has_fma, self.tile.schedule.unroll
        if self.dots:
            leaf = Dot(self.vec, rows, self.width, fma).leaf()
        else:
            leaf = Micro(self.vec, rows, vectors, self.width, rhs, self.resumes, unroll, fma).leaf()
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
            self.slot = ints.pick(once, "0", str(self.height * self.width))
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
                        self._block(j0, width, _Part(i0, k0, size, first, last))
                        reds.close()
                    else:
                        self._block(j0, width, _Part(i0, "0", red, "true", "true"))
                if across is not None:
                    across.close()
            if down is not None:
                down.close()

    def _plan_rows(self, rows: str) -> None:
        """How a block of rows is cut into tiles: from ``first_low`` on they have half the height."""
        ints = self.ints
        self.rows = rows
        self.row_tiles = ints.ceil_div(rows, self.height)
        self.first_low = ints.div(ints.add(rows, str(self.height - self.half - 1)), str(self.height))

    def _block(self, j0: str, width: str, part: _Part) -> None:
        """One block of rows × columns × reduced dimension."""
        em, ints = self.em, self.ints
        if self.lhs is None:
            self.lhs_packer.pack(Block(part.i0, part.k0, self.rows, part.depth, self.lhs_block, self.lhs_step))
        narrow_width = self.narrow * self.w if self.has_narrow else self.width
        whole = ints.div(width, str(self.width))
        covered = ints.mul(whole, str(self.width))
        rest = ints.sub(width, covered)
        fits = ints.test("sgt", rest, str(self.width - narrow_width))  # narrow panels would cost as much
        wide = ints.add(whole, ints.pick(fits, "1", "0"))
        panels = ints.add(whole, ints.pick(fits, "1", ints.ceil_div(rest, narrow_width)))
        with em.scope(guarded=True):
            loop = self.fn.loop("0", panels, 1, hint="panel")
            panel = loop.index
            is_wide = ints.test("slt", panel, wide) if self.has_narrow else "true"
            at = ints.mul(panel, str(self.width))
            size = str(self.width)
            if self.has_narrow:
                at_narrow = ints.add(covered, ints.mul(ints.sub(panel, wide), str(narrow_width)))
                at = ints.pick(is_wide, at, at_narrow)
                size = ints.pick(is_wide, size, str(narrow_width))
            self._panel(_Panel(panel, is_wide, ints.add(j0, at), ints.least(ints.sub(width, at), size)), part)
            loop.close()

    def _panel(self, panel: _Panel, part: _Part) -> None:
        """A panel of columns: the right operand's block of it, and every tile of rows."""
        em, fn, ints, tile = self.em, self.fn, self.ints, self.tile
        b, ldb = self.panel, str(self.width)
        source, lds = b, ldb
        if self.rhs is None:
            self.rhs_packer.pack(Block(part.k0, panel.j, part.depth, panel.cols, self.panel, self.width))
        else:
            with em.scope():
                em.bind(tile.red, part.k0)
                em.bind(tile.col, panel.j)
                source = em.address(self.rhs.buffer, self.rhs.index)
            lds = em.dim(self.rhs.fast if self.dots else self.rhs.slow)
            if self.mode is Rhs.DIRECT:
                b, ldb = source, lds
        main = ints.choose(panel.is_wide, self.main, self.main_narrow)
        lda = str(self.lhs_step) if self.lhs is None else em.dim(self.lhs.slow)
        with em.scope(guarded=True):
            loop = fn.loop("0", self.row_tiles, 1, hint="tile")
            begin = ints.mul(loop.index, str(self.height))
            rows = ints.least(ints.sub(self.rows, begin), str(self.height))
            if self.lhs is None:
                a = fn.gep(self.vec.elem, self.lhs_block, ints.mul(begin, str(self.lhs_step)))
            else:
                with em.scope():
                    em.bind(tile.row, ints.add(part.i0, begin))
                    em.bind(tile.red, part.k0)
                    a = em.address(self.lhs.buffer, self.lhs.index)
            acc = self.acc
            if self.resumes:
                number = ints.add(ints.mul(panel.number, str(self.tiles)), loop.index)
                acc = fn.gep(self.vec.elem, acc, ints.mul(number, self.slot))
            kernel = ints.choose(ints.test("slt", loop.index, self.first_low), main, self.low)
            if self.mode is Rhs.PACKING:
                is_first = ints.test("eq", loop.index, "0")
                kernel = ints.choose(is_first, self.packing, kernel)
                b, ldb = ints.choose(is_first, source, b), ints.pick(is_first, lds, ldb)
            fn.emit(
                f"call void {kernel}(ptr {a}, i64 {lda}, i64 {rows}, ptr {b}, i64 {ldb}, i64 {panel.cols}, "
                f"i64 {part.depth}, ptr {acc}, i1 {part.first}, ptr {self.panel})"
            )
            self._finish(part, panel, _Rows(begin, ints.add(begin, rows), acc))
            loop.close()

    # --- the epilogue ------------------------------------------------------------------------------------------

    def _finish(self, part: _Part, panel: _Panel, rows: _Rows) -> None:
        """The epilogue for a tile's rows, after the last block of the reduced dimension.

        Columns outside, rows inside: what depends on the column alone, such as a bias, is loaded once a tile.
        """
        fn, ints = self.fn, self.ints
        with self.em.scope(guarded=True):
            done = ""
            if part.last != "true":
                finish, done = fn.label("finish"), fn.label("more")
                fn.branch_if(part.last, finish, done)
                fn.start(finish)
            if known_factor(self.tile.col_extent) % self.w == 0:
                self._vectors("0", panel.cols, part, panel, rows, masked=False)
            elif self.em.machine.avx512:
                self._vectors("0", panel.cols, part, panel, rows, masked=True)
            else:
                whole = ints.mul(ints.div(panel.cols, str(self.w)), str(self.w))
                self._vectors("0", whole, part, panel, rows, masked=False)
                self._vectors(whole, panel.cols, part, panel, rows, masked=True)
            if done:
                fn.branch(done)
                fn.start(done)

    def _vectors(self, lower: str, upper: str, part: _Part, panel: _Panel, tiled: _Rows, *, masked: bool) -> None:
        """The epilogue for the panel's columns in ``range(lower, upper)``, a vector at a time."""
        em, fn, ints, tile, vec = self.em, self.fn, self.ints, self.tile, self.vec
        with em.scope(guarded=True):
            vectors = fn.loop(lower, upper, self.w, hint="vector")
            v = vectors.index
            masks = (em.fn.first_lanes(ints.sub(panel.cols, v), self.w),) if masked else None
            em.bind_lanes(Lanes(tile.col, self.w, 1, ints.add(panel.j, v), masks))
            with em.scope():
                rows = fn.loop(tiled.begin, tiled.end, 1, at_least_once=True, hint="row")
                offset = ints.add(ints.mul(ints.sub(rows.index, tiled.begin), str(self.width)), v)
                value = fn.load(vec, fn.gep(vec.elem, tiled.acc, offset), vec.bits // 8)
                em.bind(tile.row, ints.add(part.i0, rows.index))
                em.bind_ref(tile.acc, (value,))
                em.statements(tile.epilogue)
                rows.close()
            vectors.close()
