"""The pattern rewriter: local rules, applied to every op once its operands are rewritten."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dyn.frozen import record
from dyn.ir.builder import Builder
from dyn.ir.core import Function, Op, Value, with_operands
from dyn.ir.opdef import OpDef
from dyn.ir.types import same_type
from dyn.source import UNKNOWN

#: ``rule(builder, op)``: the values that stand for an op's results, made with ``builder`` or found among what is there
#: already; None where the pattern does not match. What it leaves behind in ``builder`` unused is dead code.
Rule = Callable[[Builder, Op], tuple[Value, ...] | None]


@record()
class Pattern:
    """A rule for the ops of one definition, or, where ``root`` is None, for all."""

    root: OpDef | None
    rule: Rule


def rewrite(function: Function, patterns: Sequence[Pattern]) -> Function:
    """Rewrite each op by the first pattern that matches it.

    Ops are visited in order, so a rule sees operands that are rewritten already, and may follow them through
    ``builder.producer``. A replacement has to have the op's types, as far as the facts prove it; one that does not is
    refused. Ops inside regions are left as they are.
    """
    builder = Builder(function.facts, UNKNOWN)
    values: dict[Value, Value] = {}
    for old in function.ops:
        op = with_operands(old, values)
        builder.loc = op.loc
        results = _first_match(builder, op, patterns) or builder.append(op)
        values.update((a, b) for a, b in zip(old.results, results, strict=True) if a is not b)
    results = tuple(values.get(v, v) for v in function.results)
    return function.with_ops(tuple(builder.ops), results, builder.facts)


def _first_match(builder: Builder, op: Op, patterns: Sequence[Pattern]) -> tuple[Value, ...] | None:
    for pattern in patterns:
        if pattern.root is not None and pattern.root is not op.opdef:
            continue
        found = pattern.rule(builder, op)
        if found is None or len(found) != len(op.results):
            continue
        if all(same_type(a.type, b.type, builder.facts) for a, b in zip(found, op.results, strict=True)):
            return tuple(found)
    return None
