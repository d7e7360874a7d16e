"""Is a function well formed? Every op's type is inferred again by its own rule."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from dyn.errors import DynError, IRError
from dyn.ir.core import Function, Op, Region, Value, attrs_key
from dyn.ir.data_dependent import bound_dim, own_mentions
from dyn.ir.printer import print_around, symbol_names
from dyn.ir.types import TensorType, same_type
from dyn.shapes import Answer, Dim, Facts, Reason, Relation, RelKind, Symbol, broadcast

_NO_REASON = Reason("verification", None)

#: The demands of the regions around an op, outermost first.
_Demands = tuple[tuple[Relation, ...], ...]
#: The keys of ops, each with the measured dims that such an op mentions.
_Keys = dict[object, list[Symbol]]


class _Proofs:
    """A type context in which every demand must follow from the facts that hold at an op. ``names`` are those of the
    text, in messages."""

    def __init__(self, facts: Facts, op: Op, names: Callable[[], Mapping[Symbol, str]]) -> None:
        self.facts, self.op, self.names = facts, op, names
        self.opdef, self.loc = op.opdef, op.loc
        self.regions = op.regions

    def require(self, kind: RelKind, lhs: Dim, rhs: Dim, text: str | Callable[[], str]) -> None:
        relation = Relation(kind, lhs, rhs, _NO_REASON)
        if not self.facts.ask(relation).proved:
            text = text if isinstance(text, str) else text()
            raise IRError(f"{self.opdef.name}: the facts do not imply that {relation.describe(self.names())} ({text})")

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
    return Verifier().verify(function, after)


class Verifier:
    """Verifies the forms of a program between passes (:func:`verify`), and infers no op twice from the same premises.

    What a type rule gives depends on the definition, the types of the operands, the attributes, the regions, and what
    the facts prove; whether that is right, on the types of the results. All but the facts is the key of an op that was
    found right: contents, read anew each time, and no identity but that of regions, whose own ops are looked at each
    time. So an op that a pass makes, moves or writes to is inferred again if any of it differs.

    Of the facts a rule takes proofs alone, never that something is unknown or refuted (``TypeContext``). A proof holds
    under all facts that have been told as much and more (``Facts.includes``), and in a region wherever as much is
    demanded: keys are kept by the demands around their ops, and forgotten as soon as facts come that were told less.
    What depends on an op's place, values and measured dims in scope, is checked each time.
    """

    def __init__(self) -> None:
        self._facts: Facts | None = None
        #: By the demands of the regions around them, outermost first, the keys of ops that were found right.
        self._verified: dict[_Demands, _Keys] = {}

    def verify(self, function: Function, after: str = "") -> Function:
        """:func:`verify` a form of the program."""
        if self._facts is None or not function.facts.includes(self._facts):
            self._verified.clear()
        self._facts = function.facts
        verification = _Verification(function, self._verified)
        try:
            verification.function(function)
        except DynError as error:
            when = f" after {after}" if after else ""
            op = verification.op
            raise IRError(
                f"invalid IR{when}: {error.problem}",
                loc=error.loc if op is None else op.loc,
                notes=("in", *print_around(function, op)),
            ) from error
        return function


def _key(op: Op) -> object:
    """Everything beside the facts that the types of an op follow from, and the types that it has."""
    operands, results = tuple([v.type for v in op.operands]), tuple([v.type for v in op.results])
    return op.opdef, operands, results, attrs_key(op.attrs) if op.attrs else (), op.regions


class _Verification:
    """One walk through a function. ``verified`` is what earlier ones found right (``Verifier``)."""

    def __init__(self, function: Function, verified: dict[_Demands, _Keys]) -> None:
        self.facts = function.facts
        #: Two dims may have one name; what is said of them is said with the names of the text.
        self.names = functools.cache(lambda: symbol_names(function))
        self.defined: set[Value] = set()
        #: The op that is looked at.
        self.op: Op | None = None
        self.verified = verified
        #: What the regions around it demand.
        self.demands: _Demands = ()
        #: The keys that were found right under some of these demands.
        self.known: tuple[_Keys, ...] = (verified.setdefault((), {}),)

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
                    raise IRError(f"the dim {self.names().get(bound, bound.name)} is measured twice")
                measured |= {bound}
            key = _key(op)
            found = next((keys[key] for keys in self.known if key in keys), None)
            mentioned = own_mentions(op) if found is None else found
            early = [s for s in mentioned if s not in measured]
            if early:
                raise IRError(f"{op.opdef.name} has the dim {self.names()[early[0]]}, which is not measured yet")
            for operand in op.operands:
                if operand not in visible:
                    raise IRError(f"{op.opdef.name} reads {operand!r}, which is not defined here")
            if found is None:
                self.types(op)
                self.known[-1][key] = mentioned
            for region in op.regions:
                self.region(region, visible, measured)
                self.op = op
            self.define(op.results, visible)
        self.op = outer
        for value in results:
            if value not in visible:
                raise IRError(f"the result {value!r} is not defined")

    def types(self, op: Op) -> None:
        inferred = self.infer(op)
        if len(inferred) != len(op.results):
            raise IRError(f"{op.opdef.name} gives {len(inferred)} results, not {len(op.results)}")
        for value, expected in zip(op.results, inferred, strict=True):
            if not same_type(value.type, expected, self.facts):
                given, wanted = value.type.text(self.names()), expected.text(self.names())
                raise IRError(f"{op.opdef.name} gives {wanted}, not {given}")

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
        outer = self.facts, self.demands, self.known
        if region.demands:
            self.facts = self.facts.within(region.demands)
            self.demands = (*self.demands, region.demands)
            self.known = (*self.known, self.verified.setdefault(self.demands, {}))
        self.block(region.ops, region.results, inner, measured)
        self.facts, self.demands, self.known = outer
