"""A few rows times a right operand that is computed: its elements are multiplied in the registers that they come to.

As where rows are streamed, accumulators are in the first-level cache, and a few steps of the reduced dimension are
added at a time. It is part of the kernel, for what is computed is its own; rows are gone through by a loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyn.lower.x86.llvm_text import VType, constant
from dyn.lower.x86.registers import register
from dyn.lower.x86.scopes import Lanes
from dyn.lower.x86.tile_ints import Ints
from dyn.lower.x86.tile_kernels import Operands, multiply_add
from dyn.lower.x86.tile_parts import Panel, Rows, TilePart
from dyn.schedule.expressions import Rewriter
from dyn.schedule.kernel import Expr, TileContract
from dyn.shapes import as_dim, substitute

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

#: Steps that are computed at a time, with 16 registers and with more.
_TOGETHER = (4, 8)


class ComputedColumns:
    """``acc[rows, cols] (+)= a[rows, depth] · b[depth, cols]`` in the open scope, of which ``b`` is an expression."""

    def __init__(self, em: KernelEmitter, tile: TileContract, vec: VType, operands: Operands) -> None:
        self.em, self.fn, self.tile, self.vec, self.operands = em, em.fn, tile, vec, operands
        self.ints = Ints(em.fn)
        self.together = _TOGETHER[em.target.registers >= 32]
        rhs, red = tile.factors()[1], tile.red
        #: The right operand at each of the steps that are computed together.
        self.steps: list[Expr] = [
            Rewriter(lambda dim, u=u: substitute(dim, {red: as_dim(red) + u})).expr(rhs) for u in range(self.together)
        ]

    def emit(self, part: TilePart, panel: Panel, rows: Rows, left: tuple[str, str]) -> None:
        """Add the products of a part's steps to the accumulators of a panel."""
        fn, ints, w = self.fn, self.ints, self.vec.lanes
        count = ints.sub(rows.end, rows.begin)
        if part.first != "false":
            clear, add = fn.label("clear"), fn.label("add")
            fn.branch_if(part.first, clear, add)
            fn.start(clear)
            down = fn.loop("0", count, 1, hint="row")
            line = fn.gep(self.vec.elem, rows.acc, ints.mul(down.index, rows.stride))
            across = fn.loop("0", panel.cols, w, hint="col")
            fn.store(self.vec, constant(0, self.vec), fn.gep(self.vec.elem, line, across.index), self.vec.bits // 8)
            across.close()
            down.close()
            fn.branch(add)
            fn.start(add)
        whole = ints.mul(ints.div(part.depth, str(self.together)), str(self.together))
        self._section(self.together, "0", whole, part, panel, rows, left)
        self._section(1, whole, part.depth, part, panel, rows, left)

    def _section(
        self, together: int, begin: str, end: str, part: TilePart, panel: Panel, rows: Rows, left: tuple[str, str]
    ) -> None:
        """Steps ``begin`` to ``end`` of a part, some at a time."""
        em, fn, ints, w = self.em, self.fn, self.ints, self.vec.lanes
        covered = ints.mul(ints.div(panel.cols, str(w)), str(w))
        with em.scope(guarded=True):
            reds = fn.loop(begin, end, together, hint="red")
            em.bind(self.tile.red, ints.add(part.k0, reds.index))
            for start, stop in (("0", covered), (covered, panel.cols)):
                with em.scope(guarded=True):
                    cols = fn.loop(start, stop, w, hint="col")
                    masks = None if start == "0" else (fn.first_lanes(ints.sub(panel.cols, cols.index), w),)
                    em.bind_lanes(Lanes(self.tile.col, w, 1, ints.add(panel.j, cols.index), masks))
                    columns = [em.vectors(step)[0] for step in self.steps[:together]]
                    self._add(columns, reds.index, cols.index, rows, left)
                    cols.close()
            reds.close()

    def _add(self, columns: list[str], step: str, column: str, rows: Rows, left: tuple[str, str]) -> None:
        """Add the products of some steps to a vector of columns of each row."""
        fn, ints, vec, own, m = self.fn, self.ints, self.vec, self.operands, self.em.machine
        elem, (a, lda) = register(own.lhs).elem, left
        down = fn.loop("0", ints.sub(rows.end, rows.begin), 1, at_least_once=True, hint="row")
        line = fn.gep(elem, fn.gep(elem, a, ints.mul(down.index, lda)), step)
        place = fn.gep(vec.elem, rows.acc, ints.add(ints.mul(down.index, rows.stride), column))
        acc = fn.load(vec, place, vec.bits // 8)
        for u, value in enumerate(columns):
            acc = multiply_add(m, vec, own.spread(m, own.lhs, fn.gep(elem, line, str(u)), vec.lanes), value, acc)
        fn.store(vec, acc, place, vec.bits // 8)
        down.close()
