"""A program is verified after every pass: no op is inferred twice from the same premises, and none is left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import dyn
from dyn import config, dtypes, pipeline
from dyn.backends.families import host_target
from dyn.compilation_record import CompilationRecord
from dyn.errors import IRError
from dyn.ir.core import Dense, Function, Op, Region, Value
from dyn.ir.opdef import REGISTRY
from dyn.ir.parser import parse_function
from dyn.ir.types import TensorType
from dyn.ir.verifier import Verifier, verify
from dyn.shapes import Facts, Reason, Relation, RelKind, as_dim, symbol
from tests.ir.programs import LOC, Program, registered

Change = Callable[[Function], Function]

HEAD = 'func @f(%x: f32[n] "x", %y: f32[m] "y") -> (f32[n]) {\n  dim n: "x.shape[0]"\n  dim m: "y.shape[0]"\n'
AGREE = '  fact n == m "they agree"\n'
PROGRAM = f"{HEAD}{AGREE}  %0 = add(%x, %y) : f32[n]\n  %1 = negate(%0) : f32[n]\n  return %1\n}}\n"


def problem_of(verifier: Verifier, function: Function) -> str:
    """What a verifier says, which is what one says that has seen nothing else."""
    with pytest.raises(IRError) as error:
        verifier.verify(function, "a pass")
    with pytest.raises(IRError) as other:
        verify(function, "a pass")
    assert str(error.value) == str(other.value)
    return error.value.problem


def counted(name: str, calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Count inferences of an op's types."""
    opdef = REGISTRY[name]

    def types(*args: Any) -> Any:
        calls.append(name)
        return rule(*args)

    rule = opdef.types
    monkeypatch.delitem(REGISTRY, name)
    replace(opdef, types=types)  # takes its place


def test_an_op_is_inferred_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("add", "negate"):
        counted(name, calls, monkeypatch)
    function = parse_function(PROGRAM)
    verifier = Verifier()
    for _ in range(3):
        assert verifier.verify(function) is function
    assert calls == ["add", "negate"]
    # Another op, of the same contents.
    add, negate = function.ops
    again = replace(negate, results=(Value(negate.result.type),))
    verifier.verify(function.with_ops((add, again), again.results))
    assert calls == ["add", "negate"]
    # More facts.
    n = function.params[0].shape[0]
    grown = function.facts.assume(Relation(RelKind.GE, n, 3, Reason("it is asked")))
    verifier.verify(replace(function, facts=grown))
    assert calls == ["add", "negate"]
    # Fewer again.
    verifier.verify(function)
    assert calls == ["add", "negate"] * 2
    verifier.verify(function)
    assert calls == ["add", "negate"] * 2
    # Another program.
    Verifier().verify(function)
    assert calls == ["add", "negate"] * 3


def _weakened(function: Function) -> Function:
    facts = Facts.EMPTY
    for declared in function.facts.declarations:
        facts = facts.declare(declared.symbol, min=declared.min, max=declared.max, reason=declared.reason)
    return replace(function, facts=facts)


def _with_first(**changes: Any) -> Change:
    def change(function: Function) -> Function:
        return function.with_ops((replace(function.ops[0], **changes), *function.ops[1:]))

    return change


def _swapped(function: Function) -> Function:
    return function.with_ops(tuple(reversed(function.ops)))


def _written_to(function: Function) -> Function:
    """Nobody may do that; it is seen all the same."""
    op = function.ops[1]
    op.results[0].type = TensorType(dtypes.float64, op.results[0].shape)  # pyright: ignore[reportAttributeAccessIssue]
    return function


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (_weakened, "add: the facts do not imply that n == m (operands of an elementwise op agree on axis 0)"),
        (_with_first(opdef=REGISTRY["compare"]), "compare has no type for (f32[x_0], f32[y_0]) with no attributes: "),
        (_with_first(operands=()), "add has no type for () with no attributes: "),
        (_with_first(results=()), "add gives 1 results, not 0"),
        (_swapped, "negate reads %?: f32[n], which is not defined here"),
        (_written_to, "negate gives f32[n], not f64[n]"),
    ],
)
def test_a_pass_that_corrupts_an_op_is_caught(change: Change, problem: str) -> None:
    function = parse_function(PROGRAM)
    verifier = Verifier()
    verifier.verify(function)
    verifier.verify(function)
    said = problem_of(verifier, change(function))
    assert said.startswith("invalid IR after a pass: ")
    assert problem.split(" for (", maxsplit=1)[0] in said


def test_attributes_that_are_written_to_are_read_anew() -> None:
    function = parse_function(
        'func @f(%x: f32[n, 3] "x") -> (f32[3, n]) {\n  dim n: "x.shape[0]"\n'
        "  %0 = transpose(%x) {permutation = [1, 0]} : f32[3, n]\n  return %0\n}\n"
    )
    verifier = Verifier()
    verifier.verify(function)
    attrs: Any = function.ops[0].attrs
    attrs["permutation"] = (0, 1)
    assert problem_of(verifier, function) == "invalid IR after a pass: transpose gives f32[n, 3], not f32[3, n]"


def test_attributes_are_told_apart() -> None:
    """Python takes 1, 1.0 and True for one another."""
    seen: list[Any] = []

    def types(ctx: Any, operands: tuple[TensorType, ...], attrs: Any) -> tuple[TensorType, ...]:
        seen.append(attrs["value"])
        return operands

    with registered("valued", types) as valued:
        program = Program()
        x = program.param(dtypes.float32)
        verifier = Verifier()
        values = (
            1,
            1.0,
            True,
            0.0,
            -0.0,
            float("nan"),
            Dense(np.array(1, "f4")),
            Dense(np.array(1, "f8")),
            (1,),
            (1.0,),
        )
        for value in (*values, *values):
            op = Op(valued, (x,), {"value": value}, (Value(x.type),), LOC)
            verifier.verify(program.function().with_ops((op,)))
    assert list(map(repr, seen)) == list(map(repr, values))


def test_declarations_that_are_taken_back() -> None:
    n = symbol("n", "x.shape[0]")
    program = Program(Facts.EMPTY.declare(n, min=2, reason=Reason("declared")))
    x = program.param(dtypes.float32, as_dim(n))
    function = program.function(program.op("slice", x, start=(0,), limit=(2,), strides=(1,)))
    assert not function.facts.relations
    verifier = Verifier()
    verifier.verify(function)
    assert problem_of(verifier, replace(function, facts=Facts.EMPTY.declare(n, min=1, reason=Reason("declared")))) == (
        "invalid IR after a pass: slice: the facts do not imply that n >= 2 (a slice of axis 0 ends inside)"
    )
    assert problem_of(verifier, replace(function, facts=Facts.EMPTY)) == (
        "invalid IR after a pass: slice: the facts do not imply that n >= 2 (a slice of axis 0 ends inside)"
    )
    assert verifier.verify(function) is function


def test_what_only_a_region_demands_holds_only_there() -> None:
    n, m = (as_dim(symbol(name, f"{name}.shape[0]")) for name in "xy")
    types = [TensorType(dtypes.float32, (dim,)) for dim in (n, m)]
    params = tuple([Value(t, name) for t, name in zip(types, "xy", strict=True)])
    agree = Relation(RelKind.EQ, n, m, Reason("they agree"))
    program = Program(Facts.none())
    for dim, name in ((n, "x"), (m, "y")):
        program.param(dtypes.float32, dim, name=name)
    x, y = program.params

    def add(a: Value, b: Value) -> Op:
        return Op(REGISTRY["add"], (a, b), {}, (Value(types[0]),), LOC)

    with registered("run", lambda ctx, operands, attrs: operands[:1]) as run:

        def ran(body: Op, *demands: Relation) -> Op:
            return Op(run, (x, y), {}, (Value(types[0]),), LOC, (Region(params, (body,), body.results, demands),))

        def function(*ops: Op) -> Function:
            return program.function().with_ops(ops, ops[-1].results)

        inside = ran(add(*params), agree)
        verifier = Verifier()
        verifier.verify(function(inside))
        said = (
            "invalid IR after a pass: add: the facts do not imply that x == y "
            "(operands of an elementwise op agree on axis 0)"
        )
        assert problem_of(verifier, function(ran(add(*params)))) == said
        assert problem_of(verifier, function(add(x, y))) == said
        other = Relation(RelKind.GE, n, m, Reason("it is not shorter"))
        assert problem_of(verifier, function(ran(add(*params), other))) == said
        # The other way around: what holds outside holds inside.
        around = replace(function(add(x, y), inside), facts=Facts.none().assume(agree))
        assert verifier.verify(around) is around
        assert problem_of(verifier, function(inside, add(x, y))) == said


def test_the_pipeline_verifies_after_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that breaks what all passes before it had left alone is named."""

    def breaks(function: Function) -> Function:
        op = function.ops[-1]
        bad = replace(op, results=(Value(op.result.type.with_dtype(dtypes.float64)),))
        return function.with_ops((*function.ops[:-1], bad), bad.results)

    struct = dyn.ShapeDtypeStruct(("n",), "float32")
    traced = dyn.jit(lambda x: -dyn.lax.slice(x, (1,), (3,))).trace(struct).traced
    steps = pipeline.PIPELINE
    for step, problem in ((breaks, "negate gives"), (_weakened, "slice: the facts do not imply that n >= 3")):
        for place in range(len(steps) + 1):
            monkeypatch.setattr(pipeline, "PIPELINE", (*steps[:place], step, *steps[place:]))
            with config.override(verify_ir=True), pytest.raises(IRError) as error:
                pipeline.optimize(traced, host_target(), CompilationRecord())
            assert error.value.problem.startswith(f"invalid IR after {step.__name__}: {problem}")
