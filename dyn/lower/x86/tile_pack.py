"""Packing of the operands of contractions.

A packed block is dense with its columns contiguous: ``dst[i, j]`` for a *slow* symbol ``i`` and a *fast* one ``j``. For
the right operand these are (red, col), a panel as wide as the micro-kernel; for the left one (row, red). How that is
done is decided by how the operand lies in memory:

* a plain load, contiguous along ``i``: blocks are transposed in registers;
* a plain load of any other strides: element by element;
* anything else is computed by the emitter, in vectors along whichever of the symbols its loads are contiguous in; if
  that is ``i``, into a small stage first, which is then transposed. Where a symbol has digits, ``i`` is divided once a
  row, and the vectors along ``j`` go run by run of its last digit: the windows of a convolution are copied, not
  gathered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyn.frozen import record
from dyn.lower.x86.leaf_functions import LeafFunction, define
from dyn.lower.x86.llvm_text import vtype
from dyn.lower.x86.plan import stretched_factor
from dyn.lower.x86.scopes import Lanes
from dyn.lower.x86.tile_ints import Ints
from dyn.lower.x86.tile_kernels import can_transpose, gather_leaf, transpose_leaf
from dyn.schedule.kernel import Digits, Expr, Kernel, Load, Pack
from dyn.schedule.kernel_walks import walk_exprs
from dyn.schedule.strided import own_digits, strided
from dyn.shapes import Dim, Symbol, linear_in

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

I64 = vtype("i64")
#: An expression of up to so many nodes is written twice: for whole vectors, and for what is left.
_FEW_NODES = 24
#: Steps of ``i`` that a stage holds.
STAGE = 64


def contiguous(kernel: Kernel, expr: Expr, symbol: Symbol, steps: tuple[int, ...] = (0, 1)) -> bool:
    """Whether every load that depends on a symbol reads neighbours for neighbouring values of it, or as far as
    ``steps`` apart; or, along an axis that may be stretched, neighbours or one element."""
    for node in walk_exprs((expr,)):
        if isinstance(node, Load):
            linear = linear_in(node.index, symbol)
            if linear is None or (linear[0] not in steps and stretched_factor(kernel, node.index, symbol) is None):
                return False
    return True


@record()
class PackedBlock:
    """Part of an operand that is packed to ``dst``: ``i`` from ``i0`` for ``m`` steps, ``j`` from ``j0`` for ``n``.

    ``dst`` has rows of ``ldd`` elements, a multiple of W, and room for the next multiple of W of rows.
    """

    i0: str
    j0: str
    m: str
    n: str
    dst: str
    ldd: int


@record()
class _DigitRuns:
    """A line as runs of the last of some digits, ``size`` long, ``count`` of them: the first is number ``before`` and
    starts ``skipped`` elements into it, and the last ends where ``until`` elements have passed since its beginning."""

    digits: Digits
    size: str
    before: str
    skipped: str
    until: str
    count: str


class Packer:
    """Packs a block of an operand: a Pack whose value is no word that lies in memory."""

    def __init__(self, em: KernelEmitter, stmt: Pack) -> None:
        self.em, self.expr, self.i, self.j = em, stmt.value, stmt.outer.var, stmt.inner.var
        self.vec = em.register(stmt.buffer.dtype, em.target.lanes(stmt.buffer.dtype.itemsize))
        i, j, expr, width, vec = self.i, self.j, stmt.value, stmt.width, self.vec
        self.ints = Ints(em.fn)
        self.digits = {s: own_digits(expr, s, stmt.digits) for s in (i, j)}
        self.plain = strided(expr, i, j, stmt.digits)
        self.leaf = self._leaf()
        self.stage = ""
        #: Vectors that are computed at a time, where that is little code.
        fits = [n for n in (4, 3, 2) if width % (n * vec.lanes) == 0]
        self.together = fits[0] if fits and len(list(walk_exprs((expr,)))) <= _FEW_NODES else 1
        # Runs of taps are a few elements long: places that are a few elements apart make better vectors.
        steps = (0, 1) if self.digits[i] is None else (0, 1, 2, 3, 4)
        along = contiguous(em.kernel, expr, self._fastest(j), steps)
        if self.plain is None and not along and contiguous(em.kernel, expr, self._fastest(i)):
            self.leaf = transpose_leaf(vec) if can_transpose(vec) else gather_leaf(vec)
            self.stage_width = width if width else 4 * vec.lanes
            self.stage = em.alloc_scratch((STAGE * self.stage_width + vec.lanes) * (vec.bits // 8))
        if self.leaf is not None:
            define(em, self.leaf)

    def _fastest(self, symbol: Symbol) -> Symbol:
        digits = self.digits[symbol]
        return symbol if digits is None else digits.parts[-1][0]

    def _leaf(self) -> LeafFunction | None:
        plain = self.plain
        if plain is None:
            return None
        if plain.slow == 1 and can_transpose(self.vec):
            return transpose_leaf(self.vec)
        return gather_leaf(self.vec)

    def pack(self, block: PackedBlock) -> None:
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

    def _call(self, src: str, slow: str, fast: str, b: PackedBlock) -> None:
        assert self.leaf is not None
        self.em.fn.emit(
            f"call void @{self.leaf.name}(ptr {src}, i64 {slow}, i64 {fast}, i64 {b.m}, i64 {b.n}, "
            f"ptr {b.dst}, i64 {b.ldd})"
        )

    def _computed(self, block: PackedBlock, i: Symbol, j: Symbol) -> None:
        """``dst[i, j] = expr``, in vectors along ``j``. What is past the last column is computed from masked loads.

        Vectors are stored whole: what one has too much is written again by the next, or never looked at.
        """
        em, fn, vec = self.em, self.em.fn, self.vec
        digits = self.digits[j]
        walk = None if digits is None else self._walk(digits, j, block)
        with em.scope(guarded=True):
            rows = fn.loop("0", block.m, 1, hint="pack")
            em.bind(i, fn.op("add nsw", I64, block.i0, rows.index))
            self._bind_digits(i)
            line = fn.gep(vec.elem, block.dst, fn.op("mul nsw", I64, rows.index, str(block.ldd)))
            if walk is None:
                self._vectors(j, block.j0, "0", block.n, line)
            else:
                self._runs(walk, line)
            rows.close()

    def _vectors(self, symbol: Symbol, first: str, start: str, stop: str, line: str) -> None:
        """``line[t] = expr`` for t in [start, stop), where ``symbol`` is ``first + t``: a few vectors at a time, and
        what is left under a mask."""
        fn, ints, step = self.em.fn, self.ints, self.together * self.vec.lanes
        if self.together > 1:
            size = ints.sub(stop, start)
            whole = ints.add(start, ints.mul(ints.div(size, str(step)), str(step)))
            with self.em.scope(guarded=True):
                cols = fn.loop(start, whole, step, hint="pack")
                base = ints.add(first, cols.index)
                self._store(Lanes(symbol, self.vec.lanes, self.together, base), line, cols.index)
                cols.close()
            start = whole
        with self.em.scope(guarded=True):
            cols = fn.loop(start, stop, self.vec.lanes, hint="pack")
            mask = fn.first_lanes(fn.op("sub nsw", I64, stop, cols.index), self.vec.lanes)
            base = ints.add(first, cols.index)
            self._store(Lanes(symbol, self.vec.lanes, 1, base, (mask,)), line, cols.index)
            cols.close()

    def _store(self, lanes: Lanes, line: str, at: str) -> None:
        em, fn, vec = self.em, self.em.fn, self.vec
        em.bind_lanes(lanes)
        first = fn.gep(vec.elem, line, at)
        for number, value in enumerate(em.vectors(self.expr)):
            fn.store(vec, value, fn.gep(vec.elem, first, str(number * vec.lanes)), vec.bits // 8)

    def _bind_digits(self, symbol: Symbol) -> None:
        """Divide the value of a symbol that is bound into its digits, in the open scope."""
        digits = self.digits[symbol]
        if digits is not None:
            self._divide(self.em.dim(digits.value), digits.parts)

    def _divide(self, rest: str, parts: tuple[tuple[Symbol, Dim], ...]) -> None:
        """Bind parts to the digits of a number of at least 0. No extent is 0 where there is anything to pack."""
        ints, em = self.ints, self.em
        for part, extent in reversed(parts[1:]):
            size = self._positive(extent)
            quotient = ints.div(rest, size)
            em.bind(part, ints.sub(rest, ints.mul(quotient, size)))
            rest = quotient
        if parts:
            em.bind(parts[0][0], rest)

    def _positive(self, extent: Dim) -> str:
        return str(max(extent, 1)) if isinstance(extent, int) else self.ints.most(self.em.dim(extent), "1")

    def _walk(self, digits: Digits, j: Symbol, block: PackedBlock) -> _DigitRuns:
        """Cut of a block's lines into runs."""
        em, ints = self.em, self.ints
        size = self._positive(digits.parts[-1][1])
        with em.scope():
            em.bind(j, block.j0)
            value = em.dim(digits.value)
        before = ints.div(value, size)
        skipped = ints.sub(value, ints.mul(before, size))
        until = ints.add(skipped, block.n)
        return _DigitRuns(digits, size, before, skipped, until, ints.div(ints.add(until, ints.sub(size, "1")), size))

    def _runs(self, walk: _DigitRuns, line: str) -> None:
        """A line, run by run."""
        em, fn, ints = self.em, self.em.fn, self.ints
        with em.scope(guarded=True):
            runs = fn.loop("0", walk.count, 1, hint="run")
            passed = ints.mul(runs.index, walk.size)
            self._divide(ints.add(walk.before, runs.index), walk.digits.parts[:-1])
            start = ints.pick(ints.test("eq", runs.index, "0"), walk.skipped, "0")
            stop = ints.least(ints.sub(walk.until, passed), walk.size)
            place = fn.gep(self.vec.elem, line, ints.sub(passed, walk.skipped))
            self._vectors(walk.digits.parts[-1][0], "0", start, stop, place)
            runs.close()

    def _staged(self, block: PackedBlock) -> None:
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
                self._computed(PackedBlock(j0, i0, n, m, self.stage, STAGE), self.j, self.i)
                dst = fn.gep(self.vec.elem, line, across.index)
                self._call(self.stage, "1", str(STAGE), PackedBlock("0", "0", m, n, dst, block.ldd))
                across.close()
            down.close()
