"""Squares of elements that are transposed in registers: loads and stores of UNROLL loops.

In a LANE loop over ``j`` the lanes of ``x[j*s + i]`` lie far apart, and ``x[j*s + i]``, ``x[j*s + i + 1]``, … side by
side. So an UNROLL loop over ``i`` reads for all of its iterations together: for each lane a short row along ``i``. Rows
are transposed into a vector of lanes for each ``i``, which waits on the stack for its iteration. Stores of that kind go
the other way, after the loop. Functions beside the kernel do both: they take longer to compile than most kernels, and a
kernel reads and writes squares at several places.

``n`` vectors and ``W`` lanes, both powers of two, make ``W // n`` squares side by side. Vector ``q`` takes the rows of
lanes ``q``, ``n + q``, ``2*n + q``, …, and then every square is transposed on its own, by interleaving within 16 bytes:
one instruction on every x86. Where some lanes or iterations are missing, rows are read and written under masks, or
element by element, where masks cost much. Nothing else is read or written.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from dyn.dtypes import DType
from dyn.lower.x86.leaf_functions import LeafFunction, define, finish_leaf
from dyn.lower.x86.llvm_text import FunctionText, VType, constant, vtype
from dyn.lower.x86.scopes import LaneValue
from dyn.schedule.kernel import Load, Loop, Store, most_iterations
from dyn.schedule.kernel_walks import stmt_exprs, walk_exprs
from dyn.shapes import Dim, Symbol, as_dim, linear_in

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

I1, I64, PTR = vtype("i1"), vtype("i64"), vtype("ptr")
#: Bytes of the rows of squares. Those of 16 take the fewest instructions; a line is then read in parts, one right after
#: the other, and that is as quick as reading it at once.
_ROW = 16
#: Parameters of the functions that move squares: rows in memory that are ``step`` elements apart, how many ``lanes``
#: and ``copies`` there are, and as many vectors as iterations.
_PARAMETERS = "ptr %rows, i64 %step, i64 %lanes, i64 %copies, ptr %vectors"


def is_square(index: Dim, unrolled: Symbol, lane: Symbol) -> bool:
    """Whether neighbouring iterations have neighbouring places, and neighbouring lanes have not."""
    along = linear_in(index, unrolled)
    across = linear_in(along[1], lane) if along is not None and along[0] == 1 else None
    return across is not None and across[0] not in (0, 1, -1)


class Squares:
    """The squares that an UNROLL loop loads before it and stores after it; in between they are vectors on the stack."""

    def __init__(self, em: KernelEmitter, loop: Loop) -> None:
        self.em, self.loop = em, loop
        lane = em.lanes.symbol
        most = most_iterations(loop.extent)
        assert most is not None
        self.most = _power_of_two_from(most)
        exprs = walk_exprs(tuple(e for stmt in loop.body for e in stmt_exprs(stmt)))
        self.loads = [
            expr
            for expr in exprs
            if isinstance(expr, Load) and not expr.bound and expr.mask is None and not em.is_scratch(expr.buffer)
            if self.most > 1 and is_square(expr.index, loop.var, lane)
        ]
        self.stores = [
            stmt
            for stmt in loop.body
            if isinstance(stmt, Store) and not em.is_scratch(stmt.buffer)
            if self.most > 1 and is_square(stmt.index, loop.var, lane)
        ]
        places = {id(access): self._stack(access) for access in (*self.loads, *self.stores)}
        self._memory = {number: place for number, place in places.items() if place is not None}

    def __contains__(self, access: Load | Store) -> bool:
        return id(access) in self._memory

    def _stack(self, access: Load | Store) -> str | None:
        """Memory for the vectors of an access, the same in all sections of the lanes; None where that is too much."""
        em = self.em
        key = ("square", id(access))
        found = em.scopes.find(key)
        if found is None:
            if not em.take_stack(self.most * em.lanes.width * access.buffer.dtype.itemsize):
                return None
            saved, em.fn.here = em.fn.here, em.scopes.chunk(0)
            elem = em.memory(access.buffer.dtype)
            name = em.fn.value(f"alloca [{self.most * em.lanes.width} x {elem}], align 64")
            em.fn.here = saved
            found = em.scopes.keep(key, LaneValue(PTR, (name,), 0))
        return found.parts[0]

    def load(self, access: Load) -> str:
        """The vector of the iteration in hand."""
        ty = self.em.memory(access.dtype, self.em.lanes.width)
        return self.em.fn.load(ty, self._place(access), access.dtype.itemsize)

    def store(self, access: Store, vector: str) -> None:
        """Keep the vector of the iteration in hand."""
        ty = self.em.memory(access.buffer.dtype, self.em.lanes.width)
        self.em.fn.store(ty, vector, self._place(access), access.buffer.dtype.itemsize)

    def _place(self, access: Load | Store) -> str:
        em = self.em
        offset = em.dim(as_dim(self.loop.var) * em.lanes.width)
        return em.fn.gep(em.memory(access.buffer.dtype).elem, self._memory[id(access)], offset)

    def before(self) -> None:
        """Load the squares."""
        for access in filter(self.__contains__, self.loads):
            self._move(access, access.index, stores=False)

    def after(self) -> None:
        """Store the squares."""
        for access in filter(self.__contains__, self.stores):
            self._move(access, access.index, stores=True)

    def _move(self, access: Load | Store, index: Dim, *, stores: bool) -> None:
        em, buffer = self.em, access.buffer
        along = linear_in(index, self.loop.var)
        assert along is not None
        across = linear_in(along[1], em.lanes.symbol)
        assert across is not None
        vector = vtype(f"i{8 * buffer.dtype.itemsize}", em.lanes.width)
        leaf = (store_leaf if stores else load_leaf)(vector, self.most, _masks_are_cheap(em, buffer.dtype))
        define(em, leaf)
        rows, step, copies = em.address(buffer, along[1]), em.dim(across[0]), em.dim(self.loop.extent)
        lanes = em.lanes.left if em.lanes.masks is not None else str(em.lanes.width)
        em.fn.emit(
            f"call void @{leaf.name}(ptr {rows}, i64 {step}, i64 {lanes}, i64 {copies}, ptr {self._memory[id(access)]})"
        )


def _masks_are_cheap(em: KernelEmitter, dtype: DType) -> bool:
    """Whether the target has instructions that load and store elements of a dtype under masks."""
    return em.machine.avx512 or (em.target.vector_bytes >= 32 and dtype.itemsize in (4, 8))


def _power_of_two_from(number: int) -> int:
    """The least power of two that is at least a number."""
    return 1 << max(number - 1, 0).bit_length()


# --- functions that move squares ------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def load_leaf(ty: VType, most: int, masks: bool) -> LeafFunction:
    """``vectors[i, j] = rows[i + j*step]`` for i < copies, at most ``most``, and j < lanes, at most those of ``ty``.

    What the vectors hold beyond is nothing in particular. ``most`` is a power of two.
    """
    fn, size = FunctionText(), ty.bits // 8
    _all_there(fn, ty, most)
    n = _height(ty, most)
    loop = fn.loop("0", str(most), n, hint="squares")
    places = [fn.gep(ty.elem, pointer, loop.index) for pointer in _pointers(fn, ty)]
    _put(fn, ty, _loaded(fn, ty, [fn.load(vtype(ty.elem, n), place, size) for place in places], n), loop.index)
    loop.close()
    fn.emit("ret void")
    fn.start("rest")
    if not masks:
        _one_by_one(fn, ty, stores=False)
        return finish_leaf(f"dyn.square.load.{ty.mangled}.{most}", _PARAMETERS, fn)
    _alone(fn)
    mask = fn.first_lanes("%lanes", ty.lanes)
    _put(fn, ty, [fn.masked_load(ty, "%rows", size, mask, constant(0, ty))], "0")
    fn.emit("ret void")
    fn.start("several")
    row, pointers = vtype(ty.elem, n), _pointers(fn, ty)
    for lane in range(1, ty.lanes):  # lanes that are not there read what the first one reads
        there = fn.op("icmp sgt", I64, "%lanes", str(lane))
        pointers[lane] = fn.value(f"select i1 {there}, ptr {pointers[lane]}, ptr %rows")
    loop = fn.loop("0", "%copies", n, hint="squares")
    mask = fn.first_lanes(fn.op("sub", I64, "%copies", loop.index), n)
    places = [fn.gep(ty.elem, pointer, loop.index) for pointer in pointers]
    rows = [fn.masked_load(row, place, size, mask, constant(0, row)) for place in places]
    _put(fn, ty, _loaded(fn, ty, rows, n), loop.index)
    loop.close()
    fn.emit("ret void")
    return finish_leaf(f"dyn.square.load.{ty.mangled}.{most}", _PARAMETERS, fn)


@lru_cache(maxsize=64)
def store_leaf(ty: VType, most: int, masks: bool) -> LeafFunction:
    """``rows[i + j*step] = vectors[i, j]`` for i < copies, at most ``most``, and j < lanes, at most those of ``ty``."""
    fn, size = FunctionText(), ty.bits // 8
    _all_there(fn, ty, most)
    n = _height(ty, most)
    loop = fn.loop("0", str(most), n, hint="squares")
    rows = _rows_of(fn, ty, transposed(fn, ty, _get(fn, ty, loop.index, n)))
    for pointer, row in zip(_pointers(fn, ty), rows, strict=True):
        fn.store(vtype(ty.elem, n), row, fn.gep(ty.elem, pointer, loop.index), size)
    loop.close()
    fn.emit("ret void")
    fn.start("rest")
    if not masks:
        _one_by_one(fn, ty, stores=True)
        return finish_leaf(f"dyn.square.store.{ty.mangled}.{most}", _PARAMETERS, fn)
    _alone(fn)
    fn.masked_store(ty, _get(fn, ty, "0", 1)[0], "%rows", size, fn.first_lanes("%lanes", ty.lanes))
    fn.emit("ret void")
    fn.start("several")
    row = vtype(ty.elem, n)
    bits, pointers = row.of("i1"), _pointers(fn, ty)
    loop = fn.loop("0", "%copies", n, hint="squares")
    mask = fn.first_lanes(fn.op("sub", I64, "%copies", loop.index), n)
    rows = _rows_of(fn, ty, transposed(fn, ty, _get(fn, ty, loop.index, n)))
    for lane, (pointer, part) in enumerate(zip(pointers, rows, strict=True)):
        there = fn.op("icmp sgt", I64, "%lanes", str(lane))
        own = fn.value(f"select i1 {there}, {bits} {mask}, {bits} zeroinitializer")
        fn.masked_store(row, part, fn.gep(ty.elem, pointer, loop.index), size, own)
    loop.close()
    fn.emit("ret void")
    return finish_leaf(f"dyn.square.store.{ty.mangled}.{most}", _PARAMETERS, fn)


def _loaded(fn: FunctionText, ty: VType, rows: list[str], n: int) -> list[str]:
    """Vectors of lanes, of the lanes' rows of ``n`` elements."""
    return transposed(fn, ty, [_concatenated(fn, vtype(ty.elem, n), rows[q::n]) for q in range(n)])


def _height(ty: VType, most: int) -> int:
    """Vectors that are transposed at once: no more than there are, or lanes."""
    return min(max(_ROW * 8 // ty.bits, 2), ty.lanes, most)


def _all_there(fn: FunctionText, ty: VType, most: int) -> None:
    """Go on where every lane and iteration is there, else at ``rest``."""
    lanes = fn.op("icmp sge", I64, "%lanes", str(ty.lanes))
    whole = fn.label("whole")
    fn.branch_if(fn.op("and", I1, lanes, fn.op("icmp eq", I64, "%copies", str(most))), whole, "rest")
    fn.start(whole)


def _alone(fn: FunctionText) -> None:
    """Go on where one iteration is alone and its lanes lie side by side, as a column's do; else at ``several``."""
    one, single = fn.op("icmp eq", I64, "%copies", "1"), fn.label("one")
    fn.branch_if(fn.op("and", I1, one, fn.op("icmp eq", I64, "%step", "1")), single, "several")
    fn.start(single)


def _pointers(fn: FunctionText, ty: VType) -> list[str]:
    """Pointers to the first element of each lane. Every fourth is counted on from another."""
    steps = ["0", "%step", *[fn.op("mul nsw", I64, "%step", str(times)) for times in (2, 3, 4)]]
    pointers = ["%rows"]
    for lane in range(1, ty.lanes):
        before, times = (pointers[lane - 4], 4) if lane % 4 == 0 else (pointers[lane - lane % 4], lane % 4)
        pointers.append(fn.gep(ty.elem, before, steps[times]))
    return pointers


def _rows_of(fn: FunctionText, ty: VType, vectors: list[str]) -> list[str]:
    """The rows of all lanes, of squares that have been transposed."""
    n = len(vectors)
    if n == ty.lanes:
        return vectors
    parts = [range(at, at + n) for at in range(0, ty.lanes, n)]
    return [_shuffled(fn, ty, vector, "poison", part) for part in parts for vector in vectors]


def _get(fn: FunctionText, ty: VType, first: str, count: int) -> list[str]:
    """Some of the vectors on the stack."""
    return [fn.load(ty, place, ty.bits // 8) for place in _places(fn, ty, first, count)]


def _put(fn: FunctionText, ty: VType, vectors: list[str], first: str) -> None:
    for vector, place in zip(vectors, _places(fn, ty, first, len(vectors)), strict=True):
        fn.store(ty, vector, place, ty.bits // 8)


def _places(fn: FunctionText, ty: VType, first: str, count: int) -> list[str]:
    start = fn.gep(ty.text, "%vectors", first)
    return [fn.gep(ty.text, start, str(number)) for number in range(count)]


def _one_by_one(fn: FunctionText, ty: VType, *, stores: bool) -> None:
    """Element by element."""
    elem, size = vtype(ty.elem), ty.bits // 8
    lanes = fn.loop("0", fn.intrinsic("smin", I64, "%lanes", str(ty.lanes)), 1, [(PTR, "%rows")], hint="lane")
    copies = fn.loop("0", "%copies", 1, hint="copy")
    row = fn.gep(ty.elem, lanes.carried[0], copies.index)
    place = fn.gep(ty.elem, "%vectors", fn.op("add", I64, fn.op("mul", I64, copies.index, str(ty.lanes)), lanes.index))
    source, target = (place, row) if stores else (row, place)
    fn.store(elem, fn.load(elem, source, size), target, size)
    copies.close()
    lanes.close([fn.gep(ty.elem, lanes.carried[0], "%step")])
    fn.emit("ret void")


# --- transposition --------------------------------------------------------------------------------------------------


def _concatenated(fn: FunctionText, ty: VType, parts: list[str]) -> str:
    """Vectors side by side in one; their number is a power of two."""
    while len(parts) > 1:
        both = range(2 * ty.lanes)
        parts = [_shuffled(fn, ty, a, b, both) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        ty = vtype(ty.elem, 2 * ty.lanes)
    return parts[0]


def _shuffled(fn: FunctionText, ty: VType, a: str, b: str, lanes: Sequence[int]) -> str:
    """Lanes of two vectors, taken as fewer lanes of up to 64 bits where neighbours stay together: LLVM's time for a
    shuffle grows with the square of its lanes."""
    together = 1
    while ty.bits * together < 64 and _stay_together(ty, lanes, 2 * together):
        together *= 2
    if together == 1:
        return fn.shuffle(ty, a, b, lanes)
    wide = vtype(f"i{ty.bits * together}", ty.lanes // together)
    operands = [v if v == "poison" else fn.cast("bitcast", ty, v, wide) for v in (a, b)]
    if len(lanes) == together:
        one = fn.extract(wide, operands[0], lanes[0] // together)
        return fn.cast("bitcast", vtype(wide.elem), one, vtype(ty.elem, len(lanes)))
    moved = fn.shuffle(wide, operands[0], operands[1], [lane // together for lane in lanes[::together]])
    return fn.cast("bitcast", vtype(wide.elem, len(lanes) // together), moved, vtype(ty.elem, len(lanes)))


def _stay_together(ty: VType, lanes: Sequence[int], count: int) -> bool:
    """Whether some lanes are runs of ``count`` neighbours, each from a multiple of it on."""
    if ty.lanes <= count or ty.lanes % count or len(lanes) % count:
        return False
    return all(lane == lanes[at - at % count] // count * count + at % count for at, lane in enumerate(lanes))


def transposed(fn: FunctionText, ty: VType, rows: Sequence[str]) -> list[str]:
    """The transposes of the squares that stand side by side in some vectors, each no wider than 16 bytes.

    Each round replaces two vectors by their low halves, interleaved, and their high halves, ``d`` elements at a time:
    single instructions on every x86, where squares fill 16 bytes. It leaves the vectors in bit-reversed order.
    """
    inner, block = len(rows), list(rows)
    d = 1
    while d < inner:
        low, high = interleave(ty, d, inner)
        for r in range(inner):
            if not r & d:
                a, b = block[r], block[r + d]
                block[r], block[r + d] = _shuffled(fn, ty, a, b, low), _shuffled(fn, ty, a, b, high)
        d *= 2
    return [block[_reverse_bits(r, inner)] for r in range(inner)]


def square(fn: FunctionText, ty: VType, rows: Sequence[str]) -> list[str]:
    """The transpose of as many vectors as each has elements: first of squares of 16 bytes, then of these squares."""
    inner = 128 // ty.bits
    turned = [transposed(fn, ty, rows[first : first + inner]) for first in range(0, ty.lanes, inner)]
    found = [_pieces_transposed(fn, ty, [some[i] for some in turned], inner) for i in range(inner)]
    return [found[i][part] for part in range(ty.lanes // inner) for i in range(inner)]


def _pieces_transposed(fn: FunctionText, ty: VType, block: list[str], inner: int) -> list[str]:
    """The transpose of up to four vectors of as many pieces: what takes two pieces of either operand is a single
    instruction."""
    parts = len(block)

    def taken(a: str, b: str, pieces: Sequence[int]) -> str:
        first = [piece * inner + e for piece in pieces for e in range(inner)]
        return _shuffled(fn, ty, a, b, [*first, *[ty.lanes + lane for lane in first]])

    if parts == 4:
        low = [taken(block[r], block[r + 1], (0, 1)) for r in (0, 2)]
        high = [taken(block[r], block[r + 1], (2, 3)) for r in (0, 2)]
        return [taken(half[0], half[1], pieces) for half in (low, high) for pieces in ((0, 2), (1, 3))]
    return block if parts == 1 else [taken(block[0], block[1], (piece,)) for piece in (0, 1)]


def interleave(ty: VType, d: int, inner: int) -> tuple[list[int], list[int]]:
    """The lanes of two vectors that interleave, ``d`` elements at a time, the low halves of each of their parts of
    ``inner`` elements, and those for the high halves."""
    halves: list[list[int]] = []
    for half in (0, inner // 2):
        starts = [part + half + offset for part in range(0, ty.lanes, inner) for offset in range(0, inner // 2, d)]
        halves.append([lane for at in starts for side in (0, ty.lanes) for lane in range(side + at, side + at + d)])
    return halves[0], halves[1]


def _reverse_bits(number: int, size: int) -> int:
    """``number`` below a power of two, ``size``, with its bits in the opposite order."""
    result = 0
    while size > 1:
        result, number, size = result * 2 + number % 2, number // 2, size // 2
    return result
