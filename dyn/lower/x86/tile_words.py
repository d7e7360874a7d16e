"""Packing of words for units: a few neighbours along the contracted axis, side by side in 32 bits."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from dyn.dtypes import DType, Kind
from dyn.frozen import record
from dyn.lower.x86.leaf_functions import LeafFunction, define, finish_leaf
from dyn.lower.x86.llvm_text import FunctionText, VType, constant, vtype
from dyn.lower.x86.registers import register
from dyn.lower.x86.squares import transposed
from dyn.lower.x86.tile_kernels import I64, PTR
from dyn.lower.x86.tile_pack import PackedBlock, Packer
from dyn.schedule.kernel import Pack, PackedWords
from dyn.schedule.strided import strided
from dyn.schedule.x86.words import FLIPPED

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

#: The parameters of what packs words: lines of elements, ``step`` apart; of the reduced dimension there are ``%left``
#: elements from ``%src`` on.
_ROW_PARAMS = "ptr %src, i64 %step, i64 %left, i64 %m, i64 %n, ptr %dst, i64 %ldd"


class WordPacker(Packer):
    """Packs words of an operand. Plain loads that are contiguous along an axis are moved as they lie, by the leaf
    functions below."""

    def __init__(self, em: KernelEmitter, stmt: Pack, words: PackedWords) -> None:
        i, j = stmt.outer.var, stmt.inner.var
        own = strided(words.elements, i, j, stmt.digits)
        along = (0, 0) if own is None else (own.slow, own.fast)
        is_right = words.red is i
        if not is_right:  # the reduced dimension first
            along = along[::-1]
        #: The operand where it lies, if neighbours along one of its axes are neighbours there.
        self.lying = own if 1 in along and (along[0] == 1 or is_right) else None
        self.words = words
        super().__init__(em, stmt)
        if self.lying is not None:
            make = word_rows_leaf if not is_right else word_transpose_leaf if along[0] == 1 else word_interleave_leaf
            self.leaf = make(self.vec, self.lying.buffer.dtype, words.dtype, words.flipped)
            define(em, self.leaf)
            #: The distance of neighbours along the axis that they are not contiguous along.
            self.step = along[0] if along[0] != 1 else along[1]

    def pack(self, block: PackedBlock) -> None:
        if self.lying is None:
            super().pack(block)
            return
        assert self.leaf is not None
        em, own, ints, red = self.em, self.lying, self.ints, self.words.red
        with em.scope():
            em.bind(self.i, block.i0)
            em.bind(self.j, block.j0)
            first = ints.mul(block.i0 if self.i is red else block.j0, str(self.words.group))
            em.bind(red, first)
            source = em.address(own.buffer, own.index)
        left = ints.sub(em.dim(self.words.extent), first)
        lines = f"ptr {source}, i64 {em.dim(self.step)}, i64 {left}, i64 {block.m}, i64 {block.n}"
        em.fn.emit(f"call void @{self.leaf.name}({lines}, ptr {block.dst}, i64 {block.ldd})")


def _has_masks(vec: VType) -> bool:
    """Whether elements of less than 32 bits are loaded under masks: AVX-512 alone has instructions for it."""
    return vec.lanes * vec.bits == 512


def _stage(fn: FunctionText, vec: VType, lies: DType, word: DType) -> str:
    """Memory for the elements of a vector of words of which some do not exist, in the entry block; none with masks."""
    ty = register(lies, vec.lanes * 32 // word.bits)
    return "" if _has_masks(vec) else fn.value(f"alloca [{ty.lanes} x {ty.elem}], align 32")


def _load_words(fn: FunctionText, vec: VType, lies: DType, word: DType, pointer: str, left: str, stage: str) -> str:
    """A vector of words from memory; what is beyond ``left`` elements is 0, and is not read."""
    group = 32 // word.bits
    ty = register(lies, vec.lanes * group)
    if stage:
        found = fn.load(ty, _readable(fn, ty, pointer, left, stage), lies.itemsize)
    else:
        mask = fn.first_lanes(fn.intrinsic("smax", I64, left, "0"), ty.lanes)
        found = fn.masked_load(ty, pointer, lies.itemsize, mask, constant(0, ty))
    opcode = "sext" if lies.kind is Kind.INT else "zext"
    wide = ty.of(register(word).elem)
    return fn.cast("bitcast", wide, fn.cast(opcode, ty, found, wide), vec)


def _readable(fn: FunctionText, ty: VType, pointer: str, left: str, stage: str) -> str:
    """A place from which all of a vector may be read: its own, or the ``stage``, to which ``left`` elements are copied,
    and zeros."""
    some, there, before = fn.label("some"), fn.label("there"), fn.block
    fn.branch_if(fn.op("icmp sge", I64, left, str(ty.lanes)), there, some)
    fn.start(some)
    fn.store(ty, constant(0, ty), stage, ty.bits // 8)
    one, last = vtype(ty.elem), fn.loop("0", left, 1, hint="element")
    element = fn.load(one, fn.gep(ty.elem, pointer, last.index), ty.bits // 8)
    fn.store(one, element, fn.gep(ty.elem, stage, last.index), ty.bits // 8)
    last.close()
    copied = fn.block
    fn.branch(there)
    fn.start(there)
    return fn.value(f"phi ptr [ {pointer}, %{before} ], [ {stage}, %{copied} ]")


@lru_cache(maxsize=64)
def word_rows_leaf(vec: VType, lies: DType, word: DType, flips: bool) -> LeafFunction:
    """``dst[i, w]`` is word ``w`` of row ``i`` of the source, for i < m, w < n."""
    fn, group, elem = FunctionText(), 32 // word.bits, register(lies).elem
    stage = _stage(fn, vec, lies, word)
    rows = fn.loop("0", "%m", 1, [(PTR, "%src"), (PTR, "%dst")], hint="row")
    src, dst = rows.carried
    cols = fn.loop("0", "%n", vec.lanes, hint="word")
    first = fn.op("mul nsw", I64, cols.index, str(group))
    value = _load_words(fn, vec, lies, word, fn.gep(elem, src, first), fn.op("sub nsw", I64, "%left", first), stage)
    if flips:
        value = fn.op("xor", vec, value, constant(FLIPPED, vec))
    fn.store(vec, value, fn.gep(vec.elem, dst, cols.index), 4)
    cols.close()
    rows.close([fn.gep(elem, src, "%step"), fn.gep(vec.elem, dst, "%ldd")])
    fn.emit("ret void")
    return finish_leaf(f"dyn.pack.words.{lies}.{word}{'.flipped' if flips else ''}.{vec.mangled}", _ROW_PARAMS, fn)


@lru_cache(maxsize=64)
def word_transpose_leaf(vec: VType, lies: DType, word: DType, flips: bool) -> LeafFunction:
    """``dst[w, j]`` is word ``w`` of row ``j`` of the source, for w < m, j < n, by blocks in registers as in
    ``transpose_leaf``."""
    assert not flips, "the right operand is multiplied as it is"
    fn, group, elem, lanes = FunctionText(), 32 // word.bits, register(lies).elem, vec.lanes
    inner, part = 4, vtype(vec.elem, 4)
    stage = _stage(fn, vec, lies, word)
    last = fn.value("add nsw i64 %n, -1")
    stop = fn.value(f"and i64 {fn.value(f'add nsw i64 %n, {lanes - 1}')}, {-lanes}")
    rows = fn.loop("0", "%m", lanes, [(PTR, "%src"), (PTR, "%dst")], hint="word")
    src, dst = rows.carried
    left = fn.op("sub nsw", I64, "%left", fn.op("mul nsw", I64, rows.index, str(group)))
    cols = fn.loop("0", stop, inner, [(PTR, dst)], hint="col")
    block: list[str] = []
    for t in range(inner):
        j = fn.intrinsic("smin", I64, fn.op("add nuw", I64, cols.index, str(t)), last)
        source = fn.gep(elem, src, fn.op("mul nsw", I64, j, "%step"))
        fn.prefetch(fn.gep("i8", source, "256"))
        block.append(_load_words(fn, vec, lies, word, source, left, stage))
    block = transposed(fn, vec, block)
    at = cols.carried[0]
    for i in range(lanes):
        piece = block[i % inner]
        if lanes > inner:
            piece = fn.shuffle(vec, piece, "poison", range(i // inner * inner, (i // inner + 1) * inner))
        fn.store(part, piece, at, 4)
        if i + 1 < lanes:
            at = fn.gep(vec.elem, at, "%ldd")
    cols.close([fn.gep(vec.elem, cols.carried[0], str(inner))])
    step = fn.op("mul nsw", I64, "%ldd", str(lanes))
    rows.close([fn.gep(elem, src, str(lanes * group)), fn.gep(vec.elem, dst, step)])
    fn.emit("ret void")
    return finish_leaf(f"dyn.pack.words.transpose.{lies}.{word}.{vec.mangled}", _ROW_PARAMS, fn)


@lru_cache(maxsize=64)
def word_interleave_leaf(vec: VType, lies: DType, word: DType, flips: bool) -> LeafFunction:
    """``dst[w, j]`` is word ``w`` of column ``j``, whose elements lie a line apart each, for w < m, j < n."""
    assert not flips, "the right operand is multiplied as it is"
    fn, group, lanes = FunctionText(), 32 // word.bits, vec.lanes
    whole = fn.value(f"and i64 %n, {-lanes}")
    tail = fn.first_lanes(fn.op("sub nsw", I64, "%n", whole), lanes) if _has_masks(vec) else ""
    rows = fn.loop("0", "%m", 1, [(PTR, "%src"), (PTR, "%dst")], hint="word")
    src, dst = rows.carried
    left = fn.op("sub nsw", I64, "%left", fn.op("mul nsw", I64, rows.index, str(group)))
    elem, lines, there = register(lies).elem, [src], list[str]()
    for part in range(group):
        exists = fn.op("icmp sgt", I64, left, str(part))
        there.append(exists)
        if part:  # the first one exists, and may be read in place of others
            following = fn.gep(elem, lines[-1], "%step")
            lines.append(following if tail else fn.value(f"select i1 {exists}, ptr {following}, ptr {lines[-1]}"))
    lined = _Lines(fn, vec, lies, word, lines, there)
    cols = fn.loop("0", whole, lanes, hint="col")
    fn.store(vec, lined.words(cols.index), fn.gep(vec.elem, dst, cols.index), 4)
    cols.close()
    if tail:
        rest, done = fn.label("rest"), fn.label("done")
        fn.branch_if(fn.op("icmp slt", I64, whole, "%n"), rest, done)
        fn.start(rest)
        fn.store(vec, lined.words(whole, tail), fn.gep(vec.elem, dst, whole), 4)
        fn.branch(done)
        fn.start(done)
    else:
        last = fn.loop(whole, "%n", 1, hint="last")
        fn.store(vtype(vec.elem), lined.word_at(last.index), fn.gep(vec.elem, dst, last.index), 4)
        last.close()
    step = fn.op("mul nsw", I64, "%step", str(group))
    rows.close([fn.gep(elem, src, step), fn.gep(vec.elem, dst, "%ldd")])
    fn.emit("ret void")
    return finish_leaf(f"dyn.pack.words.interleave.{lies}.{word}.{vec.mangled}", _ROW_PARAMS, fn)


@record()
class _Lines:
    """The lines of a row of words: elements of columns, of which those of a line are 0 where that is not ``there``.
    With masks nothing is read of it then, else the line before is."""

    fn: FunctionText
    vec: VType
    lies: DType
    word: DType
    lines: list[str]
    there: list[str]

    def words(self, column: str, tail: str = "") -> str:
        """A vector of words from a column on, of those under a mask."""
        fn, lanes, group = self.fn, self.vec.lanes, len(self.lines)
        size = register(self.word, lanes)
        joined = [self._elements(number, column, tail) for number in range(group)]
        while len(joined) > 1:
            both = range(2 * size.lanes)
            joined = [fn.shuffle(size, a, b, both) for a, b in zip(joined[::2], joined[1::2], strict=True)]
            size = vtype(size.elem, 2 * size.lanes)
        order = [part * lanes + lane for lane in range(lanes) for part in range(group)]
        return fn.cast("bitcast", size, fn.shuffle(size, joined[0], "poison", order), self.vec)

    def _elements(self, number: int, column: str, tail: str) -> str:
        """Elements of a line, widened to those of words."""
        fn, lanes = self.fn, self.vec.lanes
        ty, wide, exists = register(self.lies, lanes), register(self.word, lanes), self.there[number]
        place = fn.gep(ty.elem, self.lines[number], column)
        if _has_masks(self.vec):
            mask = fn.splat(vtype("i1", lanes), exists)
            mask = fn.op("and", vtype("i1", lanes), mask, tail) if tail else mask
            return self._wide(fn.masked_load(ty, place, self.lies.itemsize, mask, constant(0, ty)), ty, wide)
        value = self._wide(fn.load(ty, place, self.lies.itemsize), ty, wide)
        bits = fn.cast("sext", vtype("i1"), exists, vtype(wide.elem))
        return fn.op("and", wide, value, fn.splat(wide, bits)) if number else value

    def word_at(self, column: str) -> str:
        """The word of one column."""
        fn, word, one = self.fn, vtype(self.vec.elem), register(self.lies)
        total = "0"
        for number, (line, exists) in enumerate(zip(self.lines, self.there, strict=True)):
            value = self._wide(fn.load(one, fn.gep(one.elem, line, column), one.bits // 8), one, register(self.word))
            value = fn.cast("zext", register(self.word), value, word)
            value = fn.op("shl", word, fn.select(exists, word, value, "0"), str(number * self.word.bits))
            total = fn.op("or", word, total, value)
        return total

    def _wide(self, value: str, ty: VType, wide: VType) -> str:
        return self.fn.cast("sext" if self.lies.kind is Kind.INT else "zext", ty, value, wide)
