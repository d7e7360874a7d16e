"""Cuts a function into groups.

Fusion is decided from relations between dims, the kinds of ops and how their elements are reached, never from names or
sizes. Ops are taken in program order; each joins the groups that make its operands where that is legal and saves
memory traffic, merging them, or starts a group of its own:

* a POINTWISE or INDEXED op joins a group of its own space, when it reads every member of the group at its own index
  (a *full* value) or at the index's kept axes (a *row* value);
* a REDUCE joins a group whose space is its operand's shape, if the group reduces the same axes or none yet;
* reductions of rows in order, which lanes sweep side by side, share a group with what they read and with row values,
  and not with reductions along lanes or with what is computed from their results for a whole row;
* a contraction's group takes behind it what its epilogue can compute: full-size POINTWISE ops; so does that of a WINDOW
  op;
* a scatter is a group by itself, and so are a running reduction and a concatenation of many arrays;
* what computes nothing but pieces of a concatenation of few arrays, cheaply, joins it: a piece is computed where it
  belongs;
* what computes operands of a contraction and nothing else, cheaply, joins it: a prologue;
* a join that would make two groups wait for one another is refused;
* at last, groups of one space that read the same array and do not wait for one another are joined side by side, so
  that the array is read once.

Groups with effects wait for one another, in program order, and run as soon as they can.

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
from dyn.shapes import Dim, format_shape
from dyn.stitch.barriers import without_barriers
from dyn.stitch.drafts import EPILOGUES, MOST_MEMBERS, MOST_REDUCTIONS, Draft, Drafts
from dyn.stitch.groups import Group, GroupKind, Plan
from dyn.stitch.ordered_reductions import is_ordered
from dyn.stitch.pieces import MOST_PIECES, join_pieces
from dyn.stitch.prologues import join_prologues
from dyn.stitch.recompute import recompute_where_read
from dyn.stitch.relations import permutes, reading_of_view
from dyn.stitch.siblings import join_siblings
from dyn.stitch.stretched import join_stretched


def stitch(function: Function) -> Plan:
    """The plan of a function. Needs refined shapes, no dead code, and results of their own (``own_results``)."""
    return _stitch(Drafts(*without_barriers(function)))


def stitch_known(function: Function, waits: Mapping[Op, Sequence[Value]]) -> Plan:
    """The plan of a function without barriers, whose ops wait for values beside their operands; without those of the
    regions of its loops and choices."""
    return _stitch(Drafts(function, waits), regions=False)


#: The kinds of ops that start a group of their own, whatever makes their operands.
_ROOTS = {
    OpKind.CONTRACT: GroupKind.CONTRACT,
    OpKind.WINDOW: GroupKind.WINDOW,
    OpKind.SCATTER: GroupKind.SCATTER,
    OpKind.RUNNING: GroupKind.RUNNING,
}
#: The kinds of ops whose loops go over the elements of their first operand.
_OVER_OPERANDS = (OpKind.REDUCE, OpKind.RUNNING)


def _root_kind(op: Op) -> GroupKind | None:
    """The kind of the group that an op starts, whatever makes its operands; None where it may join those."""
    if isinstance(op.opdef.loops, Pieces) and len(op.operands) > MOST_PIECES:
        return GroupKind.JOIN
    return _ROOTS.get(op.opdef.kind)


#: The kinds of ops that the host program runs itself, or has a library compute.
_WHOLE = {
    OpKind.OPAQUE: GroupKind.LIBRARY,
    OpKind.CONTROL: GroupKind.CONTROL,
    OpKind.DATA_DEPENDENT_SIZE: GroupKind.DATA_DEPENDENT_SIZE,
}
#: The kinds of groups that take nothing else.
_ALONE = (
    GroupKind.COPY,
    GroupKind.LIBRARY,
    GroupKind.SCATTER,
    GroupKind.JOIN,
    GroupKind.RUNNING,
    GroupKind.CONTROL,
    GroupKind.DATA_DEPENDENT_SIZE,
)


def _stitch(drafts: Drafts, *, regions: bool = True) -> Plan:
    for op in drafts.function.ops:
        if op.opdef.kind in _WHOLE:
            drafts.add(drafts.new(_WHOLE[op.opdef.kind], op.results[0].shape if op.results else ()), op)
        elif op.opdef.kind is OpKind.VIEW and op.result in drafts.pinned:
            _place_pinned(drafts, op)
        elif buffer_of(op) is None and (op.results[0] in drafts.pinned or op.results[0] not in drafts.inline):
            _place(drafts, op)
    join_siblings(drafts)
    join_stretched(drafts)
    join_pieces(drafts)
    join_prologues(drafts)
    return _finish(drafts, regions=regions)


def _place(drafts: Drafts, op: Op) -> None:
    space = (op.operands if op.opdef.kind in _OVER_OPERANDS else op.results)[0].shape
    reduced = frozenset[int](op.attrs["axes"]) if op.opdef.kind is OpKind.REDUCE else None
    draft: Draft | None = None
    candidates, late = _candidates(drafts, op), drafts.waited(op)
    for candidate in candidates:
        others = [c for c in (*candidates, *late) if c.number in drafts.groups and c not in (candidate, draft)]
        reason = _refusal(drafts, op, space, reduced, candidate)
        if reason is None and any(drafts.order.reaches(candidate.number, other.number) for other in others):
            reason = "it also reads what is computed from the group's results elsewhere"
        if reason is None and any(drafts.order.reaches(candidate.number, m.number) for m in drafts.measures_of(op)):
            reason = "its sizes are measured once the group's results are there"
        if reason is None and draft is not None:
            reason = drafts.merge_refusal(draft, candidate)
        if reason is not None:
            candidate.ends[f"{op.opdef.name} at {op.loc} stays outside: {reason}"] = None
        else:
            draft = candidate if draft is None else drafts.merge(draft, candidate)
    if draft is None:
        draft = drafts.new(_root_kind(op) or GroupKind.LOOP, space)
    if reduced is not None:
        draft.reduced = reduced
        draft.kind = GroupKind.STITCH
        draft.ordered = draft.ordered or is_ordered(op, drafts.producers)
    drafts.add(draft, op)


def _candidates(drafts: Drafts, op: Op) -> list[Draft]:
    """The groups that make the op's operands, contractions first: an epilogue saves a whole round trip."""
    if _root_kind(op) is not None:
        return []
    found = dict.fromkeys(drafts.group_of[s] for s in drafts.op_sources(op) if s in drafts.group_of)
    return sorted(found, key=lambda g: (g.kind not in EPILOGUES, -g.number))


def _refusal(
    drafts: Drafts, op: Op, space: tuple[Dim, ...], reduced: frozenset[int] | None, group: Draft
) -> str | None:
    """The reason why ``op`` cannot join ``group``, or None when it can."""
    if group.kind in EPILOGUES and op.opdef.kind is not OpKind.POINTWISE:
        return f"a {EPILOGUES[group.kind]}'s epilogue takes no {op.opdef.kind.value} op"
    if group.kind in _ALONE:
        what = {GroupKind.CONTROL: "loop or a choice", GroupKind.RUNNING: "running reduction"}
        return f"a {what.get(group.kind, group.kind.value)} takes nothing else"
    if len(group.ops) >= MOST_MEMBERS:
        return f"the group has {MOST_MEMBERS} ops, and more would take too long to compile"
    if reduced is not None and group.reductions >= MOST_REDUCTIONS:
        return f"the group has {MOST_REDUCTIONS} reductions, and more would take too long to compile"
    if reduced is not None and group.reduced not in (None, reduced):
        return f"the group reduces axes {sorted(group.reduced or ())}, this op axes {sorted(reduced)}"
    ordered = is_ordered(op, drafts.producers)
    if reduced is not None and group.reduced is not None and group.axes.reduces_last and ordered != group.ordered:
        return "one of the two reduces rows in order, lanes side by side, and the other along lanes"
    row = not drafts.same_shape(space, group.space)
    if not row and reduced is None and group.ordered and group.axes.reduces_last:
        return "the group's lanes lie side by side, each with a row, and this op's along rows"
    if row and (reduced is not None or not drafts.is_row(space, group)):
        return f"its space {format_shape(space)} is not provably the group's {format_shape(group.space)}"
    if not all(drafts.aligned(op, operand, group, row=row, reduced=reduced) for operand in op.operands):
        return "it reads the group's values at other places than its own"
    return None


def _place_pinned(drafts: Drafts, op: Op) -> None:
    """A view that must be stored: by the group that computes what it shows, if it only permutes it."""
    read = reading_of_view(drafts.views, op)
    group = drafts.group_of.get(read.base)
    joins = group is not None and group.kind not in _ALONE and drafts.same_shape(read.base.shape, group.space)
    joins = joins and not drafts.waited(op)
    if group is None or not joins or not permutes(drafts.facts, op.result, read):
        group = drafts.new(GroupKind.COPY, op.result.shape)
    drafts.add(group, op)


def _finish(drafts: Drafts, *, regions: bool) -> Plan:
    position = {op: i for i, op in enumerate(drafts.function.ops)}
    stored = {*drafts.function.params, *(op.result for op in drafts.function.ops if buffer_of(op) is not None)}
    finished: dict[int, Group] = {}
    first: dict[int, int] = {}
    for draft in drafts.groups.values():
        ops = tuple(sorted(draft.ops, key=lambda op: position[op]))
        outputs = tuple(v for op in ops for v in op.results if v in drafts.shown or _is_stored(drafts, v, draft))
        stored.update(outputs)
        first[draft.number] = position[ops[0]]
        bodies: tuple[Plan, ...] = ()
        if draft.kind is GroupKind.CONTROL and regions:
            bodies = tuple([stitch(region_function(drafts.function, r)) for op in ops for r in op.regions])
        finished[draft.number] = Group(
            _name(ops), draft.kind, ops, draft.space, draft.reduced or frozenset(), outputs, tuple(draft.ends),
            bodies, tuple([op for op in ops if op in draft.prologue]),
        )  # fmt: skip
    # What has effects comes as early as it can: before memory of the caller's is written, if it may.
    rank = {n: (not any(has_effect(op) for op in group.ops), first[n]) for n, group in finished.items()}
    order = drafts.order.sorted(lambda number: rank[number])
    groups = tuple(finished[number] for number in order)
    return recompute_where_read(Plan(drafts.function, groups, frozenset(stored), drafts.producers, drafts.waits))


def _is_stored(drafts: Drafts, value: Value, group: Draft) -> bool:
    return (
        value in drafts.pinned
        or group.kind is GroupKind.LIBRARY
        or any(drafts.draft_of[reader] is not group for reader in drafts.readers.get(value, ()))
    )


def _name(ops: tuple[Op, ...]) -> str:
    """A name for people: its heaviest ops in order."""
    heavy = [op.opdef.name for op in ops if op.opdef.kind in (OpKind.REDUCE, *_ROOTS)]
    light = [op.opdef.name for op in ops if op.opdef.kind in (OpKind.POINTWISE, OpKind.INDEXED)]
    words = list(dict.fromkeys(heavy + light[-2:])) or [op.opdef.name for op in ops] or ["copy"]
    return "_".join(words[:4])
