"""Multiply-adds on the ordinary cores of GPUs: which accumulators a thread has, and how it adds to them.

Matrix units are to have a class of their own beside :class:`Cores`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import NotYetError
from dyn.frozen import record
from dyn.lower.gpu.scalars import c_type
from dyn.schedule.gpu.contractions import ThreadBlocking, blocking
from dyn.schedule.gpu.slices import ACCESS
from dyn.schedule.kernel import Algorithm, Expr, Interval, Kernel, Load, Multiply, Pack, Spill
from dyn.schedule.kernel_walks import walk_stmts
from dyn.shapes import substitute

if TYPE_CHECKING:
    from dyn.lower.gpu.emit import Emitter


@record()
class Cores:
    """A block's accumulators in a ``dtype``: a thread's rows come in groups that lie side by side, and its columns.

    ``number`` tells the variables of several accumulators in one kernel from each other's.
    """

    of: ThreadBlocking
    dtype: DType
    number: int = 0

    def _name(self, name: str) -> str:
        return f"{name}{self.number}" if self.number else name

    @property
    def _acc(self) -> str:
        return self._name("acc")

    def declare(self, em: Emitter) -> None:
        """A thread's place, and its accumulators."""
        across, down = self.of.columns // self.of.tile.columns, self.of.rows // self.of.tile.rows
        thread, tx, ty = em.dialect.thread, self._name("tx"), self._name("ty")
        em.line(f"const int {tx} = {thread} % {across}, {ty} = {thread} / {across} % {down};")
        em.line(f"const int {self._name('part')} = {thread} / {across * down};")
        em.line(f"{c_type(self.dtype)} {self._acc}[{self.of.tile.rows}][{self.of.tile.columns}];")

    def clear(self, em: Emitter) -> None:
        """Accumulators become 0."""
        em.line("#pragma unroll")
        with em.braces(f"for (int i = 0; i < {self.of.tile.rows}; ++i)"):
            em.line("#pragma unroll")
            em.line(f"for (int j = 0; j < {self.of.tile.columns}; ++j) {self._acc}[i][j] = 0;")

    def multiply(self, em: Emitter, stmt: Multiply) -> None:
        """Add the products of a slice of each operand."""
        tile, of, word = self.of.tile, c_type(self.dtype), self.dtype.itemsize
        rows_apart = self.of.rows_at_once(word)
        columns_apart = self.of.columns // self.of.column_groups(word)
        x = _OwnElements.of("x", em, stmt.lhs, stmt.rows, stmt.red, tile.rows, self.of.rows_together(word), rows_apart,
                            self._name("ty"))  # fmt: skip
        y = _OwnElements.of("y", em, stmt.rhs, stmt.cols, stmt.red, tile.columns, self.of.columns_together(word),
                            columns_apart, self._name("tx"))  # fmt: skip
        steps, together = self.of.depth // stmt.parts, max(x.steps, y.steps)
        assert steps % together == 0, (steps, together)
        em.line(em.dialect.unroll_steps)
        with em.braces(f"for (int q = 0; q < {steps}; q += {together})"):
            em.line(f"const int k = {self._name('part')} * {steps} + q;" if stmt.parts > 1 else "const int k = q;")
            for side in (x, y):
                if side.steps == together:
                    side.read(em, of, "k")
            if together == 1:
                self._add_all(em, x, y)
                return
            em.line("#pragma unroll")
            with em.braces(f"for (int s = 0; s < {together}; ++s)"):
                for side in (x, y):
                    if side.steps == 1:
                        side.read(em, of, "k + s")
                self._add_all(em, x, y)

    def _add_all(self, em: Emitter, x: _OwnElements, y: _OwnElements) -> None:
        """Add the products of a step."""
        em.line("#pragma unroll")
        with em.braces(f"for (int i = 0; i < {self.of.tile.rows}; ++i)"):
            em.line("#pragma unroll")
            add = self._add(f"{self._acc}[i][j]", x.value("i"), y.value("j"))
            em.line(f"for (int j = 0; j < {self.of.tile.columns}; ++j) {add};")

    def _add(self, acc: str, x: str, y: str) -> str:
        if self.dtype.is_float:
            return f"{acc} = fma{'' if self.dtype is dtypes.float64 else 'f'}({x}, {y}, {acc})"
        return f"{acc} += {x} * {y}"

    def spill(self, em: Emitter, stmt: Spill) -> None:
        """Store the accumulators of one group of each thread's rows to shared memory, a part's behind another's."""
        word, of = self.dtype.itemsize, c_type(self.dtype)
        down, across, groups = self.of.rows_together(word), self.of.columns_together(word), self.of.column_groups(word)
        to, group, pack = em.fresh("z"), em.fresh("g"), f"dyn_pack<{of}, {across}>"
        em.line(f"{of}* const {to} = {em.buffers[id(stmt.buffer)]} + ({em.dim(stmt.place)});")
        em.line(f"const int {group} = (int)({em.dim(stmt.start)}) / {stmt.rows};")
        em.line("#pragma unroll")
        with em.braces(f"for (int i = 0; i < {self.of.tile.rows}; ++i)"):
            em.line(f"if (i / {down} != {group}) continue;")
            part = f"{self._name('part')} * {stmt.rows} + " if stmt.parts > 1 else ""
            em.line(f"const int row = {part}{self._name('ty')} * {down} + i % {down};")
            em.line("#pragma unroll")
            with em.braces(f"for (int u = 0; u < {groups}; ++u)"):
                em.line(f"{pack} sums;")
                em.line("#pragma unroll")
                em.line(f"for (int j = 0; j < {across}; ++j) sums.v[j] = {self._acc}[i][u * {across} + j];")
                columns = f"u * {stmt.columns // groups} + {self._name('tx')} * {across}"
                em.line(f"*({pack}*)({to} + row * {stmt.columns} + {columns}) = sums;")


def cores_of(kernel: Kernel, warp: int) -> dict[int, Cores]:
    """The accumulators in registers of a kernel, by their buffer's id, for a device with warps of so many lanes."""
    found: dict[int, Cores] = {}
    for stmt in walk_stmts(kernel.body):
        if isinstance(stmt, Multiply) and stmt.algorithm is Algorithm.CORES and id(stmt.acc) not in found:
            of = blocking(stmt.acc.dtype, stmt.tile, warp)
            assert of is not None, stmt.tile
            found[id(stmt.acc)] = Cores(of, stmt.acc.dtype, len(found))
    return found


@record()
class _OwnElements:
    """The elements of an operand that a thread multiplies, in an array of packs with a ``name``: ``count`` of them,
    some ``side_by_side``, in groups that are ``apart`` elements from one another.

    ``thread`` is the thread's number along the operand's axis. In the slice at an ``address`` rows are ``stride`` words
    from one another: steps, or elements if their steps lie side by side.
    """

    name: str
    address: str
    along_steps: bool
    access: int
    stride: int
    pad: int
    count: int
    side_by_side: int
    apart: int
    thread: str

    @staticmethod
    def of(
        name: str, em: Emitter, operand: Expr, own: Interval, red: Interval, count: int, side_by_side: int, apart: int,
        thread: str,
    ) -> _OwnElements:  # fmt: skip
        """Those of an operand that is staged in the loop around."""
        assert isinstance(operand, Load), "the verifier lets nothing else pass"
        place = substitute(operand.index, {own.var: own.start, red.var: red.start})
        pack, address = em.staged.get((id(operand.buffer), place), (None, ""))
        if not isinstance(pack, Pack) or pack.staged is None:
            raise NotYetError(
                f"kernel {em.kernel.name}: a multiplication reads {operand.buffer.name}, which is not staged in the "
                "loop around it, and that is not generated for GPUs yet."
            )
        staged = pack.staged
        assert staged.pad == 0 or staged.every == side_by_side, "who is padded has a thread's elements"
        access = ACCESS // operand.dtype.itemsize
        return _OwnElements(
            name,
            address,
            pack.inner.var is red.var,
            access,
            pack.stride,
            staged.pad,
            count,
            side_by_side,
            apart,
            thread,
        )

    @property
    def steps(self) -> int:
        """Steps of an element that are read together."""
        return self.access if self.along_steps else 1

    def read(self, em: Emitter, of: str, step: str) -> None:
        """Read those of a step, or of some from it on."""
        side = self.side_by_side
        if self.along_steps:
            line = side * self.stride + self.pad
            pack, packs = f"dyn_pack<{of}, {self.steps}>", self.count
            thread = f"u / {side} * {self.apart // side} + {self.thread}"
            place = f"({thread}) * {line} + (u % {side}) * {self.stride} + ({step})"
        else:
            pack, packs = f"dyn_pack<{of}, {side}>", self.count // side
            place = f"({step}) * {self.stride} + (u * {self.apart // side} + {self.thread}) * {side}"
        em.line(f"{pack} {self.name}[{packs}];")
        em.line("#pragma unroll")
        em.line(f"for (int u = 0; u < {packs}; ++u) {self.name}[u] = *(const {pack}*)({self.address} + {place});")

    def value(self, which: str) -> str:
        """One of them, of step ``s``."""
        if self.along_steps:
            return f"{self.name}[{which}].v[s]"
        side = self.side_by_side
        return f"{self.name}[{which} / {side}].v[{which} % {side}]"
