"""The elements of a group's values as kernel expressions.

``Elements.at(value, index)`` follows a value back through the group's own ops, through views, and through the scalar
ops that belong to no group, to loads of stored arrays. Nothing is computed twice for one index.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dyn.errors import IRError
from dyn.ir.core import Op, Value
from dyn.ir.opdef import Elements as ElementLoops
from dyn.ir.opdef import OpKind
from dyn.lower.expressions import ExprBuilder
from dyn.lower.kernel import Buffer, Expr
from dyn.lower.nest import linearize
from dyn.shapes import Dim
from dyn.stitch.groups import Group, Plan

Index = tuple[Dim, ...]


class Elements:
    """Reads and computes elements for one kernel, and collects the buffers it reads."""

    def __init__(self, plan: Plan, group: Group) -> None:
        self.plan = plan
        self.group = group
        self.k = ExprBuilder()
        self.producers = plan.function.producers()
        self.members = {op.result: op for op in group.ops}
        self.inputs: dict[Value, Buffer] = {}
        #: Members that are known otherwise than by computing them: a fold's result, a row kept in scratch.
        self.known: dict[Value, Any] = {}
        self._memo: dict[tuple[Value, Index], Expr] = {}

    def storage(self, value: Value) -> Value | None:
        """The stored value whose memory holds ``value``'s elements in ``value``'s order, if there is one."""
        while value not in self.plan.stored or value in self.members:
            op = self.producers.get(value)
            if value in self.members or op is None or not op.opdef.keeps_order:
                return None
            value = op.operands[0]
        return value

    def at(self, value: Value, index: Index, mask: Expr | None = None, other: Expr | None = None) -> Expr:
        """The element of ``value`` at ``index``; where ``mask`` is false, ``other``, and nothing is read."""
        if mask is not None:
            return self._compute(value, index, mask, other)
        key = (value, index)
        found = self._memo.get(key)
        if found is None:
            found = self._memo[key] = self._compute(value, index, None, None)
        return found

    def _compute(self, value: Value, index: Index, mask: Expr | None, other: Expr | None) -> Expr:
        known = self.known.get(value)
        if known is not None:
            return known(index)
        stored = self.storage(value)
        if stored is not None:
            buffer = self.inputs.get(stored)
            if buffer is None:
                buffer = self.inputs[stored] = Buffer(stored.name or "in", stored.dtype)
            return self.k.load(buffer, linearize(index, value.shape), mask, other)
        op = self.producers.get(value)
        if op is None or not isinstance(op.opdef.loops, ElementLoops):
            raise IRError(f"{value!r} is not reachable from group {self.group.name}")
        return op.opdef.loops.at(self.k, op, index, self._getter(op, mask, other))

    def _getter(self, op: Op, mask: Expr | None, other: Expr | None) -> Any:
        """How an op's rule reads its operands; an outer mask also holds for what the rule reads."""

        def get(i: int, index: Index, inner: Expr | None = None, inner_other: Expr | None = None) -> Expr:
            if mask is None:
                return self.at(op.operands[i], index, inner, inner_other)
            value = op.operands[i]
            fill = self.k.const(value.dtype, 0) if other is None or other.dtype is not value.dtype else other
            if inner is None:
                return self.at(value, index, mask, fill)
            return self.at(value, index, self.k.both(mask, inner), inner_other)

        return get

    def warm(self, ops: Iterable[Op], index: Index) -> None:
        """Compute members in program order, so that a long chain needs no deep recursion."""
        for op in ops:
            if op.opdef.kind in (OpKind.POINTWISE, OpKind.INDEXED) and len(op.result.shape) == len(index):
                self.at(op.result, index)
