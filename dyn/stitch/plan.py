"""Cuts a function into groups.

Fusion is decided from relations between dims, the kinds of ops and how their elements are reached, never from names or
sizes. Ops are taken in program order; each joins the groups that make its operands where that is legal and saves
memory traffic, merging them, or starts a group of its own:

* a POINTWISE or INDEXED op joins a group of its own space, when it reads every member of the group at its own index
  (a *full* value) or at the index's kept axes (a *row* value);
* a REDUCE joins a group whose space is its operand's shape, if the group reduces the same axes or none yet;
* a contraction's group takes only what its epilogue can compute: full-size POINTWISE ops;
* a join that would make two groups wait for one another is refused.

VIEW and GENERATE ops, and scalar arithmetic on sizes and constants, belong to no group: each consumer computes them
where it needs them. A view that a later reshape needs in memory in its own order is stored by the group that computes
what it shows.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from dyn.ir.core import Function, Op, Value
from dyn.ir.opdef import OpKind
from dyn.shapes import Dim, Facts
from dyn.stitch.access import Views, as_index, axis_symbols, is_permutation, view_index
from dyn.stitch.groups import Group, GroupKind, Plan


def stitch(function: Function) -> Plan:
    """The plan of a function. Needs refined shapes, no dead code, and results of their own (``own_results``)."""
    return _Stitcher(function).run()


class _Draft:
    """A group that still grows."""

    def __init__(self, number: int, kind: GroupKind, space: tuple[Dim, ...]) -> None:
        self.number = number
        self.kind = kind
        self.space = space
        self.reduced: frozenset[int] | None = None
        self.ops: list[Op] = []
        self.ends: list[str] = []
        #: Bit mask of the groups that must run before this one.
        self.before = 0

    @property
    def bit(self) -> int:
        return 1 << self.number

    def kept(self) -> tuple[Dim, ...]:
        return tuple(d for axis, d in enumerate(self.space) if axis not in (self.reduced or ()))


class _Stitcher:
    def __init__(self, function: Function) -> None:
        self.function = function
        self.facts: Facts = function.facts
        self.producers = function.producers()
        self.users = function.users()
        self.inline = self._inline_values()
        self.pinned = self._pinned_views()
        self.views = Views(self.producers, lambda value: value in self.pinned)
        self.numbers = count()
        self.groups: dict[int, _Draft] = {}
        self.group_of: dict[Value, _Draft] = {}

    # What needs no group ----------------------------------------------------------------------------------------

    def _inline_values(self) -> set[Value]:
        """Values that consumers compute themselves: views, constants, iotas, and scalar arithmetic on those."""
        inline: set[Value] = set()
        params = set(self.function.params)
        results = set(self.function.results)
        for op in self.function.ops:
            kind = op.opdef.kind
            scalar = kind is OpKind.POINTWISE and op.result.type.size == 1 and not self._shown(op.result, results)
            if kind in (OpKind.VIEW, OpKind.GENERATE) or (
                scalar and all(self._free(v, inline, params) for v in op.operands)
            ):
                inline.add(op.result)
        return inline

    def _shown(self, value: Value, results: set[Value]) -> bool:
        """Whether a value is a result, or a result is a view of it."""
        stack = [value]
        while stack:
            value = stack.pop()
            if value in results:
                return True
            stack.extend(op.result for op in self.users[value] if op.opdef.kind is OpKind.VIEW)
        return False

    def _free(self, value: Value, inline: set[Value], params: set[Value]) -> bool:
        """Whether a scalar's operand is itself computed from sizes, constants and parameters alone."""
        while value in inline:
            op = self.producers[value]
            if op.opdef.kind is not OpKind.VIEW:
                return True
            value = op.operands[0]
        return value in params

    def _pinned_views(self) -> set[Value]:
        """Views that must lie in memory: a reshape reads them in an order that is not what they show lies in."""
        pinned: set[Value] = set()
        for op in self.function.ops:
            if not op.opdef.keeps_order or self._is_local(op):
                continue
            source = op.operands[0]
            if not self._lies_in_order(source, pinned):
                pinned.add(source)
        for value in self.function.results:
            if not self._lies_in_order(value, pinned):
                pinned.add(value)
        return pinned

    def _is_local(self, op: Op) -> bool:
        """Whether a reshape maps an index without division: it only adds or drops axes of size 1."""
        symbols = axis_symbols(op.result.shape)
        index = view_index(op, as_index(symbols))
        own = as_index(symbols)
        return all(isinstance(d, int) or any(d is i for i in own) for d in index)

    def _lies_in_order(self, value: Value, pinned: set[Value]) -> bool:
        """Whether a value's elements lie in memory in its own order, wherever it is stored."""
        while value not in pinned:
            op = self.producers.get(value)
            if op is None or op.opdef.kind is not OpKind.VIEW:
                return op is None or op.opdef.kind is not OpKind.GENERATE
            if not op.opdef.keeps_order:
                return False
            value = op.operands[0]
        return True

    # Joining ----------------------------------------------------------------------------------------------------

    def run(self) -> Plan:
        for op in self.function.ops:
            if op.result in self.pinned and op.opdef.kind is OpKind.VIEW:
                self._place_pinned(op)
            elif op.result in self.pinned or op.result not in self.inline:
                self._place(op)
        return self._finish()

    def _place(self, op: Op) -> None:
        space = op.operands[0].shape if op.opdef.kind is OpKind.REDUCE else op.result.shape
        reduced = frozenset(op.attrs["axes"]) if op.opdef.kind is OpKind.REDUCE else None
        draft: _Draft | None = None
        candidates = self._candidates(op)
        for candidate in candidates:
            others = [c for c in candidates if c is not candidate and c is not draft]
            reason = self._refusal(op, space, reduced, candidate)
            if reason is None and any(other.before & candidate.bit for other in others):
                reason = "another operand waits for the group's results"
            if reason is None and draft is not None:
                reason = self._merge_refusal(draft, candidate)
            if reason is not None:
                candidate.ends.append(f"{op.opdef.name} at {op.loc} stays outside: {reason}")
            else:
                draft = candidate if draft is None else self._merge(draft, candidate)
        if draft is None:
            draft = self._new(GroupKind.CONTRACT if op.opdef.kind is OpKind.CONTRACT else GroupKind.LOOP, space)
        if reduced is not None:
            draft.reduced = reduced
            draft.kind = GroupKind.STITCH
        self._add(draft, op)

    def _new(self, kind: GroupKind, space: tuple[Dim, ...]) -> _Draft:
        draft = _Draft(next(self.numbers), kind, space)
        self.groups[draft.number] = draft
        return draft

    def _add(self, draft: _Draft, op: Op) -> None:
        draft.ops.append(op)
        self.group_of[op.result] = draft
        before = 0
        for source in self._sources(op.operands):
            group = self.group_of.get(source)
            if group is not None and group is not draft:
                before |= group.bit | group.before
        self._precede(draft, before)

    def _precede(self, draft: _Draft, before: int) -> None:
        """Record that groups run before ``draft`` and so before all that wait for it."""
        draft.before |= before
        for other in self.groups.values():
            if other.before & draft.bit:
                other.before |= before

    def _sources(self, values: Iterable[Value]) -> list[Value]:
        """The computed values and parameters that values are computed from, through views and inlined scalars."""
        found: dict[Value, None] = {}
        stack = list(values)
        while stack:
            value = self.views.base(stack.pop())
            if value in self.inline and value not in self.pinned:
                stack.extend(self.producers[value].operands)
            else:
                found[value] = None
        return list(found)

    def _candidates(self, op: Op) -> list[_Draft]:
        """The groups that make the op's operands, contractions first: an epilogue saves a whole round trip."""
        if op.opdef.kind is OpKind.CONTRACT:
            return []
        found: dict[int, _Draft] = {}
        for source in self._sources(op.operands):
            group = self.group_of.get(source)
            if group is not None:
                found[group.number] = group
        return sorted(found.values(), key=lambda g: (g.kind is not GroupKind.CONTRACT, -g.number))

    def _refusal(self, op: Op, space: tuple[Dim, ...], reduced: frozenset[int] | None, group: _Draft) -> str | None:
        """Why ``op`` cannot join ``group``, or None when it can."""
        if group.kind is GroupKind.CONTRACT and op.opdef.kind is not OpKind.POINTWISE:
            return f"a contraction's epilogue takes no {op.opdef.kind.value} op"
        if group.kind is GroupKind.COPY:
            return "it is a copy"
        if reduced is not None and group.reduced not in (None, reduced):
            return f"the group reduces axes {sorted(group.reduced or ())}, this op axes {sorted(reduced)}"
        row = not self._same_shape(space, group.space)
        if row and (reduced is not None or not self._is_row(space, group)):
            return f"its space {_dims(space)} is not provably the group's {_dims(group.space)}"
        if not all(self._aligned(op, operand, group, row=row, reduced=reduced) for operand in op.operands):
            return "it reads the group's values at other places than its own"
        return None

    def _aligned(self, op: Op, operand: Value, group: _Draft, *, row: bool, reduced: frozenset[int] | None) -> bool:
        """Whether what an op reads of a group, if anything, is read at the op's own index or at its kept axes."""
        if not any(self.group_of.get(source) is group for source in self._sources((operand,))):
            return True
        if op.opdef.kind not in (OpKind.POINTWISE, OpKind.REDUCE):
            return False
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
        return len(at) == len(targets) and all(
            base.shape[i] == 1 or at[i] is own[axis] for i, axis in enumerate(targets)
        )

    def _same_shape(self, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
        return len(a) == len(b) and all(
            x is y or x == y or self.facts.eq(x, y).proved for x, y in zip(a, b, strict=True)
        )

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
            return f"its spaces {_dims(a.space)} and {_dims(b.space)} differ"
        if None not in (a.reduced, b.reduced) and a.reduced != b.reduced:
            return "the two groups reduce different axes"
        kinds = {a.kind, b.kind}
        if GroupKind.CONTRACT in kinds and kinds != {GroupKind.CONTRACT, GroupKind.LOOP}:
            return "a contraction's epilogue takes no reduction and no second contraction"
        if a.kind is b.kind is GroupKind.CONTRACT:
            return "a contraction's epilogue takes no second contraction"
        for first, second in ((a, b), (b, a)):
            between = [g for g in self.groups.values() if g not in (a, b) and second.before & g.bit]
            if any(g.before & first.bit for g in between):
                return "a group between the two waits for one and is waited for by the other"
            for op in second.ops:
                row = op.opdef.kind is not OpKind.REDUCE and not self._same_shape(op.result.shape, second.space)
                reduced = second.reduced if op.opdef.kind is OpKind.REDUCE else None
                if not all(self._aligned(op, v, first, row=row, reduced=reduced) for v in op.operands):
                    return f"{op.opdef.name} at {op.loc} reads one of them at other places than its own"
        return None

    def _merge(self, a: _Draft, b: _Draft) -> _Draft:
        into, gone = (a, b) if a.kind is GroupKind.CONTRACT or b.kind is not GroupKind.CONTRACT else (b, a)
        into.ops.extend(gone.ops)
        into.ends.extend(gone.ends)
        if GroupKind.STITCH in (a.kind, b.kind):
            into.kind = GroupKind.STITCH
        into.reduced = into.reduced if into.reduced is not None else gone.reduced
        for op in gone.ops:
            self.group_of[op.result] = into
        del self.groups[gone.number]
        for other in self.groups.values():
            if other.before & gone.bit:
                other.before = (other.before & ~gone.bit) | into.bit
        before = (into.before | gone.before) & ~into.bit & ~gone.bit
        into.before = before
        self._precede(into, before)
        return into

    # Views that are stored ----------------------------------------------------------------------------

    def _place_pinned(self, op: Op) -> None:
        """A view that must be stored: by the group that computes what it shows, if it only permutes it."""
        symbols = axis_symbols(op.result.shape)
        base, index = self.views.chain(op.operands[0], view_index(op, as_index(symbols)))
        group = self.group_of.get(base)
        full = group is not None and self._same_shape(base.shape, group.space)
        if group is not None and full and is_permutation(index, symbols) and len(index) == len(symbols):
            self._add(group, op)
            return
        self._add(self._new(GroupKind.COPY, op.result.shape), op)

    # The result -------------------------------------------------------------------------------------------------

    def _finish(self) -> Plan:
        reads: dict[Value, set[int]] = {}
        for draft in self.groups.values():
            for op in draft.ops:
                for source in self._sources(op.operands):
                    reads.setdefault(source, set()).add(draft.number)
        results = {self.views.base(value) for value in self.function.results}
        stored = set(self.function.params)
        finished: dict[int, Group] = {}
        position = {op: i for i, op in enumerate(self.function.ops)}
        for draft in self.groups.values():
            ops = tuple(sorted(draft.ops, key=lambda op: position[op]))
            outputs = tuple(
                op.result
                for op in ops
                if op.result in results or op.result in self.pinned or reads.get(op.result, set()) - {draft.number}
            )
            stored.update(outputs)
            finished[draft.number] = Group(
                _name(ops), draft.kind, ops, draft.space, draft.reduced or frozenset(), outputs, tuple(draft.ends)
            )
        order = sorted(self.groups.values(), key=lambda d: (d.before.bit_count(), d.number))
        return Plan(self.function, tuple(finished[d.number] for d in order), frozenset(stored))


def _unit(value: Value, axis: int) -> bool:
    return value.shape[axis] == 1


def _dims(shape: tuple[Dim, ...]) -> str:
    return f"[{', '.join(str(d) for d in shape)}]"


def _name(ops: tuple[Op, ...]) -> str:
    """A name for people: its heaviest ops in order."""
    heavy = [op.opdef.name for op in ops if op.opdef.kind in (OpKind.REDUCE, OpKind.CONTRACT)]
    light = [op.opdef.name for op in ops if op.opdef.kind in (OpKind.POINTWISE, OpKind.INDEXED)]
    words = list(dict.fromkeys(heavy + light[-2:])) or [op.opdef.name for op in ops] or ["copy"]
    return "_".join(words[:4])
