"""The leaf functions of a contraction: micro-kernels, and the three ways to pack a block.

Each is a complete LLVM function that depends on an element type and a few small numbers alone, named after them, so
that the contractions of one translation unit share them. They are functions, rather than code in the kernel's body,
because a micro-kernel wants all registers for itself, and because the many tails of a contraction then cost a few
calls instead of copies of whatever encloses them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from functools import lru_cache

from dyn.dtypes import DType
from dyn.frozen import record
from dyn.lower.x86.casts import cast
from dyn.lower.x86.leaf_functions import LeafFunction, finish_leaf
from dyn.lower.x86.llvm_text import FunctionText, VType, constant, iota, vtype
from dyn.lower.x86.machine import Machine
from dyn.lower.x86.registers import register
from dyn.lower.x86.squares import transposed
from dyn.lower.x86.units import add_offset, add_products
from dyn.schedule.target import Target
from dyn.schedule.units import Unit
from dyn.schedule.x86.words import FLIPPED

I64 = vtype("i64")
PTR = vtype("ptr")
#: How many rows ahead lines are asked for: the rows of a panel lie further apart than a prefetcher follows.
PREFETCH = 16
#: The parameters of every micro-kernel.
MICRO_PARAMS = "ptr %a, i64 %lda, i64 %rows, ptr %b, i64 %ldb, i64 %cols, i64 %depth, ptr %acc, i1 %first, ptr %panel"
#: The parameters of every packing function.
PACK_PARAMS = "ptr %src, i64 %si, i64 %sj, i64 %m, i64 %n, ptr %dst, i64 %ldd"


class Rhs(Enum):
    """Source of a micro-kernel's right operand."""

    #: From a packed panel.
    PACKED = "packed"
    #: Where it lies, writing the panel for the kernels that follow. What this costs hides behind the arithmetic.
    PACKING = "packing"


@record()
class Operands:
    """The dtypes in which a micro-kernel reads both operands, and that in which it multiplies and adds."""

    lhs: DType
    rhs: DType
    acc: DType

    @property
    def name(self) -> str:
        """The part of a kernel's name that tells it from those for other dtypes, in ``vec`` of one type."""
        found = [str(self.acc)] if self.acc not in (self.lhs, self.rhs) else []
        found += [dtype.short if dtype is not self.acc else "own" for dtype in (self.lhs, self.rhs)]
        return "" if self.lhs is self.rhs is self.acc else "." + ".".join(found)

    def load(self, m: Machine, dtype: DType, pointer: str, lanes: int, mask: str = "") -> str:
        """Elements of an operand as the accumulators' dtype; 0 where a mask is false."""
        ty, fn = register(dtype, lanes), m.fn
        if mask:
            found = fn.masked_load(ty, pointer, dtype.itemsize, mask, constant(0, ty))
        else:
            found = fn.load(ty, pointer, dtype.itemsize)
        return cast(m, dtype, self.acc, ty, register(self.acc, lanes), found)

    def spread(self, m: Machine, dtype: DType, pointer: str, lanes: int) -> str:
        """An element of an operand as the accumulators' dtype, in every lane."""
        one, many, fn = register(dtype), register(dtype, lanes), m.fn
        found = fn.load(one, pointer, dtype.itemsize)
        if dtype is self.acc:
            return fn.splat(many, found)
        return cast(m, dtype, self.acc, many, register(self.acc, lanes), fn.splat(many, found))


@record()
class FewRows:
    """A kernel for up to ``rows`` rows and any number of columns, which reads both operands where they lie: fields and
    name of all of its kinds."""

    vec: VType
    rows: int
    operands: Operands
    target: Target

    def _name(self, kind: str) -> str:
        return f"dyn.tile.{kind}.{self.vec.mangled}.{self.rows}{self.operands.name}"


def by_height(fn: FunctionText, heights: Sequence[int], emit: Callable[[int], None]) -> None:
    """Code for several numbers of rows, in order: that of the least which is enough runs, and returns."""
    *lower, highest = heights
    for height in lower:
        here, higher = fn.label("rows"), fn.label("more")
        fn.branch_if(fn.op("icmp sle", I64, "%rows", str(height)), here, higher)
        fn.start(here)
        emit(height)
        fn.start(higher)
    emit(highest)


@record()
class Micro:
    """``acc[rows, vectors*W] (+)= a[rows, depth] · b[depth, vectors*W]``, all of ``acc`` in registers.

    Elements are read in the dtypes of ``operands``, and converted as they are; panels that a kernel packs are of the
    accumulators' dtype. ``a`` is read by broadcasts where it lies: rows ``lda`` elements apart, the reduced dimension
    contiguous. Where only some of the rows exist (the parameter ``rows``, at least 1), the others compute the last one
    again. Rows of ``b`` are ``ldb`` elements apart. ``acc`` is a block of ``stride`` elements a row; with ``resumes``
    it is added to unless ``first``.

    Every row takes its multiply-adds in the order of the reduced dimension, whatever the height of the kernel: that is
    what makes a row's result independent of its neighbours, of chunks and of threads.
    """

    vec: VType
    rows: int
    vectors: int
    stride: int
    rhs: Rhs
    resumes: bool
    unroll: int
    operands: Operands
    target: Target
    #: How many steps ahead the right operand is asked for; 0 leaves a packed panel to the processor.
    ahead: int = 0
    #: Of one that packs several panels: the vectors of each, and the distance of their packed elements.
    panel: int = 0
    apart: int = 0
    #: Whether ``depth`` may be anything, rather than a multiple of ``unroll``.
    ragged: bool = True
    #: What multiplies words; of which ``depth`` is the number then.
    unit: Unit | None = None
    #: Whether the columns' sums, by which those of signed words are too great, are read from ``panel``, rather than
    #: made and written there.
    takes_sums: bool = False

    @property
    def name(self) -> str:
        kind = self.rhs.value + ("" if self.resumes else ".whole")
        name = f"dyn.tile.{kind}.{self.vec.mangled}.{self.rows}x{self.vectors}.s{self.stride}.u{self.unroll}"
        name += (f".p{self.ahead}" if self.ahead else "") + (f".{self.panel}at{self.apart}" if self.panel else "")
        name += self.operands.name if self.unit is None else f".{self.unit.text}"
        name += (".left" if self._left_words else "") + (".taking" if self.takes_sums else "")
        return name if self.ragged else name + ".even"

    @lru_cache(maxsize=256)  # noqa: B019  (of frozen records, bounded)
    def leaf(self) -> LeafFunction:
        fn = FunctionText()
        vec, size = self.vec, self.vec.bits // 8
        masks = [column_mask(fn, vec, "%cols", v) for v in range(self.vectors)] if self.rhs is not Rhs.PACKED else []
        if self.rhs is not Rhs.PACKED:
            fn.emit(f"%ahead = mul nsw i64 %ldb, {PREFETCH}")
        a_rows = row_pointers(fn, register(self.operands.lhs).elem, self.rows)
        accs = self._initial(fn)
        if self._makes_sums:
            accs += [constant(0, vec)] * self.vectors
        pointers = ["%b", "%panel"] if self.rhs is Rhs.PACKING else ["%b"]
        whole = "0"
        if not self.ragged:
            accs, _ = self._loop(fn, accs, a_rows, masks, pointers, "0", "%depth", self.unroll)
        elif self.unroll > 1:
            whole = fn.op("sub nsw", I64, "%depth", fn.op("urem", I64, "%depth", str(self.unroll)))
            accs, pointers = self._loop(fn, accs, a_rows, masks, pointers, "0", whole, self.unroll)
        if self.ragged:
            accs, _ = self._loop(fn, accs, a_rows, masks, pointers, whole, "%depth", 1)
        count = self.rows * self.vectors
        places = [fn.gep(vec.elem, "%panel", str(v * vec.lanes)) for v in range(self.vectors)] if self._offsets else []
        sums = [fn.load(vec, place, size) for place in places] if self.takes_sums else accs[count:]
        for value, place in zip(sums, places, strict=True) if self._makes_sums else ():
            fn.store(vec, value, place, size)
        for i, acc in enumerate(accs[:count]):
            if self._offsets:
                acc = fn.op("sub", vec, acc, sums[i % self.vectors])
            fn.store(vec, acc, self._acc(fn, *divmod(i, self.vectors)), size)
        fn.emit("ret void")
        return finish_leaf(self.name, MICRO_PARAMS, fn)

    @property
    def _left_words(self) -> bool:
        """Whether the left operand is read in words where it lies, in its own dtype."""
        return self.unit is not None and self.operands.lhs is not self.operands.acc

    def _left_word(self, fn: FunctionText, place: str) -> str:
        """A word of the left operand in every lane, as the unit takes it."""
        vec, word = self.vec, vtype("i32", self.vec.lanes)
        found = fn.splat(vec, fn.load(vtype(vec.elem), place, self.operands.lhs.itemsize))
        if not self._offsets:
            return found
        flipped = fn.op("xor", word, fn.cast("bitcast", vec, found, word), constant(FLIPPED, word))
        return fn.cast("bitcast", word, flipped, vec)

    @property
    def _offsets(self) -> bool:
        """Whether sums are too great by what signed elements were made greater by, times the columns' sums."""
        return self.unit is not None and self.unit.signs_left

    @property
    def _makes_sums(self) -> bool:
        """Whether accumulators of each column's own take that."""
        return self._offsets and not self.takes_sums

    def _initial(self, fn: FunctionText) -> list[str]:
        zero = constant(0, self.vec)
        if not self.resumes:
            return [zero] * (self.rows * self.vectors)
        fn.branch_if("%first", "zero", "partial")
        fn.start("partial")
        size = self.vec.bits // 8
        loaded = [fn.load(self.vec, self._acc(fn, r, v), size) for r in range(self.rows) for v in range(self.vectors)]
        fn.branch("start")
        fn.start("zero")
        fn.branch("start")
        fn.start("start")
        return [fn.value(f"phi {self.vec.text} [ {zero}, %zero ], [ {x}, %partial ]") for x in loaded]

    def _packed(self, vector: int) -> int:
        """Offset of a step's vector in the packed panels."""
        member, v = divmod(vector, self.panel) if self.panel else (0, vector)
        return member * self.apart + v * self.vec.lanes

    def _acc(self, fn: FunctionText, row: int, vector: int) -> str:
        return fn.gep(self.vec.elem, "%acc", str(row * self.stride + vector * self.vec.lanes))

    def _loop(
        self,
        fn: FunctionText,
        accs: list[str],
        a_rows: list[str],
        masks: list[str],
        pointers: list[str],
        start: str,
        stop: str,
        unroll: int,
    ) -> tuple[list[str], list[str]]:
        """Steps ``start`` to ``stop`` of the reduced dimension, in order, ``unroll`` of them an iteration."""
        vec, size, own, m = self.vec, self.vec.bits // 8, self.operands, Machine(self.target, fn)
        lies_elem, left_elem = register(own.rhs).elem, vec.elem if self._left_words else register(own.lhs).elem
        packed_elem = lies_elem if self.rhs is Rhs.PACKED else vec.elem
        carried = [(vec, acc) for acc in accs] + [(PTR, pointer) for pointer in pointers]
        loop = fn.loop(start, stop, unroll, carried, hint="red")
        accs, pointers = loop.carried[: len(accs)], loop.carried[len(accs) :]
        is_packed = self.rhs is Rhs.PACKED
        for u in range(unroll):
            columns: list[str] = []
            b = pointers[0]
            ahead = fn.gep(lies_elem, b, "%ahead") if not is_packed else ""
            for v in range(self.vectors):
                offset = str(v * vec.lanes)
                if is_packed:
                    p = fn.gep(packed_elem, b, offset)
                    if self.ahead:
                        fn.prefetch(fn.gep(packed_elem, b, str(self.ahead * self.stride + v * vec.lanes)))
                    columns.append(own.load(m, own.rhs, p, vec.lanes))
                    continue
                p = fn.gep(lies_elem, b, offset)
                if v * vec.lanes * own.rhs.itemsize % 64 < own.rhs.itemsize * vec.lanes:  # each line once
                    fn.prefetch(fn.gep(lies_elem, ahead, offset))
                columns.append(own.load(m, own.rhs, p, vec.lanes, masks[v]))
                if self.rhs is Rhs.PACKING:
                    fn.store(vec, columns[-1], fn.gep(packed_elem, pointers[1], str(self._packed(v))), size)
            k = loop.index if u == 0 else fn.value(f"add nuw nsw i64 {loop.index}, {u}")
            for r in range(self.rows):
                place = fn.gep(left_elem, a_rows[r], k)
                if self._left_words:
                    lhs = self._left_word(fn, place)
                else:
                    lhs = own.spread(m, own.lhs, place, vec.lanes)
                for v in range(self.vectors):
                    i = r * self.vectors + v
                    if self.unit is None:
                        accs[i] = multiply_add(m, vec, lhs, columns[v], accs[i])
                    else:
                        accs[i] = add_products(m, self.unit, vec, lhs, columns[v], accs[i])
            if self.unit is not None and self._makes_sums:
                for i, column in enumerate(columns, self.rows * self.vectors):
                    accs[i] = add_offset(m, self.unit, vec, column, accs[i])
            packed = str(self.panel * vec.lanes if self.panel else self.stride)
            steps = [(packed_elem, packed)] if is_packed else [(lies_elem, "%ldb"), (packed_elem, packed)]
            pointers = [fn.gep(elem, p, step) for p, (elem, step) in zip(pointers, steps, strict=False)]
        final = loop.close([*accs, *pointers])
        return final[: len(accs)], final[len(accs) :]


def row_pointers(fn: FunctionText, elem: str, rows: int) -> list[str]:
    """The left operand's rows; those that do not exist are the last one once more.

    The choice is among pointers, not distances: loop strength reduction sees through the latter, and takes twice the
    time for nothing.
    """
    pointers = ["%a"]
    for r in range(1, rows):
        following = fn.gep(elem, pointers[-1], "%lda")
        exists = fn.op("icmp sgt", I64, "%rows", str(r))
        pointers.append(fn.value(f"select i1 {exists}, ptr {following}, ptr {pointers[-1]}"))
    return pointers


def multiply_add(m: Machine, vec: VType, a: str, b: str, c: str) -> str:
    """``a * b + c``; rounded once where the machine can."""
    return m.fma(vec, a, b, c) if vec.is_float else m.fn.op("add", vec, m.fn.op("mul", vec, a, b), c)


def column_mask(fn: FunctionText, vec: VType, extent: str, vector: int) -> str:
    """The lanes of a vector of columns that lie below an extent."""
    wide = vtype("i64", vec.lanes)
    return fn.op("icmp slt", wide, iota("i64", vec.lanes, vector * vec.lanes), fn.splat(wide, extent))


@lru_cache(maxsize=64)
def gather_leaf(vec: VType) -> LeafFunction:
    """``dst[i, j] = src[i*si + j*sj]`` for i < m, j < n, zeros up to a multiple of W columns; element by element."""
    fn = FunctionText()
    elem, size = vec.elem, vec.bits // 8
    rows = fn.loop("0", "%m", 1, [(PTR, "%src"), (PTR, "%dst")], hint="row")
    src, dst = rows.carried
    padding = fn.loop("0", "%n", vec.lanes, hint="pad")
    fn.store(vec, constant(0, vec), fn.gep(elem, dst, padding.index), size)
    padding.close()
    cols = fn.loop("0", "%n", 1, [(PTR, src)], hint="col")
    value = fn.load(vtype(elem), cols.carried[0], size)
    fn.store(vtype(elem), value, fn.gep(elem, dst, cols.index), size)
    cols.close([fn.gep(elem, cols.carried[0], "%sj")])
    rows.close([fn.gep(elem, src, "%si"), fn.gep(elem, dst, "%ldd")])
    fn.emit("ret void")
    return finish_leaf(f"dyn.pack.gather.{vec.mangled}", PACK_PARAMS, fn)


def can_transpose(vec: VType) -> bool:
    """Whether :func:`transpose_leaf` takes this type: 4- and 8-byte elements in at least one 16-byte block."""
    return vec.bits in (32, 64) and vec.lanes * vec.bits >= 128


@lru_cache(maxsize=64)
def transpose_leaf(vec: VType) -> LeafFunction:
    """``dst[i, j] = src[i + j*sj]`` for i < m, j < n, by blocks in registers.

    A block is W values of ``i`` by as many of ``j`` as 16 bytes hold: 4 vectors of floats that are transposed within
    their 16-byte parts, and stored by those parts. That is as fast as blocks of W×W and a quarter of the code. Rows
    and columns of ``dst`` up to the next multiples of W are written too, the columns with copies of the last one:
    nobody looks at what is computed from them.
    """
    fn = FunctionText()
    elem, size, w = vec.elem, vec.bits // 8, vec.lanes
    inner = 16 // size
    part = vtype(elem, inner)
    last = fn.value("add nsw i64 %n, -1")
    stop = fn.value(f"and i64 {fn.value(f'add nsw i64 %n, {w - 1}')}, {-w}")
    rows = fn.loop("0", "%m", w, [(PTR, "%src"), (PTR, "%dst")], hint="row")
    src, dst = rows.carried
    mask = column_mask(fn, vec, fn.op("sub nsw", I64, "%m", rows.index), 0)
    cols = fn.loop("0", stop, inner, [(PTR, dst)], hint="col")
    block: list[str] = []
    for t in range(inner):
        j = fn.intrinsic("smin", I64, fn.op("add nuw", I64, cols.index, str(t)), last)
        source = fn.gep(elem, src, fn.op("mul nsw", I64, j, "%sj"))
        fn.prefetch(fn.gep("i8", source, "256"))
        block.append(fn.masked_load(vec, source, size, mask, constant(0, vec)))
    block = transposed(fn, vec, block)
    at = cols.carried[0]
    for i in range(w):
        piece = block[i % inner]
        if w > inner:
            piece = fn.shuffle(vec, piece, "poison", range(i // inner * inner, (i // inner + 1) * inner))
        fn.store(part, piece, at, size)
        if i + 1 < w:
            at = fn.gep(elem, at, "%ldd")
    cols.close([fn.gep(elem, cols.carried[0], str(inner))])
    step = fn.op("mul nsw", I64, "%ldd", str(w))
    rows.close([fn.gep(elem, src, str(w)), fn.gep(elem, dst, step)])
    fn.emit("ret void")
    return finish_leaf(f"dyn.pack.transpose.{vec.mangled}", PACK_PARAMS, fn)
