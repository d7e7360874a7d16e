"""What real programs ask of their shapes: convolutions, slices, padding, splits, heads, broadcast chains.

Each question is proved, and then judged on every small assignment that the facts allow: a slip of the pen in a question
would be found there.
"""

from __future__ import annotations

import itertools

import pytest

from dyn.errors import ShapeError
from dyn.shapes import (
    Dim,
    Facts,
    Reason,
    Relation,
    RelKind,
    Verdict,
    as_dim,
    broadcast,
    dim_max,
    dim_min,
    evaluate,
    floordiv,
    free_symbols,
    mod,
    numel_relation,
    symbol,
)

EQ, GE, NONZERO = RelKind.EQ, RelKind.GE, RelKind.NONZERO
DIVIDES, BROADCASTS = RelKind.DIVIDES, RelKind.BROADCASTS
REASON = Reason("a test says so")
Rel = tuple[RelKind, Dim, Dim]

b, h, k, m, n, p, s, start, stop = (as_dim(symbol(x)) for x in ["b", "h", "k", "m", "n", "p", "s", "start", "stop"])
#: What x[start:stop] leaves of n, for indices that are not negative.
SLICED = dim_max(0, dim_min(stop, n) - dim_min(start, n))
WINDOWS = (h + 2 * p - k) // s + 1


def given(*relations: Rel) -> Facts:
    facts = Facts.EMPTY
    for relation in relations:
        facts = facts.assume(Relation(*relation, REASON))
    return facts


CONVOLUTIONS: list[tuple[str, tuple[Rel, ...], Rel]] = [
    ("a window fits", ((GE, h, k), (GE, s, 1)), (GE, WINDOWS, 1)),
    ("a window fits into what is padded", ((GE, h + 2 * p, k), (GE, s, 1)), (GE, WINDOWS, 1)),
    ("with a stride that is a number", ((GE, h + 2 * p, k),), (GE, (h + 2 * p - k) // 2 + 1, 1)),
    ("same padding halves", (), (EQ, (h + 2 - 3) // 2 + 1, (h + 1) // 2)),
    ("stride 1 and same padding keep the size", (), (EQ, (h + 2 - 3) // 1 + 1, h)),
    ("the last window ends inside", ((GE, h, 3),), (GE, h, 2 * ((h - 3) // 2) + 3)),
    ("no further one does", (), (GE, 2 * ((h - 3) // 2 + 1) + 2, h)),
    ("a pool is no larger", ((GE, h, 2),), (GE, h, (h - 2) // 2 + 1)),
    ("down and up again", ((DIVIDES, 32, h),), (EQ, 32 * (((((h // 2) // 2) // 2) // 2) // 2), h)),
    ("up and down again", (), (EQ, (2 * h) // 2, h)),
    ("ceilings, written two ways", ((GE, k, 1),), (EQ, -floordiv(-n, k), floordiv(n + k - 1, k))),
    ("a ceiling is at least the floor", ((GE, k, 1),), (GE, floordiv(n + k - 1, k), floordiv(n, k))),
    ("divided twice", ((GE, k, 1), (GE, m, 1)), (EQ, floordiv(floordiv(n, k), m), floordiv(n, k * m))),
]
SLICES: list[tuple[str, tuple[Rel, ...], Rel]] = [
    ("never negative", (), (GE, SLICED, 0)),
    ("no longer than the axis", (), (GE, n, SLICED)),
    ("no longer than its stop", (), (GE, stop, SLICED)),
    ("inside", ((GE, n, stop), (GE, stop, start)), (EQ, SLICED, stop - start)),
    ("x[1:] and x[:-1]", (), (EQ, n - dim_min(1, n), dim_max(n - 1, 0))),
    ("x[:k] and x[k:] make x", (), (EQ, dim_min(k, n) + dim_max(0, n - k), n)),
    ("x[:k] is no longer than x", (), (GE, n, dim_min(n, k))),
    ("x[::2] and x[1::2] make x", (), (EQ, (n + 1) // 2 + n // 2, n)),
    ("a clamped index", ((GE, n, 1),), (GE, n - 1, dim_max(0, dim_min(k, n - 1)))),
    ("a clamped slice stays inside", ((GE, n, k),), (GE, n, dim_min(start, n - k) + k)),
    ("one more than what is left", (), (EQ, dim_max(n - 1, 0) + 1, dim_max(n, 1))),
    ("minima move with numbers", (), (EQ, dim_min(n + 1, m + 1), dim_min(n, m) + 1)),
    ("the smaller and the larger", (), (EQ, dim_min(n, m) + dim_max(n, m), n + m)),
    ("a divisor that is never 0", (), (GE, n, floordiv(n * m, dim_max(m, 1)))),
]
PADDING: list[tuple[str, tuple[Rel, ...], Rel]] = [
    ("up to a multiple", (), (GE, 8 * ((n + 7) // 8), n)),
    ("by less than the multiple", (), (GE, 7, 8 * ((n + 7) // 8) - n)),
    ("which is a multiple", (), (DIVIDES, 8, n + -n % 8)),
    ("written with a remainder", (), (EQ, n + -n % 8, 8 * ((n + 7) // 8))),
    ("which padding again keeps", (), (EQ, (8 * ((n + 7) // 8) + 7) // 8, (n + 7) // 8)),
    ("up to a symbolic multiple", ((GE, k, 1),), (GE, k * floordiv(n + k - 1, k), n)),
    ("a multiple needs none", ((DIVIDES, 8, n),), (EQ, -n % 8, 0)),
    ("multiples divide", ((DIVIDES, 8, n),), (EQ, (n // 8) * 8, n)),
    ("and leave nothing", ((DIVIDES, 8, n),), (EQ, n % 4, 0)),
    ("cropped, then padded", ((GE, n, k),), (EQ, dim_min(n, k) + (n - k), n)),
    ("concatenated parts are shorter", (), (GE, n + m, dim_max(n, m))),
    ("and as long together", ((EQ, h, n + m), (EQ, s, h + k)), (EQ, s - m, n + k)),
    ("a quotient and its remainder", ((GE, k, 1),), (EQ, k * floordiv(n, k) + mod(n, k), n)),
    ("a quotient is smaller", ((GE, k, 1),), (GE, n, floordiv(n, k))),
    ("products of consecutive sizes are even", (), (DIVIDES, 2, n * (n + 1))),
    ("a product of sizes that are not 0", ((GE, n, 1), (GE, m, 1)), (GE, n * m, n + m - 1)),
]
JOINS: list[tuple[str, tuple[Rel, ...], Rel]] = [
    ("at least 1 where all are", ((GE, n, 1), (GE, m, 1)), (GE, broadcast(n, m), 1)),
    ("with one of its own", (), (BROADCASTS, broadcast(n, m), n)),
    ("each link of a chain", ((BROADCASTS, n, m), (BROADCASTS, broadcast(n, m), s)), (BROADCASTS, n, s)),
    ("what each link fits", ((BROADCASTS, n, s), (BROADCASTS, m, s)), (BROADCASTS, broadcast(n, m), s)),
    ("after an equality", ((EQ, n, m),), (EQ, broadcast(n, s), broadcast(m, s))),
    ("with a size that is not 1", ((BROADCASTS, n, m), (GE, n, 2)), (EQ, broadcast(n, m), n)),
    ("is one of them", ((GE, s, n), (GE, s, m)), (GE, s, broadcast(n, m))),
]


def judged(relations: tuple[Rel, ...], question: Rel) -> int:
    """The number of assignments of small sizes that the relations allow; the question holds for each."""
    asked = Relation(*question, REASON)
    wanted = [Relation(*relation, REASON) for relation in relations]
    dims = [dim for relation in (*relations, question) for dim in relation[1:]]
    symbols = sorted({sym for dim in dims for sym in free_symbols(dim)}, key=lambda sym: sym.uid)
    count = 0
    for sizes in itertools.product((0, 1, 2, 3, 5, 8, 9), repeat=len(symbols)):
        env = dict(zip(symbols, sizes, strict=True))
        try:
            [evaluate(dim, env) for dim in question[1:]]
        except ShapeError:
            continue
        if all(relation.holds(env) for relation in wanted):
            count += 1
            assert asked.holds(env), (asked.describe(), env)
    return count


@pytest.mark.parametrize(
    ("relations", "question"),
    [pytest.param(*case[1:], id=case[0]) for case in (*CONVOLUTIONS, *SLICES, *PADDING, *JOINS)],
)
def test_programs(relations: tuple[Rel, ...], question: Rel):
    assert given(*relations).ask(Relation(*question, REASON)).proved
    assert judged(relations, question) > 0


@pytest.mark.parametrize(
    ("relations", "left", "right"),
    [
        ((), (b, s, 768), (b * s, 768)),
        ((), (b, s, 12, 64), (b, s, 768)),
        (((DIVIDES, 64, n),), (b, n), (b, n // 64, 64)),
        (((GE, m, 1), (DIVIDES, m, n)), (n,), (floordiv(n, m), m)),
        (((GE, m, 1),), (n, m), (n * m // 1, 1)),
        (((GE, b, 1),), (b, s, k), (b, floordiv(b * s * k, b))),
        (((EQ, h, 2 * k),), (b, h, s), (b, 2, k, s)),
    ],
)
def test_reshapes(relations: tuple[Rel, ...], left: tuple[Dim, ...], right: tuple[Dim, ...]):
    relation = numel_relation(left, right, REASON)
    assert given(*relations).ask(relation).proved
    assert judged(relations, (EQ, relation.lhs, relation.rhs)) > 0


def test_slices_that_are_one_shape_are_one_object():
    assert Facts.EMPTY.simplify(n - dim_min(n, 1)) == dim_max(n - 1, 0)
    assert Facts.EMPTY.simplify(n - dim_max(n - 3, 0)) == dim_min(n, 3)
    assert Facts.EMPTY.simplify(dim_max(0, n - dim_min(n, k))) == dim_max(n - k, 0)
    assert Facts.EMPTY.simplify(2 * n - dim_min(m, k)) == 2 * n - dim_min(m, k)


@pytest.mark.parametrize(
    ("relations", "question"),
    [
        ((), (EQ, dim_max(n, 1), 0)),
        ((), (GE, dim_min(n, m), n + 1)),
        (((GE, k, 1),), (GE, floordiv(n, k), n + 1)),
        ((), (DIVIDES, 4, n * n + 2)),
        ((), (EQ, dim_min(n, m) + dim_max(n, m), n + m + 1)),
        (((GE, h, k), (GE, s, 1)), (GE, 0, WINDOWS)),
    ],
)
def test_what_is_never_so(relations: tuple[Rel, ...], question: Rel):
    assert given(*relations).ask(Relation(*question, REASON)).verdict is Verdict.REFUTED
