"""Named dimensions, and the texts of shapes and constraints."""

from __future__ import annotations

import pytest

from dyn.errors import ArgumentError
from dyn.shapes import NamedDim, RelKind, as_dim, parse_constraints, parse_shapes, symbol

SCOPE = {name: symbol(name) for name in "ns"}
n, s = map(as_dim, SCOPE.values())


def test_named_dim():
    dim = NamedDim("s", min=1, max=512, multiple_of=8, likely=[128, 256])  # pyright: ignore[reportArgumentType]
    assert str(dim) == "s"
    assert dim.likely == (128, 256)
    assert dim.describe() == "1 <= s <= 512, s % 8 == 0"
    assert NamedDim("s").describe() == "s >= 0"
    assert [size for size in range(20) if dim.allows(size)] == [8, 16]
    assert NamedDim("s") == NamedDim("s")


def test_a_dim_is_shown_as_the_call_that_makes_it() -> None:
    assert repr(NamedDim("s")) == "Dim('s')"
    for shown in ("Dim('s', min=1)", "Dim('s', max=0)", "Dim('s', min=2, max=8, multiple_of=2, likely=(4,))"):
        assert repr(eval(shown, {"Dim": NamedDim})) == shown


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"name": "2s"}, "dyn.Dim('2s'): the name must be an identifier, as in dyn.Dim('s')."),
        ({"name": "_"}, "dyn.Dim('_'): the name must be an identifier, as in dyn.Dim('s')."),
        ({"min": -1}, "dyn.Dim('s'): min is -1, but a size is at least 0."),
        ({"min": 5, "max": 3}, "dyn.Dim('s'): no size satisfies 5 <= s <= 3."),
        ({"min": 5, "max": 7, "multiple_of": 8}, "dyn.Dim('s'): no size satisfies 5 <= s <= 7, s % 8 == 0."),
        ({"multiple_of": 0}, "dyn.Dim('s'): multiple_of is 0, but must be at least 1."),
        ({"max": 10, "likely": (11,)}, "dyn.Dim('s'): the likely size 11 does not satisfy 0 <= s <= 10."),
        ({"min": True}, "dyn.Dim('s'): min must be an integer, got True."),
        ({"likely": ("a",)}, "dyn.Dim('s'): likely must be an integer, got 'a'."),
    ],
)
def test_named_dim_that_is_none(options: dict[str, object], problem: str):
    with pytest.raises(ArgumentError) as error:
        NamedDim(**{"name": "s", **options})  # pyright: ignore[reportArgumentType]
    assert error.value.problem == problem
    assert error.value.remedy == "correct the declaration."


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("b s 768, 768 n", (("b", "s", 768), (768, "n"))),
        ("..., (), _", (None, (), ("_",))),
        ("_ _", (("_", "_"),)),
        ("2*n (n + 1) n//2", (("2*n", "(n + 1)", "n//2"),)),
        ("floordiv(n, 2) n,m", (("floordiv(n, 2)", "n"), ("m",))),
        (" b\ts ,3 ", (("b", "s"), (3,))),
        ("(3) 2*4", ((3, 8),)),
    ],
)
def test_shapes(text: str, shapes: object):
    assert parse_shapes(text) == shapes


@pytest.mark.parametrize(
    ("text", "problem", "column"),
    [
        ("", "cannot read shapes: there is no argument at column 1.", 0),
        ("b,,c", "cannot read shapes: there is no argument at column 3.", 2),
        ("b s,", "cannot read shapes: there is no argument at column 5.", 4),
        ("b ... c", "cannot read shapes: '...' stands for a whole argument, at column 3.", 2),
        ("b (c", "cannot read shapes: '(' at column 3 is not closed.", 2),
        ("b c)", "cannot read shapes: ')' at column 4 closes nothing.", 3),
        ("b 2*_", "cannot read shapes: '_' has no value to compute with, at column 3.", 2),
        ("b *c", "cannot read a dimension: expected a number, a name or '(', found '*' at column 3.", 2),
        ("b -3", "cannot read shapes: the size -3 at column 3 is negative.", 2),
        ("b, s$", "cannot read a dimension: unexpected '$' at column 5.", 4),
        ("b, n//0", "cannot read a dimension: floordiv(n, 0) divides by zero at column 5.", 4),
    ],
)
def test_shapes_that_cannot_be_read(text: str, problem: str, column: int):
    with pytest.raises(ArgumentError) as error:
        parse_shapes(text)
    assert error.value.problem == problem
    assert error.value.notes == (text, " " * column + "^")


def test_whole_message():
    with pytest.raises(ArgumentError) as error:
        parse_shapes("b,,c")
    assert str(error.value).splitlines()[:3] == [
        "cannot read shapes: there is no argument at column 3.",
        "  b,,c",
        "    ^",
    ]
    assert str(error.value).splitlines()[-1] == (
        "  help: write () for an argument of rank 0, or ... to leave one undeclared."
    )


def test_constraints():
    assert parse_constraints("s >= 1, s <= 512, n == 2*s, s % 8 == 0", SCOPE) == (
        (RelKind.GE, s, 1),
        (RelKind.GE, 512, s),
        (RelKind.EQ, n, 2 * s),
        (RelKind.DIVIDES, 8, s),
    )
    assert parse_constraints(["1 <= s < n", "n != 3", "0 == 2*s % 4", "n > s", ""], SCOPE) == (
        (RelKind.GE, s, 1),
        (RelKind.GE, n, s + 1),
        (RelKind.NONZERO, n - 3, 0),
        (RelKind.DIVIDES, 2, s),
        (RelKind.GE, n, s + 1),
    )
    assert parse_constraints("n % s == 0, s % 8 == 3", SCOPE) == ((RelKind.EQ, n % s, 0), (RelKind.EQ, s % 8, 3))
    assert parse_constraints((), SCOPE) == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("s", "expected a comparison, found the end at column 2"),
        ("s = 3", "unexpected '=' at column 3"),
        ("s == 3 n", "expected ',' or the end, found 'n' at column 8"),
        ("q > 1", "unknown name 'q' (known: n, s) at column 1"),
        ("s > ", "expected a number, a name or '(', found the end at column 5"),
        ("s > 1,", "expected a number, a name or '(', found the end at column 7"),
    ],
)
def test_constraints_that_cannot_be_read(text: str, problem: str):
    with pytest.raises(ArgumentError) as error:
        parse_constraints(text, SCOPE)
    assert error.value.problem == f"cannot read a dimension: {problem}."
