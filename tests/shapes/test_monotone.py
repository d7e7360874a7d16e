"""More facts never lose a proof."""

from __future__ import annotations

import itertools

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyn.errors import ShapeError
from dyn.shapes import Dim, Facts, Relation, RelKind, as_dim, broadcast, dim_max, dim_min
from tests.shapes.worlds import REASON, SYMBOLS, affine, cut, quick, relations

a, b, c, d = map(as_dim, SYMBOLS)
GE, EQ, NONZERO, DIVIDES, BROADCASTS = RelKind.GE, RelKind.EQ, RelKind.NONZERO, RelKind.DIVIDES, RelKind.BROADCASTS

#: True of all sizes.
ALWAYS: list[tuple[RelKind, Dim, Dim]] = [
    (GE, a, a // 2),
    (GE, b * a, 0),
    (GE, a, dim_min(a, b)),
    (GE, a + b, dim_max(a, b)),
    (GE, a, a % 4),
    (GE, 8 * ((a + 7) // 8), a),
    (GE, a, dim_max(a - 1, 0)),
    (EQ, 4 * (a // 4) + a % 4, a),
    (EQ, a - dim_min(1, a), dim_max(a - 1, 0)),
    (GE, a, dim_max(0, dim_min(c, a) - dim_min(b, a))),
    (BROADCASTS, broadcast(a, b), a),
]


#: Assignments that a random demand can hardly miss altogether.
SMALL = [dict(zip(SYMBOLS, sizes, strict=True)) for sizes in itertools.product(range(7), repeat=len(SYMBOLS))]


def more(facts: Facts, demands: list[Relation]) -> list[Facts]:
    """The facts with one demand after another, those that contradict them left out."""
    chain = [facts]
    for demand in demands:
        try:
            chain.append(chain[-1].assume(demand))
        except ShapeError:
            continue
    return chain


@given(st.lists(relations(st.one_of(affine(), affine(), cut())), max_size=5))
@hypothesis.settings(quick, max_examples=hypothesis.settings().max_examples)
def test_what_is_always_so_is_always_proved(demands: list[Relation]):
    for facts in more(Facts.EMPTY, demands):
        for kind, x, y in ALWAYS:
            assert facts.ask(Relation(kind, x, y, REASON)).proved, (Relation(kind, x, y, REASON).describe(), facts)


@given(st.lists(relations(affine()), min_size=2, max_size=5), relations(affine()))
@quick
def test_a_proof_is_not_lost(demands: list[Relation], question: Relation):
    proved = False
    for facts in more(Facts.EMPTY, demands):
        if not any(all(r.holds(env) for r in facts.relations) for env in SMALL):
            return  # sizes that cannot be: of these anything may be said
        answer = facts.ask(question)
        assert answer.proved or not proved, (question.describe(), facts)
        proved = answer.proved


@pytest.mark.parametrize(
    "relation",
    [
        (GE, 3 * a + (a + b) // 4 + 1, -2 * (a // 2)),
        (GE, -2 * (a // 2), -2 * c - 3),
        (GE, a * b + 1, 3 * (a // 2) - 2 * a),
        (DIVIDES, 7, 3 * dim_min(a, c) + 2),
        (NONZERO, a * b - 3, 0),
    ],
)
def test_relations_that_once_cost_a_proof(relation: tuple[RelKind, Dim, Dim]):
    facts = Facts.EMPTY.assume(Relation(*relation, REASON))
    facts = facts.assume(Relation(GE, 2 * (a // 2) + (a + b) // 4 + 2, 3 - 2 * a, REASON))
    for kind, x, y in ALWAYS:
        assert facts.ask(Relation(kind, x, y, REASON)).proved
