"""The pattern rewriter."""

from __future__ import annotations

from dyn import dtypes, ops
from dyn.ir.builder import Builder
from dyn.ir.core import Function, Op, Value
from dyn.ir.opdef import REGISTRY
from dyn.ir.parser import parse_function
from dyn.ir.printer import print_function
from dyn.ir.verifier import verify
from dyn.passes.redundancy import eliminate_dead_code
from dyn.passes.rewrite import Pattern, rewrite

assert ops

BEFORE = """\
func @f(%x: f32[n] "x") -> (f32[n] "result") {
  dim n: "x.shape[0]"
  %0 = add(%x, %x) : f32[n]
  %1 = add(%0, %0) : f32[n]
  %2 = tanh(%1) : f32[n]
  return %2
}
"""


def twice(builder: Builder, op: Op) -> tuple[Value, ...] | None:
    """x + x -> x - (-x), which shows whether operands were rewritten first."""
    a, b = op.operands
    if a is not b:
        return None
    return (builder.op("subtract", a, builder.op("negate", a)),)


def after(*patterns: Pattern) -> str:
    function: Function = parse_function(BEFORE)
    return print_function(eliminate_dead_code(verify(rewrite(function, patterns))), locs=False)


def test_a_pattern_sees_rewritten_operands_and_only_its_own_ops() -> None:
    text = after(Pattern(REGISTRY["add"], twice))
    assert [line.split(" = ")[1].split(" :")[0] for line in text.splitlines() if " = " in line] == [
        "negate(%x)",
        "subtract(%x, %0)",
        "negate(%1)",
        "subtract(%1, %2)",
        "tanh(%3)",
    ]


def test_the_first_match_wins_and_no_match_changes_nothing() -> None:
    first = Pattern(None, lambda builder, op: (op.operands[0],))
    assert "add" not in after(first, Pattern(REGISTRY["add"], twice))
    unchanged = after(Pattern(REGISTRY["multiply"], twice))
    assert unchanged == print_function(parse_function(BEFORE), locs=False)


def test_a_replacement_of_another_type_is_refused() -> None:
    narrow = Pattern(REGISTRY["tanh"], lambda b, op: (b.op("convert", op.operands[0], dtype=dtypes.float64),))
    assert "f64" not in after(narrow)
