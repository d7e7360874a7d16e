"""Sums of pieces of an array: what is cut and joined again has the size that it had, with nothing known of it."""

from __future__ import annotations

import itertools

import pytest

from dyn.shapes import (
    Dim,
    Facts,
    SymExpr,
    as_dim,
    dim_difference,
    dim_max,
    dim_min,
    dim_sum,
    evaluate,
    free_symbols,
    symbol,
)
from dyn.shapes.sums import without_complements

_N, _K, _M = (as_dim(symbol(name)) for name in "nkm")


@pytest.mark.parametrize(
    ("parts", "whole"),
    [
        ((dim_min(1, _N), dim_max(_N - 1, 0)), _N),
        ((dim_max(0, _N - 3), dim_min(3, _N)), _N),
        ((dim_min(_N, _K), dim_max(_N - _K, 0)), _N),
        ((dim_min(_N, _K), dim_max(_K, _N)), _N + _K),
        ((dim_min(_N, 4), dim_max(_N, 4) - 4), _N),
        ((_M, 2, dim_min(1, _N), dim_max(_N - 1, 0)), _M + _N + 2),
        ((dim_min(1, _N), dim_min(1, _K), dim_max(_N - 1, 0), dim_max(_K - 1, 0)), _N + _K),
        ((_M * dim_min(1, _N), _M * dim_max(_N - 1, 0)), _M * _N),
        ((3 * dim_min(1, _N), 3 * dim_max(_N - 1, 0)), 3 * _N),
    ],
)
def test_pieces_make_the_whole(parts: tuple[Dim, ...], whole: Dim) -> None:
    assert dim_sum(parts) is whole


@pytest.mark.parametrize(
    "parts",
    [
        (dim_min(1, _N), dim_max(_N - 2, 0)),
        (dim_min(1, _N), dim_max(_K - 1, 0)),
        (dim_min(1, _N), 2 * dim_max(_N - 1, 0)),
        (dim_min(1, _N), _M * dim_max(_N - 1, 0)),
        (dim_min(1, _N) * dim_min(1, _N), dim_max(_N - 1, 0)),
        (dim_min(1, _N), -dim_max(_N - 1, 0)),
        (dim_min(1, _N, _K), dim_max(_N - 1, 0)),
    ],
)
def test_others_stay(parts: tuple[Dim, ...]) -> None:
    total = parts[0] + parts[1]
    assert dim_sum(parts) is total
    assert without_complements(total) is total


@pytest.mark.parametrize(
    ("whole", "part", "left"),
    [
        (_N, dim_min(1, _N), dim_max(_N - 1, 0)),
        (_N, dim_min(_N, _K), dim_max(_N - _K, 0)),
        (_N, _K, _N - _K),
        (_N, dim_max(_N - 1, 0), dim_min(1, _N)),
        (dim_min(1, _N) + dim_max(_N - 1, 0), dim_min(1, _N), dim_max(_N - 1, 0)),
    ],
)
def test_what_is_left(whole: Dim, part: Dim, left: Dim) -> None:
    assert dim_difference(whole, part) is left


def test_values_stay() -> None:
    """Whatever the shorter sum is, it has the same value for each size."""
    ends = [_N, _K, _N - 1, _N - _K, 0, 2]
    for a, b, c, d in itertools.product(ends, repeat=4):
        plain = dim_min(a, b) + dim_max(c, d)
        short = without_complements(plain)
        for values in itertools.product(range(4), repeat=2):
            symbols = sorted(free_symbols(_N + _K), key=lambda s: s.name)
            sizes = dict(zip(symbols, reversed(values), strict=True))
            assert evaluate(short, sizes) == evaluate(plain, sizes), (a, b, c, d)


def test_facts_find_the_whole() -> None:
    """The sum is found where the parts are alike by what is known alone."""
    facts = Facts.none()
    assert facts.simplify(dim_max(_N - 1, 0) + dim_min(1, _N)) is _N
    assert facts.eq(dim_min(_N, _K) + dim_max(_N - _K, 0), _N).proved


def test_rolls_in_a_loop_stay_small() -> None:
    """Sizes of arrays that are cut and joined in each of many layers do not grow."""
    size: Dim = _N
    for layer in range(300):
        first = dim_min(size, 1 + layer % 3)
        size = dim_sum([dim_max(size - (1 + layer % 3), 0), first])
        assert isinstance(size, SymExpr)
    assert size is _N
