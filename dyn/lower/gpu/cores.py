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
from dyn.schedule.kernel import Algorithm, Expr, Interval, Kernel, Load, Multiply, Space, Spill
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
        x = _operand("x", em, stmt.lhs, stmt.rows, stmt.red, _Share(
            tile.rows, self.of.rows_together(word), rows_apart, self._name("ty")))  # fmt: skip
        y = _operand("y", em, stmt.rhs, stmt.cols, stmt.red, _Share(
            tile.columns, self.of.columns_together(word), columns_apart, self._name("tx")))  # fmt: skip
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

    def _add_all(
        self, em: Emitter, x: _StagedElements | _ScratchElements, y: _StagedElements | _ScratchElements
    ) -> None:
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
class _Share:
    """A thread's share of an operand's axis: ``count`` elements, some ``together``, in groups that are ``apart``
    elements from one another. ``thread`` is the thread's number along the axis."""

    count: int
    together: int
    apart: int
    thread: str


def _operand(
    name: str, em: Emitter, operand: Expr, own: Interval, red: Interval, share: _Share
) -> _StagedElements | _ScratchElements:
    """The elements of an operand that a thread multiplies: of what is staged in the loop around, or of scratch that was
    stored to."""
    assert isinstance(operand, Load), "the verifier lets nothing else pass"
    place = substitute(operand.index, {own.var: own.start, red.var: red.start})
    pack, address = em.staged.get((id(operand.buffer), place), (None, ""))
    if pack is None and operand.buffer.space is Space.SCRATCH and id(operand.buffer) not in em.packed:
        return _ScratchElements(name, operand, own, red, share)
    if pack is None or pack.staged is None:
        raise NotYetError(
            f"kernel {em.kernel.name}: a multiplication reads {operand.buffer.name}, which is neither staged in the "
            "loop around it nor stored to scratch, and that is not generated for GPUs yet."
        )
    staged, access = pack.staged, ACCESS // operand.dtype.itemsize
    assert staged.pad == 0 or staged.every == share.together, "what is padded has a thread's elements"
    return _StagedElements(name, address, pack.inner.var is red.var, access, pack.stride, staged.pad, share)


@record()
class _StagedElements:
    """A thread's elements of a slice at an ``address``, in an array of packs with a ``name``. Rows are ``stride`` words
    from one another: steps, or elements if their steps lie side by side."""

    name: str
    address: str
    along_steps: bool
    access: int
    stride: int
    pad: int
    share: _Share

    @property
    def steps(self) -> int:
        """Steps of an element that are read together."""
        return self.access if self.along_steps else 1

    def read(self, em: Emitter, of: str, step: str) -> None:
        """Read those of a step, or of some from it on."""
        share, side = self.share, self.share.together
        if self.along_steps:
            line = side * self.stride + self.pad
            pack, packs = f"dyn_pack<{of}, {self.steps}>", share.count
            thread = f"u / {side} * {share.apart // side} + {share.thread}"
            place = f"({thread}) * {line} + (u % {side}) * {self.stride} + ({step})"
        else:
            pack, packs = f"dyn_pack<{of}, {side}>", share.count // side
            place = f"({step}) * {self.stride} + (u * {share.apart // side} + {share.thread}) * {side}"
        em.line(f"{pack} {self.name}[{packs}];")
        em.line("#pragma unroll")
        em.line(f"for (int u = 0; u < {packs}; ++u) {self.name}[u] = *(const {pack}*)({self.address} + {place});")

    def value(self, which: str) -> str:
        """One of them, of step ``s``."""
        if self.along_steps:
            return f"{self.name}[{which}].v[s]"
        side = self.share.together
        return f"{self.name}[{which} / {side}].v[{which} % {side}]"


@record()
class _ScratchElements:
    """A thread's elements of a matrix in scratch, in an array with a ``name``. All steps of a slice are read, and all
    rows of the block's tile: the buffer has them, and steps beyond the edges are 0."""

    name: str
    operand: Load
    own: Interval
    red: Interval
    share: _Share
    steps: int = 1

    def read(self, em: Emitter, of: str, step: str) -> None:
        """Read those of a step."""
        share, side, along, at = self.share, self.share.together, em.fresh("i"), em.fresh("i")
        em.line(f"{of} {self.name}[{share.count}];")
        em.line("#pragma unroll")
        with em.braces(f"for (int u = 0; u < {share.count}; ++u)"):
            place = f"u / {side} * {share.apart} + {share.thread} * {side} + u % {side}"
            em.line(f"const long long {along} = {em.dim(self.own.start)} + {place};")
            em.line(f"const long long {at} = {em.dim(self.red.start)} + {step};")
            em.symbols[self.own.var], em.symbols[self.red.var] = along, at
            source = em.buffers[id(self.operand.buffer)]
            em.line(f"{self.name}[u] = {source}[{em.dim(self.operand.index)}];")

    def value(self, which: str) -> str:
        """One of them."""
        return f"{self.name}[{which}]"
