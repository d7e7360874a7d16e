"""Folds across threads: states combined in each thread, by shuffles in each warp, and warp by warp through slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dyn.lower.gpu.barriers import BarrierPoint
from dyn.lower.gpu.memory import SHARED, aligned
from dyn.lower.gpu.scalars import c_type, literal
from dyn.schedule.kernel import Const, Expr, Fold, Loop, Ref, Role
from dyn.schedule.kernel_walks import walk_exprs

if TYPE_CHECKING:
    from dyn.lower.gpu.emit import Emitter


def state_of(em: Emitter, fold: Fold) -> list[str]:
    """The variables of a fold's state."""
    return [em.refs[id(ref)] for ref in fold.refs]


def folded(loop: Loop) -> tuple[Fold, ...]:
    """Folds of the iterations of a loop: the few of an UNROLL loop are a run, whose state is lifted after it."""
    return tuple([fold.leaf for fold in loop.folds]) if loop.role is Role.UNROLL else loop.folds


def lifted(em: Emitter, fold: Fold, state: Sequence[str]) -> list[str]:
    """The fold's state that a run's state, or an element, becomes."""
    block = fold.block
    if block is None:
        return list(state)
    return _evaluated(em, block.lifted, {id(ref): name for ref, name in zip(block.state, state, strict=True)})


def _evaluated(em: Emitter, exprs: tuple[Expr, ...], done: dict[int, str]) -> list[str]:
    """Write expressions as constants, and give their names; ``done`` has those of what is computed, by identity."""
    for expr in walk_exprs(exprs):
        if isinstance(expr, Const):
            done[id(expr)] = literal(expr)
        elif id(expr) not in done:
            done[id(expr)] = em.fresh("m")
            em.line(f"const {c_type(expr.dtype)} {done[id(expr)]} = {em.function(expr, done)};")
    return [done[id(expr)] for expr in exprs]


def combine(em: Emitter, fold: Fold, left: Sequence[str], right: Sequence[str]) -> None:
    """Make a fold's state what two states combine into: one of them may be the state itself."""
    monoid, names = fold.monoid, state_of(em, fold)
    done = {id(ref): name for ref, name in zip((*monoid.left, *monoid.right), (*left, *right), strict=True)}
    if monoid.scalar is not None:
        em.line(f"{names[0]} = {em.function(monoid.result[0], done)};")
        return
    for name, result in zip(names, _evaluated(em, monoid.result, done), strict=True):
        em.line(f"{name} = {result};")


def join_lanes(em: Emitter, loop: Loop) -> None:
    """Combine what the threads folded, so that every thread has the result."""
    if not loop.folds:
        return
    together = em.warp if em.team is None else em.team.width
    with em.braces(f"for (int m = {together // 2}; m > 0; m /= 2)"):
        for fold in loop.folds:
            for ref in fold.refs:
                em.line(f"const {c_type(ref.dtype)} other_{em.refs[id(ref)]} = {_shuffled(em, ref)};")
        for fold in loop.folds:
            combine(em, fold, *_partners(em, fold))
    warps = em.block // em.warp
    if warps == 1 or em.team is not None:
        return
    thread = em.dialect.thread
    slots = [(ref, _slot(em, ref)) for fold in loop.folds for ref in fold.refs]
    em.barrier(loop, BarrierPoint.SLOTS)
    for ref, slot in slots:
        name = em.refs[id(ref)]
        em.line(f"if ({thread} % {em.warp} == 0) {slot}[{thread} / {em.warp}] = {name};")
    em.line(em.dialect.barrier)
    for ref, slot in slots:
        em.line(f"{em.refs[id(ref)]} = {slot}[0];")
    with em.braces(f"for (int w = 1; w < {warps}; ++w)"):
        slot_of = {id(ref): slot for ref, slot in slots}
        for fold in loop.folds:
            for ref in fold.refs:
                em.line(f"const {c_type(ref.dtype)} other_{em.refs[id(ref)]} = {slot_of[id(ref)]}[w];")
            combine(em, fold, state_of(em, fold), [f"other_{name}" for name in state_of(em, fold)])


def _partners(em: Emitter, fold: Fold) -> tuple[list[str], list[str]]:
    """The states of a thread and of its partner, in an order that is the same for both.

    A scalar function gives the same either way; of a tuple, rounding may depend on which comes first.
    """
    own = state_of(em, fold)
    other = [f"other_{name}" for name in own]
    if fold.monoid.scalar is not None:
        return own, other
    left, right = list[str](), list[str]()
    for ref, a, b in zip(fold.refs, own, other, strict=True):
        for names, (first, second) in ((left, (a, b)), (right, (b, a))):
            names.append(em.fresh("h"))
            chosen = f"{em.dialect.thread} & m ? {second} : {first}"
            em.line(f"const {c_type(ref.dtype)} {names[-1]} = {chosen};")
    return left, right


def _shuffled(em: Emitter, ref: Ref) -> str:
    """The partner's value. Vendors exchange words; what is narrower travels in an int."""
    name, dtype = em.refs[id(ref)], ref.dtype
    if dtype.bits >= 32:
        return em.dialect.shuffle.format(value=name, mask="m")
    return f"({c_type(dtype)}){em.dialect.shuffle.format(value=f'(int){name}', mask='m')}"


def _slot(em: Emitter, ref: Ref) -> str:
    """A place for a value of each warp. Each fold has its own, so that folds in a row need no second barrier."""
    of = c_type(ref.dtype)
    offset = f"({SHARED} + {em.slot_bytes})" if em.slot_bytes else SHARED
    name = em.fresh("f")
    em.slots.append(f"{of}* const {name} = ({of}*){offset};")
    size = aligned(em.block // em.warp * ref.dtype.itemsize)
    assert isinstance(size, int)
    em.slot_bytes += size
    return name
