"""Loads and stores: scalars, vectors, reversed vectors, gathers and scatters, each with or without a mask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyn import dtypes
from dyn.dtypes import DType
from dyn.lower.x86.casts import cast
from dyn.lower.x86.llvm_text import FunctionText, VType, constant, vtype
from dyn.lower.x86.plan import stretched_factor
from dyn.lower.x86.scalars import apply
from dyn.lower.x86.scopes import Lanes, LaneValue
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Expr, Load, Store, Update
from dyn.shapes import Dim, Symbol, as_dim, linear_in

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

PTR = vtype("ptr")
I1, I64 = vtype("i1"), vtype("i64")


def load(em: KernelEmitter, expr: Load) -> LaneValue:
    """The value of a load whose operands have been evaluated."""
    if em.squares is not None and expr in em.squares:
        vector = from_memory(em.fn, expr.dtype, em.memory(expr.dtype, em.lanes.width), em.squares.load(expr))
        return LaneValue(em.register(expr.dtype, em.lanes.width), (vector,), em.scopes.top.depth, True)
    _bind(em, expr.bound)
    volatile = em.is_scratch(expr.buffer) or any(em.eval(bound).volatile for _, bound in expr.bound)
    mask = em.eval(expr.mask) if expr.mask is not None else None
    if em.indices.varies(expr.index) or (mask is not None and mask.varying):
        result = _varying(em, expr, mask, volatile)
    else:
        result = _uniform(em, expr, mask, volatile)
    _unbind(em, expr.bound)
    return result


def _bind(em: KernelEmitter, bound: tuple[tuple[Symbol, Expr], ...]) -> None:
    """Let the symbols of an index stand for the values that they are bound to."""
    for symbol, expr in bound:
        em.indices.bind(symbol, em.eval(expr))


def _unbind(em: KernelEmitter, bound: tuple[tuple[Symbol, Expr], ...]) -> None:
    em.indices.unbind([symbol for symbol, _ in bound])


def _uniform(em: KernelEmitter, expr: Load, mask: LaneValue | None, volatile: bool) -> LaneValue:
    fn = em.fn
    dtype = expr.dtype
    elem = em.memory(dtype)
    address = em.indices.address(em.pointer(expr.buffer), elem.elem, expr.index)
    other = em.eval(expr.other) if expr.other is not None else None
    depth = max([v.depth for v in (address, mask, other) if v is not None])
    depth = em.scopes.top.depth if volatile else max(depth, em.scopes.top.floor)
    if other is not None and other.varying:
        depth = max(depth, em.scopes.top.lanes_depth)
    saved, fn.here = fn.here, em.scopes.chunk(depth)
    pointer = address.parts[0]
    if mask is not None:  # read something that is surely there, and drop it
        pointer = fn.value(f"select i1 {mask.parts[0]}, ptr {pointer}, ptr %buffers")
    name = from_memory(fn, dtype, elem, fn.load(elem, pointer, dtype.itemsize))
    result = LaneValue(em.register(dtype), (name,), depth, False, volatile)
    if mask is not None and other is not None:
        if other.varying:
            fn.here = saved
            wide = em.spread(result)
            fn.here = em.scopes.chunk(depth)
            parts = [
                fn.value(f"select i1 {mask.parts[0]}, {wide.ty} {a}, {wide.ty} {b}")
                for a, b in zip(wide.parts, other.parts, strict=True)
            ]
            result = LaneValue(wide.ty, tuple(parts), depth, True, volatile)
        else:
            name = fn.select(mask.parts[0], result.ty, name, other.parts[0])
            result = LaneValue(result.ty, (name,), depth, False, volatile)
    fn.here = saved
    return result


def _varying(em: KernelEmitter, expr: Load, mask: LaneValue | None, volatile: bool) -> LaneValue:
    fn, lanes, dtype = em.fn, em.lanes, expr.dtype
    register, elem = em.register(dtype, lanes.width), em.memory(dtype, lanes.width)
    masks: tuple[str, ...] | None = None
    depth = em.scopes.top.lanes_depth
    others: tuple[str, ...] | None = None
    if mask is not None:
        assert expr.other is not None
        mask, other = em.spread(mask), em.spread(em.eval(expr.other))
        depth = max(depth, mask.depth, other.depth)
        masks, others = mask.parts, other.parts
    steps = _LOADED_STEPS if _can_pick(em, elem) else ()
    where = None if mask is not None or volatile or expr.bound else _stretched(em, expr)
    where = where or _Place(em, expr.buffer.dtype, em.pointer(expr.buffer), expr.index, steps)
    depth = max(depth, where.depth)
    # A load whose mask belongs to the lanes reads nothing that an iteration would not read; like any load it stays
    # behind the tests that it stands behind.
    depth = em.scopes.top.depth if volatile else max(depth, em.scopes.top.floor)
    saved, fn.here = fn.here, em.scopes.chunk(depth)
    masks = _and_masks(fn, lanes, masks)
    parts: list[str] = []
    for u in range(lanes.unroll):
        m = masks[u] if masks is not None else None
        passthrough = None
        if others is not None:
            passthrough = to_memory(fn, dtype, register, others[u], elem)
        part = where.load(u, elem, m, passthrough)
        parts.append(from_memory(fn, dtype, elem, part))
    fn.here = saved
    return LaneValue(register, tuple(parts), depth, True, volatile)


def store(em: KernelEmitter, stmt: Store) -> None:
    """Store in the open scope."""
    fn, dtype = em.fn, stmt.buffer.dtype
    value = em.eval(stmt.value)
    lanes = em.scopes.top.lanes
    if lanes is None or not (value.varying or em.indices.varies(stmt.index)):
        elem = em.memory(dtype)
        pointer = em.address(stmt.buffer, stmt.index)
        fn.store(elem, to_memory(fn, dtype, value.ty, value.parts[0], elem), pointer, dtype.itemsize)
    elif em.squares is not None and stmt in em.squares:
        value = em.spread(value)
        elem = em.memory(dtype, lanes.width)
        em.squares.store(stmt, to_memory(fn, dtype, value.ty, value.parts[0], elem))
    else:
        value = em.spread(value)
        elem = em.memory(dtype, lanes.width)
        where = _Place(em, dtype, em.pointer(stmt.buffer), stmt.index)
        parts = [to_memory(fn, dtype, value.ty, part, elem) for part in value.parts]
        for u in range(lanes.unroll):
            where.store(u, elem, parts[u], lanes.masks[u] if lanes.masks is not None else None)
    if em.is_scratch(stmt.buffer):
        em.scopes.clobber()


def update(em: KernelEmitter, stmt: Update) -> None:
    """Read, combine and write in the open scope; a mask that all lanes have in common is a branch around that."""
    value = em.eval(stmt.value) if stmt.state is None else None
    mask = em.eval(stmt.mask) if stmt.mask is not None else None
    for _, expr in stmt.bound:
        em.eval(expr)
    branch = mask is not None and not mask.varying
    fn, skip = em.fn, ""
    with em.scope(guarded=branch):
        if mask is not None and branch:
            some, skip = fn.label("inside"), fn.label("outside")
            fn.branch_if(mask.parts[0], some, skip)
            fn.start(some)
        _bind(em, stmt.bound)
        lanes = em.scopes.top.lanes
        varies = em.indices.varies(stmt.index) or (mask is not None and mask.varying)
        if value is not None:
            varies = varies or value.varying
        if lanes is None or not varies:
            _update_one(em, stmt, value)
        else:
            masks = mask.parts if mask is not None and not branch else None
            _update_lanes(em, stmt, value if value is None else em.spread(value), masks)
        _unbind(em, stmt.bound)
        if branch:
            fn.branch(skip)
            fn.start(skip)


def _update_one(em: KernelEmitter, stmt: Update, value: LaneValue | None) -> None:
    """The value is None where it is a function of what is there."""
    fn, dtype = em.fn, stmt.buffer.dtype
    elem = em.memory(dtype)
    pointer = em.address(stmt.buffer, stmt.index)
    if value is None:
        assert stmt.state is not None
        old = from_memory(fn, dtype, elem, fn.load(elem, pointer, dtype.itemsize))
        em.bind_ref(stmt.state, (old,), varying=False)
        value = em.eval(stmt.value)
    new = value.parts[0]
    if stmt.combine is not None:
        old = from_memory(fn, dtype, elem, fn.load(elem, pointer, dtype.itemsize))
        new = _combined(em, stmt.combine, dtype, value.ty, old, new)
    fn.store(elem, to_memory(fn, dtype, value.ty, new, elem), pointer, dtype.itemsize)


def _update_lanes(em: KernelEmitter, stmt: Update, value: LaneValue | None, masks: tuple[str, ...] | None) -> None:
    """Update the places of all lanes. All are read first: the lanes' places are distinct."""
    fn, dtype, lanes = em.fn, stmt.buffer.dtype, em.lanes
    elem = em.memory(dtype, lanes.width)
    where = _Place(em, dtype, em.pointer(stmt.buffer), stmt.index)
    masks = _and_masks(fn, lanes, masks)
    if value is None:
        assert stmt.state is not None
        loaded = [where.load(u, elem, masks[u] if masks is not None else None, None) for u in range(lanes.unroll)]
        em.bind_ref(stmt.state, tuple([from_memory(fn, dtype, elem, part) for part in loaded]))
        value = em.spread(em.eval(stmt.value))
    for u, part in enumerate(value.parts):
        mask, new = masks[u] if masks is not None else None, part
        if stmt.combine is not None:
            old = from_memory(fn, dtype, elem, where.load(u, elem, mask, None))
            new = _combined(em, stmt.combine, dtype, value.ty, old, part)
        where.store(u, elem, to_memory(fn, dtype, value.ty, new, elem), mask)


def _combined(em: KernelEmitter, combine: Scalar, dtype: DType, ty: VType, old: str, new: str) -> str:
    """``combine(old, new)``; narrow floats by way of float32."""
    if not dtype.is_narrow:
        return apply(em.machine, combine, dtype, ty, (old, new))
    wide = em.register(dtypes.float32, ty.lanes)
    first, second = (cast(em.machine, dtype, dtypes.float32, ty, wide, part) for part in (old, new))
    result = apply(em.machine, combine, dtypes.float32, wide, (first, second))
    return cast(em.machine, dtypes.float32, dtype, wide, ty, result)


#: Distances of neighbouring lanes up to which whole vectors are loaded, and the lanes picked from them: a gather costs
#: more than one load a lane.
_LOADED_STEPS = (2, 3, 4)


def _can_pick(em: KernelEmitter, ty: VType) -> bool:
    """Whether lanes can be picked from vectors: where masks are cheap, and fill a register with what they mask."""
    return em.machine.avx512 and ty.bits >= 32 and ty.lanes * ty.bits == 512


#: So many bytes before they are read masked loads are asked for.
_AHEAD = 1024
#: So many bytes of stack a kernel takes at most for elements that are spread or transposed; what is beyond is gathered.
MOST_STACK = 16384


def _stretched(em: KernelEmitter, expr: Load) -> _Place | None:
    """Places along an axis that may be stretched: neighbours where its factor is 1, and one element for all lanes
    where it is 0. That one is spread over as many lanes as are loaded at once, and these are read in its stead."""
    fn, lanes, indices, dtype = em.fn, em.lanes, em.indices, expr.dtype
    factor = stretched_factor(em.kernel, expr.index, lanes.symbol)
    linear = linear_in(expr.index, lanes.symbol)
    if factor is None or linear is None:
        return None
    elem, wide = em.memory(dtype), em.memory(dtype, lanes.width)
    first = indices.address(em.pointer(expr.buffer), elem.elem, linear[1])
    key = ("stretched", first.parts[0], factor, wide, lanes.unroll)
    found = em.scopes.find(key)
    if found is None:
        if not em.take_stack(lanes.width * lanes.unroll * dtype.itemsize):
            return None
        # Like the load itself, behind the tests that it stands behind: the first lane's element is there.
        depth = max(first.depth, em.scopes.top.floor)
        saved, fn.here = fn.here, em.scopes.chunk(0)
        spread = fn.value(f"alloca [{lanes.width * lanes.unroll} x {elem}], align 64")
        fn.here = em.scopes.chunk(depth)
        vector = fn.splat(wide, fn.load(elem, first.parts[0], dtype.itemsize))
        for u in range(lanes.unroll):
            fn.store(wide, vector, fn.gep("i8", spread, str(u * lanes.width * dtype.itemsize)), dtype.itemsize)
        dense = fn.op("icmp eq", I64, indices.uniform(as_dim(factor)).parts[0], "1")
        name = fn.value(f"select i1 {dense}, ptr {first.parts[0]}, ptr {spread}")
        fn.here = saved
        found = em.scopes.keep(key, LaneValue(PTR, (name,), depth))
    offset = indices.uniform(as_dim(factor) * as_dim(lanes.symbol))
    depth = max(found.depth, offset.depth)
    saved, fn.here = fn.here, em.scopes.chunk(depth)
    pointer = fn.gep(elem.elem, found.parts[0], offset.parts[0])
    fn.here = saved
    return _Place.neighbours(em, dtype, pointer, depth)


class _Place:
    """Places of an access's lanes: ``step`` 1 is one vector, -1 one that is reversed, one of ``steps`` every
    so-manieth element, None is anywhere."""

    def __init__(self, em: KernelEmitter, dtype: DType, pointer: str, index: Dim, steps: tuple[int, ...] = ()) -> None:
        lanes, indices = em.lanes, em.indices
        self.fn, self.lanes, self.size = em.fn, lanes, dtype.itemsize
        elem = em.memory(dtype).elem
        linear = None
        if not isinstance(index, int) and indices.vectors.keys().isdisjoint(index.symbols):
            linear = linear_in(index, lanes.symbol)
        self.step = linear[0] if linear is not None and linear[0] in (1, -1, *steps) else None
        if self.step is not None:
            address = indices.address(pointer, elem, index)
            self.pointer, self.depth, self.index = address.parts[0], address.depth, None
            return
        uniform, varying = indices.split(index)
        address, self.index = indices.address(pointer, elem, uniform), indices.vector(varying)
        self.pointer, self.depth = address.parts[0], max(address.depth, self.index.depth)

    @classmethod
    def neighbours(cls, em: KernelEmitter, dtype: DType, pointer: str, depth: int) -> _Place:
        """Places next to each other from a pointer on."""
        place = cls.__new__(cls)
        place.fn, place.lanes, place.size = em.fn, em.lanes, dtype.itemsize
        place.step, place.pointer, place.depth, place.index = 1, pointer, depth, None
        return place

    def _part(self, u: int) -> str:
        first = u * self.lanes.width if self.step == 1 else -(u + 1) * self.lanes.width + 1
        return self.fn.gep("i8", self.pointer, str(first * self.size))

    def _reverse(self, ty: VType, vector: str) -> str:
        return self.fn.shuffle(ty, vector, "poison", range(ty.lanes - 1, -1, -1))

    def load(self, u: int, ty: VType, mask: str | None, other: str | None) -> str:
        fn = self.fn
        if self.index is not None:
            every = mask if mask is not None else constant(True, ty.of("i1"))
            return fn.gather(
                ty, self.pointer, self.index.parts[u], self.size, every, other if other is not None else _zero(ty)
            )
        if self.step not in (1, -1):
            return self._picked(u, ty, mask, other)
        if self.step == -1:
            if mask is not None:
                mask = self._reverse(ty.of("i1"), mask)
            if other is not None:
                other = self._reverse(ty, other)
        part_at = self._part(u)
        if mask is None:
            part = fn.load(ty, part_at, self.size)
        else:
            self._ask_ahead(part_at)
            part = fn.masked_load(ty, part_at, self.size, mask, other if other is not None else _zero(ty))
        return part if self.step == 1 else self._reverse(ty, part)

    def _ask_ahead(self, part: str) -> None:
        """Ask for what a masked load some vectors further on will read: prefetchers follow no masked loads."""
        self.fn.prefetch(self.fn.gep("i8", part, str(_AHEAD if self.step != -1 else -_AHEAD)))

    def _picked(self, u: int, ty: VType, mask: str | None, other: str | None) -> str:
        """Every ``step``-th element of as many vectors. Only what is picked is read: the rest may not be there."""
        fn, step, w = self.fn, self.step, self.lanes.width
        assert isinstance(step, int)
        bits = ty.of("i1")
        picked = [lane * step % w for lane in range(w)]
        result = ""
        for number in range(step):
            places = range(number * w, (number + 1) * w)
            if mask is None:
                flags = ", ".join(f"i1 {'false' if at % step else 'true'}" for at in places)
                wanted = f"<{flags}>"
            else:
                wanted = fn.shuffle(bits, mask, "zeroinitializer", [w if at % step else at // step for at in places])
            first = self.fn.gep("i8", self.pointer, str((u * step + number) * w * self.size))
            self._ask_ahead(first)
            part = fn.masked_load(ty, first, self.size, wanted, _zero(ty))
            if not result:
                result = part
                continue
            # Lanes before come from what is picked so far, the first time by their own places in the first vector.
            own = [lane * step // w == number for lane in range(w)]
            before = picked if number == 1 else list(range(w))
            chosen = [w + lane * step % w if o else b for lane, (o, b) in enumerate(zip(own, before, strict=True))]
            result = fn.shuffle(ty, result, part, chosen)
        if mask is None or other is None:
            return result
        return fn.select(mask, ty, result, other)

    def store(self, u: int, ty: VType, value: str, mask: str | None) -> None:
        fn = self.fn
        if self.index is not None:
            every = mask if mask is not None else constant(True, ty.of("i1"))
            fn.scatter(ty, value, self.pointer, self.index.parts[u], self.size, every)
            return
        if self.step == -1:
            value = self._reverse(ty, value)
            if mask is not None:
                mask = self._reverse(ty.of("i1"), mask)
        if mask is None:
            fn.store(ty, value, self._part(u), self.size)
        else:
            part = self._part(u)
            fn.prefetch(fn.gep("i8", part, str(_AHEAD if self.step != -1 else -_AHEAD)), write=True)
            fn.masked_store(ty, value, part, self.size, mask)


def _zero(ty: VType) -> str:
    return "zeroinitializer" if ty.lanes > 1 else constant(0, ty)


def _and_masks(fn: FunctionText, lanes: Lanes, masks: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if masks is None:
        return lanes.masks
    if lanes.masks is None:
        return masks
    ty = vtype("i1", lanes.width)
    return tuple([fn.op("and", ty, a, b) for a, b in zip(masks, lanes.masks, strict=True)])


def from_memory(fn: FunctionText, dtype: DType, ty: VType, value: str) -> str:
    """A boolean's byte becomes an i1; all else is the same in memory and registers."""
    return fn.op("icmp ne", ty, value, _zero(ty)) if dtype is dtypes.bool_ else value


def to_memory(fn: FunctionText, dtype: DType, ty: VType, value: str, elem: VType) -> str:
    return fn.cast("zext", ty, value, elem) if dtype is dtypes.bool_ else value
