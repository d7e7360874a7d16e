"""The operands of a contraction: what is read where it lies, and how the rest is packed.

A packed block is dense with its columns contiguous: ``dst[i, j]`` for a *slow* symbol ``i`` and a *fast* one ``j``. For
the right operand these are (red, col), a panel as wide as the micro-kernel; for the left one (row, red). Which of the
ways is taken is decided by how the operand lies in memory:

* a plain load, contiguous along ``j``: the left operand is not packed, and the right one is packed by the first
  micro-kernel that reads it, which is not the business of this file;
* a plain load, contiguous along ``i``: blocks are transposed in registers;
* a plain load of any other strides: element by element;
* anything else is computed by the emitter, in vectors along whichever of the symbols its loads are contiguous in; if
  that is ``i``, into a small stage first, which is then transposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dyn.lower.kernel import Buffer, Expr, Load, walk_exprs
from dyn.lower.x86.llvm_text import VType, vtype
from dyn.lower.x86.scopes import Lanes
from dyn.lower.x86.tile_kernels import Leaf, can_transpose, gather_leaf, transpose_leaf
from dyn.shapes import Dim, Symbol, SymExpr, linear_in

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

I64 = vtype("i64")
#: Steps of ``i`` that a stage holds.
STAGE = 64


@dataclass(frozen=True, slots=True)
class Strided:
    """A plain load whose index is linear: ``base + i*slow + j*fast``, in elements."""

    buffer: Buffer
    index: Dim
    slow: Dim
    fast: Dim


def strided(expr: Expr, i: Symbol, j: Symbol) -> Strided | None:
    """The operand as a plain strided load, if it is one."""
    if not isinstance(expr, Load) or expr.bound or expr.mask is not None:
        return None
    along_j = linear_in(expr.index, j)
    if along_j is None:
        return None
    fast, rest = along_j
    along_i = linear_in(rest, i)
    if along_i is None or (isinstance(fast, SymExpr) and i in fast.atoms):
        return None
    return Strided(expr.buffer, expr.index, along_i[0], fast)


def contiguous(expr: Expr, symbol: Symbol) -> bool:
    """Whether every load that depends on a symbol reads neighbours for neighbouring values of it."""
    for node in walk_exprs((expr,)):
        if isinstance(node, Load):
            linear = linear_in(node.index, symbol)
            if linear is None or linear[0] not in (0, 1):
                return False
    return True


@dataclass(frozen=True, slots=True)
class Block:
    """Which part of an operand is packed, and where to: ``i`` from ``i0`` for ``m`` steps, ``j`` from ``j0`` for ``n``.

    ``dst`` has rows of ``ldd`` elements, a multiple of W, and room for the next multiple of W of rows.
    """

    i0: str
    j0: str
    m: str
    n: str
    dst: str
    ldd: int


class Packer:
    """Packs blocks of one operand. ``width`` is the largest ``n`` there is, where all are small; else 0."""

    def __init__(self, em: KernelEmitter, expr: Expr, i: Symbol, j: Symbol, vec: VType, width: int) -> None:
        self.em, self.expr, self.i, self.j, self.vec = em, expr, i, j, vec
        self.plain = strided(expr, i, j)
        self.leaf = self._leaf()
        self.stage = ""
        if self.plain is None and not contiguous(expr, j) and contiguous(expr, i):
            self.leaf = transpose_leaf(vec) if can_transpose(vec) else gather_leaf(vec)
            self.stage_width = width if width else 4 * vec.lanes
            self.stage = em.alloc_scratch(STAGE * self.stage_width * (vec.bits // 8))
        if self.leaf is not None:
            define(em, self.leaf)

    def _leaf(self) -> Leaf | None:
        plain = self.plain
        if plain is None:
            return None
        if plain.slow == 1 and can_transpose(self.vec):
            return transpose_leaf(self.vec)
        return gather_leaf(self.vec)

    def pack(self, block: Block) -> None:
        """Emit the packing of a block, in the open scope."""
        em, plain = self.em, self.plain
        if plain is not None:
            assert self.leaf is not None
            with em.scope():
                em.bind(self.i, block.i0)
                em.bind(self.j, block.j0)
                src = em.address(plain.buffer, plain.index)
            self._call(src, em.dim(plain.slow), em.dim(plain.fast), block)
        elif self.stage:
            self._staged(block)
        else:
            self._computed(block, self.i, self.j)

    def _call(self, src: str, slow: str, fast: str, b: Block) -> None:
        assert self.leaf is not None
        self.em.fn.emit(
            f"call void @{self.leaf.name}(ptr {src}, i64 {slow}, i64 {fast}, i64 {b.m}, i64 {b.n}, "
            f"ptr {b.dst}, i64 {b.ldd})"
        )

    def _computed(self, block: Block, i: Symbol, j: Symbol) -> None:
        """``dst[i, j] = expr``, in vectors along ``j``. What is past the last column is computed from masked loads."""
        em, fn, vec = self.em, self.em.fn, self.vec
        w = vec.lanes
        with em.scope(guarded=True):
            rows = fn.loop("0", block.m, 1, hint="pack")
            em.bind(i, fn.op("add nsw", I64, block.i0, rows.index))
            line = fn.gep(vec.elem, block.dst, fn.op("mul nsw", I64, rows.index, str(block.ldd)))
            with em.scope(guarded=True):
                cols = fn.loop("0", block.n, w, hint="pack")
                base = fn.op("add nsw", I64, block.j0, cols.index)
                mask = fn.first_lanes(fn.op("sub nsw", I64, block.n, cols.index), w)
                em.bind_lanes(Lanes(j, w, 1, base, (mask,)))
                fn.store(vec, em.vectors(self.expr)[0], fn.gep(vec.elem, line, cols.index), vec.bits // 8)
                cols.close()
            rows.close()

    def _staged(self, block: Block) -> None:
        em, fn = self.em, self.em.fn
        with em.scope(guarded=True):
            down = fn.loop("0", block.m, STAGE, hint="stage")
            m = fn.intrinsic("smin", I64, fn.op("sub nsw", I64, block.m, down.index), str(STAGE))
            i0 = fn.op("add nsw", I64, block.i0, down.index)
            line = fn.gep(self.vec.elem, block.dst, fn.op("mul nsw", I64, down.index, str(block.ldd)))
            with em.scope(guarded=True):
                across = fn.loop("0", block.n, self.stage_width, hint="stage")
                n = fn.intrinsic("smin", I64, fn.op("sub nsw", I64, block.n, across.index), str(self.stage_width))
                j0 = fn.op("add nsw", I64, block.j0, across.index)
                self._computed(Block(j0, i0, n, m, self.stage, STAGE), self.j, self.i)
                dst = fn.gep(self.vec.elem, line, across.index)
                self._call(self.stage, "1", str(STAGE), Block("0", "0", m, n, dst, block.ldd))
                across.close()
            down.close()


def define(em: KernelEmitter, leaf: Leaf) -> None:
    """Put a leaf function beside the kernel, once."""
    if leaf.name not in em.machine.helpers:
        for declaration in leaf.declarations:
            em.fn.declare(declaration)
        header = f"define internal void @{leaf.name}({leaf.params}) {em.machine.attributes()} {{"
        em.machine.helpers[leaf.name] = "\n".join([header, "entry:", leaf.body, "}"])
