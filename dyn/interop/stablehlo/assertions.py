"""A program's demands of its sizes, as the custom calls ``shape_assertion`` that JAX's own exports have."""

from __future__ import annotations

from collections.abc import Set

from dyn.interop.stablehlo.arithmetic import axis_size, compared
from dyn.interop.stablehlo.hlo import HloInt, HloValue
from dyn.interop.stablehlo.writer import Writer
from dyn.ir.core import Value
from dyn.shapes import Dim, Facts, Relation, RelKind, Symbol, SymExpr, as_dim, format_dim
from dyn.source import UNKNOWN


def assert_facts(writer: Writer, facts: Facts) -> None:
    """All that is declared of symbols, and demanded; but for what is about sizes that are still to be measured."""
    for declared in facts.declarations:
        dim = as_dim(declared.symbol)
        if declared.min > 0:
            _assert_relation(writer, Relation(RelKind.GE, dim, declared.min, declared.reason))
        if declared.max is not None:
            _assert_relation(writer, Relation(RelKind.GE, declared.max, dim, declared.reason))
        if declared.multiple_of > 1:
            _assert_relation(writer, Relation(RelKind.DIVIDES, declared.multiple_of, dim, declared.reason))
    for relation in facts.relations:
        if not any(s.data_dependent for s in relation.symbols()):
            _assert_relation(writer, relation)


def assert_measured(writer: Writer, facts: Facts, symbol: Symbol, known: Set[Symbol]) -> None:
    """Assert the demands of a size that was measured now, and those of others that are known by then.

    What is demanded of sizes inside of a branch or a loop, the ops there demand again when they are read.
    """
    for relation in facts.relations:
        symbols = relation.symbols()
        if symbol in symbols and all(s in known for s in symbols if s.data_dependent):
            _assert_relation(writer, relation)


def assert_least(writer: Writer, param: Value, axis: int, size: HloValue, least: Dim) -> None:
    """Assert that what is left of an axis for the dim that is solved for is not negative."""
    enough = compared(writer, size, writer.dim(least), "GE")
    message = f"{param.name}.shape[{axis}] is {{0}}, and it is {{1}} at least."
    _assert(writer, message, enough, size, writer.dim(least))


def assert_size(writer: Writer, param: Value, axis: int, dim: SymExpr) -> None:
    """Assert that an axis is the expression of sizes that it was declared to be."""
    size = axis_size(writer, writer.value(param), axis)
    message = f"{param.name}.shape[{axis}] is {{0}}, and it must be {format_dim(dim)} = {{1}}."
    _assert(writer, message, compared(writer, size, writer.dim(dim), "EQ"), size, writer.dim(dim))


def _assert_relation(writer: Writer, relation: Relation) -> None:
    before, writer.loc = writer.loc, relation.reason.loc or UNKNOWN
    sides = [s for s in (relation.lhs, relation.rhs) if isinstance(s, SymExpr)]
    named = ", ".join(f"{format_dim(s)} is {{{i}}}" for i, s in enumerate(sides))
    # Braces in the text of a reason would be taken for places of values.
    why = relation.reason.text.replace("{", "(").replace("}", ")")
    message = f"{relation.describe()} is required, but {named}: {why}."
    _assert(writer, message, _truth_of(writer, relation), *(writer.dim(s) for s in sides))
    writer.loc = before


def _assert(writer: Writer, message: str, truth: HloValue, *sizes: HloValue) -> None:
    """A custom call that fails where ``truth`` does not hold; its message has places for sizes: ``{0}``."""
    writer.ops(
        "stablehlo.custom_call", [truth, *sizes], [], call_target_name="shape_assertion", api_version=HloInt(2),
        error_message=message, has_side_effect=True,
    )  # fmt: skip


def _truth_of(writer: Writer, relation: Relation) -> HloValue:
    lhs, rhs = writer.dim(relation.lhs), writer.dim(relation.rhs)
    match relation.kind:
        case RelKind.EQ | RelKind.SAME_NUMEL:
            return compared(writer, lhs, rhs, "EQ")
        case RelKind.GE:
            return compared(writer, lhs, rhs, "GE")
        case RelKind.NONZERO:
            return compared(writer, lhs, writer.dim(0), "NE")
        case RelKind.DIVIDES:
            return compared(writer, writer.op("stablehlo.remainder", rhs, lhs), writer.dim(0), "EQ")
        case RelKind.BROADCASTS:
            one = writer.dim(1)
            truths = [compared(writer, *pair, "EQ") for pair in ((lhs, rhs), (lhs, one), (rhs, one))]
            return writer.op("stablehlo.or", writer.op("stablehlo.or", truths[0], truths[1]), truths[2])
