"""Is a function well formed? Every op's type is inferred again by its own rule."""

from __future__ import annotations

from dyn.errors import DynError, IRError
from dyn.ir.core import Function, Op, Region, Value
from dyn.ir.opdef import OpDef
from dyn.ir.printer import print_function
from dyn.ir.types import TensorType
from dyn.shapes import Answer, Dim, Facts, Reason, Relation, RelKind
from dyn.source import Loc

_NO_REASON = Reason("verification", None)


class _Proofs:
    """A type context in which every demand must follow from the function's facts."""

    def __init__(self, facts: Facts, opdef: OpDef, loc: Loc) -> None:
        self.facts, self.opdef, self.loc = facts, opdef, loc

    def require(self, kind: RelKind, lhs: Dim, rhs: Dim, text: str) -> None:
        relation = Relation(kind, lhs, rhs, _NO_REASON)
        if not self.facts.ask(relation).proved:
            raise IRError(f"{self.opdef.name}: the facts do not imply that {relation.describe()} ({text})")

    def eq(self, lhs: Dim, rhs: Dim) -> Answer:
        return self.facts.eq(lhs, rhs)

    def fail(self, text: str, remedy: str = "") -> Exception:
        return IRError(f"{self.opdef.name}: {text}")


def verify(function: Function, after: str = "") -> Function:
    """Raise IRError, with the neighbouring lines, where ``function`` breaks an invariant; else return it.

    Checked: each value is defined once and before it is used; each op's result types are what its rule infers, up to
    equalities that the facts prove; each demand of each op follows from the facts. ``after`` names the pass to blame.
    """
    try:
        _verify(function)
    except DynError as error:
        when = f" after {after}" if after else ""
        raise IRError(
            f"invalid IR{when}: {error.problem}",
            loc=error.loc,
            notes=("in", *print_function(function).splitlines()[:80]),
        ) from error
    return function


def _verify(function: Function) -> None:
    defined: set[Value] = set()
    _define(function.params, defined)
    if len(function.infos) != len(function.params):
        raise IRError(f"{len(function.params)} parameters have {len(function.infos)} descriptions")
    _block(function.ops, function.results, defined, function.facts)


def _define(values: tuple[Value, ...], defined: set[Value]) -> None:
    for value in values:
        if value in defined:
            raise IRError(f"{value!r} is defined twice")
        defined.add(value)


def _block(ops: tuple[Op, ...], results: tuple[Value, ...], defined: set[Value], facts: Facts) -> None:
    for op in ops:
        for operand in op.operands:
            if operand not in defined:
                raise IRError(f"{op.opdef.name} reads {operand!r} before it is defined", loc=op.loc)
        inferred = op.opdef.types(_Proofs(facts, op.opdef, op.loc), tuple(v.type for v in op.operands), op.attrs)
        for value, expected in zip(op.results, inferred, strict=True):
            if not same_type(value.type, expected, facts):
                raise IRError(f"{op.opdef.name} gives {expected}, not {value.type}", loc=op.loc)
        for region in op.regions:
            _region(region, defined, facts)
        _define(op.results, defined)
    for value in results:
        if value not in defined:
            raise IRError(f"the result {value!r} is not defined")


def _region(region: Region, defined: set[Value], facts: Facts) -> None:
    inner = set(defined)
    _define(region.params, inner)
    _block(region.ops, region.results, inner, facts)


def same_type(a: TensorType, b: TensorType, facts: Facts) -> bool:
    """Whether two types are equal as far as the facts prove it."""
    if a.dtype is not b.dtype or a.rank != b.rank:
        return False
    return all(x is y or facts.eq(x, y).proved for x, y in zip(a.shape, b.shape, strict=True))
