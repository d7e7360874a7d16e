"""A few rows times a right operand that is computed: its elements are multiplied in the registers that they come to.

As where rows are streamed, accumulators are in the first-level cache, and a few steps of the reduced dimension are
added at a time. It is part of the kernel, for what is computed is its own; rows are gone through by a loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyn.lower.x86.llvm_text import constant
from dyn.lower.x86.registers import register
from dyn.lower.x86.scopes import Lanes
from dyn.lower.x86.tile_ints import Ints
from dyn.lower.x86.tile_kernels import Operands, multiply_add
from dyn.schedule.expressions import Rewriter
from dyn.schedule.kernel import Expr, Multiply
from dyn.shapes import as_dim, substitute

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

#: Steps that are computed at a time, with 16 registers and with more.
_TOGETHER = (4, 8)


def multiply_computed(
    em: KernelEmitter, stmt: Multiply, operands: Operands, acc: str, first: str, left: tuple[str, str]
) -> None:
    """Emit ``acc[rows, cols] (+)= a[rows, depth] · b[depth, cols]`` in the open scope, of which ``b`` is an expression:
    ``left`` is the address of ``a`` and the distance of its rows."""
    _ComputedColumns(em, stmt, operands, acc, left).emit(first)


class _ComputedColumns:
    def __init__(self, em: KernelEmitter, stmt: Multiply, operands: Operands, acc: str, left: tuple[str, str]) -> None:
        self.em, self.fn, self.stmt, self.operands, self.acc, self.left = em, em.fn, stmt, operands, acc, left
        self.vec = em.register(stmt.acc.dtype, em.target.lanes(stmt.acc.dtype.itemsize))
        self.ints = Ints(em.fn)
        self.rows, self.cols, self.depth = [em.dim(interval.extent) for interval in stmt.intervals]
        self.together = _TOGETHER[em.target.registers >= 32]
        red = stmt.red.var
        #: The right operand at each of the steps that are computed together.
        self.steps: list[Expr] = [
            Rewriter(lambda dim, u=u: substitute(dim, {red: as_dim(red) + u})).expr(stmt.rhs)
            for u in range(self.together)
        ]

    def emit(self, first: str) -> None:
        """Add the products of all steps to the accumulators."""
        fn, ints, w = self.fn, self.ints, self.vec.lanes
        if first != "false":
            clear, add = fn.label("clear"), fn.label("add")
            fn.branch_if(first, clear, add)
            fn.start(clear)
            down = fn.loop("0", self.rows, 1, hint="row")
            line = fn.gep(self.vec.elem, self.acc, ints.mul(down.index, str(self.stmt.stride)))
            across = fn.loop("0", self.cols, w, hint="col")
            fn.store(self.vec, constant(0, self.vec), fn.gep(self.vec.elem, line, across.index), self.vec.bits // 8)
            across.close()
            down.close()
            fn.branch(add)
            fn.start(add)
        whole = ints.mul(ints.div(self.depth, str(self.together)), str(self.together))
        self._section(self.together, "0", whole)
        self._section(1, whole, self.depth)

    def _section(self, together: int, begin: str, end: str) -> None:
        """Steps ``begin`` to ``end``, some at a time."""
        em, fn, ints, w = self.em, self.fn, self.ints, self.vec.lanes
        cols, red = self.stmt.cols, self.stmt.red
        covered = ints.mul(ints.div(self.cols, str(w)), str(w))
        with em.scope(guarded=True):
            reds = fn.loop(begin, end, together, hint="red")
            em.bind(red.var, ints.add(em.dim(red.start), reds.index))
            for start, stop, is_whole in (("0", covered, True), (covered, self.cols, False)):
                with em.scope(guarded=True):
                    loop = fn.loop(start, stop, w, hint="col")
                    masks = None if is_whole else (fn.first_lanes(ints.sub(self.cols, loop.index), w),)
                    em.bind_lanes(Lanes(cols.var, w, 1, ints.add(em.dim(cols.start), loop.index), masks))
                    columns = [em.vectors(step)[0] for step in self.steps[:together]]
                    self._add(columns, reds.index, loop.index)
                    loop.close()
            reds.close()

    def _add(self, columns: list[str], step: str, column: str) -> None:
        """Add the products of some steps to a vector of columns of each row."""
        fn, ints, vec, own, m = self.fn, self.ints, self.vec, self.operands, self.em.machine
        elem, (a, lda) = register(own.lhs).elem, self.left
        down = fn.loop("0", self.rows, 1, at_least_once=True, hint="row")
        line = fn.gep(elem, fn.gep(elem, a, ints.mul(down.index, lda)), step)
        place = fn.gep(vec.elem, self.acc, ints.add(ints.mul(down.index, str(self.stmt.stride)), column))
        acc = fn.load(vec, place, vec.bits // 8)
        for u, value in enumerate(columns):
            acc = multiply_add(m, vec, own.spread(m, own.lhs, fn.gep(elem, line, str(u)), vec.lanes), value, acc)
        fn.store(vec, acc, place, vec.bits // 8)
        down.close()
