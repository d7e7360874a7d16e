"""Drafts of groups: which ops each has so far, which groups wait for which, and how two become one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dyn.ir.core import Function, Op, Value
from dyn.ir.data_dependent import bound_dim, mentions
from dyn.ir.effects import has_effect
from dyn.ir.opdef import OpKind
from dyn.shapes import Dim, Facts, Symbol, format_shape, free_symbols
from dyn.stitch.access import Views
from dyn.stitch.groups import GroupKind
from dyn.stitch.inline import inline_values, pinned_views
from dyn.stitch.order import GroupOrder
from dyn.stitch.relations import Extent, GroupAxes, Kept, Same, extent, reading, relation, same_shape

#: A group has at most so many reductions: what each sweep needs of those before it is in part computed again, so code
#: and its work grow with their square.
MOST_REDUCTIONS = 16
#: A group has at most so many ops: LLVM takes memory with the square of a function's length, and what is saved by one
#: array less that is written and read is nothing beside so many ops.
MOST_MEMBERS = 512
#: Groups that others join only as an epilogue, and what that is the epilogue of.
EPILOGUES = {GroupKind.CONTRACT: "contraction", GroupKind.WINDOW: "window"}


class Draft:
    """A group that still grows."""

    def __init__(self, number: int, kind: GroupKind, space: tuple[Dim, ...]) -> None:
        self.number = number
        self.kind = kind
        self.space = space
        self.reduced: frozenset[int] | None = None
        #: Whether there is a reduction whose order counts.
        self.ordered = False
        self.ops: list[Op] = []
        #: Those that compute a contraction's operands.
        self.prologue: set[Op] = set()
        self.reductions = 0
        #: Reasons, in order and once each.
        self.ends: dict[str, None] = {}

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
        self._known_sources: dict[Value, tuple[Value, ...]] = {}
        #: The values that results are, or are views of, with the results' shapes: memory is allocated for these.
        self.shown: dict[Value, list[Dim]] = {}
        for value in function.results:
            self.shown.setdefault(self.views.base(value), []).extend(value.shape)
        #: The groups that find out dims.
        self.measures: dict[Symbol, Draft] = {}

    def new(self, kind: GroupKind, space: tuple[Dim, ...]) -> Draft:
        draft = Draft(len(self.draft_of), kind, space)
        self.groups[draft.number] = draft
        self.order.add(draft.number)
        return draft

    def add(self, draft: Draft, op: Op) -> None:
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
        for measure in self.measures_of(op):
            if measure is not draft:
                self.order.edge(measure.number, draft.number)
        for source in self.op_sources(op):
            self.readers.setdefault(source, []).append(op)
            group = self.group_of.get(source)
            if group is not None and group is not draft:
                self.order.edge(group.number, draft.number)
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

    def aligned(self, op: Op, operand: Value, group: Draft, *, row: bool, reduced: frozenset[int] | None) -> bool:
        """Whether what an op reads of a group, if anything, is read at the op's own index or at its kept axes."""
        if not any(self.group_of.get(source) is group for source in self.sources(operand)):
            return True
        if op.opdef.kind not in (OpKind.POINTWISE, OpKind.REDUCE):
            return False
        base = self.views.base(operand)
        if base is operand and not row and self.same_shape(base.shape, group.space) and base not in self.pinned:
            return True
        axes = GroupAxes(group.space, reduced if reduced is not None else group.axes.reduced)
        rank, read = len(axes.space), reading(self.views, operand)
        # A row has no index of its own on a reduced axis: what it reads there is at some place that it chose.
        index = axes.kept if row and len(operand.shape) == len(axes.kept) else range(rank)
        if self.group_of.get(read.base) is not group or read.base in self.pinned or len(operand.shape) != len(index):
            return False
        full = not row and self.same_shape(read.base.shape, group.space)
        lies = range(rank) if full or len(read.base.shape) == rank else axes.kept
        return isinstance(relation(read, index, lies, rank), Same | Kept)

    def same_shape(self, a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
        return same_shape(self.facts, a, b)

    def is_row(self, shape: tuple[Dim, ...], group: Draft) -> bool:
        """Whether a shape is the group's kept axes, with or without axes of size 1 in place of the reduced ones."""
        return extent(self.facts, shape, group.axes) is Extent.KEPT

    def hands_all_to(self, maker: Draft, ops: Sequence[Op]) -> bool:
        """Whether nothing but some ops, and the group itself, reads what a group computes, and none of it is stored."""
        for made in [result for own in maker.ops for result in own.results]:
            readers = self.readers.get(made, ())
            if made in self.pinned or made in self.shown:
                return False
            if any(reader not in ops and self.draft_of[reader] is not maker for reader in readers):
                return False
        return True

    def merge_behind(self, maker: Draft, draft: Draft, op: Op) -> Draft:
        """Merge what makes operands of an op with the op's group, which it had been said to stay outside of."""
        said = f"{op.opdef.name} at {op.loc} stays outside: "
        maker.ends = {end: None for end in maker.ends if not end.startswith(said)}
        return self.merge(maker, draft)

    def merge_refusal(self, a: Draft, b: Draft) -> str | None:
        if not self.same_shape(a.space, b.space):
            return f"it would join groups over {format_shape(a.space)} and {format_shape(b.space)}"
        if None not in (a.reduced, b.reduced) and a.reduced != b.reduced:
            return "it would join groups that reduce different axes"
        if len(a.ops) + len(b.ops) > MOST_MEMBERS:
            return f"it would join groups that have more than {MOST_MEMBERS} ops together"
        if a.reductions + b.reductions > MOST_REDUCTIONS:
            return f"it would join groups that have more than {MOST_REDUCTIONS} reductions together"
        if a.ordered != b.ordered and (a if a.ordered else b).axes.reduces_last:
            return "it would join what reduces rows in order with what goes along rows"
        kinds = {a.kind, b.kind}
        for kind in kinds & EPILOGUES.keys():
            if len(kinds) == 1:
                return f"a {EPILOGUES[kind]}'s epilogue takes no second {EPILOGUES[kind]}"
            if kinds != {kind, GroupKind.LOOP}:
                other = "window" if GroupKind.WINDOW in kinds - {kind} else "reduction"
                return f"a {EPILOGUES[kind]}'s epilogue takes no {other}"
        if self.order.between(a.number, b.number) or self.order.between(b.number, a.number):
            return "a group between the two waits for one and is waited for by the other"
        small, large = (a, b) if len(a.ops) <= len(b.ops) else (b, a)
        crossing = [(op, large) for op in small.ops]
        for op in small.ops:
            readers = dict.fromkeys(reader for v in op.results for reader in self.readers.get(v, ()))
            crossing += [(reader, small) for reader in readers if self.draft_of[reader] is large]
        for op, read in crossing:
            group = self.draft_of[op]
            row = op.opdef.kind is not OpKind.REDUCE and not self.same_shape(op.results[0].shape, group.space)
            reduced = group.reduced if op.opdef.kind is OpKind.REDUCE else None
            if not all(self.aligned(op, v, read, row=row, reduced=reduced) for v in op.operands):
                return f"{op.opdef.name} at {op.loc} reads one of its operands' groups at other places than its own"
        return None

    def merge(self, a: Draft, b: Draft) -> Draft:
        into, gone = (a, b) if len(a.ops) >= len(b.ops) else (b, a)
        into.ops.extend(gone.ops)
        into.prologue |= gone.prologue
        into.reductions += gone.reductions
        into.ends.update(gone.ends)
        for kind in (GroupKind.STITCH, *EPILOGUES):
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
