"""Searches: LANE loops that only look for the first place where a condition holds, and stop there.

The place is a fold of minima, over places that increase: ``min(select(condition, place, none))``, as the second sweep
of an argmax is. So the first one that is found is the least, and no later one is looked at. A step of several vectors
has one branch, which asks whether the condition holds anywhere in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dyn import dtypes
from dyn.frozen import record
from dyn.lower.x86.guards import LoopGuard, multiple
from dyn.lower.x86.llvm_text import VType, vtype
from dyn.lower.x86.plan import lane_plan
from dyn.lower.x86.scopes import Lanes
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import Apply, Const, Expr, Index, Loop, Ref, scalar_fold
from dyn.shapes import Dim, linear_in

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

I64 = vtype("i64")


@record(eq=False)
class Search:
    """The search for the first iteration at which ``condition`` holds, whose place is ``step`` times its number more
    than ``first``; where there is none the place is ``none``."""

    condition: Expr
    first: Dim
    step: int
    none: Const


def search_of(loop: Loop) -> Search | None:
    """The search that is all that a loop does; None where it does anything else.

    Places are in int64, which holds every index: in a narrower one they might not increase.
    """
    if len(loop.folds) != 1 or loop.body or loop.carries or loop.start != 0:
        return None
    (fold,) = loop.folds
    if fold.monoid.scalar is not Scalar.MIN or fold.refs[0].dtype is not dtypes.int64:
        return None
    match fold.values:
        case (Apply(Scalar.SELECT, (condition, Index(_, place), Const() as none)),):
            linear = linear_in(place, loop.var)
            if linear is None or not isinstance(linear[0], int) or linear[0] <= 0:
                return None
            same = none.value == fold.monoid.init[0].value
            return Search(condition, linear[1], linear[0], none) if same else None
        case _:
            return None


def emit_search(em: KernelEmitter, loop: Loop, search: Search) -> None:
    """Vectors over the loop's iterations until the condition holds."""
    fn, none = em.fn, em.literal(search.none)
    size = em.indices.uniform(loop.extent)
    holds = scalar_fold(Ref("any", dtypes.bool_), Scalar.OR, Const(dtypes.bool_, False), search.condition)
    plan = lane_plan(em, replace(loop, folds=(holds,)))
    width, wide = plan.width, plan.width * plan.unroll
    first = em.dim(search.first)
    with em.scope(guarded=True):
        guard = LoopGuard(em, size.parts[0], [(I64, none)])
        hits: list[_Hit] = []
        begin = "0"
        for step in dict.fromkeys((wide,) if em.machine.avx512 else (wide, width)):
            if not isinstance(loop.extent, int) or loop.extent % wide >= step or loop.extent >= wide:
                stop = multiple(em, size, step)
                lanes = Lanes(loop.var, width, step // width, "")
                hits.append(_section(em, loop, search.condition, lanes, begin, stop))
                begin = stop
        if not isinstance(loop.extent, int) or loop.extent % (wide if em.machine.avx512 else width):
            tail = Lanes(loop.var, width, 1, "", ("",))
            hits.append(_section(em, loop, search.condition, tail, begin, size.parts[0]))
        done, places = fn.label("searched"), [(none, fn.block)]
        fn.branch(done)
        for hit in hits:
            fn.start(hit.label)
            number = fn.op("add nsw", I64, hit.index, _first_lane(em, hit.lanes))
            place = fn.op("mul nsw", I64, number, str(search.step)) if search.step != 1 else number
            places.append((fn.op("add nsw", I64, place, first), fn.block))
            fn.branch(done)
        fn.start(done)
        result = fn.value("phi i64 " + ", ".join([f"[ {place}, %{block} ]" for place, block in places]))
        (result,) = guard.close([result])
    em.bind_ref(loop.folds[0].refs[0], (result,), varying=False)
    em.scopes.clobber()


@record()
class _Hit:
    """A block that is gone to where the condition holds in a step: the step's first iteration, and an integer for each
    vector of it, of a bit a lane."""

    label: str
    index: str
    lanes: tuple[tuple[VType, str], ...]


def _section(em: KernelEmitter, loop: Loop, condition: Expr, shape: Lanes, begin: str, stop: str) -> _Hit:
    """Steps of one shape through ``range(begin, stop)``, left where the condition holds."""
    fn = em.fn
    with em.scope():
        counted = fn.loop(begin, stop, shape.width * shape.unroll, hint="search")
        masks, left = None, ""
        if shape.masks is not None:
            left = fn.op("sub", I64, stop, counted.index)
            masks = (fn.first_lanes(left, shape.width),)
        with em.scope():
            em.bind_lanes(Lanes(loop.var, shape.width, shape.unroll, counted.index, masks, left))
            holds = list(em.vectors(condition))
        truths, bits = vtype("i1", shape.width), vtype(f"i{shape.width}")
        if masks is not None:
            holds = [fn.op("and", truths, holds[0], masks[0])]
        anywhere = holds[0]
        for other in holds[1:]:
            anywhere = fn.op("or", truths, anywhere, other)
        some = fn.op("icmp ne", bits, fn.cast("bitcast", truths, anywhere, bits), "0")
        label, following = fn.label("hit"), fn.label("search")
        fn.branch_if(some, label, following)
        fn.start(following)
        counted.close()
    return _Hit(label, counted.index, tuple([(truths, vector) for vector in holds]))


def _first_lane(em: KernelEmitter, lanes: Sequence[tuple[VType, str]]) -> str:
    """The first lane of some vectors that is true, where one is: an i64."""
    fn, found = em.fn, ""
    for number in reversed(range(len(lanes))):
        truths, vector = lanes[number]
        bits = vtype(f"i{truths.lanes}")
        word = fn.cast("bitcast", truths, vector, bits)
        lane = fn.call("llvm.cttz." + bits.mangled, bits, [(bits, word)], tail="i1 false")
        lane = fn.cast("zext", bits, lane, I64)
        if number:
            lane = fn.op("add nsw", I64, lane, str(number * truths.lanes))
        found = fn.select(fn.op("icmp ne", bits, word, "0"), I64, lane, found) if found else lane
    return found
