"""Streaming (non-temporal) stores of results that are more than caches hold.

A store to memory that is in no cache reads the line first, and the line drives out others. Where a launch writes more
than the caches hold, its results are out of them before anybody reads them, so whole vectors are written past the
caches. Within them such stores would throw out what is read next. So a kernel has both, and takes the one by what its
launch writes in all and by the address at which a row begins: tests in front of a loop, of which a branch that always
goes the same way is left in it.

Such stores are weakly ordered: a fence stands at the kernel's end, for other threads read what it wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyn.lower.x86.llvm_text import VType, vtype
from dyn.lower.x86.machine import BEYOND_CACHES
from dyn.lower.x86.scopes import LaneValue
from dyn.schedule.kernel import Kernel, Loop, Role, Space, Stmt, Store, Update
from dyn.schedule.kernel_walks import walk_stmts
from dyn.shapes import Dim, Opaque, OpaqueKind, Symbol, dim_sum, free_symbols, linear_in, product

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

I1, I64, PTR = vtype("i1"), vtype("i64"), vtype("ptr")
_LINE = 64
#: The least bytes of a vector that there is such an instruction for.
_LEAST_BYTES = 16


def streamed_stores(kernel: Kernel) -> dict[int, Dim]:
    """The stores, by their id, that write neighbouring elements of a result in LANE loops, and how many bytes each
    writes at most in the whole launch; or the bytes of all of the result, where the launch writes a part of it.

    Each place is written once, and is not read by the kernel: results that are updated are left out.
    """
    updated = {id(stmt.buffer) for stmt in walk_stmts(kernel.body) if isinstance(stmt, Update)}
    found: dict[int, Dim] = {}
    parts: set[int] = set()

    def walk(body: tuple[Stmt, ...], loops: list[Loop]) -> None:
        for stmt in body:
            if isinstance(stmt, Loop):
                walk(stmt.body, [*loops, stmt])
            elif isinstance(stmt, Store) and stmt.buffer.space is Space.GLOBAL and id(stmt.buffer) not in updated:
                size = _elements(stmt, loops, frozenset(kernel.dims))
                if size is not None and stmt.buffer.size != 0:
                    size = stmt.buffer.size if id(stmt.buffer) not in parts else 0
                    parts.add(id(stmt.buffer))
                if size is not None:
                    found[id(stmt)] = size * stmt.buffer.dtype.itemsize

    walk(kernel.body, [])
    return found


def _elements(store: Store, loops: list[Loop], dims: frozenset[Symbol]) -> Dim | None:
    """How many elements a store writes at most; None where they are not neighbours in lanes, or that is not known."""
    lanes = [loop.var for loop in loops if loop.role is Role.LANE]
    linear = linear_in(store.index, lanes[0]) if lanes else None
    if linear is None or linear[0] != 1:
        return None
    extents: list[Dim] = []
    for loop in loops:
        extent = _bound(loop.extent, dims)
        if extent is None or loop.start != 0 or loop.var not in free_symbols(store.index):
            return None
        extents.append(extent)
    return product(extents)


def _bound(extent: Dim, dims: frozenset[Symbol]) -> Dim | None:
    """An extent as size parameters alone give it, or a bound of it: of the least of several one that they give."""
    if free_symbols(extent) <= dims:
        return extent
    atom = None if isinstance(extent, int) else extent.is_atom
    if not isinstance(atom, Opaque) or atom.kind is not OpaqueKind.MIN:
        return None
    return next((arg for arg in atom.args if free_symbols(arg) <= dims), None)


class Streaming:
    """The streaming stores of a kernel: made if its launch writes more than the caches hold."""

    def __init__(self, em: KernelEmitter) -> None:
        self.em = em
        self._stores = streamed_stores(em.kernel)
        #: An i1: whether the launch writes so much.
        self._many = "false"

    def start(self) -> None:
        """At the kernel's entry, where its dims are bound."""
        if not self._stores:
            return
        written = dim_sum(list(self._stores.values()))
        if isinstance(written, int):
            self._many = "true" if written >= BEYOND_CACHES else "false"
        else:
            self._many = self.em.fn.op("icmp sge", I64, self.em.dim(written), str(BEYOND_CACHES))

    def condition(self, stmt: Store, ty: VType) -> str | None:
        """An i1 for a store of whole vectors of a type in memory: whether they go past the caches; None if they
        never do."""
        size = ty.bits * ty.lanes // 8
        if id(stmt) not in self._stores or self._many == "false" or size < _LEAST_BYTES or size & (size - 1):
            return None
        em, fn = self.em, self.em.fn
        linear = linear_in(stmt.index, em.lanes.symbol)
        assert linear is not None
        # Every vector lies a multiple of its own bytes behind the first lane's element of the loop's first iteration.
        first = em.indices.address(em.pointer(stmt.buffer), ty.elem, linear[1])
        key = ("streams", first.parts[0])
        found = em.scopes.find(key)
        if found is None:
            saved, fn.here = fn.here, em.scopes.chunk(first.depth)
            offset = fn.op("and", I64, fn.cast("ptrtoint", PTR, first.parts[0], I64), str(_LINE - 1))
            aligned = fn.op("icmp eq", I64, offset, "0")
            name = aligned if self._many == "true" else fn.op("and", I1, aligned, self._many)
            fn.here = saved
            found = em.scopes.keep(key, LaneValue(I1, (name,), first.depth))
        return found.parts[0]

    def end(self) -> None:
        """At the kernel's end: what was written is seen by whoever sees that the kernel has ended."""
        fn = self.em.fn
        if self._many == "false":
            return
        fn.declare("declare void @llvm.x86.sse.sfence()")
        fence, done = fn.label("fence"), fn.label("fenced")
        fn.branch_if(self._many, fence, done)
        fn.start(fence)
        fn.emit("call void @llvm.x86.sse.sfence()")
        fn.branch(done)
        fn.start(done)
