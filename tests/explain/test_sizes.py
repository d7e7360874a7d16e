"""Bytes in words: the cases are the formula, and read as conditions of groups do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn import nn
from dyn.explain.sizes import size_cases, size_in_words
from dyn.shapes import Facts, dim_max, dim_min, evaluate, free_symbols, parse_dim, symbol
from dyn.shapes.inequality_text import at_least

M, N = symbol("m"), symbol("n")
NAMES = {"m": M, "n": N}


def words(text: str) -> str:
    return size_in_words(parse_dim(text, NAMES), Facts.none())


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        ("0", "0"),
        ("15360*m*n", "15360*m*n"),
        ("64*floordiv(m*n + 15, 16)", "4*m*n rounded up to 64"),
        ("64*floordiv(m + 15, 16) + 64*floordiv(n + 7, 8) + 64", "4*m + 8*n, each rounded up to 64, plus 64"),
        ("max(64*floordiv(m + 15, 16), 64*floordiv(n + 7, 8))", "max(4*m, 8*n) rounded up to 64"),
        ("64*floordiv(m, 16)", "64*floordiv(m, 16)"),
        ("64*floordiv(n*floordiv(m + 511, 512) + 7, 8)", "8*n*ceil(m / 512) rounded up to 64"),
        ("floordiv(m + n + 7, 8)", "ceil((m + n) / 8)"),
        ("4*m*max(0, min(1, n - 5))", "0 for most sizes; 4*m when n >= 6"),
        ("4*m*max(0, min(1, min(7 - m, n - 32769) + 1))", "0 for most sizes; 4*m when m <= 7 and n > 32768"),
        (
            "m*max(0, min(1, m - 8)) + n*max(0, min(1, n - 8)) + 64",
            "64 for most sizes; m + 64 when m > 8; n + 64 when n > 8; m + n + 64 when m > 8 and n > 8",
        ),
        (
            "m*max(0, min(1, m - 8)) + n*max(0, min(1, 5 - m))",  # which never hold at once
            "0 for most sizes; m when m > 8; n when m <= 4",
        ),
        (
            "max(0, min(1, m - 8)) + max(0, min(1, min(6, m - 9) + 1))",  # the same in other words
            "0 for most sizes; 2 when m > 8",
        ),
        ("n*max(0, min(1, m))", "n*min(1, m)"),  # at most sizes n
    ],
)
def test_formulas_in_words(formula: str, text: str) -> None:
    assert words(formula) == text


def test_many_conditions_are_told_without_their_sizes() -> None:
    formula = " + ".join([f"m*max(0, min(1, {'mn'[k % 2]} - {8 << k}))" for k in range(5)])
    assert words(formula) == (
        "0 for most sizes; other sizes when m > 128, or when m > 32, or when m > 8, or when n > 64, or when n > 16"
    )


def test_conditions_leave_out_what_always_holds() -> None:
    m = parse_dim("m", NAMES)
    assert at_least(dim_min(6, m - 9) + 1, 1) == "m > 8"
    assert at_least(dim_max(0, m - 9), 1) == "(0 >= 1 or m >= 10)"


def softmax(x: Any) -> Any:
    return nn.softmax(x)


def column_sums(x: Any) -> Any:
    return dnp.sum(x, axis=0)


def several(x: Any) -> Any:
    y = nn.softmax(dnp.tanh(x @ x.T), axis=0)
    return dnp.sum(y), dnp.cumsum(x), dnp.sum(dnp.sort(x))


@pytest.mark.parametrize("f", [softmax, column_sums, several], ids=lambda f: f.__name__)
def test_cases_of_programs_are_their_formulas(f: Callable[[Any], Any]) -> None:
    """At sizes on both sides of all conditions the last case that holds has the formula's bytes."""
    compiled = dyn.jit(f)
    compiled(np.ones((3, 3), "f4"))
    compiled(np.ones((0, 1), "f4"))
    assert compiled.cache_info().compiles == 1
    (report,) = compiled.explain().versions
    host, facts = report.optimized.host, report.optimized.function.facts
    edges = (0, 1, 2, 4, 7, 8, 511, 512, 4095, 4096, 8192, 16385, 32768, 32769, 100_000)
    for size in (host.arena, *host.slots):
        cases = size_cases(size, facts)
        symbols = sorted(free_symbols(size), key=lambda s: s.uid)
        for sizes in itertools.product(edges, repeat=len(symbols)):
            env = dict(zip(symbols, sizes, strict=True))
            held = [case for case in cases if all(evaluate(c, env) >= 1 for c in case.conditions)]
            assert evaluate(held[-1].size, env) == evaluate(size, env), env


def test_text_html_and_json() -> None:
    f = dyn.jit(softmax)
    f(np.ones((3, 3), "f4"))
    explained = f.explain()
    memory = explained.as_dict()["ways"][0]["programs"][0]["memory"]
    text = (
        "  memory\n"
        "    arena, in bytes: 0 for most sizes; 4*x_0*x_1 + 8*x_0*ceil(x_1 / 32768) + 8*x_0, each rounded up to 64"
        " when x_0 <= 7 and x_1 > 32768\n"
        "    3 slots, used again as values die:\n"
    )
    assert text in str(explained)
    page = explained._repr_html_()
    assert "<small>0 bytes between kernels for most sizes</small>" in page
    assert "8*x_0 rounded up to 64 when x_0 &lt;= 7 and x_1 &gt; 32768" in page
    when = "max(0, min(1, min(-x_0 + 7, x_1 - 32769) + 1))"
    assert memory["slots"][1] == f"64*floordiv(x_0*{when} + 7, 8)"
    assert memory["slots_in_words"][1] == "0 for most sizes; 8*x_0 rounded up to 64 when x_0 <= 7 and x_1 > 32768"
