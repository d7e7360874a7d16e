"""Ops with effects: passes neither drop, merge nor reorder them, and text and identity know what is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dyn import config, dtypes
from dyn.ir.core import Function, Op, Region, Value
from dyn.ir.effects import effects_in, has_effect, without_effects
from dyn.ir.external import External, callees
from dyn.ir.identity import function_identity
from dyn.ir.inline_regions import build_region
from dyn.ir.parser import parse_function
from dyn.ir.printer import print_function
from dyn.ir.region_passes import in_regions
from dyn.ir.types import TensorType
from dyn.ir.verifier import verify
from dyn.ops import OWN_OPS
from dyn.passes.nan_checks import check_finite
from dyn.passes.redundancy import eliminate_common_subexpressions, eliminate_dead_code
from dyn.passes.refine_shapes import refine_shapes
from dyn.passes.simplify import simplify
from dyn.source import UNKNOWN
from dyn.stitch.plan import stitch
from tests.ir.programs import Program

Golden = Callable[[str, str], None]


def called(name: str, *, effects: bool) -> External:
    return External(name, UNKNOWN, lambda arrays, expected: arrays, effects)


def calls(first: External, second: External, pure: External) -> Function:
    """Two calls of the first, that of the second between them, a pure one that nobody reads, and one in a loop."""
    program = Program()
    b, x = program.builder, program.param(dtypes.float32, 3)
    none: dict[str, Any] = {"dtypes": (), "shapes": (), "attributes": ()}
    same: dict[str, Any] = {"dtypes": (dtypes.float32,), "shapes": ((3,),), "attributes": ()}
    b.op_all("custom_call", x, target=first, **none)
    doubled = b.op("add", x, x)
    b.op_all("custom_call", doubled, target=second, **none)
    b.op_all("custom_call", x, target=first, **none)
    b.op_all("custom_call", x, target=pure, **same)
    (unread,) = b.op_all("custom_call", x, target=second, **same)
    b.op("sine", unread)

    def step(inner: Any, params: tuple[Value, ...]) -> tuple[Value, ...]:
        inner.op_all("custom_call", inner.op("cosine", params[0]), target=second, **none)
        return ()

    region = build_region(b, [TensorType(dtypes.float32, ())], step)
    b.op_all("scan", x, regions=(region,), carries=0, length=3, reverse=False)
    return program.function(doubled)


FIRST, SECOND, PURE = called("first", effects=True), called("second", effects=True), called("pure", effects=False)


def names(ops: tuple[Op, ...]) -> list[str]:
    return [op.attrs["target"].name for op in effects_in(ops)]


def test_passes_keep_effects(golden: Golden) -> None:
    function = calls(FIRST, SECOND, PURE)
    passed = function
    for step in (refine_shapes, simplify, in_regions(eliminate_common_subexpressions), in_regions(eliminate_dead_code)):
        passed = verify(step(passed), step.__name__)
        assert names(passed.ops) == ["first", "second", "first", "second", "second"]
    golden("effects.txt", print_function(function) + "\n" + print_function(passed))
    assert [callee.name for callee in callees(passed.ops)] == ["first", "second", "second"]  # the last gives nothing


def test_groups_with_effects_keep_their_order() -> None:
    plan = stitch(eliminate_dead_code(calls(FIRST, SECOND, PURE)))
    assert names(tuple(op for group in plan.groups for op in group.ops)) == [
        "first", "second", "first", "second", "second",
    ]  # fmt: skip
    # The first call waits for nothing.
    assert plan.groups[0].ops[0].attrs["target"] is FIRST


def test_text_of_calls() -> None:
    text = print_function(calls(FIRST, SECOND, PURE))
    again = parse_function(text)
    assert print_function(again) == text
    assert names(again.ops) == ["first", "second", "first", "second", "second"]


def test_functions_are_the_same_whatever_they_call() -> None:
    def identity(*targets: External) -> str | None:
        found = function_identity(calls(*targets), OWN_OPS)
        assert found.kept == ()
        return found.named

    same = identity(FIRST, SECOND, PURE)
    assert same == identity(SECOND, FIRST, PURE)
    assert same == identity(called("other", effects=True), SECOND, PURE)
    assert same != identity(FIRST, FIRST, PURE)
    assert same != identity(FIRST, SECOND, called("pure", effects=True))


def test_what_is_computed_again_has_no_effects() -> None:
    function = calls(FIRST, SECOND, PURE)
    region = without_effects(Region(function.params, function.ops, function.results))
    assert not any(has_effect(op) for op in region.ops)
    assert [op.opdef.name for op in region.ops] == ["add"]
    plain = replace(region, ops=region.ops)
    assert without_effects(plain) is plain


def test_checks_for_what_is_not_finite(golden: Golden) -> None:
    program = Program()
    x = program.param(dtypes.float32, 3)
    y = program.op("log", x)
    program.op("sine", y)
    turned = program.op("reshape", y, shape=(3, 1))
    count = program.op("convert", y, dtype=dtypes.int32)

    def body(inner: Any, params: tuple[Value, ...]) -> tuple[Value, ...]:
        return (inner.op("sqrt", params[0]),)

    region = build_region(program.builder, [TensorType(dtypes.float32, (3,))], body)
    (made,) = program.builder.op_all("scan", y, regions=(region,), carries=1, length=2, reverse=False)
    function = program.function(turned, count, made)
    assert check_finite(function) is function
    with config.override(debug_nans=True):
        checked = verify(check_finite(function), "check_finite")
    golden("check_finite.txt", print_function(function) + "\n" + print_function(checked))
    assert len(callees(checked.ops)) == 2
