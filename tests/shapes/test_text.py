"""Dimensions as text, both ways."""

from __future__ import annotations

import pytest
from hypothesis import given

from dyn.errors import ArgumentError
from dyn.shapes import Dim, as_dim, broadcast, format_dim, parse_dim, symbol
from tests.shapes.worlds import SYMBOLS, dims, quick

SCOPE = {name: symbol(name) for name in ("n", "m", "x.shape[0]")}
n, m, x0 = map(as_dim, SCOPE.values())


@given(dims(leaves=8))
@quick
def test_parse_is_the_inverse_of_format(dim: Dim):
    parsed = parse_dim(format_dim(dim), {s.name: s for s in SYMBOLS})
    assert parsed is dim or (isinstance(dim, int) and parsed == dim)


@pytest.mark.parametrize(
    ("text", "dim"),
    [
        ("n", n),
        ("12", 12),
        ("-n", -n),
        ("n//2 % 3", (n // 2) % 3),
        ("n - m - 1", n - m - 1),
        ("2*(n + m)**2", 2 * (n + m) * (n + m)),
        ("n - -3", n + 3),
        ("-n*m", -(n * m)),
        ("floordiv(n + 1, 2)", (n + 1) // 2),
        ("broadcast(n, m, 3)", broadcast(n, m, 3)),
        ("min(n) + max(n, 1)*0", n),
        ("x.shape[0] * 2", 2 * x0),
        ("  n  ", n),
        ("n**0", 1),
    ],
)
def test_reading(text: str, dim: Dim):
    assert parse_dim(text, SCOPE) == dim


def test_names_can_be_replaced_and_made():
    assert format_dim(2 * n + m // 2, {SCOPE["n"]: "d0"}) == "2*d0 + floordiv(m, 2)"
    made: list[str] = []

    def scope(name: str):
        made.append(name)
        return SCOPE["n"]

    assert parse_dim("p + q", scope) == 2 * n
    assert made == ["p", "q"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected a number, a name or '(', found the end at column 1"),
        ("n + ", "expected a number, a name or '(', found the end at column 5"),
        ("n $ 2", "unexpected '$' at column 3"),
        ("n m", "expected the end, found 'm' at column 3"),
        ("(n", "expected ')', found the end at column 3"),
        ("sqrt(n)", "no function 'sqrt'; there are floordiv, mod, min, max, broadcast at column 1"),
        ("1 + floordiv(n)", "floordiv takes 2 arguments, got 1, at column 5"),
        ("q + 1", "unknown name 'q' (known: m, n, x.shape[0]) at column 1"),
        ("n // 0", "floordiv(n, 0) divides by zero at column 3"),
        ("n ** m", "expected a number up to 64, found 'm' at column 6"),
        ("n ** 65", "expected a number up to 64, found '65' at column 6"),
        ("(" * 200, "too many nested parentheses at column 101"),
        ("__import__(n)", "no function '__import__'; there are floordiv, mod, min, max, broadcast at column 1"),
    ],
)
def test_what_cannot_be_read(text: str, problem: str):
    with pytest.raises(ArgumentError) as error:
        parse_dim(text, SCOPE)
    assert error.value.problem == f"cannot read a dimension: {problem}."


def test_whole_message():
    with pytest.raises(ArgumentError) as error:
        parse_dim("n + q", SCOPE)
    first, text, caret, where = str(error.value).splitlines()
    assert first == "cannot read a dimension: unknown name 'q' (known: m, n, x.shape[0]) at column 5."
    assert (text, caret) == ("  n + q", "      ^")
    assert where.endswith('parse_dim("n + q", SCOPE)')
