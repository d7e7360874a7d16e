"""Outputs of groups that their readers compute again, in place of reading them: ``Plan -> Plan``.

A group that computes ``h``, ``1 + tanh(h)`` and ``1 - tanh(h)``, all of which later groups read, stores two arrays: the
third one, and the second, are an addition of ``tanh(h)`` where they are read. Less is written, and no reader reads more
bytes than it did.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from dyn.ir.core import Op, Value
from dyn.ir.effects import has_effect
from dyn.ir.opdef import OpKind
from dyn.shapes import Dim, free_symbols
from dyn.stitch.access import Views
from dyn.stitch.groups import Group, GroupKind, Plan, values_read
from dyn.stitch.relations import AT_RELATED_PLACES, Reading, Same, reading, relation, same_shape
from dyn.stitch.scalar_work import is_heavy

#: An element is computed again by so many functions at the most: out of the caches they take less time than its bytes,
#: and in them about as much.
_MOST_OPS = 3
#: The kinds of groups that compute what they read: loops over one space, and epilogues.
_READERS = (GroupKind.LOOP, GroupKind.STITCH, GroupKind.CONTRACT, GroupKind.WINDOW)


def recompute_where_read(plan: Plan, spread: Collection[Value] = ()) -> Plan:
    """Store no output of a group that each of its readers computes from what lies in memory, by a few cheap functions,
    for no more bytes; and one value in place of several that are cheap to compute from it.

    What is known to be ``spread`` over larger arrays than it is computed of is not stored in any case. Needs a finished
    plan. Leaves results, and what a library, a loop, a contraction or a gather reads, in memory.
    """
    return _Recomputing(plan, spread).run()


class _Recomputing:
    """A plan, and the values that are stored of it so far."""

    def __init__(self, plan: Plan, spread: Collection[Value]) -> None:
        self.plan, self.function, self.producers = plan, plan.function, plan.producers
        self.users = plan.function.users()
        self.group_of = {op: group for group in plan.groups for op in group.ops}
        self._dear: dict[Op, bool] = {}
        self.position = {op: number for number, op in enumerate(plan.function.ops)}
        #: The values in memory so far.
        self.stored = set(plan.stored.difference(spread))
        self.views = Views(plan.producers, lambda value: value in plan.stored)
        #: What has to lie in memory whoever reads it.
        self.shown = {self.views.base(value) for value in plan.function.results}
        self.shown |= {value for values in plan.waits.values() for value in values}
        self.arguments = {
            p for p, info in zip(self.function.params, self.function.infos, strict=True) if not info.hidden
        }
        self.reads: dict[Group, set[Value]] = {}

    def run(self) -> Plan:
        for group in self.plan.groups:
            self._choose_outputs(group)
        if self.stored == self.plan.stored:
            return self.plan
        groups = tuple([group for group in map(self._finished, self.plan.groups) if group.outputs or _acts(group)])
        return replace(self.plan, groups=groups, stored=frozenset(self.stored))

    def _finished(self, group: Group) -> Group:
        """The group with the outputs that were chosen, and with what it computes of others."""
        members = group.members()
        outputs = [v for op in group.ops for v in op.results if v in self.stored]
        views = [v for v in group.outputs if v not in members]
        made_by = [self.producers[v] for v in self._walked(group) - self.stored if v in self.producers]
        again = sorted([op for op in made_by if op in self.group_of], key=self.position.__getitem__)
        return replace(group, outputs=(*outputs, *views), recomputed=tuple(again))

    def _choose_outputs(self, group: Group) -> None:
        """Store no output that its readers had better compute, and what they compute several from."""
        ops = [op for op in group.ops if op.opdef.kind is OpKind.POINTWISE]
        if len(group.outputs) < 2 or not ops:
            return
        self._decide(ops)
        for op in ops:
            # What is dear to compute again is stored itself where several outputs are cheap to compute from it.
            if op.result not in self.stored and self._is_dear(op):
                self.stored.add(op.result)
                left_out, reads = self._decide(ops)
                if len(left_out) < 2:
                    self.stored.update(left_out)
                    self.stored.discard(op.result)
                    self.reads.update(reads)

    def _decide(self, ops: Iterable[Op]) -> tuple[list[Value], dict[Group, set[Value]]]:
        """Leave results of a group's ops unstored where that pays: which, and what readers read before."""
        left_out, before = list[Value](), dict[Group, set[Value]]()
        for op in ops:  # each after what it is computed from
            found = self._read_instead(op) if op.result in self.stored else None
            if found is None:
                continue
            readers, sources = found
            self.stored.discard(op.result)
            left_out.append(op.result)
            for group in readers:
                own = self._read_by(group)
                before.setdefault(group, own)
                self.reads[group] = (own - {op.result}) | sources
        return left_out, before

    def _read_instead(self, op: Op) -> tuple[list[Group], set[Value]] | None:
        """The readers of an op's result that had better compute it, and what they read for it; None where it is better
        stored."""
        value = op.result
        if value in self.shown or op in self.plan.waits:
            return None
        readers = self._readers(value)
        sources = self._sources(op) if readers else None
        if sources is None or not self._keeps_others(op):
            return None
        pays = all(self._pays(value, sources - self._read_by(group)) for group in readers)
        return (readers, sources) if pays else None

    def _is_dear(self, op: Op) -> bool:
        """Whether a pointwise op computes a costly function."""
        known = self._dear.get(op)
        if known is None:
            known = self._dear[op] = is_heavy(op)
        return known

    def _keeps_others(self, op: Op) -> bool:
        """Whether the group of an op has other outputs that are stored."""
        return any(v is not op.result and v in self.stored for one in self.group_of[op].ops for v in one.results)

    def _readers(self, value: Value) -> list[Group]:
        """The other groups that read a value, where each may compute it at the place where it reads it; else none."""
        own, found = self.group_of[self.producers[value]], dict[Group, None]()
        shown = [value]
        while shown:
            of = shown.pop()
            for user in self.users[of]:
                group = self.group_of.get(user)
                if user.opdef.kind is OpKind.VIEW and group is None:
                    shown.append(user.result)
                elif group is None or (group is not own and not self._computes(group, user, of, value)):
                    return []
                elif group is not own:
                    found[group] = None
        return list(found)

    def _computes(self, group: Group, user: Op, operand: Value, value: Value) -> bool:
        """Whether a group reads a value by an op at the index of all of its axes."""
        if group.kind not in _READERS or user.opdef.kind not in AT_RELATED_PLACES:
            return False
        if user in group.prologue:
            return False
        rank = len(group.space)
        if len(operand.shape) != rank or not same_shape(self.function.facts, value.shape, group.space):
            return False
        read = reading(self.views, operand)
        return read.base is value and relation(read, range(rank), range(rank), rank) == Same()

    def _sources(self, op: Op) -> set[Value] | None:
        """The values in memory that the result of an op is computed from; None where that takes too much."""
        found, seen, ops, stack = set[Value](), {op.result}, 0, [op]
        while stack:
            one = stack.pop()
            if one.opdef.kind is OpKind.GENERATE:
                continue
            ops += 1
            if one.opdef.kind is not OpKind.POINTWISE or one.regions or self._is_dear(one) or ops > _MOST_OPS:
                return None
            for operand in one.operands:
                read = reading(self.views, operand)
                if not _in_order(read):
                    return None
                if read.base in self.stored:
                    found.add(read.base)
                elif read.base not in seen:
                    seen.add(read.base)
                    stack.append(self.producers[read.base])
        return found

    def _read_by(self, group: Group) -> set[Value]:
        """The values in memory that a group reads."""
        if group not in self.reads:
            self.reads[group] = self._walked(group) & self.stored
        return self.reads[group]

    def _walked(self, group: Group) -> set[Value]:
        """The values that a group reads, and those that it computes of others from these."""
        return values_read(group, self.producers, self.stored)

    def _pays(self, value: Value, sources: Iterable[Value]) -> bool:
        """Whether some arrays may be read in place of a value: those that it is not spread from have no more bytes an
        element. An argument that was not read so late may be given away before."""
        bytes = sum(s.dtype.itemsize for s in sources if not _is_spread(s.type.size, value.type.size))
        return bytes <= value.dtype.itemsize and self.arguments.isdisjoint(sources)


def _acts(group: Group) -> bool:
    """Whether a group does more than compute its outputs."""
    return group.kind not in (GroupKind.LOOP, GroupKind.STITCH) or any(has_effect(op) for op in group.ops)


def _is_spread(small: Dim, size: Dim) -> bool:
    """Whether a size lacks a factor of another one."""
    return small == 1 or free_symbols(small) < free_symbols(size)


def _in_order(read: Reading) -> bool:
    """Whether elements are read in the order in which they lie: no axis is stretched, and none out of its turn."""
    axes = [place.axis for place in read.places if not place.single]
    known = [axis for axis in axes if axis is not None]
    return known == axes and known == sorted(set(known)) and not any(place.stretched for place in read.places)
