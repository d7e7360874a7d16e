"""Is a function well formed? Every op's type is inferred again by its own rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dyn.errors import DynError, IRError
from dyn.ir.core import Function, Op, Region, Value
from dyn.ir.measured import bound_dim, own_mentions
from dyn.ir.printer import print_around, symbol_names
from dyn.ir.types import TensorType, same_type
from dyn.shapes import Answer, Dim, Facts, Reason, Relation, RelKind, Symbol, broadcast

_NO_REASON = Reason("verification", None)


class _Proofs:
    """A type context in which every demand must follow from the function's facts."""

    def __init__(self, facts: Facts, op: Op, names: Mapping[Symbol, str]) -> None:
        self.facts, self.op, self.names = facts, op, names
        self.opdef, self.loc = op.opdef, op.loc
        self.regions = op.regions

    def require(self, kind: RelKind, lhs: Dim, rhs: Dim, text: str | Callable[[], str]) -> None:
        relation = Relation(kind, lhs, rhs, _NO_REASON)
        if not self.facts.ask(relation).proved:
            text = text if isinstance(text, str) else text()
            raise IRError(f"{self.opdef.name}: the facts do not imply that {relation.describe(self.names)} ({text})")

    def require_broadcast(self, size: Dim, wanted: Dim, text: str | Callable[[], str]) -> None:
        if not self.facts.broadcasts_to(size, wanted).proved:
            self.require(RelKind.EQ, broadcast(size, wanted), wanted, text)

    def eq(self, lhs: Dim, rhs: Dim) -> Answer:
        return self.facts.eq(lhs, rhs)

    def fail(self, text: str, remedy: str = "") -> Exception:
        return IRError(f"{self.opdef.name}: {text}")

    unsupported = fail

    def inside(self, number: int) -> _Proofs:
        return _Proofs(self.facts.within(self.regions[number].demands), self.op, self.names)


def verify(function: Function, after: str = "") -> Function:
    """Raise IRError, with the neighbouring lines, where ``function`` breaks an invariant; else return it.

    Checked: each value is defined once and before it is used, and so is each dim that is measured; each op's result
    types are what its rule infers, up to equalities that the facts prove; each demand of each op follows from the
    facts, those of the regions around it too. ``after`` names the pass to blame.
    """
    verifier = _Verifier(function)
    try:
        verifier.function(function)
    except DynError as error:
        when = f" after {after}" if after else ""
        op = verifier.op
        raise IRError(
            f"invalid IR{when}: {error.problem}",
            loc=error.loc if op is None else op.loc,
            notes=("in", *print_around(function, op)),
        ) from error
    return function


class _Verifier:
    def __init__(self, function: Function) -> None:
        self.facts = function.facts
        #: Two dims may have one name; what is said of them is said with the names of the text.
        self.names = symbol_names(function)
        self.defined: set[Value] = set()
        #: The op that is looked at.
        self.op: Op | None = None

    def function(self, function: Function) -> None:
        if len(function.infos) != len(function.params):
            raise IRError(f"{len(function.params)} parameters have {len(function.infos)} descriptions")
        for param, info in zip(function.params, function.infos, strict=True):
            if info.dims is not None and len(info.dims) != param.type.rank:
                raise IRError(f"the parameter {info.name} of {param.type.rank} axes is described with {len(info.dims)}")
        if function.result_names and len(function.result_names) != len(function.results):
            raise IRError(f"{len(function.results)} results have {len(function.result_names)} names")
        visible: set[Value] = set()
        self.define(function.params, visible)
        self.block(function.ops, function.results, visible, frozenset())

    def define(self, values: tuple[Value, ...], visible: set[Value]) -> None:
        for value in values:
            if value in self.defined:
                raise IRError(f"{value!r} is defined twice")
            self.defined.add(value)
            visible.add(value)

    def block(
        self, ops: tuple[Op, ...], results: tuple[Value, ...], visible: set[Value], measured: frozenset[Symbol]
    ) -> None:
        """A scope: ``visible`` and ``measured`` are the values and the measured dims that are known before it."""
        outer = self.op
        for op in ops:
            self.op = op
            bound = bound_dim(op)
            if bound is not None:
                if bound in measured:
                    raise IRError(f"the dim {self.names.get(bound, bound.name)} is measured twice")
                measured |= {bound}
            early = [s for s in own_mentions(op) if s not in measured]
            if early:
                raise IRError(f"{op.opdef.name} has the dim {self.names[early[0]]}, which is not measured yet")
            for operand in op.operands:
                if operand not in visible:
                    raise IRError(f"{op.opdef.name} reads {operand!r}, which is not defined here")
            inferred = self.infer(op)
            if len(inferred) != len(op.results):
                raise IRError(f"{op.opdef.name} gives {len(inferred)} results, not {len(op.results)}")
            for value, expected in zip(op.results, inferred, strict=True):
                if not same_type(value.type, expected, self.facts):
                    given, wanted = value.type.text(self.names), expected.text(self.names)
                    raise IRError(f"{op.opdef.name} gives {wanted}, not {given}")
            for region in op.regions:
                self.region(region, visible, measured)
                self.op = op
            self.define(op.results, visible)
        self.op = outer
        for value in results:
            if value not in visible:
                raise IRError(f"the result {value!r} is not defined")

    def infer(self, op: Op) -> tuple[TensorType, ...]:
        proofs = _Proofs(self.facts, op, self.names)
        try:
            return op.opdef.types(proofs, tuple(v.type for v in op.operands), op.attrs)
        except DynError:
            raise
        except Exception as error:  # what a rule does with operands or attributes that it does not know
            operands = ", ".join(str(v.type) for v in op.operands)
            attrs = ", ".join(sorted(op.attrs)) if op.attrs else "no attributes"
            raise IRError(
                f"{op.opdef.name} has no type for ({operands}) with {attrs}: {type(error).__name__}: {error}"
            ) from error

    def region(self, region: Region, visible: set[Value], measured: frozenset[Symbol]) -> None:
        inner = set(visible)
        self.define(region.params, inner)
        outer, self.facts = self.facts, self.facts.within(region.demands)
        self.block(region.ops, region.results, inner, measured)
        self.facts = outer
