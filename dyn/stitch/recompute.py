"""Outputs of groups that their readers compute again, in place of reading them: ``Plan -> Plan``.

A group that computes ``h``, ``1 + tanh(h)`` and ``1 - tanh(h)``, all of which later groups read, stores two arrays: the
third one, and the second, are an addition of ``tanh(h)`` where they are read. Less is written, and no reader reads more
bytes than it did.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind
from dyn.shapes import Dim, free_symbols
from dyn.stitch.access import Views
from dyn.stitch.costs import is_heavy
from dyn.stitch.groups import Group, GroupKind, Plan
from dyn.stitch.relations import Reading, Same, reading, relation, same_shape

#: An element is computed again by so many functions at the most: out of the caches they take less time than its bytes,
#: and in them about as much.
_MOST_OPS = 3
#: The kinds of groups that compute what they read: loops over one space, and epilogues.
_READERS = (GroupKind.LOOP, GroupKind.STITCH, GroupKind.CONTRACT, GroupKind.WINDOW)


def recompute_where_read(plan: Plan) -> Plan:
    """Store no output of a group that each of its readers computes from what lies in memory, by a few cheap functions,
    for no more bytes; and one value in place of several that are cheap to compute from it.

    Needs a finished plan. Leaves results, and what a library, a loop, a contraction or a gather reads, in memory.
    """
    return _Recomputing(plan).run()


class _Recomputing:
    def __init__(self, plan: Plan) -> None:
        self.plan, self.function, self.producers = plan, plan.function, plan.producers
        self.users = plan.function.users()
        self.group_of = {op: group for group in plan.groups for op in group.ops}
        #: The values in memory so far.
        self.stored = set(plan.stored)
        self.views = Views(plan.producers, lambda value: value in plan.stored)
        #: What has to lie in memory whoever reads it.
        self.shown = {self.views.base(value) for value in plan.function.results}
        self.shown |= {value for values in plan.waits.values() for value in values}
        self.arguments = {
            p for p, info in zip(self.function.params, self.function.infos, strict=True) if not info.hidden
        }
        self.reads: dict[Group, set[Value]] = {}

    def run(self) -> Plan:
        groups = [self._with_fewer_outputs(group) for group in self.plan.groups]
        if self.stored == self.plan.stored:
            return self.plan
        return replace(self.plan, groups=tuple(groups), stored=frozenset(self.stored))

    def _with_fewer_outputs(self, group: Group) -> Group:
        """The group without the outputs that its readers compute."""
        ops = [op for op in group.ops if op.opdef.kind is OpKind.POINTWISE]
        self._decide(ops)
        for op in ops:
            # What is dear to compute again is stored itself where several outputs are cheap to compute from it.
            if op.result not in self.stored and is_heavy(op):
                stored, reads = set(self.stored), dict(self.reads)
                self.stored.add(op.result)
                if self._decide(ops) < 2:
                    self.stored, self.reads = stored, reads
        if all(v in self.stored for v in group.outputs):
            return group
        outputs = [v for op in group.ops for v in op.results if v in self.stored]
        views = [v for v in group.outputs if v not in group.members()]
        recomputed = [op for op in ops if op.result in group.outputs and op.result not in self.stored]
        return replace(group, outputs=(*outputs, *views), recomputed=tuple(recomputed))

    def _decide(self, ops: Iterable[Op]) -> int:
        """Leave results of a group's ops unstored where that pays: how many."""
        before = len(self.stored)
        for op in ops:  # each after what it is computed from
            if op.result in self.stored and self._is_recomputed(op):
                self.stored.discard(op.result)
        return before - len(self.stored)

    def _is_recomputed(self, op: Op) -> bool:
        """Whether the result of an op is better computed where it is read."""
        value = op.result
        if value in self.shown or op in self.plan.waits:
            return False
        readers = self._readers(value)
        sources = self._sources(op) if readers else None
        if sources is None or not self._keeps_others(op):
            return False
        if not all(self._pays(value, sources - self._read_by(group)) for group in readers):
            return False
        for group in readers:
            self.reads[group] = (self.reads[group] - {value}) | sources
        return True

    def _keeps_others(self, op: Op) -> bool:
        """Whether the group of an op has other outputs that are stored."""
        members = self.group_of[op].members()
        return any(v is not op.result and v in self.stored for v in members)

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
        if group.kind not in _READERS or user.opdef.kind not in (OpKind.POINTWISE, OpKind.REDUCE):
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
            if one.opdef.kind is not OpKind.POINTWISE or one.regions or is_heavy(one) or ops > _MOST_OPS:
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
        known = self.reads.get(group)
        if known is None:
            known, seen = set[Value](), {v for op in group.ops for v in op.results}
            stack = [v for op in group.ops for v in op.operands]
            while stack:
                value = stack.pop()
                if value in seen:
                    continue
                seen.add(value)
                if value in self.stored:
                    known.add(value)
                elif value in self.producers:
                    stack.extend(self.producers[value].operands)
            self.reads[group] = known
        return known

    def _pays(self, value: Value, sources: Iterable[Value]) -> bool:
        """Whether some arrays may be read in place of a value: those that it is not spread from have no more bytes an
        element. An argument that was not read so late may be given away before."""
        bytes = sum(s.dtype.itemsize for s in sources if not self._is_spread(s.type.size, value.type.size))
        return bytes <= value.dtype.itemsize and self.arguments.isdisjoint(sources)

    def _is_spread(self, small: Dim, size: Dim) -> bool:
        """Whether a size lacks a factor of another one."""
        return free_symbols(small) < free_symbols(size) or (isinstance(small, int) and small == 1)


def _in_order(read: Reading) -> bool:
    """Whether elements are read in the order in which they lie: no axis is stretched, and none out of its turn."""
    axes = [place.axis for place in read.places if not place.single]
    known = [axis for axis in axes if axis is not None]
    return known == axes and known == sorted(set(known)) and not any(place.stretched for place in read.places)
