"""Cuts a function into groups.

Every op begins as a group of its own, and groups become one where that is possible and saves time
(``dyn.stitch.search``). What is possible is decided from relations between dims, kinds of ops and how their elements
are reached, never from names or from the sizes of a call. The kinds of fusion have a file each:

* ``merging``: what computes values and what reads them at the same places share a loop nest, or are a contraction and
  its epilogue;
* ``beside``: groups that read the same array and do not wait for one another, so that it is read once;
* ``stretched``: what is computed and what reads it where an undecided broadcast may stretch it;
* ``pieces``: a concatenation and what computes pieces of it, and nothing else, cheaply;
* ``nested``: a reduction of few elements and what reads its results, which folds each where it reads it;
* ``prologues``: a contraction and what computes operands of it, and nothing else, cheaply;
* ``recompute``: outputs that each reader had better compute again.

A fusion that would make two groups wait for one another is refused. Groups with effects wait for one another, in
program order, and run as soon as they can.

An op that a library computes is a group of its own, and so is one that measures a dim, for which all wait that have it,
and a loop or a choice, whose regions are cut in turn. A BARRIER is no group: what reads its results reads its operands,
and waits for all of them. VIEW and GENERATE ops, and scalar arithmetic on sizes and constants, belong to no group: each
consumer computes them where it needs them. Large constants lie in memory, as parameters do. A view that a later reshape
needs in memory in its own order is stored by the group that computes what it shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dyn.ir.builder import buffer_of
from dyn.ir.core import Function, Op, Value
from dyn.ir.effects import has_effect
from dyn.ir.opdef import OpKind, Pieces
from dyn.ir.region_passes import region_function
from dyn.stitch.barriers import without_barriers
from dyn.stitch.cost import X86, Savings
from dyn.stitch.drafts import Draft, Drafts, Fusion
from dyn.stitch.fusion import NoFusion
from dyn.stitch.groups import End, Group, GroupKind, Plan
from dyn.stitch.merging import merging
from dyn.stitch.pieces import MOST_PIECES
from dyn.stitch.recompute import recompute_where_read
from dyn.stitch.search import search
from dyn.stitch.spread import left_to_readers


def stitch(function: Function) -> Plan:
    """The plan of a function. Needs refined shapes, no dead code, and results of their own (``own_results``)."""
    return _stitch(Drafts(*without_barriers(function)))


def stitch_known(function: Function, waits: Mapping[Op, Sequence[Value]]) -> Plan:
    """The plan of a function without barriers, whose ops wait for values beside their operands; without those of the
    regions of its loops and choices."""
    return _stitch(Drafts(function, waits), regions=False)


#: The kinds of groups that ops are alone; those of others are loops.
_KINDS = {
    OpKind.REDUCE: GroupKind.STITCH,
    OpKind.CONTRACT: GroupKind.CONTRACT,
    OpKind.WINDOW: GroupKind.WINDOW,
    OpKind.SCATTER: GroupKind.SCATTER,
    OpKind.RUNNING: GroupKind.RUNNING,
}
#: The kinds of ops whose loops go over the elements of their first operand.
_OVER_OPERANDS = (OpKind.REDUCE, OpKind.RUNNING)


def _kind(op: Op) -> GroupKind:
    """The kind of the group that an op is alone."""
    if isinstance(op.opdef.loops, Pieces) and len(op.operands) > MOST_PIECES:
        return GroupKind.JOIN
    return _KINDS.get(op.opdef.kind, GroupKind.LOOP)


#: The kinds of ops that the host program runs itself, or has a library compute.
_WHOLE = {
    OpKind.OPAQUE: GroupKind.LIBRARY,
    OpKind.CONTROL: GroupKind.CONTROL,
    OpKind.DATA_DEPENDENT_SIZE: GroupKind.DATA_DEPENDENT_SIZE,
}


def _stitch(drafts: Drafts, *, regions: bool = True) -> Plan:
    for op in drafts.function.ops:
        if op.opdef.kind in _WHOLE:
            drafts.add(op, _WHOLE[op.opdef.kind], op.results[0].shape if op.results else ())
        elif op.opdef.kind is OpKind.VIEW and op.result in drafts.pinned:
            drafts.add(op, GroupKind.COPY, op.result.shape)
        elif buffer_of(op) is None and (op.results[0] in drafts.pinned or op.results[0] not in drafts.inline):
            space = (op.operands if op.opdef.kind in _OVER_OPERANDS else op.results)[0].shape
            reduced = frozenset[int](op.attrs["axes"]) if op.opdef.kind is OpKind.REDUCE else None
            drafts.add(op, _kind(op), space, reduced)
    return _finish(drafts, search(drafts, X86), regions=regions)


def _finish(drafts: Drafts, savings: Savings, *, regions: bool) -> Plan:
    position = {op: i for i, op in enumerate(drafts.function.ops)}
    stored = {*drafts.function.params, *(op.result for op in drafts.function.ops if buffer_of(op) is not None)}
    finished: dict[int, Group] = {}
    place: dict[int, float] = {}
    for draft in drafts.groups.values():
        ops = tuple(sorted(draft.ops, key=lambda op: position[op]))
        outputs = tuple(v for op in ops for v in op.results if v in drafts.shown or _is_stored(drafts, v, draft))
        stored.update(outputs)
        behind = [position[op] + 0.5 for op in _other_readers(drafts, draft, outputs)]
        place[draft.number] = max(position[ops[0]], *behind, 0)
        bodies: tuple[Plan, ...] = ()
        if draft.kind is GroupKind.CONTROL and regions:
            bodies = tuple([stitch(region_function(drafts.function, r)) for op in ops for r in op.regions])
        finished[draft.number] = Group(
            _name(ops), draft.kind, ops, draft.space, draft.reduced or frozenset(), outputs,
            _ends(drafts, savings, draft), bodies, tuple([op for op in ops if op in draft.prologue]),
            inner=tuple([op for op in ops if op in draft.inner]),
            columns=tuple([op for op in ops if op in draft.columns]),
        )  # fmt: skip
    # What has effects comes as early as it can: before memory of the caller's is written, if it may. What makes results
    # comes behind what still reads the arguments that it may write over.
    rank = {n: (not any(has_effect(op) for op in group.ops), place[n]) for n, group in finished.items()}
    order = drafts.order.sorted(lambda number: rank[number])
    groups = tuple(finished[number] for number in order)
    plan = Plan(drafts.function, groups, frozenset(stored), drafts.producers, drafts.waits)
    return recompute_where_read(plan, frozenset([value for value in stored if _is_left(drafts, value)]))


def _other_readers(drafts: Drafts, draft: Draft, outputs: Sequence[Value]) -> list[Op]:
    """Ops of other groups that read arguments which a group updates: whose elements it reads, and whose memory a result
    of it may take."""
    results = [v.type for v in outputs if v in drafts.shown]
    if not results:
        return []
    read = {v for op in draft.ops for v in op.operands}  # as they are, not spread
    updated = [v for v in drafts.function.params if v in read and v.type in results]
    readers = [reader for value in updated for reader in drafts.readers.get(value, ())]
    return [reader for reader in readers if drafts.draft_of[reader] is not draft]


def _ends(drafts: Drafts, savings: Savings, draft: Draft) -> tuple[End, ...]:
    """Why the group does not go on: for each other group that reads of it, with what it costs."""
    others: dict[Draft, Op] = {}
    for reader in dict.fromkeys(r for op in draft.ops for v in op.results for r in drafts.readers.get(v, ())):
        if drafts.draft_of[reader] is not draft:
            others.setdefault(drafts.draft_of[reader], reader)
    ends: dict[str, End] = {}
    for other, reader in others.items():
        verdict = merging(drafts, draft, other)
        words = verdict.words if isinstance(verdict, NoFusion) else "nothing is gained by it"
        op = reader if isinstance(verdict, Fusion) or verdict.op is None else verdict.op
        end = End(op.opdef.name, op.loc, words, savings.arrays(draft, other), savings.describe(draft, other))
        ends.setdefault(str(end), end)
    return tuple(ends.values())


def _is_left(drafts: Drafts, value: Value) -> bool:
    """Whether a value is computed by what reads it, of smaller arrays."""
    draft = drafts.group_of.get(value)
    if draft is None:
        return False
    op = drafts.producers[value]
    # What a loop within the group's loops folds has more axes than the group: it was left when that was decided.
    folded = op in draft.inner and op.opdef.kind is not OpKind.REDUCE
    return folded or left_to_readers(drafts, value)


def _is_stored(drafts: Drafts, value: Value, group: Draft) -> bool:
    return (
        value in drafts.pinned
        or group.kind is GroupKind.LIBRARY
        or any(drafts.draft_of[reader] is not group for reader in drafts.readers.get(value, ()))
    )


def _name(ops: tuple[Op, ...]) -> str:
    """A name for people: its heaviest ops in order."""
    heavy = [op.opdef.name for op in ops if op.opdef.kind in _KINDS]
    light = [op.opdef.name for op in ops if op.opdef.kind in (OpKind.POINTWISE, OpKind.INDEXED)]
    words = list(dict.fromkeys(heavy + light[-2:])) or [op.opdef.name for op in ops] or ["copy"]
    return "_".join(words[:4])
