"""Ratios of sizes against Python's fractions, and conditions that programs of StableHLO ask with them."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

from dyn import shapes
from dyn.interop.sizes.conditions import Comparison, Junction, joined
from dyn.interop.sizes.elements import UnknownError, both, either, opposite
from dyn.interop.sizes.ratios import Ratio
from dyn.interop.stablehlo.claims import relations
from dyn.shapes import Dim, RelKind, evaluate, symbol


def value(ratio: Ratio, sizes: dict[shapes.Symbol, int]) -> Fraction:
    return Fraction(evaluate(ratio.dividend, sizes), evaluate(ratio.divisor, sizes))


def test_arithmetic_is_that_of_fractions() -> None:
    rng = random.Random(0)
    n = symbol("n")
    for _ in range(200):
        size, number = rng.randrange(50), Fraction(rng.randrange(-20, 20), rng.randrange(1, 9))
        a, b, sizes = Ratio(shapes.as_dim(n), rng.randrange(1, 9)), Ratio.of(number), {n: size}
        assert b is not None
        mine, other = value(a, sizes), number
        for made, wanted in ((a + b, mine + other), (a - b, mine - other), (a * b, mine * other), (-a, -mine)):
            assert value(made, sizes) == wanted
            assert evaluate(made.floor(), sizes) == wanted.__floor__()
            assert evaluate(made.ceil(), sizes) == wanted.__ceil__()
            assert (evaluate(made.rest(), sizes) == 0) == (wanted.denominator == 1)
        over = a.over(b)
        assert (over is None) == (other <= 0)
        assert over is None or value(over, sizes) == mine / other
        left, right = (evaluate(one, sizes) for one in a.across(b))
        assert (left < right, left == right) == (mine < other, mine == other)
    assert Ratio.of(float("inf")) is None
    assert Ratio.of(float("nan")) is None
    assert Ratio.of(0.375) == Ratio(3, 8)
    assert Ratio(6).over(Ratio(shapes.as_dim(n))) is None


def conditions() -> tuple[Dim, Comparison, Comparison, Comparison]:
    n = shapes.as_dim(symbol("n"))
    return n, Comparison.of("==", n, 3), Comparison.of(">=", n, 5), Comparison.of("<=", n, 100)


def test_conditions_of_modules_are_joined_by_and_and_or() -> None:
    n, three, five, most = conditions()
    asked: object = None
    either_way = both(asked, either(asked, three, five), most)  # type: ignore[arg-type]
    assert isinstance(either_way, Junction)
    (own,) = either_way.symbols()
    for size in (0, 3, 4, 5, 100, 101):
        assert either_way.holds({own: size}) == ((size == 3 or size >= 5) and size <= 100)
        assert opposite(asked, either_way).holds({own: size}) != either_way.holds({own: size})  # type: ignore[arg-type]
    assert relations(either_way) is None  # one of two holds, of which none is a demand
    both_ways = both(asked, five, most)  # type: ignore[arg-type]
    assert sorted(relations(both_ways) or [], key=str) == sorted([(RelKind.GE, n, 5), (RelKind.GE, 100, n)], key=str)
    assert both(asked, five, False) is False  # type: ignore[arg-type]
    assert either(asked, five, True) is True  # type: ignore[arg-type]
    with pytest.raises(UnknownError):
        both(asked, five, 1)  # type: ignore[arg-type]


def test_demands_of_several_broadcasts_are_all_of_them() -> None:
    n, m = (shapes.as_dim(symbol(name)) for name in "nm")

    def broadcasts(a: Dim, b: Dim) -> object:
        ones = joined(False, Comparison.of("==", a, 1), Comparison.of("==", b, 1))
        return joined(False, Comparison.of("==", a, b), ones)

    both_ways = both(None, broadcasts(n, m), broadcasts(m, n * 2))  # type: ignore[arg-type]
    assert relations(both_ways) == [(RelKind.BROADCASTS, n, m), (RelKind.BROADCASTS, m, n * 2)]


def test_what_is_joined_to_itself_is_itself() -> None:
    n, three, five, _ = conditions()
    assert joined(False, three, three) == joined(True, three, three) == three
    assert relations(Comparison.of("==", n, 3)) == [(RelKind.EQ, n, 3)]
    assert joined(False, joined(False, three, five), three) == joined(False, three, five)


def test_what_facts_refute_is_refuted() -> None:
    n = shapes.as_dim(symbol("n"))
    facts = shapes.Facts.none()
    # A rest by 3 is at most 2, and the greater of 7 - n and n at least 4.
    rest, greater = shapes.mod(n, 3), shapes.dim_max(7 - n, n)
    assert facts.ask(Comparison.of("==", rest, greater).yes).refuted
    assert Comparison.of("==", rest, greater).proved(facts) is False
