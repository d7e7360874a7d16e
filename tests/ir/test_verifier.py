"""Each invariant of the IR broken once, with the whole text of what the verifier says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dyn import dtypes
from dyn.errors import IRError
from dyn.ir.core import Function, Op, ParamInfo, Region, Value
from dyn.ir.parser import parse_function
from dyn.ir.types import TensorType
from dyn.ir.verifier import verify
from dyn.shapes import Facts, as_dim, symbol
from tests.ir.programs import LOC, Program, registered

HEAD = 'func @f(%x: f32[n] "x", %y: f32[m] "y") -> (f32[n]) {\n  dim n: "x.shape[0]"\n  dim m: "y.shape[0]"\n'


def problem_of(function: Function, after: str = "") -> str:
    """The first line of what the verifier says."""
    with pytest.raises(IRError) as error:
        verify(function, after)
    return error.value.problem


def changed(text: str, **changes: Any) -> Function:
    """A function from text, its first op changed."""
    function = parse_function(text)
    return function.with_ops((replace(function.ops[0], **changes), *function.ops[1:]))


def test_a_whole_message() -> None:
    lines = "".join(f"  %{i} = negate(%{'x' if i == 0 else i - 1}) : f32[n]  @ model.py:{i}\n" for i in range(12))
    function = parse_function(f"{HEAD}{lines}  return %11\n}}\n")
    ops = list(function.ops)
    bad = Value(TensorType(dtypes.float64, function.params[0].shape))
    ops[5] = replace(ops[5], results=(bad,))
    ops[6] = replace(ops[6], operands=(bad,))
    with pytest.raises(IRError) as error:
        verify(function.with_ops(tuple(ops)), "simplify")
    assert str(error.value) == (
        "invalid IR after simplify: negate gives f32[n], not f64[n]\n"
        "  in\n"
        '  func @f(%x: f32[n] "x", %y: f32[m] "y") -> (f32[n]) {\n'
        "  ...\n"
        "       %1 = negate(%0) : f32[n]  @ model.py:1\n"
        "       %2 = negate(%1) : f32[n]  @ model.py:2\n"
        "       %3 = negate(%2) : f32[n]  @ model.py:3\n"
        "       %4 = negate(%3) : f32[n]  @ model.py:4\n"
        "  ->   %5 = negate(%4) : f64[n]  @ model.py:5\n"
        "       %6 = negate(%5) : f32[n]  @ model.py:6\n"
        "       %7 = negate(%6) : f32[n]  @ model.py:7\n"
        "       %8 = negate(%7) : f32[n]  @ model.py:8\n"
        "       %9 = negate(%8) : f32[n]  @ model.py:9\n"
        "  ...\n"
        "  at model.py:5"
    )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            "%0 = add(%x, %y) : f32[n]",
            "add: the facts do not imply that n == m (operands of an elementwise op agree on axis 0)",
        ),
        ("%0 = negate(%x) : f16[n]", "negate gives f32[n], not f16[n]"),
        ("%0 = negate(%x) : f32[n]~", "negate gives f32[n], not f32[n]~"),
        ("%0 = negate(%x) : f32[m]", "negate gives f32[n], not f32[m]"),
        ("%0 = negate(%x) : f32[n, 1]", "negate gives f32[n], not f32[n, 1]"),
        ("%0, %1 = negate(%x) : f32[n], f32[n]", "negate gives 1 results, not 2"),
        ("%0 = not(%x) : f32[n]", "not: takes bool, int, uint operands, not float32"),
        (
            "%0 = transpose(%x) : f32[n]",
            "transpose has no type for (f32[n]) with no attributes: KeyError: 'permutation'",
        ),
        (
            "%0 = transpose(%x, %y) {permutation = [0]} : f32[n]",
            "transpose has no type for (f32[n], f32[m]) with permutation: "
            "ValueError: too many values to unpack (expected 1)",
        ),
        (
            "%0 = slice(%x) {limit = [m], start = [0], strides = [1]} : f32[m]",
            "slice: the facts do not imply that n >= m (a slice of axis 0 ends inside)",
        ),
    ],
)
def test_types(body: str, problem: str) -> None:
    result = body.rpartition(" : ")[2].removesuffix(", f32[n]")
    text = HEAD.replace("-> (f32[n])", f"-> ({result})")
    assert problem_of(parse_function(f"{text}  {body}\n  return %0\n}}\n")) == f"invalid IR: {problem}"


def test_what_the_facts_prove_is_right() -> None:
    text = HEAD + '  fact n == m "they agree"\n  %0 = add(%x, %y) : f32[m]\n  return %0\n}\n'
    function = parse_function(text.replace("-> (f32[n])", "-> (f32[m])"))
    assert verify(function) is function


def test_values() -> None:
    good = f"{HEAD}  %0 = negate(%x) : f32[n]  @ model.py:3\n  return %0\n}}\n"
    function = parse_function(good)
    (x, _), (op,) = function.params, function.ops
    stranger = Value(x.type, "z")
    assert problem_of(changed(good, operands=(stranger,))) == (
        "invalid IR: negate reads %z: f32[n], which is not defined here"
    )
    assert problem_of(function.with_ops((op, replace(op, results=(Value(x.type),), operands=(x,)), op))) == (
        "invalid IR: %?: f32[n] is defined twice"
    )
    assert problem_of(function.with_ops((), (op.result,))) == "invalid IR: the result %?: f32[n] is not defined"
    assert problem_of(replace(function, params=(x, x))) == "invalid IR: %x: f32[n] is defined twice"
    assert problem_of(replace(function, infos=())) == "invalid IR: 2 parameters have 0 descriptions"
    assert problem_of(replace(function, infos=(ParamInfo("x", dims=()), ParamInfo("y")))) == (
        "invalid IR: the parameter x of 1 axes is described with 0"
    )
    assert problem_of(replace(function, result_names=("a", "b"))) == "invalid IR: 1 results have 2 names"
    later = Value(x.type)
    first, second = replace(op, operands=(later,)), replace(op, operands=(x,), results=(later,))
    assert problem_of(function.with_ops((first, second)), "cse") == (
        "invalid IR after cse: negate reads %?: f32[n], which is not defined here"
    )


def test_regions() -> None:
    with registered("loop", lambda ctx, operands, attrs: operands) as loop:
        x, inner = (Value(TensorType(dtypes.float32, ()), name) for name in ("x", "inner"))

        def function(*ops: Op, result: Value) -> Function:
            return Function("f", (x,), ops, (result,), Facts.EMPTY, (ParamInfo("x"),))

        def op(*regions: Region, operand: Value = x) -> Op:
            return Op(loop, (operand,), {}, (Value(x.type),), LOC, regions)

        good = op(Region((inner,), (), (inner, x)))
        assert verify(function(good, result=good.result))
        assert problem_of(function(good, result=inner)) == "invalid IR: the result %inner: f32[] is not defined"
        outside = op(operand=inner)
        assert problem_of(function(good, outside, result=x)) == (
            "invalid IR: loop reads %inner: f32[], which is not defined here"
        )
        assert problem_of(function(good, op(Region((inner,), (), ())), result=x)) == (
            "invalid IR: %inner: f32[] is defined twice"
        )
        nested = op(operand=outside.result)
        assert problem_of(function(op(Region((), (nested,), ())), result=x)) == (
            "invalid IR: loop reads %?: f32[], which is not defined here"
        )
        assert problem_of(function(op(Region((), (), (inner,))), result=x)) == (
            "invalid IR: the result %inner: f32[] is not defined"
        )


def test_dims_of_other_functions_are_not_equal() -> None:
    n, m = (as_dim(symbol("n", "x.shape[0]")) for _ in range(2))
    program = Program()
    x = program.param(dtypes.float32, n)
    program.op("negate", x)
    bad = replace(program.builder.ops[0], results=(Value(x.type.with_shape((m,))),))
    assert problem_of(program.function(x).with_ops((bad,))) == "invalid IR: negate gives f32[n], not f32[n_2]"


MEASURED = (
    'func @f(%x: f32[n] "x", %c: i64[] "c") -> (f32[k]) {\n  dim n: "x.shape[0]"\n  dim k: "a count" measured\n'
    '  fact n >= k "it is at most n"\n'
)
_TAKE = "%{} = slice(%x) {{limit = [k], start = [0], strides = [1]}} : f32[k]\n"


def test_measured_dims() -> None:
    """A dim is measured once in its scope, and not mentioned before."""
    measure = "  %0 = measure(%c) {dim = k} : i64[]\n"
    good = f"{MEASURED}{measure}  {_TAKE.format(1)}  return %1\n}}\n"
    assert verify(parse_function(good)) is not None
    early = f"{MEASURED}  {_TAKE.format(1)}{measure}  return %1\n}}\n"
    assert problem_of(parse_function(early)) == "invalid IR: slice has the dim k, which is not measured yet"
    twice = f"{MEASURED}{measure}{measure.replace('%0', '%2')}  {_TAKE.format(1)}  return %1\n}}\n"
    assert problem_of(parse_function(twice)) == "invalid IR: the dim k is measured twice"
    other = good.replace("dim = k", "dim = n")
    assert problem_of(parse_function(other)) == "invalid IR: measure: n is no dim that can be measured"
