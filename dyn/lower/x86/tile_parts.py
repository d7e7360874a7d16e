"""The blocks, panels and tiles that a contraction is cut into, and what is done with finished accumulators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyn.frozen import record
from dyn.lower.x86.llvm_text import VType
from dyn.lower.x86.scopes import Lanes
from dyn.lower.x86.tile_ints import Ints, known_factor
from dyn.schedule.kernel import TileContract

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter


@record()
class TilePart:
    """Rows from ``i0`` on, ``depth`` steps of the reduced dimension from ``k0``; whether these are the first and the
    last of them."""

    i0: str
    k0: str
    depth: str
    first: str
    last: str


@record()
class Panel:
    """``cols`` columns from ``j`` on."""

    number: str
    is_wide: str
    j: str
    cols: str


@record()
class Cut:
    """Cut of ``width`` columns from ``j0`` on into panels: those below number ``wide`` are wide, the narrow ones
    begin after ``covered`` columns."""

    j0: str
    width: str
    covered: str
    wide: str
    narrow_width: str


@record()
class Rows:
    """Rows ``begin`` to ``end`` of a block, and their accumulators, ``stride`` elements a row."""

    begin: str
    end: str
    acc: str
    stride: str


class Epilogue:
    """Epilogue of a contraction: what becomes of its accumulators, which lie in scratch."""

    def __init__(self, em: KernelEmitter, tile: TileContract, vec: VType) -> None:
        self.em, self.fn, self.tile, self.vec, self.w = em, em.fn, tile, vec, vec.lanes
        self.ints = Ints(em.fn)

    def emit(self, part: TilePart, panel: Panel, rows: Rows) -> None:
        """Emit it for a tile's rows, after the last block of the reduced dimension.

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

    def _vectors(self, lower: str, upper: str, part: TilePart, panel: Panel, tiled: Rows, *, masked: bool) -> None:
        """The epilogue for the panel's columns in ``range(lower, upper)``, a vector at a time."""
        em, fn, ints, tile, vec = self.em, self.fn, self.ints, self.tile, self.vec
        with em.scope(guarded=True):
            vectors = fn.loop(lower, upper, self.w, hint="vector")
            v = vectors.index
            masks = (em.fn.first_lanes(ints.sub(panel.cols, v), self.w),) if masked else None
            em.bind_lanes(Lanes(tile.col, self.w, 1, ints.add(panel.j, v), masks))
            with em.scope():
                rows = fn.loop(tiled.begin, tiled.end, 1, at_least_once=True, hint="row")
                offset = ints.add(ints.mul(ints.sub(rows.index, tiled.begin), tiled.stride), v)
                value = fn.load(vec, fn.gep(vec.elem, tiled.acc, offset), vec.bits // 8)
                em.bind(tile.row, ints.add(part.i0, rows.index))
                em.bind_ref(tile.acc, (value,))
                em.statements(tile.epilogue)
                rows.close()
            vectors.close()
