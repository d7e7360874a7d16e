"""The sweeps of a stitched group over its reduced axes, and what is kept in scratch between them.

A reduction of something that needs no other reduction of the group is folded in sweep 0, one that needs a result of
sweep 0 in sweep 1, and so on; a full-size value that is stored is computed in the first sweep that has all it needs.
What a later sweep needs of an earlier one is computed again where that is cheap, and kept in scratch otherwise.
For softmax: sweep 0 folds the maximum; sweep 1 computes exp(x - max), keeps it and folds the sum; sweep 2 divides.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from dyn.ir.core import Op, Value
from dyn.ir.opdef import OpKind
from dyn.shapes import Dim
from dyn.stitch.access import Views
from dyn.stitch.groups import Group, Plan
from dyn.stitch.relations import GroupAxes, spans_reduced
from dyn.stitch.scalar_work import work

#: What a gathered load weighs more than another one, which weighs 1: a unit of ``Scalar.work``.
_GATHER_WEIGHT = 2
#: From this weight on, what an element costs to compute again outweighs a store and a load of scratch.
_KEEP = 3


@dataclass
class Sweep:
    """Work of one pass over the reduced axes: reductions, values stored or kept, and reductions of columns, whose
    operands are computed in it."""

    reduces: list[Op] = field(default_factory=list[Op])
    columns: list[Op] = field(default_factory=list[Op])
    stored: list[Value] = field(default_factory=list[Value])
    kept: list[Value] = field(default_factory=list[Value])

    def __bool__(self) -> bool:
        return bool(self.reduces or self.stored or self.kept or self.columns)


class Sweeps:
    """Deals the members of a group to sweeps. ``scratch`` says whether there is room to keep rows."""

    def __init__(self, plan: Plan, group: Group, *, scratch: bool) -> None:
        self.plan, self.group = plan, group
        self._folds, self._columns = frozenset(group.reductions), frozenset(group.columns)
        #: The ops that are known before all rows are.
        self._early = [op for op in group.ops if op not in self._columns]
        self.members = {result: op for op in group.ops for result in op.results}
        self.views = Views(plan.producers, lambda v: v in self.members)
        self._full = {result: self._is_full(op) for op in group.ops for result in op.results}
        self._level = self._levels()
        self.sweeps = [Sweep() for _ in range(max(self._level.values(), default=0) + 1)]
        for op in group.reductions:
            self.sweeps[self._level[op.results[0]] - 1].reduces.append(op)
        for value in group.outputs:
            if self._full[value]:
                self.sweeps[self._level[value]].stored.append(value)
        self._deal_columns()
        if scratch:
            self._keep()

    def is_full(self, value: Value) -> bool:
        """Whether a member spans the whole space, not just its kept axes."""
        return self._full[value]

    def is_stretched(self, value: Value) -> bool:
        """Whether a member spans the kept axes and, in place of the reduced ones, axes that stretch these."""
        axes = self.group.reduced
        return (
            not self._full[value]
            and len(value.shape) == len(self.group.space)
            and any(value.shape[a] != 1 for a in axes)
        )

    def stretched(self) -> dict[tuple[Dim, ...], list[Value]]:
        """The outputs that are stretched, by their shapes."""
        found: dict[tuple[Dim, ...], list[Value]] = {}
        for value in self.group.outputs:
            if self.is_stretched(value):
                found.setdefault(value.shape, []).append(value)
        return found

    def _is_full(self, op: Op) -> bool:
        if op.opdef.kind is OpKind.VIEW:  # a view that is stored permutes a full value
            return True
        if op in self._folds or op in self._columns:
            return False
        axes = GroupAxes(self.group.space, self.group.reduced)
        return spans_reduced(self.plan.function.facts, op.results[0].shape, axes)

    def _levels(self) -> dict[Value, int]:
        """The first sweep in which each member is known: for a reduction's result, the one after its own."""
        levels: dict[Value, int] = {}
        for op in self._early:
            level = max((levels.get(self.views.base(v), 0) for v in op.operands), default=0)
            levels |= dict.fromkeys(op.results, level + (op in self._folds))
        return levels

    def _deal_columns(self) -> None:
        """Reductions of columns, each to the last sweep that there is anyway: that one reads most."""
        last = max((number for number, sweep in enumerate(self.sweeps) if sweep), default=0)
        for op in self.group.column_reductions:
            known = max((self._level.get(self.views.base(v), 0) for v in op.operands), default=0)
            self.sweeps[max(known, last)].columns.append(op)

    # What is kept ---------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Keep what a second sweep needs and what is not cheap to compute again."""
        first: dict[Value, int] = {}
        kept: set[Value] = set()
        for number, sweep in enumerate(self.sweeps):
            weights = self._weights(kept)
            folds = (*sweep.reduces, *sweep.columns)
            targets = [*sweep.stored, *(self.views.base(v) for op in folds for v in op.operands)]
            dear = kept | {v for v in first if weights[v] >= _KEEP}
            for value in self._needed([v for v in targets if self._full.get(v, False)], dear):
                if value not in first:
                    first[value] = number
                elif value in dear and value not in kept:
                    kept.add(value)
                    self.sweeps[first[value]].kept.append(value)

    def _needed(self, targets: list[Value], dear: set[Value]) -> list[Value]:
        """The full-size members that a sweep computes or reads; what ``dear`` ones are made of is not asked for."""
        needed = dict.fromkeys(targets)
        stack = list(reversed(needed))
        while stack:
            value = stack.pop()
            if value in dear:
                continue
            for operand in self.members[value].operands:
                base = self.views.base(operand)
                if self._full.get(base, False) and base not in needed:
                    needed[base] = None
                    stack.append(base)
        return list(needed)

    def _weights(self, kept: set[Value]) -> dict[Value, int]:
        """Cost of an element of each full-size member, computed from memory. What a row has once costs nothing."""
        weights: dict[Value, int] = {}
        for op in self._early:
            own = 0
            for base in dict.fromkeys(self.views.base(v) for v in op.operands):
                if base in kept:
                    own += 1
                elif base in self.members:
                    own += weights[base]
                elif base.shape and base in self.plan.stored:
                    own += 1
            if op in self.group.inner:
                own = 2 * _KEEP
            elif op.opdef.kind is OpKind.INDEXED:
                own += _GATHER_WEIGHT
            elif op.opdef.kind is OpKind.POINTWISE:
                own += work(op)
            shared = op.opdef.kind is OpKind.VIEW or not self._full[op.results[0]]
            weights |= dict.fromkeys(op.results, 0 if shared else min(own, 2 * _KEEP))
        return weights
