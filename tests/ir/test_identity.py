"""A function's identity: equal for what is the same to every pass, different for everything that a pass may look at."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import hypothesis
import numpy as np

from dyn import dtypes
from dyn.ir.core import Function, ParamInfo
from dyn.ir.identity import function_identity
from dyn.ir.parser import parse_function
from dyn.ir.printer import print_function
from dyn.ops import OWN_OPS
from dyn.shapes import Facts, Reason, Relation, RelKind, as_dim, symbol
from tests.ir.programs import Program, functions, registered

_WHY = Reason("it is so")


def identity(function: Function, *guards: Relation) -> str:
    found = function_identity(function, OWN_OPS, guards).named
    assert found is not None
    return found


def _nan(bits: int) -> float:
    return struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0000 | bits))[0]


def small(
    *,
    names: tuple[str, str] = ("m", "n"),
    older: bool = False,
    declare: Callable[[Facts, Any, Any], Facts] = lambda facts, m, n: facts,
    constant: Any = 1.5,
    element: dtypes.DType = dtypes.float32,
    op: str = "add",
    swap: bool = False,
    weak: bool = False,
    hidden: bool = False,
    attrs: tuple[Any, ...] = (0, 1),
    unused: bool = False,
    results: int = 1,
    was: bool = False,
) -> Function:
    """``x + c`` with everything about it to be chosen."""
    m, n = (symbol(name, f"x.shape[{axis}]") for axis, name in enumerate(names))
    if older:
        n, m = (symbol(name, f"x.shape[{axis}]") for axis, name in ((1, names[1]), (0, names[0])))
    p = Program(declare(Facts.EMPTY, m, n))
    x = p.param(element, as_dim(m), as_dim(n), hidden=hidden)
    c = p.constant(constant, element)
    wide = p.op("broadcast_in_dim", c, shape=x.shape, dims=())
    y = p.op(op, *((wide, x) if swap else (x, wide)))
    if unused:
        p.op("negate", y)
    z = p.op("transpose", y, permutation=attrs)
    function = p.function(*([z] * results))
    if was:
        return Function(
            function.name, function.params, function.ops, function.results, function.facts,
            (ParamInfo("x0", hidden, (as_dim(n), as_dim(m))),), function.result_names,
        )  # fmt: skip
    return function


def _declared(*symbols: int, **how: Any) -> Callable[[Facts, Any, Any], Facts]:
    def declare(facts: Facts, m: Any, n: Any) -> Facts:
        for number in symbols:
            facts = facts.declare((m, n)[number], min=1, reason=_WHY, **how)
        return facts

    return declare


def _assumed(kind: RelKind, swapped: bool = False) -> Callable[[Facts, Any, Any], Facts]:
    def declare(facts: Facts, m: Any, n: Any) -> Facts:
        lhs, rhs = (n, m) if swapped else (m, n)
        return facts.assume(Relation(kind, as_dim(lhs), as_dim(rhs), _WHY))

    return declare


DIFFERENT: dict[str, dict[str, Any]] = {
    "as it is": {},
    "other names": {"names": ("m", "k")},
    "names exchanged": {"names": ("n", "m")},
    "other ages": {"older": True},
    "a least size": {"declare": _declared(0)},
    "of the other": {"declare": _declared(1)},
    "of both": {"declare": _declared(0, 1)},
    "of both, in another order": {"declare": _declared(1, 0)},
    "a largest size": {"declare": _declared(0, max=9)},
    "a factor": {"declare": _declared(0, multiple_of=2)},
    "what is likely": {"declare": _declared(0, likely=(4,))},
    "equal": {"declare": _assumed(RelKind.EQ)},
    "no smaller": {"declare": _assumed(RelKind.GE)},
    "no larger": {"declare": _assumed(RelKind.GE, swapped=True)},
    "a divisor": {"declare": _assumed(RelKind.DIVIDES)},
    "another constant": {"constant": 1.25},
    "zero": {"constant": 0.0},
    "minus zero": {"constant": -0.0},
    "not a number": {"constant": np.array(_nan(0)), "element": dtypes.float64},
    "not a number, other bits": {"constant": np.array(_nan(1)), "element": dtypes.float64},
    "another dtype": {"element": dtypes.float16},
    "one of as many bits": {"element": dtypes.bfloat16},
    "another op": {"op": "multiply"},
    "other operands": {"swap": True},
    "captured": {"hidden": True},
    "another attribute": {"attrs": (1, 0)},
    "True for 1": {"attrs": (0, True)},
    "an op that nobody reads": {"unused": True},
    "a result twice": {"results": 2},
    "dims from before": {"was": True},
}


def test_everything_that_a_pass_may_look_at_counts() -> None:
    found = {what: identity(small(**options)) for what, options in DIFFERENT.items()}
    for one, other in itertools.combinations(found, 2):
        assert found[one] != found[other], (one, other)


def test_the_same_made_again_is_the_same() -> None:
    for what, options in DIFFERENT.items():
        assert identity(small(**options)) == identity(small(**options)), what


def test_guards_count() -> None:
    function = small()
    m, n = function.params[0].shape
    guards = [Relation(RelKind.EQ, m, n, _WHY), Relation(RelKind.GE, m, n, _WHY)]
    found = [identity(function, *some) for some in ([], guards[:1], guards[1:], guards, guards[::-1])]
    assert len(set(found)) == len(found)


def test_reasons_and_lines_do_not_count() -> None:
    def declare(text: str) -> Callable[[Facts, Any, Any], Facts]:
        return lambda facts, m, n: facts.declare(m, min=2, reason=Reason(text))

    assert identity(small(declare=declare("one"))) == identity(small(declare=declare("another")))


def test_numbers_of_other_types_are_no_numbers_of_pythons() -> None:
    class Axis(IntEnum):
        ONE = 1

    assert identity(small(attrs=(0, Axis.ONE))) != identity(small())
    assert function_identity(small(attrs=(0, np.int64(1))), OWN_OPS).named is None


def test_what_is_not_dyns_own_has_no_identity() -> None:
    with registered("somebodys_op", lambda context, types, attrs: (types[0],)):
        p = Program()
        x = p.param(dtypes.float32, as_dim(symbol("m")))
        assert function_identity(p.function(p.op("somebodys_op", x)), OWN_OPS).named is None
    p = Program()
    x = p.param(dtypes.float32, as_dim(symbol("m")))
    function = p.function(p.op("negate", x))
    function.ops[0].attrs["somebodys"] = {1, 2}  # pyright: ignore[reportIndexIssue]  # a dict behind the Mapping
    assert function_identity(function, OWN_OPS).named is None


@hypothesis.given(functions(), functions())
def test_functions_of_different_texts_differ(one: Function, other: Function) -> None:
    assert identity(one) == identity(one)
    if print_function(one, locs=False) != print_function(other, locs=False):
        assert identity(one) != identity(other)


@hypothesis.given(functions())
def test_a_function_that_is_read_back_is_the_same(function: Function) -> None:
    once = parse_function(print_function(function))
    assert identity(parse_function(print_function(once))) == identity(once)
