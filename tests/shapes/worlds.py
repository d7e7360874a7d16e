"""Random expressions and relations over a few symbols, and brute force over small sizes to judge what is said."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import hypothesis
from hypothesis import strategies as st

from dyn.errors import ShapeError
from dyn.shapes import (
    Dim,
    Facts,
    Reason,
    Relation,
    RelKind,
    Symbol,
    as_dim,
    broadcast,
    dim_max,
    dim_min,
    evaluate,
    floordiv,
    mod,
    symbol,
)

SYMBOLS = tuple(symbol(name) for name in "abcd")
REASON = Reason("a test says so")
Env = dict[Symbol, int]

#: Six times the examples of the profile in force: they are small, and brute force judges each.
quick = hypothesis.settings(max_examples=6 * hypothesis.settings().max_examples)


def atoms(count: int) -> st.SearchStrategy[Dim]:
    return st.one_of(st.sampled_from([as_dim(s) for s in SYMBOLS[:count]]), st.integers(-4, 12))


def _safely(function, *args: Dim) -> Dim:
    try:
        return function(*args)
    except ShapeError:  # a zero divisor or numbers that do not broadcast
        return args[0]


def dims(count: int = 3, leaves: int = 6) -> st.SearchStrategy[Dim]:
    """Expressions over the first ``count`` symbols."""

    def extend(inner: st.SearchStrategy[Dim]) -> st.SearchStrategy[Dim]:
        pairs = st.tuples(inner, inner)
        return st.one_of(
            pairs.map(lambda p: p[0] + p[1]),
            pairs.map(lambda p: p[0] - p[1]),
            pairs.map(lambda p: p[0] * p[1]),
            st.tuples(inner, st.integers(1, 8)).map(lambda p: floordiv(*p)),
            st.tuples(inner, st.integers(1, 8)).map(lambda p: mod(*p)),
            pairs.map(lambda p: _safely(floordiv, *p)),
            pairs.map(lambda p: _safely(mod, *p)),
            pairs.map(lambda p: dim_min(*p)),
            pairs.map(lambda p: dim_max(*p)),
            pairs.map(lambda p: _safely(broadcast, *p)),
        )

    return st.recursive(atoms(count), extend, max_leaves=leaves)


def affine(count: int = 3) -> st.SearchStrategy[Dim]:
    """Sums of few symbols with small coefficients."""
    terms = st.lists(st.tuples(st.integers(-3, 3), st.sampled_from(SYMBOLS[:count])), max_size=3)
    return st.tuples(st.integers(-4, 8), terms).map(lambda p: sum([k * as_dim(s) for k, s in p[1]], p[0]))


def cut(count: int = 3) -> st.SearchStrategy[Dim]:
    """What slices, windows, padding and joins make of sizes, and small sums of it."""
    size = st.one_of(st.sampled_from([as_dim(s) for s in SYMBOLS[:count]]), affine(count))
    number = st.integers(1, 4)
    divisor = st.one_of(number, st.sampled_from([as_dim(s) for s in SYMBOLS[:count]]))
    one = st.one_of(
        size,
        st.tuples(size, size, size).map(lambda t: dim_max(0, dim_min(t[0], t[2]) - dim_min(t[1], t[2]))),
        st.tuples(size, size).map(lambda t: t[0] - dim_min(*t)),
        st.tuples(size, size).map(lambda t: dim_max(t[0] - t[1], 0)),
        st.tuples(size, divisor).map(lambda t: floordiv(t[0] + t[1] - 1, t[1])),
        st.tuples(size, divisor).map(lambda t: -floordiv(-t[0], t[1])),
        st.tuples(size, size, divisor).map(lambda t: floordiv(t[0] - t[1], t[2]) + 1),
        st.tuples(size, divisor, divisor).map(lambda t: floordiv(floordiv(t[0], t[1]), t[2])),
        st.tuples(size, number).map(lambda t: t[1] * floordiv(t[0] + t[1] - 1, t[1])),
        st.tuples(size, divisor).map(lambda t: t[0] + mod(-t[0], t[1])),
        st.tuples(size, size).map(lambda t: floordiv(t[0] * t[1], dim_max(t[1], 1))),
        st.tuples(size, size).map(lambda t: _safely(broadcast, *t)),
    )
    return st.one_of(one, one, st.tuples(one, st.integers(-2, 2), one).map(lambda t: t[0] + t[1] * t[2]))


def relations(sides: st.SearchStrategy[Dim]) -> st.SearchStrategy[Relation]:
    """Relations between such expressions."""
    plain = st.sampled_from([RelKind.EQ, RelKind.GE, RelKind.NONZERO, RelKind.BROADCASTS, RelKind.SAME_NUMEL])
    return st.one_of(
        st.tuples(plain, sides, sides).map(lambda t: Relation(*t, REASON)),
        st.tuples(st.integers(1, 6), sides).map(lambda t: Relation(RelKind.DIVIDES, *t, REASON)),
    )


def envs(count: int, largest: int) -> Iterator[Env]:
    """Every assignment of small sizes."""
    for sizes in itertools.product(range(largest + 1), repeat=count):
        yield dict(zip(SYMBOLS, sizes, strict=False))


def value(dim: Dim, env: Env) -> int | None:
    """The value, or None where there is none."""
    try:
        return evaluate(dim, env)
    except ShapeError:
        return None


def allowed(facts: Facts, env: Env) -> bool:
    """Whether the facts admit the sizes, by evaluating what a call would check."""
    return all(d.holds(env[d.symbol]) for d in facts.declarations) and all(r.holds(env) for r in facts.relations)
