"""The text of programs: what is printed parses back to the same text, and other texts are refused at their place."""

from __future__ import annotations

import random
import string
from typing import Any

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

from dyn import dtypes
from dyn.errors import IRError
from dyn.ir.core import Dense, Function, Op, ParamInfo, Region, Value
from dyn.ir.parser import parse_function
from dyn.ir.printer import print_function
from dyn.ir.types import TensorType
from dyn.ir.verifier import verify
from dyn.shapes import Facts, Reason, Relation, RelKind, as_dim, broadcast, dim_max, dim_min, floordiv, mod, symbol
from dyn.shapes import numel_relation
from dyn.source import Loc
from tests.ir.programs import LOC, Program, functions, registered
from tests.shapes.worlds import SYMBOLS, dims

TEXT = """\
func @softmax(%x: f32[m, n] "x", %0: f64[n] "params['w']" hidden was [k]) -> (f32[m, n] "result") {
  dim m: "x.shape[0]" min 1 max 512 multiple_of 8 likely 128, 256 "dyn.Dim('m') says so"
  dim n: "x.shape[1]"
  dim k: "w.shape[0]"
  fact n == k "the \\"rows\\" agree" @ model.py:2
  fact m*n >= m "maximum of nothing has no value" @ "my model.py":3
  fact [m, n] same_numel [k, 2] "reshape" @ "constraints="
  fact m - 3 nonzero 0 "a branch"
  fact 4 divides n "heads"
  fact m broadcasts n "x + y"
  %1 = reduce(%x) {axes = [1], combine = "maximum", nonempty = true} : f32[m]  @ model.py:4
  %2 = broadcast_in_dim(%1) {dims = [0], shape = [m, n]} : f32[m, n]  @ model.py:5
  return %2
}
"""


def roundtrip(function: Function, *, locs: bool = True) -> Function:
    """The function read back, whose text is the same."""
    text = print_function(function, locs=locs)
    again = parse_function(text)
    assert print_function(again, locs=locs) == text
    return again


def test_text() -> None:
    function = parse_function(TEXT)
    assert print_function(function) == TEXT
    assert function.infos == (ParamInfo("x"), ParamInfo("params['w']", True, (as_dim(function.symbols()[2]),)))
    assert function.result_names == ("result",)
    (declaration,) = function.facts.declarations
    assert declaration.describe() == "1 <= m <= 512, m % 8 == 0"
    assert declaration.likely == (128, 256)
    assert [r.kind for r in function.facts.relations] == list(
        (RelKind.EQ, RelKind.GE, RelKind.SAME_NUMEL, RelKind.NONZERO, RelKind.DIVIDES, RelKind.BROADCASTS)
    )
    assert function.facts.relations[1].reason == Reason("maximum of nothing has no value", Loc("my model.py", 3))
    assert function.ops[0].loc == Loc("model.py", 4)


def test_without_lines() -> None:
    text = print_function(parse_function(TEXT), locs=False)
    assert " @" not in text.removeprefix("func @")
    again = parse_function(text)
    assert print_function(again, locs=False) == text


@hypothesis.given(function=functions())
def test_random_programs(function: Function) -> None:
    verify(roundtrip(function))


# ---- attributes ------------------------------------------------------------------------------------------------------

STRINGS = st.text(st.characters(codec="utf-8")) | st.sampled_from(['"', "\\", "\n", 'a"}\n', "\u2028", "%0 = x"])


def denses() -> st.SearchStrategy[Dense]:
    @st.composite
    def make(draw: st.DrawFn) -> Dense:
        element = draw(st.sampled_from(dtypes.ALL))
        shape = draw(st.sampled_from([(), (0,), (1,), (3,), (2, 0), (2, 2)]))
        size = int(np.prod(shape))
        data = draw(st.binary(min_size=size * element.itemsize, max_size=size * element.itemsize))
        if element is dtypes.bool_:
            return Dense(np.array([b & 1 for b in data], bool).reshape(shape))
        return Dense(np.frombuffer(data, element.np).reshape(shape))

    return make()


ATTRS = st.recursive(
    st.one_of(dims(), st.booleans(), st.floats(), st.integers(), STRINGS, st.sampled_from(dtypes.ALL), denses()),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


def with_attrs(attrs: dict[str, Any], shape: tuple[Any, ...] = SYMBOLS_SHAPE) -> Function:  # noqa: F821
    raise NotImplementedError


def function_with(attrs: dict[str, Any]) -> Function:
    """A function with one op, of these attributes."""
    program = Program()
    x = program.param(dtypes.float32, *[as_dim(s) for s in SYMBOLS])
    with registered("anything", lambda ctx, operands, attrs: operands) as anything:
        program.builder.emit(anything, (x,), (), **attrs)
    return program.function(x)


@hypothesis.given(attrs=st.dictionaries(st.sampled_from(["a", "value", "größe"]), ATTRS))
def test_attributes(attrs: dict[str, Any]) -> None:
    with registered("anything", lambda ctx, operands, attrs: operands):
        roundtrip(function_with_op(attrs))
"""
