"""Making ops: types inferred, demands on the dims recorded, source lines attached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dyn.errors import ShapeError, UnsupportedOpError
from dyn.ir.core import Attr, Op, Region, Value
from dyn.ir.opdef import REGISTRY, OpDef
from dyn.shapes import Answer, Dim, Facts, Reason, Relation, RelKind
from dyn.source import Loc


class Demands:
    """The :class:`~dyn.ir.opdef.TypeContext` of one op: facts grow by what the op demands."""

    def __init__(self, facts: Facts, opdef: OpDef, loc: Loc) -> None:
        self.facts = facts
        self.opdef = opdef
        self.loc = loc

    def require(self, kind: RelKind, lhs: Dim, rhs: Dim, text: str) -> None:
        if kind is RelKind.EQ and lhs is rhs:
            return
        self.facts = self.facts.assume(Relation(kind, lhs, rhs, Reason(text, self.loc)))

    def eq(self, lhs: Dim, rhs: Dim) -> Answer:
        return self.facts.eq(lhs, rhs)

    def fail(self, text: str, remedy: str = "") -> Exception:
        return ShapeError(f"{self.opdef.name}: {text}", loc=self.loc, remedy=remedy)


class Builder:
    """Appends ops to a growing program.

    ``facts`` grows with what the ops demand. ``loc`` is given to the ops that are made and may be reassigned.
    """

    def __init__(self, facts: Facts, loc: Loc) -> None:
        self.facts = facts
        self.loc = loc
        self.ops: list[Op] = []

    def emit(
        self, opdef: OpDef, operands: Sequence[Value], regions: tuple[Region, ...] = (), **attrs: Attr
    ) -> tuple[Value, ...]:
        """Append an op and give its results."""
        demands = Demands(self.facts, opdef, self.loc)
        types = opdef.types(demands, tuple(v.type for v in operands), attrs)
        self.facts = demands.facts
        op = Op(opdef, tuple(operands), attrs, tuple(Value(t) for t in types), self.loc, regions)
        self.ops.append(op)
        return op.results

    def op(self, name: str, *operands: Value, **attrs: Any) -> Value:
        """Append an op by its name and give its only result: how rules make ops of other files."""
        opdef = REGISTRY.get(name)
        if opdef is None:
            raise UnsupportedOpError(f"there is no op named {name!r}.", loc=self.loc)
        (value,) = self.emit(opdef, operands, **attrs)
        return value
