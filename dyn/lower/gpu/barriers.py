"""Barriers: the places where the threads of a block must wait for one another.

Only memory that several threads touch needs it: scratch buffers, the slots in which the warps of a block exchange what
they folded, and global buffers that are updated, within one GRID iteration. (Another global buffer is never both loaded
and stored by one kernel.) The analysis walks a kernel in program order and keeps
the accesses that other threads may have pending: those since the last barrier. An access that conflicts with a pending
one gets a barrier in front of it. A loop is walked until what flows back from its end changes nothing, so that the
next iteration of a SERIAL or GRID loop does not overwrite what a slow thread still reads; no barrier stands where none
is needed, in particular none where a thread reads back only what it stored itself.

Accesses inside one LANE loop never conflict with each other: the IR says that only later loops see what it stores. So
a LANE loop is one access to each place that it touches, and no barrier stands inside it, where threads diverge.

So it is with TEAM loops, whose iterations are independent. Inside one, a team is looked at by itself, and its lanes
wait for one another alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from enum import Enum

from dyn.frozen import record
from dyn.schedule.kernel import (
    MOST_UNROLLED,
    Buffer,
    Expr,
    Kernel,
    Load,
    Loop,
    Multiply,
    Pack,
    Role,
    Spill,
    Stmt,
    Store,
    Update,
    most_iterations,
)
from dyn.schedule.kernel_walks import staged_packs, stmt_exprs, walk_exprs, walk_stmts
from dyn.shapes import Dim, Symbol, free_symbols, linear_in


class BarrierPoint(Enum):
    """A place in the code of a statement where a barrier may stand."""

    #: In front of it.
    BEFORE = "before"
    #: A SERIAL loop: in front of its folds' values, at the end of the body.
    FOLDS = "folds"
    #: A LANE loop with folds: in front of what the warps put into the slots.
    SLOTS = "slots"


@record()
class SharedAccess:
    """A touch of the shared memory that ``place`` names (a buffer's or a loop's id).

    ``owner`` is None, or tells which thread touches which element: accesses of one owner never meet another thread's.
    """

    place: int
    stores: bool
    owner: tuple[Dim, Dim] | tuple[str, int] | str | None = None

    def conflicts(self, other: SharedAccess) -> bool:
        if self.place != other.place or not (self.stores or other.stores):
            return False
        return self.owner is None or self.owner != other.owner


State = frozenset[SharedAccess]
_NOTHING: State = frozenset()


class Barriers:
    """The places of one kernel where a barrier is needed: ``(id(statement), point) in barriers.needed``.

    ``exchanges`` says whether folded values pass through slots at all: they do not where a block is one warp.
    """

    def __init__(self, kernel: Kernel, *, exchanges: bool) -> None:
        self.needed: set[tuple[int, BarrierPoint]] = set()
        updated = {id(stmt.buffer) for stmt in walk_stmts(kernel.body) if isinstance(stmt, Update)}
        self._scratch = {id(buffer) for buffer in kernel.scratch}
        #: Places that threads may meet at.
        self._places = self._scratch | updated
        self._packed = {id(stmt.buffer) for stmt in walk_stmts(kernel.body) if isinstance(stmt, Pack)}
        #: Symbols that have one value wherever a thread comes back to a place: the kernel's dims, and inside of a TEAM
        #: loop its variable.
        self._dims = frozenset(kernel.dims)
        #: The variables of UNROLL loops, and how many neighbours each goes through at most.
        self._few = {
            stmt.var: most_iterations(stmt.extent) or MOST_UNROLLED
            for stmt in walk_stmts(kernel.body)
            if isinstance(stmt, Loop) and stmt.role is Role.UNROLL
        }
        self._team: Loop | None = None
        self._exchanges = exchanges
        _, body = kernel.grid()
        self._repeat(lambda state: self._iteration(body, state), _NOTHING)

    def _iteration(self, body: tuple[Stmt, ...], state: State) -> State:
        """A GRID iteration: it meets those before it in scratch alone."""
        return frozenset(a for a in self._block(body, state) if a.place not in self._places - self._scratch)

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
            if isinstance(stmt, Store | Update):
                accesses = [replace(load, owner="first thread") for load in self._loads(stmt_exprs(stmt), None)]
                if id(stmt.buffer) in self._places:
                    accesses.append(SharedAccess(id(stmt.buffer), True, "first thread"))
                state = self._touch(state, stmt, BarrierPoint.BEFORE, accesses)
            elif isinstance(stmt, Spill):
                state = self._touch(state, stmt, BarrierPoint.BEFORE, [SharedAccess(id(stmt.buffer), True)])
            elif isinstance(stmt, Multiply):
                loads = [load for load in self._loads((stmt.lhs, stmt.rhs), None) if load.place not in self._packed]
                state = self._touch(state, stmt, BarrierPoint.BEFORE, loads)
            elif isinstance(stmt, Loop) and staged_packs(stmt):
                state = self._staged_loop(stmt)
            elif isinstance(stmt, Loop) and stmt.role is Role.TEAM:
                state = self._team_loop(stmt, state)
            elif isinstance(stmt, Loop) and stmt.role is Role.LANE:
                state = self._lane_loop(stmt, state)
            elif isinstance(stmt, Loop):
                state = self._serial_loop(stmt, state)
        return state

    def _serial_loop(self, loop: Loop, state: State) -> State:
        values = self._loads(stmt_exprs(loop), None)

        def walk(state: State) -> State:
            return self._touch(self._block(loop.body, state), loop, BarrierPoint.FOLDS, values)

        known = set(self.needed)
        alone = self._repeat(walk, _NOTHING)
        if self.needed != known:
            return self._repeat(walk, state)
        after = self._repeat(walk, state)
        if self.needed == known:
            return after
        # Its iterations meet nothing but what came before the loop: one barrier in front of it is enough.
        self.needed = known | {(id(loop), BarrierPoint.BEFORE)}
        return alone

    def _staged_loop(self, loop: Loop) -> State:
        """A loop that stages packs waits at the head of each round, of which there is one at least; what it packs and
        reads by itself is not looked at in it."""
        own = frozenset([SharedAccess(id(pack.buffer), True) for pack in staged_packs(loop)])
        return self._block(loop.body, _NOTHING) | own

    def _team_loop(self, loop: Loop, state: State) -> State:
        accesses = [replace(access, owner=self._team_of(loop)) for access in self._accesses(loop, None)]
        state = self._touch(state, loop, BarrierPoint.BEFORE, accesses)
        dims, self._dims, self._team = self._dims, self._dims | {loop.var}, loop
        self._repeat(lambda own: self._block(loop.body, own), _NOTHING)
        self._dims, self._team = dims, None
        return state

    def _team_of(self, loop: Loop) -> tuple[str, int] | None:
        """One team touches what an iteration touches, whichever GRID iteration it is of: indices say so, if nothing in
        them changes but dims and variables of the loop."""
        known = self._dims | {s.var for s in walk_stmts((loop,)) if isinstance(s, Loop)}
        for stmt in walk_stmts((loop,)):
            dims = [stmt.index] if isinstance(stmt, Store | Update) and id(stmt.buffer) in self._places else []
            dims += [e.index for e in walk_exprs(stmt_exprs(stmt)) if isinstance(e, Load) and self._meets(e.buffer)]
            dims += [stmt.extent] if isinstance(stmt, Loop) and stmt is not loop else []
            if not all(free_symbols(dim) <= known for dim in dims):
                return None
        return "team", id(loop)

    def _meets(self, buffer: Buffer) -> bool:
        return id(buffer) in self._places

    def _accesses(self, loop: Loop, lane: Symbol | None) -> list[SharedAccess]:
        """The accesses of a loop to buffers."""
        accesses: list[SharedAccess] = []
        for stmt in walk_stmts((loop,)):
            accesses += self._loads(stmt_exprs(stmt), lane)
            if isinstance(stmt, Store | Update) and self._meets(stmt.buffer):
                accesses.append(SharedAccess(id(stmt.buffer), True, self._owner(stmt.index, lane)))
        return accesses

    def _lane_loop(self, loop: Loop, state: State) -> State:
        state = self._touch(state, loop, BarrierPoint.BEFORE, self._accesses(loop, loop.var))
        if loop.folds and self._exchanges and self._team is None:
            self._touch(state, loop, BarrierPoint.SLOTS, [SharedAccess(id(loop), True)])
            return frozenset([SharedAccess(id(loop), False)])  # behind the barrier that always stands between the two
        return state

    def _loads(self, roots: tuple[Expr, ...], lane: Symbol | None) -> list[SharedAccess]:
        loads = [e for e in walk_exprs(roots) if isinstance(e, Load) and id(e.buffer) in self._scratch]
        return [SharedAccess(id(load.buffer), False, self._owner(load.index, lane)) for load in loads]

    def _owner(self, index: Dim, lane: Symbol | None) -> tuple[Dim, Dim] | None:
        """Thread ``i mod block`` alone touches elements ``step*i + rest`` and, of an UNROLL loop, the neighbours behind
        it up to the next ``step``, if ``rest`` has one value in the kernel."""
        linear = linear_in(index, lane) if lane is not None else None
        if linear is None or not isinstance(step := linear[0], int) or step == 0:
            return None
        rest = linear[1]
        for neighbour in free_symbols(rest) & self._few.keys():
            along = linear_in(rest, neighbour)
            if along is None or along[0] != 1 or self._few[neighbour] > step:
                return None
            rest = along[1]
        return (step, rest) if free_symbols(rest) <= self._dims else None

    def _touch(self, state: State, stmt: Stmt, point: BarrierPoint, accesses: Iterable[SharedAccess]) -> State:
        accesses = frozenset(accesses)
        if any(a.conflicts(p) for a in accesses for p in state):
            self.needed.add((id(stmt), point))
        return accesses if (id(stmt), point) in self.needed else state | accesses
