"""Packing of words for units: a few neighbours along the contracted axis, side by side in 32 bits."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from dyn.dtypes import DType, Kind
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
        self.lying = own if 1 in along and (along[0] == 1 or is_right) and em.machine.avx512 else None
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


def _load_words(fn: FunctionText, vec: VType, lies: DType, word: DType, pointer: str, left: str) -> str:
    """A vector of words from memory; what is beyond ``left`` elements is 0."""
    group = 32 // word.bits
    ty = register(lies, vec.lanes * group)
    mask = fn.first_lanes(fn.intrinsic("smax", I64, left, "0"), ty.lanes)
    found = fn.masked_load(ty, pointer, lies.itemsize, mask, constant(0, ty))
    opcode = "sext" if lies.kind is Kind.INT else "zext"
    wide = ty.of(register(word).elem)
    return fn.cast("bitcast", wide, fn.cast(opcode, ty, found, wide), vec)


@lru_cache(maxsize=64)
def word_rows_leaf(vec: VType, lies: DType, word: DType, flips: bool) -> LeafFunction:
    """``dst[i, w]`` is word ``w`` of row ``i`` of the source, for i < m, w < n."""
    fn, group, elem = FunctionText(), 32 // word.bits, register(lies).elem
    rows = fn.loop("0", "%m", 1, [(PTR, "%src"), (PTR, "%dst")], hint="row")
    src, dst = rows.carried
    cols = fn.loop("0", "%n", vec.lanes, hint="word")
    first = fn.op("mul nsw", I64, cols.index, str(group))
    value = _load_words(fn, vec, lies, word, fn.gep(elem, src, first), fn.op("sub nsw", I64, "%left", first))
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
        block.append(_load_words(fn, vec, lies, word, source, left))
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
    ty, wide = register(lies, lanes), register(word, lanes)
    whole = fn.value(f"and i64 %n, {-lanes}")
    tail = fn.first_lanes(fn.op("sub nsw", I64, "%n", whole), lanes)
    rows = fn.loop("0", "%m", 1, [(PTR, "%src"), (PTR, "%dst")], hint="word")
    src, dst = rows.carried
    left = fn.op("sub nsw", I64, "%left", fn.op("mul nsw", I64, rows.index, str(group)))
    lines, there = [src], list[str]()
    for part in range(group):
        if part:
            lines.append(fn.gep(ty.elem, lines[-1], "%step"))
        there.append(fn.splat(vtype("i1", lanes), fn.op("icmp sgt", I64, left, str(part))))

    def words(column: str, masks: list[str]) -> None:
        found: list[str] = []
        for line, mask in zip(lines, masks, strict=True):
            value = fn.masked_load(ty, fn.gep(ty.elem, line, column), lies.itemsize, mask, constant(0, ty))
            found.append(fn.cast("sext" if lies.kind is Kind.INT else "zext", ty, value, wide))
        joined, size = found, wide
        while len(joined) > 1:
            both = range(2 * size.lanes)
            joined = [fn.shuffle(size, a, b, both) for a, b in zip(joined[::2], joined[1::2], strict=True)]
            size = vtype(size.elem, 2 * size.lanes)
        order = [part * lanes + lane for lane in range(lanes) for part in range(group)]
        value = fn.cast("bitcast", size, fn.shuffle(size, joined[0], "poison", order), vec)
        fn.store(vec, value, fn.gep(vec.elem, dst, column), 4)

    cols = fn.loop("0", whole, lanes, hint="col")
    words(cols.index, there)
    cols.close()
    rest, done = fn.label("rest"), fn.label("done")
    fn.branch_if(fn.op("icmp slt", I64, whole, "%n"), rest, done)
    fn.start(rest)
    words(whole, [fn.op("and", vtype("i1", lanes), mask, tail) for mask in there])
    fn.branch(done)
    fn.start(done)
    step = fn.op("mul nsw", I64, "%step", str(group))
    rows.close([fn.gep(ty.elem, src, step), fn.gep(vec.elem, dst, "%ldd")])
    fn.emit("ret void")
    return finish_leaf(f"dyn.pack.words.interleave.{lies}.{word}.{vec.mangled}", _ROW_PARAMS, fn)
