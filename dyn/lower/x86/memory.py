"""Loads and stores: scalars, vectors, reversed vectors, gathers and scatters, each with or without a mask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyn import dtypes
from dyn.dtypes import DType
from dyn.lower.x86.casts import cast
from dyn.lower.x86.llvm_text import FunctionText, VType, vtype
from dyn.lower.x86.places import AHEAD_OF_RUNS, LanePlaces, zero
from dyn.lower.x86.plan import stretched_factor
from dyn.lower.x86.scalars import apply
from dyn.lower.x86.scopes import Lanes, LaneValue
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Const, Expr, Load, Store, Update
from dyn.shapes import Symbol, as_dim, linear_in

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

PTR = vtype("ptr")
I1, I64 = vtype("i1"), vtype("i64")


def load(em: KernelEmitter, expr: Load) -> LaneValue:
    """The value of a load whose operands have been evaluated."""
    if em.squares is not None and expr in em.squares:
        vector = from_memory(em.fn, expr.dtype, em.memory(expr.dtype, em.lanes.width), em.squares.load(expr))
        return LaneValue(em.register(expr.dtype, em.lanes.width), (vector,), em.scopes.top.depth, True)
    bind(em, expr.bound)
    volatile = em.is_scratch(expr.buffer) or any(em.eval(bound).volatile for _, bound in expr.bound)
    mask = em.eval(expr.mask) if expr.mask is not None else None
    if em.indices.varies(expr.index) or (mask is not None and mask.varying):
        result = _varying(em, expr, mask, volatile)
    else:
        result = _uniform(em, expr, mask, volatile)
    unbind(em, expr.bound)
    return result


def bind(em: KernelEmitter, bound: tuple[tuple[Symbol, Expr], ...]) -> None:
    """Let the symbols of an index or an extent stand for the values that they are bound to."""
    for symbol, expr in bound:
        em.indices.bind(symbol, em.eval(expr))


def unbind(em: KernelEmitter, bound: tuple[tuple[Symbol, Expr], ...]) -> None:
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
    chosen = None if mask is None or mask.varying or volatile or expr.bound else _all_or_none(em, expr, mask)
    mask = mask if chosen is None else None
    others: tuple[str, ...] | None = None
    if mask is not None:
        assert expr.other is not None
        mask, other = em.spread(mask), em.spread(em.eval(expr.other))
        depth = max(depth, mask.depth, other.depth)
        masks, others = mask.parts, other.parts
    steps = _LOADED_STEPS if _can_pick(em, elem) else ()
    where = chosen
    if mask is None and where is None and not volatile and not expr.bound:
        where = _stretched(em, expr)
    where = where or LanePlaces(em, expr.buffer.dtype, em.pointer(expr.buffer), expr.index, steps, not expr.bound)
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
        where = LanePlaces(em, dtype, em.pointer(stmt.buffer), stmt.index)
        parts = [to_memory(fn, dtype, value.ty, part, elem) for part in value.parts]
        streams = em.streaming.condition(stmt, elem) if lanes.masks is None and where.step == 1 else None
        if streams is None:
            where.store_all(elem, parts, lanes.masks)
        else:
            past, through, done = fn.label("past"), fn.label("through"), fn.label("stored")
            fn.branch_if(streams, past, through)
            fn.start(past)
            where.stream_all(elem, parts)
            fn.branch(done)
            fn.start(through)
            where.store_all(elem, parts, None)
            fn.branch(done)
            fn.start(done)
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
        bind(em, stmt.bound)
        lanes = em.scopes.top.lanes
        varies = em.indices.varies(stmt.index) or (mask is not None and mask.varying)
        if value is not None:
            varies = varies or value.varying
        if lanes is None or not varies:
            _update_one(em, stmt, value)
        else:
            masks = mask.parts if mask is not None and not branch else None
            _update_lanes(em, stmt, value if value is None else em.spread(value), masks)
        unbind(em, stmt.bound)
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
    where = LanePlaces(em, dtype, em.pointer(stmt.buffer), stmt.index)
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


#: So many bytes of stack a kernel takes at most for elements that are spread or transposed; what is beyond is gathered.
MOST_STACK = 16384


def _stretched(em: KernelEmitter, expr: Load) -> LanePlaces | None:
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
    return LanePlaces.neighbours(em, dtype, pointer, depth)


def _all_or_none(em: KernelEmitter, expr: Load, mask: LaneValue) -> LanePlaces | None:
    """Places of neighbours under a mask that all lanes have in common: their own, or those of as many copies of the
    constant that is there in their stead. So a vector is loaded without a mask."""
    fn, lanes, dtype = em.fn, em.lanes, expr.dtype
    linear = linear_in(expr.index, lanes.symbol)
    if not isinstance(expr.other, Const) or linear is None or linear[0] != 1:
        return None
    elem, wide = em.memory(dtype), em.memory(dtype, lanes.width)
    literal = em.literal(expr.other)
    key = ("constant", literal, wide, lanes.unroll)
    found = em.scopes.find(key)
    saved = fn.here
    if found is None:
        if not em.take_stack(lanes.width * lanes.unroll * dtype.itemsize):
            return None
        fn.here = em.scopes.chunk(0)
        copies = fn.value(f"alloca [{lanes.width * lanes.unroll} x {elem}], align 64")
        vector = fn.splat(wide, to_memory(fn, dtype, em.register(dtype), literal, elem))
        for u in range(lanes.unroll):
            fn.store(wide, vector, fn.gep("i8", copies, str(u * lanes.width * dtype.itemsize)), dtype.itemsize)
        fn.here = saved
        found = em.scopes.keep(key, LaneValue(PTR, (copies,), 0))
    address = em.indices.address(em.pointer(expr.buffer), elem.elem, expr.index)
    depth = max(address.depth, mask.depth)
    fn.here = em.scopes.chunk(depth)
    pointer = fn.value(f"select i1 {mask.parts[0]}, ptr {address.parts[0]}, ptr {found.parts[0]}")
    fn.here = saved
    return LanePlaces.neighbours(em, dtype, pointer, depth, AHEAD_OF_RUNS)


def _and_masks(fn: FunctionText, lanes: Lanes, masks: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if masks is None:
        return lanes.masks
    if lanes.masks is None:
        return masks
    ty = vtype("i1", lanes.width)
    return tuple([fn.op("and", ty, a, b) for a, b in zip(masks, lanes.masks, strict=True)])


def from_memory(fn: FunctionText, dtype: DType, ty: VType, value: str) -> str:
    """A boolean's byte becomes an i1; all else is the same in memory and registers."""
    return fn.op("icmp ne", ty, value, zero(ty)) if dtype is dtypes.bool_ else value


def to_memory(fn: FunctionText, dtype: DType, ty: VType, value: str, elem: VType) -> str:
    return fn.cast("zext", ty, value, elem) if dtype is dtypes.bool_ else value
