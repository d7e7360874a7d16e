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
from dyn.ir.core import Dense, Function, Op, ParamInfo, Region, Value, buffers
from dyn.ir.parser import parse_function
from dyn.ir.printer import print_function
from dyn.ir.types import TensorType
from dyn.ir.verifier import verify
from dyn.shapes import (
    Facts,
    Reason,
    Relation,
    RelKind,
    as_dim,
    broadcast,
    dim_max,
    dim_min,
    floordiv,
    mod,
    numel_relation,
    symbol,
)
from dyn.source import Loc
from tests.ir.programs import LOC, Program, functions, registered
from tests.shapes.worlds import SYMBOLS, dims

TEXT = """\
func @softmax(%x: f32[m, n] "x", %0: f64[n] "params['w']" hidden was [k], %y: f16[h, j]~ "y") -> (f32[m, n] "result") {
  dim m: "x.shape[0]" min 1 max 512 multiple_of 8 likely 128, 256 "dyn.Dim('m') says so"
  dim n: "x.shape[1]"
  dim k: "w.shape[0]"
  dim h: "y.shape[0]"
  dim j: "y.shape[1]"
  fact n == k "the \\"rows\\" agree" @ model.py:2
  fact m*n >= m "maximum of nothing has no value" @ "my model.py":3
  fact [h, j] same_numel [m, 2] "reshape" @ "constraints="
  fact h - 3 nonzero 0 "a branch"
  fact 4 divides h "heads"
  fact j broadcasts n "x + y"
  %1 = reduce(%x) {axes = [1], combine = "maximum", nonempty = true} : f32[m]  @ model.py:4
  %2 = broadcast_in_dim(%1) {dims = [0], shape = [m, n]} : f32[m, n]  @ model.py:5
  return %2
}
"""


def roundtrip(function: Function, *, locs: bool = True) -> Function:
    """The function read back, whose text is the same."""
    text = print_function(function, locs=locs)
    again = parse_function(text, buffers(function.ops))
    assert print_function(again, locs=locs) == text
    return again


def test_text() -> None:
    function = parse_function(TEXT)
    assert print_function(function) == TEXT
    assert function.infos == (ParamInfo("x"), ParamInfo("params['w']", True, function.infos[1].dims), ParamInfo("y"))
    assert [str(d) for d in function.infos[1].dims or ()] == ["k"]
    assert function.result_names == ("result",)
    (declaration,) = function.facts.declarations
    assert declaration.describe() == "1 <= m <= 512, m % 8 == 0"
    assert declaration.likely == (128, 256)
    assert [r.kind for r in function.facts.relations] == [
        RelKind.EQ,
        RelKind.GE,
        RelKind.SAME_NUMEL,
        RelKind.NONZERO,
        RelKind.DIVIDES,
        RelKind.BROADCASTS,
    ]
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

# Every character but the surrogates; st.characters builds a table on its first use, which is slow and, in a fresh
# checkout with several workers, was seen to go wrong.
CHARACTERS = (st.integers(32, 126) | st.integers(0, 0xD7FF) | st.integers(0xE000, 0x10FFFF)).map(chr)
STRINGS = st.text(CHARACTERS) | st.sampled_from(['"', "\\", "\n", 'a"}\n', "\u2028", "%0 = x"])


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


@hypothesis.given(attrs=st.dictionaries(st.sampled_from(["a", "value", "größe"]), ATTRS))
def test_attributes(attrs: dict[str, Any]) -> None:
    with registered("anything", lambda ctx, operands, attrs: operands) as anything:
        program = Program()
        x = program.param(dtypes.float32, *[as_dim(s) for s in SYMBOLS])
        program.builder.emit(anything, (x,), (), **attrs)
        function = program.function(x)
        for old, new in zip(function.ops, roundtrip(function).ops, strict=True):
            assert set(old.attrs) == set(new.attrs)
            for name, value in old.attrs.items():
                if isinstance(value, str | bool | np.dtype):
                    assert new.attrs[name] == value


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (np.array([True, False]), "dense(i1[2], true, false)"),
        (np.array([-(2**63), 2**63 - 1]), "dense(i64[2], -9223372036854775808, 9223372036854775807)"),
        (np.array([0, 2**64 - 1], np.uint64), "dense(u64[2], 0, 18446744073709551615)"),
        (np.array([0.1, -0.0, np.inf, np.nan], np.float16), "dense(f16[4], 0.0999755859375, -0.0, inf, nan)"),
        (np.array([0.1, -np.inf], dtypes.bfloat16.np), "dense(bf16[2], 0.10009765625, -inf)"),
        (np.array(0.1), "dense(f64[], 0.1)"),
        (np.array(complex(np.inf, -0.0), np.complex64), "dense(c64[], inf, -0.0)"),
        (np.array([complex(np.nan, 1)]), "dense(c128[1], nan, 1.0)"),
        (np.zeros((2, 0), np.int8), "dense(i8[2, 0])"),
        (np.array(1, ">i4"), "dense(i32[], 1)"),
        (np.full((8, 8), -0.0), "dense(f64[8, 8], all -0.0)"),
        (np.full(100, np.nan, np.float16), "dense(f16[100], all nan)"),
        (np.full(64, 2, dtypes.bfloat16.np), "dense(bf16[64], all 2.0)"),
        (np.full(64, 1 - 2j, np.complex64), "dense(c64[64], all 1.0, -2.0)"),
        (np.broadcast_to(np.True_, (1 << 20, 1 << 20)), "dense(i1[1048576, 1048576], all true)"),
        (
            np.arange(64, dtype=np.int8),
            'dense(i8[64], sha256 "fdeab9acf3710362bd2658cdc9a29e8f9c757fcf9811603a8c447cd1d9151108")',
        ),
    ],
)
def test_dense(array: Any, text: str) -> None:
    program = Program()
    function = program.function(program.op("constant", value=Dense(array)))
    assert f"{{value = {text}}}" in print_function(function)
    (op,) = roundtrip(function).ops
    assert op.attrs["value"] == Dense(array)


def test_a_large_constant_is_in_no_text() -> None:
    program = Program()
    dense = Dense(np.arange(10**6, dtype=np.float32))
    function = program.function(program.op("constant", value=dense))
    text = print_function(function)
    assert len(text) < 300
    (op,) = parse_function(text, buffers(function.ops)).ops
    assert op.attrs["value"] is dense
    wanted = (
        "line 2, column 55: the elements of this constant, f32[1000000], are not in the text, and not among the "
        "constants given: print and parse with dyn.ir.core.buffers(function.ops)"
    )
    other = Dense(dense.array.view(np.int32))
    assert other.content == dense.content
    for constants in (None, {}, {dense.content.hex(): other}, {"": dense}):
        with pytest.raises(IRError) as error:
            parse_function(text, constants)
        assert str(error.value) == wanted


def test_elements_that_are_all_written_out() -> None:
    """Any number of them may be: a text from elsewhere need not know what lies in a buffer."""
    items = ", ".join(str(n) for n in range(100))
    constant = f"%0 = constant() {{value = dense(i32[100], {items})}} : i32[100]"
    text = f"func @f() -> (i32[100]) {{\n  {constant}\n  return %0\n}}\n"
    (op,) = parse_function(text).ops
    np.testing.assert_array_equal(op.attrs["value"].array, np.arange(100))


# ---- declarations, facts, places -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["true", "dense", "inf", "min", "dim", "fact", "divides", "return", "größe"])
def test_dims_with_names_that_mean_something(name: str) -> None:
    sym = symbol(name, "x.shape[0]")
    n = as_dim(sym)
    facts = Facts.EMPTY.declare(sym, min=3, reason=Reason("it says so"))
    program = Program(facts.assume(Relation(RelKind.DIVIDES, 2, n, Reason("heads"))))
    x = program.param(dtypes.float32, n, dim_min(n, 9) + 1)
    roundtrip(program.function(program.op("dim_size", size=n, dtype=dtypes.int64), x))


@hypothesis.given(shape=st.lists(dims(count=4), max_size=3), order=st.permutations(SYMBOLS))
def test_dims(shape: list[Any], order: list[Any]) -> None:
    program = Program()
    program.param(dtypes.float32, *[as_dim(s) for s in order])
    roundtrip(program.function(program.param(dtypes.float32, *shape)))


def test_every_kind_of_dim() -> None:
    a, b, c = (as_dim(s) for s in SYMBOLS[:3])
    shape = (a * a * a, floordiv(a, 2), mod(a, b), dim_max(a, b, 7), broadcast(a, b, c), -b + 2 * c)
    program = Program()
    program.param(dtypes.float32, a, b, c)
    text = print_function(roundtrip(program.function(program.param(dtypes.float32, *shape))))
    assert "f32[a**3, floordiv(a, 2), mod(a, b), max(7, a, b), broadcast(a, b, c), -b + 2*c]" in text


def test_symbols_of_one_name() -> None:
    first, second = (symbol("n", f"{x}.shape[0]") for x in "xy")
    program = Program()
    program.param(dtypes.float32, as_dim(second), as_dim(first) * as_dim(second))
    text = print_function(roundtrip(program.function()))
    assert '%x0: f32[n_2, n*n_2] "x0"' in text


@pytest.mark.parametrize("reason", ["", 'a "quoted" \\ text', "line\nbreak", "größe"])
def test_reasons_and_origins(reason: str) -> None:
    sym = symbol("n", f"x[{reason!r}].shape[0]")
    facts = Facts.EMPTY.declare(sym, max=9, reason=Reason(reason, LOC))
    facts = facts.assume(numel_relation((as_dim(sym), 2), (6,), Reason(reason, Loc(f"/tmp/{reason}.py", 3))))
    program = Program(facts)
    program.param(dtypes.float32, as_dim(sym), name="x")
    again = roundtrip(program.function())
    (relation,) = again.facts.relations
    assert relation.reason.text == reason
    assert relation.lhs_shape is not None
    assert again.facts.declarations[0].reason == Reason(reason, Loc("model.py", 3))


@pytest.mark.parametrize(
    "file", ["model.py", "my model.py", "<ipython-input-3>", "a:b.py", 'q"q.py', "größe.py", "3d.py"]
)
@pytest.mark.parametrize("line", [0, 7])
def test_locs(file: str, line: int) -> None:
    program = Program()
    program.builder.loc = Loc(file, line)
    x = program.param(dtypes.float32)
    (op,) = roundtrip(program.function(program.op("negate", x))).ops
    assert (op.loc.file, op.loc.line) == (file, line)


def test_names_of_values() -> None:
    program = Program()
    for name in ("x", "x", "", "2x", "a b", "größe", "x_1"):
        value = Value(TensorType(dtypes.float32, ()), name)
        program.params.append(value)
        program.infos.append(ParamInfo(name))
    text = print_function(roundtrip(program.function(*program.params)))
    assert "return %x, %0, %1, %2, %3, %größe, %x_1" in text


def test_regions_and_weak_types() -> None:
    with registered("loop", lambda ctx, operands, attrs: operands) as loop:
        x, inner, deeper = (Value(TensorType(dtypes.float32, (), weak=True)) for _ in range(3))
        result, made = (Value(TensorType(dtypes.float32, (), weak=True)) for _ in range(2))
        innermost = Region((deeper,), (), (deeper, inner))
        nested = Op(loop, (inner,), {"n": 3}, (made,), LOC, (innermost, Region((), (), ())))
        op = Op(loop, (x,), {}, (result,), LOC, (Region((inner,), (nested,), (made, x)),))
        function = Function("f", (x,), (op,), (result,), Facts.EMPTY, (ParamInfo("x"),))
        assert print_function(verify(roundtrip(function))) == (
            'func @f(%0: f32[]~ "x") -> (f32[]~) {\n'
            "  %1 = loop(%0) (%2: f32[]~) {\n"
            "    %3 = loop(%2) {n = 3} (%4: f32[]~) {\n"
            "      return %4, %2\n"
            "    } () {\n"
            "      return\n"
            "    } : f32[]~  @ model.py:3\n"
            "    return %3, %0\n"
            "  } : f32[]~  @ model.py:3\n"
            "  return %1\n"
            "}\n"
        )


def test_what_is_no_attribute() -> None:
    with registered("anything", lambda ctx, operands, attrs: operands) as anything:
        program = Program()
        program.builder.emit(anything, (program.param(dtypes.float32),), a=[1])
        with pytest.raises(IRError) as error:
            print_function(program.function())
        assert str(error.value) == "[1], a list, is no attribute"


# ---- texts that are wrong --------------------------------------------------------------------------------------------

GOOD = """\
func @f(%x: f32[n] "x") -> (f32[n]) {
  dim n: "x.shape[0]"
  %0 = slice(%x) {limit = [n], start = [0], strides = [1]} : f32[n]  @ model.py:4
  return %0
}
"""


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("func", "fun", "line 1, column 1: expected 'func', not 'fun'"),
        ('f32[n] "x")', 'f33[n] "x")', "line 1, column 13: 'f33' is not a dtype that dyn has"),
        ('f32[n] "x")', 'f32[m] "x")', "line 1, column 17: expected a dim that is declared, not 'm'"),
        ('f32[n] "x")', "f32[n)", "line 1, column 18: expected ',' or ']', not ')'"),
        ("(f32[n])", "(f32[])", "line 1, column 29: the function returns (f32[n])"),
        ("(f32[n])", "()", "line 1, column 29: the function returns (f32[n])"),
        ("(f32[n])", "(f32[n n])", "line 1, column 35: expected ',' or ']', not 'n'"),
        ("dim n", 'dim n: ""\n  dim n', "line 3, column 7: the dim n is declared twice"),
        ('x.shape[0]"', 'x" multiple_of 0', "line 2, column 7: n is declared to be a multiple of 0"),
        ('x.shape[0]"', 'x" min 3 max 2', "line 2, column 7: 3 <= n <= 2 cannot hold"),
        ('x.shape[0]"', 'x" min n', "line 2, column 18: expected an integer, not 'n'"),
        ('x.shape[0]"', 'x" \\', "line 2, column 14: unexpected '\\\\'"),
        ('x.shape[0]"', "x", "line 2, column 10: unexpected '\"'"),
        ("  %0 =", '  fact n + 1 == n ""\n  %0 =', "line 3, column 8: n + 1 == n cannot hold"),
        ("  %0 =", '  fact n < 3 ""\n  %0 =', "line 3, column 10: unexpected '<'"),
        ("  %0 =", '  fact n n ""\n  %0 =', "line 3, column 10: expected a relation, not 'n'"),
        ("slice(", "slic(", "line 3, column 8: expected an op, not 'slic'"),
        ("(%x)", "(%y)", "line 3, column 14: expected a value that is defined, not '%y'"),
        ("%0 =", "%x =", "line 3, column 3: %x is defined twice"),
        ("%0 =", "%0, %1 =", "line 3, column 66: 2 values have 1 types"),
        ("[n],", "[n, %x],", "line 3, column 31: expected a dim, not '%x'"),
        ("start", "limit", "line 3, column 32: the attribute limit stands here twice"),
        ("[0],", "[n**99],", "line 3, column 41: the power 99 is not from 0 to 64"),
        ("[0],", "[mod(n)],", "line 3, column 41: mod takes 2 arguments, not 1"),
        ("[0],", "[min()],", "line 3, column 41: min takes some arguments, not 0"),
        ("[0],", "[floordiv(n, 0)],", "line 3, column 41: floordiv(n, 0) divides by zero"),
        ("[0],", "dense(i8[1], 300),", "line 3, column 40: Python integer 300 out of bounds for int8"),
        ("[0],", "dense(i8[2], 3),", "line 3, column 40: cannot reshape array of size 1 into shape (2,)"),
        ("[0],", "dense(i8[1], 0.5),", "line 3, column 40: the elements are not of type i8"),
        ("[0],", "dense(i8[n], 3),", "line 3, column 40: i8[n] is no type of a dense array"),
        ("[0],", "dense(i8[1, 3),", "line 3, column 53: expected ',' or ']', not ')'"),
        ("[0],", "#i7,", "line 3, column 40: 'i7' is not a dtype that dyn has"),
        ("[0],", "(" * 200, "line 3, column 140: expected fewer brackets inside one another, not '('"),
        ("[0],", "[" * 200, "line 3, column 140: expected fewer brackets inside one another, not '['"),
        ("return", "retur", "line 4, column 3: expected a value or 'return', not 'retur'"),
        ("%0\n}", "%0", "line 4, column 12: expected '}', not the end"),
        ("%0\n}", "%0\n} }", "line 5, column 3: expected the end, not '}'"),
        (GOOD, "", "line 1, column 1: expected 'func', not the end"),
    ],
)
def test_errors(old: str, new: str, problem: str) -> None:
    assert old in GOOD
    with pytest.raises(IRError) as error:
        parse_function(GOOD.replace(old, new, 1))
    assert str(error.value) == problem


def test_huge_texts_are_refused() -> None:
    for dim in ("n" + "*(n + m + k)**60" * 3, "9" * 5000, "-" * 5000 + "n"):
        text = f'func @f(%x: f32[{dim}, n, m, k] "x") -> () {{\n'
        text += "".join(f'  dim {name}: ""\n' for name in "nmk") + "  return\n}\n"
        with pytest.raises(IRError):
            parse_function(text)


def test_mutated_texts() -> None:
    """Whatever is done to a text: it is read, or refused with an IRError."""
    random_ = random.Random(0)
    pieces = [
        "%x",
        "%0",
        "dim",
        "fact",
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        '"',
        ":",
        ",",
        "@ ",
        "-",
        "n",
        "0",
        "dense(",
        "~",
        "**",
    ]
    accepted, places = 0, set[str]()
    for _ in range(4000):
        text = random_.choice((TEXT, GOOD))
        for _ in range(random_.randint(1, 3)):
            start = random_.randrange(len(text))
            stop = start + random_.choice((0, 1, 1, 2, 5, 20))
            new = random_.choice((*pieces, random_.choice(string.printable), text[stop : stop + 5], ""))
            text = text[:start] + new + text[stop:]
        try:
            function = parse_function(text)
        except IRError as error:
            places.add(str(error).partition(" ")[0])
        else:
            accepted += 1
            print_function(function)
    assert places == {"line"}
    assert accepted > 100
