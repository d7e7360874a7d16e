"""Barriers: the places where the threads of a block must wait for one another.

Only shared memory needs it: scratch buffers, and the slots in which the warps of a block exchange what they folded. (A
global buffer is never both loaded and stored by one kernel.) The analysis walks a kernel in program order and keeps
the accesses that other threads may have pending: those since the last barrier. An access that conflicts with a pending
one gets a barrier in front of it. A loop is walked until what flows back from its end changes nothing, so that the
next iteration of a SERIAL or GRID loop does not overwrite what a slow thread still reads; no barrier stands where none
is needed, in particular none where a thread reads back only what it stored itself.

Accesses inside one LANE loop never conflict with each other: the IR says that only later loops see what it stores. So
a LANE loop is one access to each place that it touches, and no barrier stands inside it, where threads diverge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum

from dyn.schedule.kernel import Expr, Kernel, Load, Loop, Role, Stmt, Store, stmt_exprs, walk_exprs, walk_stmts
from dyn.shapes import Dim, Symbol, free_symbols, linear_in


class Point(Enum):
    """A place in the code of a statement where a barrier may stand."""

    #: In front of it.
    BEFORE = "before"
    #: A SERIAL loop: in front of its folds' values, at the end of the body.
    FOLDS = "folds"
    #: A LANE loop with folds: in front of what the warps put into the slots.
    SLOTS = "slots"


@dataclass(frozen=True, slots=True)
class Access:
    """A touch of the shared memory that ``place`` names (a buffer's or a loop's id).

    ``owner`` is None, or tells which thread touches which element: accesses of one owner never meet another thread's.
    """

    place: int
    stores: bool
    owner: tuple[Dim, Dim] | str | None = None

    def conflicts(self, other: Access) -> bool:
        if self.place != other.place or not (self.stores or other.stores):
            return False
        return self.owner is None or self.owner != other.owner


State = frozenset[Access]
_NOTHING: State = frozenset()


class Barriers:
    """The places of one kernel where a barrier is needed: ``(id(statement), point) in barriers.needed``.

    ``exchanges`` says whether folded values pass through slots at all: they do not where a block is one warp.
    """

    def __init__(self, kernel: Kernel, *, exchanges: bool) -> None:
        self.needed: set[tuple[int, Point]] = set()
        self._scratch = {id(buffer) for buffer in kernel.scratch}
        self._dims = frozenset(kernel.dims)
        self._exchanges = exchanges
        _, body = kernel.grid()
        self._repeat(lambda state: self._block(body, state), _NOTHING)

    def _repeat(self, walk: Callable[[State], State], state: State) -> State:
        """The state after any number of iterations. It only grows, and barriers are only added, so this ends; in the
        last round every conflict has been seen with all that can be pending."""
        while True:
            count = len(self.needed)
            joined = state | walk(state)
            if joined == state and len(self.needed) == count:
                return state
            state = joined

    def _block(self, body: tuple[Stmt, ...], state: State) -> State:
        for stmt in body:
            if isinstance(stmt, Store):
                accesses = [replace(load, owner="first thread") for load in self._loads((stmt.value,), None)]
                if id(stmt.buffer) in self._scratch:
                    accesses.append(Access(id(stmt.buffer), True, "first thread"))
                state = self._touch(state, stmt, Point.BEFORE, accesses)
            elif isinstance(stmt, Loop) and stmt.role is Role.LANE:
                state = self._lane_loop(stmt, state)
            elif isinstance(stmt, Loop):
                state = self._serial_loop(stmt, state)
        return state

    def _serial_loop(self, loop: Loop, state: State) -> State:
        values = self._loads(stmt_exprs(loop), None)

        def walk(state: State) -> State:
            return self._touch(self._block(loop.body, state), loop, Point.FOLDS, values)

        return self._repeat(walk, state)

    def _lane_loop(self, loop: Loop, state: State) -> State:
        accesses: list[Access] = []
        for stmt in walk_stmts((loop,)):
            accesses += self._loads(stmt_exprs(stmt), loop.var)
            if isinstance(stmt, Store) and id(stmt.buffer) in self._scratch:
                accesses.append(Access(id(stmt.buffer), True, self._owner(stmt.index, loop.var)))
        state = self._touch(state, loop, Point.BEFORE, accesses)
        if loop.folds and self._exchanges:
            self._touch(state, loop, Point.SLOTS, [Access(id(loop), True)])
            return frozenset([Access(id(loop), False)])  # behind the barrier that always stands between the two
        return state

    def _loads(self, roots: tuple[Expr, ...], lane: Symbol | None) -> list[Access]:
        loads = [e for e in walk_exprs(roots) if isinstance(e, Load) and id(e.buffer) in self._scratch]
        return [Access(id(load.buffer), False, self._owner(load.index, lane)) for load in loads]

    def _owner(self, index: Dim, lane: Symbol | None) -> tuple[Dim, Dim] | None:
        """Thread ``i mod block`` alone touches element ``step*i + rest``, if ``rest`` has one value in the kernel."""
        linear = linear_in(index, lane) if lane is not None else None
        if (
            linear is None
            or not isinstance(linear[0], int)
            or linear[0] == 0
            or not free_symbols(linear[1]) <= self._dims
        ):
            return None
        return linear

    def _touch(self, state: State, stmt: Stmt, point: Point, accesses: Iterable[Access]) -> State:
        accesses = frozenset(accesses)
        if any(a.conflicts(p) for a in accesses for p in state):
            self.needed.add((id(stmt), point))
        return accesses if (id(stmt), point) in self.needed else state | accesses
