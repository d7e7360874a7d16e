"""Drafts of groups: which ops each has so far, which groups wait for which, and how two become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dyn.frozen import record
from dyn.ir.core import Function, Op, Value
from dyn.ir.data_dependent import bound_dim, mentions
from dyn.ir.effects import has_effect
from dyn.ir.opdef import OpKind
from dyn.shapes import Dim, Facts, Symbol, free_symbols
from dyn.stitch.access import Views
from dyn.stitch.groups import GroupKind
from dyn.stitch.inline import inline_values, pinned_views
from dyn.stitch.order import GroupOrder
from dyn.stitch.ordered_reductions import is_ordered
from dyn.stitch.relations import Extent, GroupAxes, Reading, Shape, extent, reading, same_shape

#: A group has at most so many reductions: what each sweep needs of those before it is in part computed again, so code
#: and its work grow with their square.
MOST_REDUCTIONS = 16
#: A group has at most so many ops: LLVM takes memory with the square of a function's length, and what is saved by one
#: array less that is written and read is nothing beside so many ops.
MOST_MEMBERS = 512


@record()
class Fusion:
    """Form of the group that two become: a group of a kind over a space, some of whose axes it may reduce.

    Of a ``prologue`` the ops of the first one compute operands of the other's contraction; ``inner`` are those that are
    computed for each element of the other, by loops of their own; ``columns`` those that reduce the axes that the
    group's own reductions keep, and what is computed of them.
    """

    kind: GroupKind
    space: Shape
    reduced: frozenset[int] | None = None
    prologue: bool = False
    inner: tuple[Op, ...] = ()
    columns: tuple[Op, ...] = ()


class Draft:
    """A group that still grows."""

    def __init__(self, number: int, kind: GroupKind, space: Shape, reduced: frozenset[int] | None) -> None:
        self.number = number
        self.kind = kind
        self.space = space
        self.reduced = reduced
        #: Whether there is a reduction whose order counts.
        self.ordered = False
        self.ops: list[Op] = []
        #: Those that compute a contraction's operands.
        self.prologue: set[Op] = set()
        #: Those that are computed for each element, by loops of their own.
        self.inner: set[Op] = set()
        #: Those that reduce the axes that the others keep, and what is computed of these.
        self.columns: set[Op] = set()
        self.reductions = 0
        #: What its ops read in memory, or of one another.
        self.sources: set[Value] = set()

    @property
    def axes(self) -> GroupAxes:
        """Its axes so far."""
        return GroupAxes(self.space, self.reduced or frozenset())


class Drafts:
    """The groups of a function while it is cut, and what is known of its values."""

    def __init__(self, function: Function, waits: Mapping[Op, Sequence[Value]]) -> None:
        self.function = function
        #: What has to be there before an op runs, beside its operands.
        self.waits = waits
        self.awaited = frozenset([value for values in waits.values() for value in values])
        self.facts: Facts = function.facts
        self.producers = function.producers()
        self.inline = inline_values(function, self.producers, function.users())
        self.pinned = pinned_views(function, self.producers, self.inline)
        self.views = Views(self.producers, lambda value: value in self.pinned)
        self.order = GroupOrder()
        self.groups: dict[int, Draft] = {}
        self.group_of: dict[Value, Draft] = {}
        self.draft_of: dict[Op, Draft] = {}
        #: The last group so far that has effects.
        self.last_effect: Draft | None = None
        #: The placed ops that read each value, through views and inlined scalars.
        self.readers: dict[Value, list[Op]] = {}
        #: Whether values are known to be spread over more axes than what they are computed of.
        self.known_spread: dict[Value, bool] = {}
        #: The groups that read of each, or that it reads of.
        self.near: dict[int, set[int]] = {}
        self._known_sources: dict[Value, tuple[Value, ...]] = {}
        self._readings: dict[Value, Reading] = {}
        self._same: dict[tuple[Shape, Shape], bool] = {}
        #: The values that results are, or are views of, with the results' shapes: memory is allocated for these.
        self.shown: dict[Value, list[Dim]] = {}
        for value in function.results:
            self.shown.setdefault(self.views.base(value), []).extend(value.shape)
        #: The groups that find out dims.
        self.measures: dict[Symbol, Draft] = {}

    def add(self, op: Op, kind: GroupKind, space: Shape, reduced: frozenset[int] | None = None) -> None:
        """Make an op, one after those that it waits for, a group of its own."""
        draft = Draft(len(self.draft_of), kind, space, reduced)
        draft.ordered = reduced is not None and is_ordered(op, self.producers)
        draft.reductions = int(reduced is not None)
        draft.ops.append(op)
        self.groups[draft.number] = draft
        self.near[draft.number] = set()
        self.order.add(draft.number)
        self.draft_of[op] = draft
        self.group_of.update((result, draft) for result in op.results)
        if has_effect(op):
            if self.last_effect is not None:
                self.order.edge(self.last_effect.number, draft.number)
            self.last_effect = draft
        bound = bound_dim(op)
        if bound is not None:
            self.measures[bound] = draft
        for measure in self.measures_of(op):
            if measure is not draft:
                self.order.edge(measure.number, draft.number)
        for source in self.op_sources(op):
            draft.sources.add(source)
            self.readers.setdefault(source, []).append(op)
            group = self.group_of.get(source)
            if group is not None and group is not draft:
                self.order.edge(group.number, draft.number)
                self.near[group.number].add(draft.number)
                self.near[draft.number].add(group.number)
        for group in self.waited(op):
            if group is not draft:
                self.order.edge(group.number, draft.number)

    def waited(self, op: Op) -> list[Draft]:
        """The groups that an op waits for without reading what they make."""
        sources = dict.fromkeys(source for value in self.waits.get(op, ()) for source in self.sources(value))
        return list(dict.fromkeys(self.group_of[source] for source in sources if source in self.group_of))

    def sources(self, value: Value) -> tuple[Value, ...]:
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

    def op_sources(self, op: Op) -> list[Value]:
        return list(dict.fromkeys(source for v in op.operands for source in self.sources(v)))

    def measures_of(self, op: Op) -> list[Draft]:
        """The groups that find out the dims of an op, those of what it computes itself of its operands, and those of
        the results that show what it computes."""
        if not self.measures:
            return []
        found: dict[Symbol, None] = dict.fromkeys(mentions(op))
        for dim in [dim for result in op.results for dim in self.shown.get(result, ())]:
            found.update(dict.fromkeys(free_symbols(dim)))
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

    def same_shape(self, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
        """Whether two shapes are proved to be the same."""
        if a is b:
            return True
        known = self._same.get((a, b))
        if known is None:
            known = self._same[a, b] = same_shape(self.facts, a, b)
        return known

    def reading(self, operand: Value) -> Reading:
        """The value that an operand shows, and where its axes are read."""
        known = self._readings.get(operand)
        if known is None:
            known = self._readings[operand] = reading(self.views, operand)
        return known

    def is_row(self, op: Op, group: Draft) -> bool:
        """Whether the result of an op is the group's kept axes, with or without axes of size 1 for the reduced ones."""
        return extent(self.facts, op.results[0].shape, group.axes) is Extent.KEPT

    def hands_all_to(self, maker: Draft, ops: Sequence[Op]) -> bool:
        """Whether nothing but some ops, and the group itself, reads what a group computes, and none of it is stored."""
        for made in [result for own in maker.ops for result in own.results]:
            readers = self.readers.get(made, ())
            if made in self.pinned or made in self.shown:
                return False
            if any(reader not in ops and self.draft_of[reader] is not maker for reader in readers):
                return False
        return True

    def reads_of(self, reader: Draft, maker: Draft) -> bool:
        """Whether a group reads what another one makes."""
        return any(self.group_of.get(source) is maker for source in reader.sources)

    def merge(self, a: Draft, b: Draft, fusion: Fusion) -> Draft:
        """Make one group of two that may become one."""
        if fusion.prologue:
            b.prologue.update(a.ops)
        into, gone = (a, b) if len(a.ops) >= len(b.ops) else (b, a)
        into.kind, into.space, into.reduced = fusion.kind, fusion.space, fusion.reduced
        into.ordered = a.ordered or b.ordered
        into.ops.extend(gone.ops)
        into.prologue |= gone.prologue
        into.inner |= gone.inner.union(fusion.inner)
        into.columns |= gone.columns.union(fusion.columns)
        into.reductions += gone.reductions
        into.sources |= gone.sources
        for op in gone.ops:
            self.draft_of[op] = into
            self.group_of.update((result, into) for result in op.results)
        near = (self.near.pop(gone.number) | self.near[into.number]) - {into.number, gone.number}
        for other in near:
            self.near[other].discard(gone.number)
            self.near[other].add(into.number)
        self.near[into.number] = near
        del self.groups[gone.number]
        self.order.merge(into.number, gone.number)
        return into
