"""Asks for rows of memory before they are read, where sweeps through one row keep processors from foreseeing the next.

A group that sweeps through each row several times (softmax, layer norm, argmax) reads memory in the first sweep alone.
In the others nothing beyond the row is under way, and the first sweep of the next one waits for memory. So each step of
that sweep asks for what lies some rows further on: only where all rows are more than caches hold, for it takes time
within them. In one go before the sweep it gains a third of that: there are not so many requests at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dyn.lower.x86.llvm_text import vtype
from dyn.lower.x86.machine import BEYOND_CACHES
from dyn.schedule.kernel import Kernel, Load, Loop, Role, Stmt
from dyn.schedule.kernel_walks import stmt_body, stmt_exprs, walk_exprs, walk_stmts
from dyn.shapes import Symbol, as_dim, free_symbols, linear_in, product

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

I64 = vtype("i64")
_LINE = 64
#: How many bytes ahead memory is asked for: some short rows, or one of thousands of elements.
_DISTANCE = 16384


def first_sweeps(kernel: Kernel) -> dict[Symbol, list[Load]]:
    """The reads of rows that later sweeps read again, by the lanes' variable of the first sweep, which folds.

    A sweep is a LANE loop, a row is contiguous and of a GRID iteration, and its address is known before the sweep.
    """
    grid, _ = kernel.grid()
    rows = {loop.var for loop in grid}
    first: dict[int, tuple[Symbol, Load]] = {}
    again: set[int] = set()
    for loop, around in _lane_loops(kernel.body, frozenset(kernel.dims)):
        for load in _loads(loop):
            symbols = free_symbols(load.index)
            if load.mask is not None or load.bound or loop.bound or loop.var not in symbols or rows.isdisjoint(symbols):
                continue
            found = first.get(id(load.buffer))
            if found is not None and found[0] is not loop.var:
                again.add(id(load.buffer))
            elif found is None and loop.folds and symbols <= around | {loop.var}:
                linear = linear_in(load.index, loop.var)
                if linear is not None and linear[0] == 1:
                    first[id(load.buffer)] = loop.var, load
    sweeps: dict[Symbol, list[Load]] = {}
    for buffer, (var, load) in first.items():
        if buffer in again:
            sweeps.setdefault(var, []).append(load)
    return sweeps


def _lane_loops(body: tuple[Stmt, ...], around: frozenset[Symbol]) -> Iterator[tuple[Loop, frozenset[Symbol]]]:
    """The LANE loops in program order, each with the symbols that are known before it."""
    for stmt in body:
        if isinstance(stmt, Loop) and stmt.role is Role.LANE:
            yield stmt, around
        else:
            inside = around | {stmt.var} if isinstance(stmt, Loop) else around
            yield from _lane_loops(stmt_body(stmt), inside)


def _loads(loop: Loop) -> list[Load]:
    found: dict[int, Load] = {}
    for stmt in walk_stmts((loop,)):
        found.update((id(e), e) for e in walk_exprs(stmt_exprs(stmt)) if isinstance(e, Load))
    return list(found.values())


class Ahead:
    """Software prefetches of the first sweep through a row, made if the rows together exceed the caches."""

    def __init__(self, em: KernelEmitter, loop: Loop) -> None:
        self.em = em
        self.loads = em.sweeps.get(loop.var, [])
        rows = product([level.extent for level in em.kernel.grid()[0]]) if self.loads else 0
        #: For each read, an i1: whether to ask.
        self.many = [
            em.fn.op("icmp sge", I64, em.dim(as_dim(rows) * loop.extent * load.dtype.itemsize), str(BEYOND_CACHES))
            for load in self.loads
        ]

    def ask(self, lanes: int) -> None:
        """In front of a step of so many lanes, which are bound, ask for the lines that some later step will read."""
        em, fn = self.em, self.em.fn
        for load, many in zip(self.loads, self.many, strict=True):
            run, done = fn.label("ask"), fn.label("asked")
            with em.scope(guarded=True):
                fn.branch_if(many, run, done)
                fn.start(run)
                first = em.address(load.buffer, load.index)
                for line in range(0, lanes * load.dtype.itemsize, _LINE):
                    fn.prefetch(fn.gep("i8", first, str(_DISTANCE + line)))
                fn.branch(done)
                fn.start(done)
