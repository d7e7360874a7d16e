"""Cuts a function into groups.

Fusion is decided from relations between dims, the kinds of ops and how their elements are reached, never from names or
sizes. Ops are taken in program order; each joins the groups that make its operands where that is legal and saves
memory traffic, merging them, or starts a group of its own:

* a POINTWISE or INDEXED op joins a group of its own space, when it reads every member of the group at its own index
  (a *full* value) or at the index's kept axes (a *row* value);
* a REDUCE joins a group whose space is its operand's shape, if the group reduces the same axes or none yet;
* reductions of rows in order, which lanes sweep side by side, share a group with what they read and with row values,
  and not with reductions along lanes or with what is computed from their results for a whole row;
* a contraction's group takes only what its epilogue can compute: full-size POINTWISE ops; so does that of a WINDOW op;
* a scatter is a group by itself, and so are a running reduction and a concatenation of many arrays;
* what computes nothing but pieces of a concatenation of few arrays, cheaply, joins it: a piece is computed where it
  belongs;
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
from dyn.ir.data_dependent import bound_dim, mentions
from dyn.ir.effects import has_effect
from dyn.ir.opdef import OpKind, Pieces
from dyn.ir.region_passes import region_function
from dyn.ops.shape import stretch_factor
from dyn.shapes import Dim, Facts, Symbol, SymExpr, format_shape, product
from dyn.stitch.access import Views, as_index, axis_symbols, permutation, view_index
from dyn.stitch.barriers import without_barriers
from dyn.stitch.costs import is_heavy
from dyn.stitch.groups import Group, GroupKind, Plan
from dyn.stitch.inline import inline_values, pinned_views
from dyn.stitch.order import GroupOrder
from dyn.stitch.ordered_reductions import is_ordered

#: Groups that were joined because they read the same array have at most so many ops: registers are few.
_MOST_OPS = 24
#: A group has at most so many reductions: what each sweep needs of those before it is in part computed again, so code
#: and its work grow with their square.
_MOST_REDUCTIONS = 16
#: A group has at most so many ops: LLVM takes memory with the square of a function's length, and what is saved by one
#: array less that is written and read is nothing beside so many ops.
_MOST_MEMBERS = 512
#: Of so many readers of one array siblings are looked for.
_MOST_SIBLINGS = 16


def stitch(function: Function) -> Plan:
    """The plan of a function. Needs refined shapes, no dead code, and results of their own (``own_results``)."""
    return _Stitcher(*without_barriers(function)).run()


def stitch_known(function: Function, waits: Mapping[Op, Sequence[Value]]) -> Plan:
    """The plan of a function without barriers, whose ops wait for values beside their operands; without those of the
    regions of its loops and choices."""
    return _Stitcher(function, waits, regions=False).run()


#: The kinds of ops that start a group of their own, whatever makes their operands.
_ROOTS = {
    OpKind.CONTRACT: GroupKind.CONTRACT,
    OpKind.WINDOW: GroupKind.WINDOW,
    OpKind.SCATTER: GroupKind.SCATTER,
    OpKind.RUNNING: GroupKind.RUNNING,
}
#: Of more arrays that are joined each is copied by a loop of its own; of fewer an element is chosen from among all.
_MOST_PIECES = 16


def _root_kind(op: Op) -> GroupKind | None:
    """The kind of the group that an op starts, whatever makes its operands; None where it may join those."""
    if isinstance(op.opdef.loops, Pieces) and len(op.operands) > _MOST_PIECES:
        return GroupKind.JOIN
    return _ROOTS.get(op.opdef.kind)


#: The kinds of ops that the host program runs itself, or has a library compute.
_WHOLE = {
    OpKind.OPAQUE: GroupKind.LIBRARY,
    OpKind.CONTROL: GroupKind.CONTROL,
    OpKind.DATA_DEPENDENT_SIZE: GroupKind.DATA_DEPENDENT_SIZE,
}
#: Groups that others join only as an epilogue, and what that is the epilogue of.
_EPILOGUES = {GroupKind.CONTRACT: "contraction", GroupKind.WINDOW: "window"}
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


class _Draft:
    """A group that still grows."""

    def __init__(self, number: int, kind: GroupKind, space: tuple[Dim, ...]) -> None:
        self.number = number
        self.kind = kind
        self.space = space
        self.reduced: frozenset[int] | None = None
        #: Whether there is a reduction whose order counts.
        self.ordered = False
        self.ops: list[Op] = []
        self.reductions = 0
        #: Reasons, in order and once each.
        self.ends: dict[str, None] = {}

    def kept(self) -> tuple[Dim, ...]:
        return tuple(d for axis, d in enumerate(self.space) if axis not in (self.reduced or ()))


class _Stitcher:
    def __init__(self, function: Function, waits: Mapping[Op, Sequence[Value]], *, regions: bool = True) -> None:
        self.function, self.regions = function, regions
        #: What has to be there before an op runs, beside its operands.
        self.waits = waits
        self.facts: Facts = function.facts
        self.producers = function.producers()
        self.inline = inline_values(function, self.producers, function.users())
        self.pinned = pinned_views(function, self.producers, self.inline)
        self.views = Views(self.producers, lambda value: value in self.pinned)
        self.order = GroupOrder()
        self.groups: dict[int, _Draft] = {}
        self.group_of: dict[Value, _Draft] = {}
        self.draft_of: dict[Op, _Draft] = {}
        #: The last group so far that has effects.
        self.last_effect: _Draft | None = None
        #: The placed ops that read each value, through views and inlined scalars.
        self.readers: dict[Value, list[Op]] = {}
        self._known_sources: dict[Value, tuple[Value, ...]] = {}
        #: The values that results are, or are views of.
        self.shown = {self.views.base(value) for value in function.results}
        #: The groups that find out dims.
        self.measures: dict[Symbol, _Draft] = {}

    def run(self) -> Plan:
        for op in self.function.ops:
            if op.opdef.kind in _WHOLE:
                self._add(self._new(_WHOLE[op.opdef.kind], op.results[0].shape if op.results else ()), op)
            elif op.opdef.kind is OpKind.VIEW and op.result in self.pinned:
                self._place_pinned(op)
            elif buffer_of(op) is None and (op.results[0] in self.pinned or op.results[0] not in self.inline):
                self._place(op)
        self._join_siblings()
        self._join_stretched()
        self._join_pieces()
        return self._finish()

    # Joining ----------------------------------------------------------------------------------------------------

    def _place(self, op: Op) -> None:
        space = op.operands[0].shape if op.opdef.kind is OpKind.REDUCE else op.results[0].shape
        reduced = frozenset[int](op.attrs["axes"]) if op.opdef.kind is OpKind.REDUCE else None
        draft: _Draft | None = None
        candidates, late = self._candidates(op), self._waited(op)
        for candidate in candidates:
            others = [c for c in (*candidates, *late) if c.number in self.groups and c not in (candidate, draft)]
            reason = self._refusal(op, space, reduced, candidate)
            if reason is None and any(self.order.reaches(candidate.number, other.number) for other in others):
                reason = "it also reads what is computed from the group's results elsewhere"
            if reason is None and any(self.order.reaches(candidate.number, m.number) for m in self._measures(op)):
                reason = "its sizes are measured once the group's results are there"
            if reason is None and draft is not None:
                reason = self._merge_refusal(draft, candidate)
            if reason is not None:
                candidate.ends[f"{op.opdef.name} at {op.loc} stays outside: {reason}"] = None
            else:
                draft = candidate if draft is None else self._merge(draft, candidate)
        if draft is None:
            draft = self._new(_root_kind(op) or GroupKind.LOOP, space)
        if reduced is not None:
            draft.reduced = reduced
            draft.kind = GroupKind.STITCH
            draft.ordered = draft.ordered or is_ordered(op, self.producers)
        self._add(draft, op)

    def _new(self, kind: GroupKind, space: tuple[Dim, ...]) -> _Draft:
        draft = _Draft(len(self.draft_of), kind, space)
        self.groups[draft.number] = draft
        self.order.add(draft.number)
        return draft

    def _add(self, draft: _Draft, op: Op) -> None:
        draft.ops.append(op)
        draft.reductions += op.opdef.kind is OpKind.REDUCE
        self.draft_of[op] = draft
        self.group_of.update((result, draft) for result in op.results)
        if has_effect(op):
            if self.last_effect is not None:
                self.order.edge(self.last_effect.number, draft.number)
            self.last_effect = draft
        bound = bound_dim(op)
        if bound is not None:
            self.measures[bound] = draft
        for measure in self._measures(op):
            if measure is not draft:
                self.order.edge(measure.number, draft.number)
        for source in self._op_sources(op):
            self.readers.setdefault(source, []).append(op)
            group = self.group_of.get(source)
            if group is not None and group is not draft:
                self.order.edge(group.number, draft.number)
        for group in self._waited(op):
            if group is not draft:
                self.order.edge(group.number, draft.number)

    def _waited(self, op: Op) -> list[_Draft]:
        """The groups that an op waits for without reading what they make."""
        sources = dict.fromkeys(source for value in self.waits.get(op, ()) for source in self._sources(value))
        return list(dict.fromkeys(self.group_of[source] for source in sources if source in self.group_of))

    def _sources(self, value: Value) -> tuple[Value, ...]:
        """The computed values and parameters that a value is computed from, through views and inlined scalars."""
        known = self._known_sources.get(value)
        if known is None:
            found: dict[Value, None] = {}
            seen = {value}
            stack = [value]
            while stack:
                base = self.views.base(stack.pop())
                if base in self.inline and base not in self.pinned:
                    fresh = [v for v in self.producers[base].operands if v not in seen]
                    seen.update(fresh)
                    stack.extend(fresh)
                else:
                    found[base] = None
            known = self._known_sources[value] = tuple(found)
        return known

    def _op_sources(self, op: Op) -> list[Value]:
        return list(dict.fromkeys(source for v in op.operands for source in self._sources(v)))

    def _measures(self, op: Op) -> list[_Draft]:
        """The groups that find out the dims of an op, and those of what it computes itself of its operands."""
        if not self.measures:
            return []
        found: dict[Symbol, None] = dict.fromkeys(mentions(op))
        seen = {*op.operands}
        stack = [*op.operands]
        while stack:
            value = stack.pop()
            producer = self.producers.get(value)
            if producer is None or value in self.pinned or not self._is_computed_by_readers(producer):
                continue
            found.update(dict.fromkeys(mentions(producer)))
            fresh = [v for v in producer.operands if v not in seen]
            seen.update(fresh)
            stack.extend(fresh)
        return [self.measures[symbol] for symbol in found if symbol in self.measures]

    def _is_computed_by_readers(self, op: Op) -> bool:
        return op.opdef.kind is OpKind.VIEW or op.results[0] in self.inline

    def _candidates(self, op: Op) -> list[_Draft]:
        """The groups that make the op's operands, contractions first: an epilogue saves a whole round trip."""
        if _root_kind(op) is not None:
            return []
        found = dict.fromkeys(self.group_of[s] for s in self._op_sources(op) if s in self.group_of)
        return sorted(found, key=lambda g: (g.kind not in _EPILOGUES, -g.number))

    def _refusal(self, op: Op, space: tuple[Dim, ...], reduced: frozenset[int] | None, group: _Draft) -> str | None:
        """The reason why ``op`` cannot join ``group``, or None when it can."""
        if group.kind in _EPILOGUES and op.opdef.kind is not OpKind.POINTWISE:
            return f"a {_EPILOGUES[group.kind]}'s epilogue takes no {op.opdef.kind.value} op"
        if group.kind in _ALONE:
            what = {GroupKind.CONTROL: "loop or a choice", GroupKind.RUNNING: "running reduction"}
            return f"a {what.get(group.kind, group.kind.value)} takes nothing else"
        if len(group.ops) >= _MOST_MEMBERS:
            return f"the group has {_MOST_MEMBERS} ops, and more would take too long to compile"
        if reduced is not None and group.reductions >= _MOST_REDUCTIONS:
            return f"the group has {_MOST_REDUCTIONS} reductions, and more would take too long to compile"
        if reduced is not None and group.reduced not in (None, reduced):
            return f"the group reduces axes {sorted(group.reduced or ())}, this op axes {sorted(reduced)}"
        ordered = is_ordered(op, self.producers)
        if reduced is not None and group.reduced is not None and self._by_rows(group) and ordered != group.ordered:
            return "one of the two reduces rows in order, lanes side by side, and the other along lanes"
        row = not self._same_shape(space, group.space)
        if not row and reduced is None and group.ordered and self._by_rows(group):
            return "the group's lanes lie side by side, each with a row, and this op's along rows"
        if row and (reduced is not None or not self._is_row(space, group)):
            return f"its space {format_shape(space)} is not provably the group's {format_shape(group.space)}"
        if not all(self._aligned(op, operand, group, row=row, reduced=reduced) for operand in op.operands):
            return "it reads the group's values at other places than its own"
        return None

    def _aligned(self, op: Op, operand: Value, group: _Draft, *, row: bool, reduced: frozenset[int] | None) -> bool:
        """Whether what an op reads of a group, if anything, is read at the op's own index or at its kept axes."""
        if not any(self.group_of.get(source) is group for source in self._sources(operand)):
            return True
        if op.opdef.kind not in (OpKind.POINTWISE, OpKind.REDUCE):
            return False
        base = self.views.base(operand)
        if base is operand and not row and self._same_shape(base.shape, group.space) and base not in self.pinned:
            return True
        axes = reduced if reduced is not None else group.reduced or frozenset[int]()
        rank = len(group.space)
        kept = [axis for axis in range(rank) if axis not in axes]
        index = as_index(axis_symbols(operand.shape))
        base, at = self.views.chain(operand, index)
        places = kept if row and len(index) == len(kept) else range(rank)
        if self.group_of.get(base) is not group or base in self.pinned or len(index) != len(places):
            return False
        own = dict(zip(places, index, strict=True))
        full = not row and self._same_shape(base.shape, group.space)
        targets = range(rank) if full or len(at) == rank else kept
        # A row has no index of its own on a reduced axis: what it reads there is at some place that it chose.
        return len(at) == len(targets) and all(
            base.shape[i] == 1 or at[i] is own.get(axis) for i, axis in enumerate(targets)
        )

    def _same_shape(self, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
        return len(a) == len(b) and all(
            x is y or x == y or self.facts.eq(x, y).proved for x, y in zip(a, b, strict=True)
        )

    def _by_rows(self, group: _Draft) -> bool:
        """Whether a group reduces the last axis of its space."""
        return len(group.space) - 1 in (group.reduced or ())

    def _is_row(self, shape: tuple[Dim, ...], group: _Draft) -> bool:
        """Whether a shape is the group's kept axes, with or without axes of size 1 in place of the reduced ones."""
        if group.reduced is None:
            return False
        if self._same_shape(shape, group.kept()):
            return True
        ones = tuple(1 if axis in group.reduced else d for axis, d in enumerate(group.space))
        return self._same_shape(shape, ones)

    # Merging ----------------------------------------------------------------------------------------------------

    def _merge_refusal(self, a: _Draft, b: _Draft) -> str | None:
        if not self._same_shape(a.space, b.space):
            return f"it would join groups over {format_shape(a.space)} and {format_shape(b.space)}"
        if None not in (a.reduced, b.reduced) and a.reduced != b.reduced:
            return "it would join groups that reduce different axes"
        if len(a.ops) + len(b.ops) > _MOST_MEMBERS:
            return f"it would join groups that have more than {_MOST_MEMBERS} ops together"
        if a.reductions + b.reductions > _MOST_REDUCTIONS:
            return f"it would join groups that have more than {_MOST_REDUCTIONS} reductions together"
        if a.ordered != b.ordered and self._by_rows(a if a.ordered else b):
            return "it would join what reduces rows in order with what goes along rows"
        kinds = {a.kind, b.kind}
        for kind in kinds & _EPILOGUES.keys():
            if len(kinds) == 1:
                return f"a {_EPILOGUES[kind]}'s epilogue takes no second {_EPILOGUES[kind]}"
            if kinds != {kind, GroupKind.LOOP}:
                other = "window" if GroupKind.WINDOW in kinds - {kind} else "reduction"
                return f"a {_EPILOGUES[kind]}'s epilogue takes no {other}"
        if self.order.between(a.number, b.number) or self.order.between(b.number, a.number):
            return "a group between the two waits for one and is waited for by the other"
        small, large = (a, b) if len(a.ops) <= len(b.ops) else (b, a)
        crossing = [(op, large) for op in small.ops]
        for op in small.ops:
            readers = dict.fromkeys(reader for v in op.results for reader in self.readers.get(v, ()))
            crossing += [(reader, small) for reader in readers if self.draft_of[reader] is large]
        for op, read in crossing:
            group = self.draft_of[op]
            row = op.opdef.kind is not OpKind.REDUCE and not self._same_shape(op.results[0].shape, group.space)
            reduced = group.reduced if op.opdef.kind is OpKind.REDUCE else None
            if not all(self._aligned(op, v, read, row=row, reduced=reduced) for v in op.operands):
                return f"{op.opdef.name} at {op.loc} reads one of its operands' groups at other places than its own"
        return None

    def _merge(self, a: _Draft, b: _Draft) -> _Draft:
        into, gone = (a, b) if len(a.ops) >= len(b.ops) else (b, a)
        into.ops.extend(gone.ops)
        into.reductions += gone.reductions
        into.ends.update(gone.ends)
        for kind in (GroupKind.STITCH, *_EPILOGUES):
            if kind in (a.kind, b.kind):
                into.kind = kind
        into.ordered = a.ordered or b.ordered
        into.reduced = into.reduced if into.reduced is not None else gone.reduced
        for op in gone.ops:
            self.draft_of[op] = into
            self.group_of.update((result, into) for result in op.results)
        del self.groups[gone.number]
        self.order.merge(into.number, gone.number)
        return into

    # Side by side -----------------------------------------------------------------------------------------------

    def _join_siblings(self) -> None:
        """Join groups that read an array of their whole space: it is then read once (horizontal fusion)."""
        for source, readers in self.readers.items():
            if len(readers) == 1 or source.type.size == 1:
                continue
            numbers = dict.fromkeys(self.draft_of[reader].number for reader in readers)
            siblings = [self.groups[n] for n in numbers if self._may_have_sibling(self.groups[n], source)]
            joined: list[_Draft] = []
            for draft in siblings[:_MOST_SIBLINGS]:
                partner = next((other for other in joined if self._are_siblings(other, draft)), None)
                if partner is None:
                    joined.append(draft)
                else:
                    joined[joined.index(partner)] = self._merge(partner, draft)

    def _may_have_sibling(self, draft: _Draft, source: Value) -> bool:
        """Whether a group reads ``source`` element by element, and writes in the order in which it reads.

        What is stretched is small, what is gathered or permuted has an order of its own.
        """
        if draft.kind not in (GroupKind.LOOP, GroupKind.STITCH) or len(draft.ops) > _MOST_OPS:
            return False
        if any(op.opdef.kind in (OpKind.INDEXED, OpKind.VIEW) for op in draft.ops):
            return False
        return self.facts.eq(source.type.size, product(draft.space)).proved

    def _are_siblings(self, a: _Draft, b: _Draft) -> bool:
        if len(a.ops) + len(b.ops) > _MOST_OPS:
            return False
        apart = not self.order.reaches(a.number, b.number) and not self.order.reaches(b.number, a.number)
        return apart and self._merge_refusal(a, b) is None

    # Stretched ----------------------------------------------------------------------------------------------

    def _join_stretched(self) -> None:
        """Join what computes an array with what reads it where an undecided broadcast may stretch it.

        Almost always nothing is stretched, and an array less is written and read. Where something is, elements are
        computed once for each that reads them: so they have to be cheap.
        """
        pending = [draft for draft in self.groups.values() if draft.kind is GroupKind.LOOP]
        while pending:
            consumer = pending.pop()
            if consumer.number not in self.groups or consumer.kind is not GroupKind.LOOP:
                continue
            sources = dict.fromkeys(s for op in consumer.ops for s in self._op_sources(op))
            makers = dict.fromkeys(self.group_of[s] for s in sources if s in self.group_of)
            for producer in makers:
                if producer is not consumer and self._is_stretched(producer, consumer):
                    space = producer.space if producer.kind is GroupKind.STITCH else consumer.space
                    joined = self._merge(producer, consumer)
                    joined.space = space
                    pending.append(joined)
                    break

    def _is_stretched(self, producer: _Draft, consumer: _Draft) -> bool:
        """Whether ``consumer`` may compute what it reads of ``producer``, whose space its own may stretch."""
        stitched = producer.kind is GroupKind.STITCH
        if not stitched and producer.kind is not GroupKind.LOOP:
            return False
        if any(op.opdef.kind is not OpKind.POINTWISE for op in consumer.ops):  # before the solver is asked
            return False
        if stitched and (producer.ordered or not self._by_rows(producer)):
            return False
        if not self._may_stretch(producer, consumer.space) or len(producer.ops) + len(consumer.ops) > _MOST_MEMBERS:
            return False
        full = [op for op in producer.ops if op.opdef.kind is not OpKind.REDUCE and not self._is_row_op(op, producer)]
        if any(op.opdef.kind is not OpKind.POINTWISE or is_heavy(op) for op in full):
            return False
        if not stitched and any(
            self._is_read_elsewhere(v, producer, consumer) for op in producer.ops for v in op.results
        ):
            return False
        if self.order.between(producer.number, consumer.number):
            return False
        return all(self._reads_stretched(op, v, producer) for op in consumer.ops for v in op.operands)

    def _may_stretch(self, group: _Draft, space: tuple[Dim, ...]) -> bool:
        """Whether a space is a group's but for axes that an undecided broadcast may stretch: of reductions only those
        that are reduced."""
        if len(space) != len(group.space):
            return False
        apart = [a for a, (s, t) in enumerate(zip(group.space, space, strict=True)) if not self._same_shape((s,), (t,))]
        if not apart or (group.reduced is not None and not group.reduced.issuperset(apart)):
            return False
        return all(
            isinstance(group.space[a], SymExpr) and self.facts.broadcasts_to(group.space[a], space[a]).proved
            for a in apart
        )

    def _is_row_op(self, op: Op, group: _Draft) -> bool:
        return group.reduced is not None and self._is_row(op.results[0].shape, group)

    def _is_read_elsewhere(self, value: Value, producer: _Draft, consumer: _Draft) -> bool:
        """Whether others than two groups need a value in memory."""
        if value in self.pinned or value in self.shown:
            return True
        return any(self.draft_of[reader] not in (producer, consumer) for reader in self.readers.get(value, ()))

    def _reads_stretched(self, op: Op, operand: Value, producer: _Draft) -> bool:
        """Whether what an op reads of a group, if anything, is read at the op's own index, stretched or not."""
        if not any(self.group_of.get(source) is producer for source in self._sources(operand)):
            return True
        own = as_index(axis_symbols(operand.shape))
        base, at = self.views.chain(operand, own)
        if self.group_of.get(base) is not producer or base in self.pinned or len(own) != len(producer.space):
            return False
        axes = range(len(own)) if len(at) == len(own) else self._kept_axes(producer)
        if len(at) != len(axes):
            return False
        return all(
            size == 1 or place is own[axis] or place == own[axis] * stretch_factor(size)
            for axis, place, size in zip(axes, at, base.shape, strict=True)
        )

    def _kept_axes(self, group: _Draft) -> list[int]:
        return [axis for axis in range(len(group.space)) if axis not in (group.reduced or ())]

    # Pieces -------------------------------------------------------------------------------------------------

    def _join_pieces(self) -> None:
        """Join what computes pieces of a concatenation, and nothing else, with it: each piece is computed where it
        belongs, and not copied there."""
        for draft in list(self.groups.values()):
            (op, *others) = draft.ops
            if others or not isinstance(op.opdef.loops, Pieces) or len(op.operands) > _MOST_PIECES:
                continue
            for maker in dict.fromkeys(self.group_of[s] for s in self._op_sources(op) if s in self.group_of):
                if self._is_of_pieces(maker, op, draft):
                    said = f"{op.opdef.name} at {op.loc} stays outside: "
                    maker.ends = {end: None for end in maker.ends if not end.startswith(said)}
                    draft = self._merge(maker, draft)
                    draft.kind, draft.space = GroupKind.JOIN, op.result.shape

    def _is_of_pieces(self, maker: _Draft, op: Op, draft: _Draft) -> bool:
        """Whether a group may be computed piece by piece of a concatenation: what is cheap, and reads no more than
        copies of the pieces would."""
        if maker.kind is not GroupKind.LOOP or len(maker.ops) > _MOST_OPS:
            return False
        if any(o.opdef.kind is not OpKind.POINTWISE or is_heavy(o) for o in maker.ops):
            return False
        for made in (result for o in maker.ops for result in o.results):
            readers = self.readers.get(made, ())
            if (
                made in self.pinned
                or made in self.shown
                or any(self.draft_of[r] not in (maker, draft) for r in readers)
            ):
                return False
        pieces = [piece for piece in op.operands if any(self.group_of.get(s) is maker for s in self._sources(piece))]
        reads = [self._reads_of(piece, maker) for piece in pieces]
        if any(self.group_of.get(piece) is not maker for piece in pieces) or len(set(pieces)) < len(pieces):
            return False
        if sum(map(len, reads)) > len(set[Value]().union(*reads)) + 2 * len(pieces):
            return False
        return not self.order.between(maker.number, draft.number)

    def _reads_of(self, piece: Value, maker: _Draft) -> set[Value]:
        """The arrays that a piece is computed from."""
        found: set[Value] = set()
        seen = {piece}
        stack = [piece]
        while stack:
            for source in self._op_sources(self.producers[stack.pop()]):
                if self.group_of.get(source) is not maker:
                    found.add(source)
                elif source not in seen:
                    seen.add(source)
                    stack.append(source)
        return found

    # Views that are stored ----------------------------------------------------------------------------

    def _place_pinned(self, op: Op) -> None:
        """A view that must be stored: by the group that computes what it shows, if it only permutes it."""
        symbols = axis_symbols(op.result.shape)
        base, index = self.views.chain(op.operands[0], view_index(op, as_index(symbols)))
        group = self.group_of.get(base)
        joins = group is not None and group.kind not in _ALONE and self._same_shape(base.shape, group.space)
        joins = joins and not self._waited(op)
        if group is None or not joins or not self._permutes(base, op.result, permutation(index, symbols)):
            group = self._new(GroupKind.COPY, op.result.shape)
        self._add(group, op)

    def _permutes(self, base: Value, view: Value, places: tuple[int | None, ...] | None) -> bool:
        """Whether a view has each element of its base once, only in another order: a prefix has the same index."""
        if places is None:
            return False
        unused = [d for axis, d in enumerate(view.shape) if axis not in places]
        sizes = tuple(1 if place is None else view.shape[place] for place in places)
        return all(d == 1 for d in unused) and self._same_shape(base.shape, sizes)

    # The result -------------------------------------------------------------------------------------------------

    def _finish(self) -> Plan:
        position = {op: i for i, op in enumerate(self.function.ops)}
        stored = {*self.function.params, *(op.result for op in self.function.ops if buffer_of(op) is not None)}
        finished: dict[int, Group] = {}
        first: dict[int, int] = {}
        for draft in self.groups.values():
            ops = tuple(sorted(draft.ops, key=lambda op: position[op]))
            outputs = tuple(v for op in ops for v in op.results if v in self.shown or self._is_stored(v, draft))
            stored.update(outputs)
            first[draft.number] = position[ops[0]]
            bodies: tuple[Plan, ...] = ()
            if draft.kind is GroupKind.CONTROL and self.regions:
                bodies = tuple([stitch(region_function(self.function, r)) for op in ops for r in op.regions])
            finished[draft.number] = Group(
                _name(ops), draft.kind, ops, draft.space, draft.reduced or frozenset(), outputs, tuple(draft.ends),
                bodies,
            )  # fmt: skip
        # What has effects comes as early as it can: before memory of the caller's is written, if it may.
        rank = {n: (not any(has_effect(op) for op in group.ops), first[n]) for n, group in finished.items()}
        order = self.order.sorted(lambda number: rank[number])
        groups = tuple(finished[number] for number in order)
        return Plan(self.function, groups, frozenset(stored), self.producers, self.waits)

    def _is_stored(self, value: Value, group: _Draft) -> bool:
        return (
            value in self.pinned
            or group.kind is GroupKind.LIBRARY
            or any(self.draft_of[reader] is not group for reader in self.readers.get(value, ()))
        )


def _name(ops: tuple[Op, ...]) -> str:
    """A name for people: its heaviest ops in order."""
    heavy = [op.opdef.name for op in ops if op.opdef.kind in (OpKind.REDUCE, *_ROOTS)]
    light = [op.opdef.name for op in ops if op.opdef.kind in (OpKind.POINTWISE, OpKind.INDEXED)]
    words = list(dict.fromkeys(heavy + light[-2:])) or [op.opdef.name for op in ops] or ["copy"]
    return "_".join(words[:4])
