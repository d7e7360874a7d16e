"""Inequalities of sizes in words, and that they say the same."""

from __future__ import annotations

import itertools

import pytest

from dyn.schedule.launch import Condition
from dyn.shapes import Dim, Symbol, as_dim, dim_max, dim_min, floordiv
from dyn.shapes.inequality_text import at_least, at_most

_N, _M = Symbol("n", "n", 1), Symbol("m", "m", 2)
N, M = as_dim(_N), as_dim(_M)


@pytest.mark.parametrize(
    ("dim", "low", "text"),
    [
        (N, 5, "n >= 5"), (N, 32769, "n > 32768"), (N - 8192, 0, "n >= 8192"), (-N + 7, 0, "n <= 7"),
        (dim_min(-N + 7, M - 32769), 0, "n <= 7 and m > 32768"), (-N * M + 16384, 0, "m*n <= 16384"),
        (N - M, 0, "n >= m"), (N - M, 1, "n > m"), (2 * N - 3 * M + 4, 0, "2*n >= 3*m - 4"),
        (dim_max(N - 3, M - 4), 0, "(n >= 3 or m >= 4)"), (floordiv(N, 2), 3, "floordiv(n, 2) >= 3"), (7, 3, "7 >= 3"),
    ],
)  # fmt: skip
def test_as_people_write_it(dim: Dim, low: int, text: str) -> None:
    assert sorted(at_least(dim, low)) == sorted(text)  # terms of a sum and factors have one order, not this one


@pytest.mark.parametrize(
    "dim", [N, -N, N - M, M - 2 * N + 3, N * M - 9, dim_min(N - 2, 5 - M), dim_max(N - 2, dim_min(M, 7 - N))]
)
def test_it_says_the_same(dim: Dim) -> None:
    """Texts are Python's: their values are those of the inequality."""
    functions = {"floordiv": lambda a, b: a // b, "min": min, "max": max}
    for low, n, m in itertools.product((-3, 0, 1, 9, 17), range(0, 20, 3), range(0, 20, 4)):
        value = eval(str(dim), functions, {"n": n, "m": m})
        for text, wanted in ((at_least(dim, low), value >= low), (at_most(dim, low), value <= low)):
            assert eval(text, functions, {"n": n, "m": m}) == wanted, (text, n, m)


def test_conditions() -> None:
    assert [Condition(N, *bounds).describe() for bounds in ((3, None), (0, 4), (2, 9), (0, 0))] == [
        "n >= 3", "n <= 4", "2 <= n <= 9", "n <= 0",
    ]  # fmt: skip
    assert Condition(N - M, 1, 8).describe() == "n > m and m >= n - 8"
