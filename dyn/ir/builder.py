"""Making ops: types inferred, demands on the dims recorded, source lines attached."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dyn.errors import ShapeError, UnsupportedOpError
from dyn.ir.core import Attr, Dense, Op, Region, Value, attrs_key
from dyn.ir.effects import has_own_effect
from dyn.ir.external import callees
from dyn.ir.opdef import REGISTRY, OpDef, OpKind
from dyn.ir.types import TensorType
from dyn.shapes import Answer, Dim, Facts, Reason, Relation, RelKind, SymbolSequence, broadcast
from dyn.source import Loc


class Demands:
    """The :class:`~dyn.ir.opdef.TypeContext` of one op: facts grow by what the op demands.

    What it demands of the edges of a region goes to that region: ``regions`` become those that demand it.
    """

    def __init__(self, facts: Facts, opdef: OpDef, loc: Loc, regions: tuple[Region, ...] = ()) -> None:
        self.facts = facts
        self._known = len(facts.relations)
        self.opdef = opdef
        self.loc = loc
        self.regions = regions
        self._inside: dict[int, Demands] = {}

    def inside(self, number: int) -> Demands:
        """The context in which is demanded what has to hold where region ``number`` runs."""
        found = self._inside.get(number)
        if found is None:
            facts = self.facts.within(self.regions[number].demands)
            found = self._inside[number] = type(self)(facts, self.opdef, self.loc)
        return found

    def grown_regions(self) -> tuple[Region, ...]:
        """The regions with what was demanded inside of them."""
        regions = list(self.regions)
        for number, inner in self._inside.items():
            new = inner.facts.relations[inner._known :]
            if new:
                regions[number] = replace(regions[number], demands=(*regions[number].demands, *new))
        return tuple(regions)

    def require(self, kind: RelKind, lhs: Dim, rhs: Dim, text: str | Callable[[], str]) -> None:
        if (kind is RelKind.EQ and lhs is rhs) or self.facts.is_settled(kind, lhs, rhs):
            return
        reason = Reason(text if isinstance(text, str) else text(), self.loc)
        self._demand(Relation(kind, lhs, rhs, reason))

    def require_broadcast(self, size: Dim, wanted: Dim, text: str | Callable[[], str]) -> None:
        if not self.facts.broadcasts_to(size, wanted).proved:
            self.require(RelKind.EQ, size, wanted, text)

    def _demand(self, relation: Relation) -> None:
        self.facts = self.facts.assume(relation)

    def eq(self, lhs: Dim, rhs: Dim) -> Answer:
        return self.facts.eq(lhs, rhs)

    def fail(self, text: str, remedy: str = "") -> Exception:
        return ShapeError(f"{self.opdef.name}: {text}", loc=self.loc, remedy=remedy)

    def unsupported(self, text: str, remedy: str = "") -> Exception:
        return UnsupportedOpError(f"{self.opdef.name}: {text}", loc=self.loc, remedy=remedy)


class Restated(Demands):
    """The :class:`~dyn.ir.opdef.TypeContext` of an op that was made before, over dims equal to those that it has now.

    What it demands was demanded then: a demand that no proof is found for in this form is one more fact, and nothing
    is learned from it.
    """

    def require_broadcast(self, size: Dim, wanted: Dim, text: str | Callable[[], str]) -> None:
        # That is all that held then: a proof of it, or sizes that were equal.
        if not self.facts.broadcasts_to(size, wanted).proved:
            self.require(RelKind.EQ, broadcast(size, wanted), wanted, text)

    def _demand(self, relation: Relation) -> None:
        self.facts = self.facts.restate(relation)


class Builder:
    """Appends ops to a growing program.

    ``facts`` grows with what the ops demand. ``loc`` is given to the ops that are made and may be reassigned.

    That of a region (``inner``) knows what is known around it, whenever that was learned, and what its own ops demand:
    its ``demands``, which hold in the region alone. New dims are taken from ``symbols``, by regions too.
    """

    def __init__(
        self, facts: Facts, loc: Loc, outer: Builder | None = None, symbols: SymbolSequence | None = None
    ) -> None:
        self._facts = facts
        self._outer = outer
        self.symbols = SymbolSequence() if symbols is None else symbols
        #: What was known around it when ``_facts`` was made.
        self._around = facts
        self.demands: tuple[Relation, ...] = ()
        self.loc = loc
        self.ops: list[Op] = []
        #: Whether what it built is finished, so that its values have no place in what is built now.
        self.closed = False
        self._producers: dict[Value, Op] = {}
        #: Whether the region does what has been done around it once more, before it goes on.
        self.repeats = False
        #: The ops around it then, which are in the place of those that compute the same.
        self._shared: dict[object, Op] = {}

    @property
    def facts(self) -> Facts:
        """Facts about the dims here: those of the whole program, and inside of a region its demands."""
        if self._outer is not None and self._outer.facts is not self._around:
            self._around = self._outer.facts
            self._facts = self._around.within(self.demands, self._facts)
        return self._facts

    @facts.setter
    def facts(self, facts: Facts) -> None:
        if self._outer is None:
            self._facts = facts
            return
        self.demands += facts.relations[len(self.facts.relations) :]
        self._facts = facts

    def inner(self) -> Builder:
        """A builder of a region of this program."""
        return Builder(self.facts, self.loc, self, self.symbols)

    def repeat(self) -> None:
        """Have this region do what has been done around it once more: ops that compute the same are those around it.

        Sizes that are measured are measured again: what is found out of them in the region is of no other.
        """
        self.repeats, outer = True, self._outer
        while outer is not None:
            for op in outer.ops:
                if not op.regions and not has_own_effect(op):
                    self._shared.setdefault(_key(op.opdef, op.operands, op.attrs, [v.type for v in op.results]), op)
            outer = outer._outer

    def adopt(self, demands: Sequence[Relation]) -> None:
        """Demand here what a region demands whose ops are written out here."""
        if demands:
            self.facts = self.facts.within(tuple(demands))

    def finished(self) -> tuple[Relation, ...]:
        """Demands of this region, once it is built. What follows from them is kept for who writes the region out."""
        if self._outer is not None and self.demands:
            facts = self.facts
            self._around.keep_within(self.demands, facts)
        return self.demands

    def emit(
        self, opdef: OpDef, operands: Sequence[Value], regions: tuple[Region, ...] = (), **attrs: Attr
    ) -> tuple[Value, ...]:
        """Append an op and give its results."""
        if regions and opdef.kind not in (OpKind.CONTROL, OpKind.CALL):
            self._refuse_calls(opdef, regions)
        known = self.facts
        demands = Demands(known, opdef, self.loc, regions)
        types = opdef.types(demands, tuple([v.type for v in operands]), attrs)
        if demands.facts is not known:
            self.facts = demands.facts
        if self._shared and not regions:
            shared = self._shared.get(_key(opdef, tuple(operands), attrs, types))
            if shared is not None:
                return shared.results
        if regions:
            regions = demands.grown_regions()
            if opdef.kind is not OpKind.CONTROL:  # what is folded or mapped runs wherever the op does
                for region in regions:
                    self.adopt(region.demands)
        return self.append(Op(opdef, tuple(operands), attrs, tuple([Value(t) for t in types]), self.loc, regions))

    def _refuse_calls(self, opdef: OpDef, regions: tuple[Region, ...]) -> None:
        """Raise for a call of something outside in regions that kernels run, maybe many times for an element."""
        for region in regions:
            for callee in callees(region.ops):
                raise UnsupportedOpError(
                    f"{opdef.name}: its function calls {callee.name}, and runs inside a kernel, where nothing outside "
                    "of the program can be called.",
                    loc=self.loc,
                    remedy="make the call before or behind it, or write the loop with dyn.lax.scan or fori_loop.",
                )

    def append(self, op: Op) -> tuple[Value, ...]:
        """Append an op that is made already, whose demands are known, and give its results."""
        self.ops.append(op)
        for result in op.results:
            self._producers[result] = op
        return op.results

    def op(self, name: str, /, *operands: Value, **attrs: Any) -> Value:
        """Append an op by its name and give its only result: how rules make ops of other files."""
        (value,) = self.op_all(name, *operands, **attrs)
        return value

    def op_all(
        self, name: str, /, *operands: Value, regions: tuple[Region, ...] = (), **attrs: Any
    ) -> tuple[Value, ...]:
        """Append an op by its name and give all of its results."""
        opdef = REGISTRY.get(name)
        if opdef is None:
            raise UnsupportedOpError(f"there is no op named {name!r}.", loc=self.loc)
        return self.emit(opdef, operands, regions, **attrs)

    # What rules look at -----------------------------------------------------------------------------------------

    def producer(self, value: Value, opdef: OpDef | None = None) -> Op | None:
        """The op of this program that made a value; only one of ``opdef`` where that is given."""
        op = self._producers.get(value)
        return op if op is not None and (opdef is None or op.opdef is opdef) else None

    def uniform(self, value: Value) -> np.ndarray[Any, Any] | None:
        """The 0-d array that every element of a value is known to be, through any views; None where it is not known."""
        op = self._producers.get(value)
        while op is not None and op.opdef.kind is OpKind.VIEW and len(op.operands) == 1:
            op = self._producers.get(op.operands[0])
        dense = literal(op) if op is not None else None
        return None if dense is None else dense.element


def _key(opdef: OpDef, operands: Sequence[Value], attrs: Mapping[str, Attr], types: Sequence[TensorType]) -> object:
    """Key of ops that compute the same from the same."""
    return opdef, tuple(operands), attrs_key(attrs), tuple(types)


def literal(op: Op) -> Dense | None:
    """The array that an op makes out of nothing, as a constant does."""
    value = op.attrs.get("value")
    return value if op.opdef.kind is OpKind.GENERATE and isinstance(value, Dense) else None


def buffer_of(op: Op) -> Dense | None:
    """The array that an op's result is, where that lies in a buffer before the program runs: a large constant's."""
    dense = literal(op)
    return dense if dense is not None and dense.has_buffer else None
