"""What is kept of a long program, and what is asked for it, grow with its length and no faster."""

from __future__ import annotations

import pytest

from dyn.shapes import (
    Dim,
    Facts,
    Relation,
    RelKind,
    SymExpr,
    as_dim,
    bound,
    broadcast,
    dim_max,
    dim_min,
    floordiv,
    mod,
    symbol,
)
from dyn.shapes.joins import has_part
from dyn.shapes.models import Assignment
from dyn.shapes.relation import Why
from dyn.shapes.relevant_inequalities import relevant_inequalities
from tests.shapes.worlds import REASON, SYMBOLS

a, b, c, d = map(as_dim, SYMBOLS)


def joined(sizes: list[Dim]) -> tuple[Facts, Dim]:
    """The facts of a sum of arrays of these sizes, and its own."""
    facts, total = Facts.none(), sizes[0]
    for size in sizes[1:]:
        facts = facts.assume(Relation(RelKind.BROADCASTS, total, size, REASON))
        total = facts.simplify(broadcast(total, size))
    return facts, total


def test_what_is_kept_of_sizes_that_fit():
    sizes: list[Dim] = [as_dim(symbol(f"s{i}")) for i in range(40)]
    facts, total = joined(sizes)
    assert sum(len(others) for others in facts._state.broadcasts.values()) == 2 * (len(sizes) - 1)
    for size in sizes[:-1]:  # which nothing says of each: of what they are joined to
        assert facts.broadcasts(size, sizes[-1]).proved
        assert has_part(total, size)
    assert facts.broadcasts(sizes[0], as_dim(symbol("other"))).unknown


def test_parts_of_what_fits_a_number():
    """Of a size that is not 1 more follows for each part than that it fits."""
    facts = Facts.none().assume(Relation(RelKind.BROADCASTS, broadcast(a, b), 6, REASON))
    for part in (a, b):
        assert facts.ge(part, 1).proved
        assert facts.ge(6, part).proved
    facts = Facts.none().assume(Relation(RelKind.BROADCASTS, broadcast(a, b), c, REASON))
    facts = facts.assume(Relation(RelKind.EQ, c, 6, REASON))
    for part in (a, b):
        assert facts.ge(6, part).proved
    facts = Facts.none().assume(Relation(RelKind.BROADCASTS, broadcast(a, b), c, REASON))
    facts = facts.assume(Relation(RelKind.GE, a, 2, REASON))
    assert facts.ge(c, 1).proved


def test_a_part_of_what_is_joined_adds_nothing():
    parts = [as_dim(symbol(f"s{i}")) for i in range(12)]
    whole = broadcast(*parts)
    for part in parts:
        assert broadcast(part, whole) is whole
    assert broadcast(whole, broadcast(whole, a)) is broadcast(whole, a)


def test_models_are_made_once():
    facts = Facts.none()
    (first, *_) = facts._models
    assert first.but(SYMBOLS[0], 3) is first.but(SYMBOLS[0], 3)
    assert first.but(SYMBOLS[0], 3).but(SYMBOLS[1], 4) is first.but(SYMBOLS[1], 4).but(SYMBOLS[0], 3)
    several: list[Assignment] = [first.but(SYMBOLS[0], size) for size in range(500)]
    assert len(first.table.models) < 100 < len(several)


def test_questions_about_each_of_many_slices(monkeypatch: pytest.MonkeyPatch):
    """As many values are computed for the last slice of a sum as for one before it."""
    computed: list[int] = [0]
    original = Assignment._keep

    def keep(model: Assignment, atom: object) -> int | None:
        computed[0] += atom not in model.terms
        return original(model, atom)  # type: ignore[arg-type]  # what it is, it is told

    monkeypatch.setattr(Assignment, "_keep", keep)
    count = 40
    facts, total = Facts.none(), dim_max(a - count, 0)
    taken: list[int] = []
    for i in range(1, count):
        before = computed[0]
        size = dim_max(0, a + dim_min(i, a, i * dim_max(0, i + 1 - a)) - count)
        if not facts.eq(total, size).proved:
            facts = facts.assume(Relation(RelKind.BROADCASTS, total, size, REASON))
        total = facts.simplify(broadcast(total, size))
        assert facts.eq(size, total).unknown
        taken.append(computed[0] - before)
    assert sum(taken[-10:]) < 2 * sum(taken[10:20]), taken


def test_whole_multiples():
    facts = Facts.none()
    assert facts.simplify(a - a % 8) is 8 * floordiv(a, 8)
    assert facts.simplify(b * 3 + a - mod(a, b)) is b * 3 + b * floordiv(a, b)
    assert facts.simplify(a - mod(b, 8)) is a - mod(b, 8)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[SymExpr]:
    """The expressions for whose lower bound inequalities are looked for."""
    looked_for: list[SymExpr] = []

    def relevant(ranges: bound.Bounds, e: SymExpr, hypotheses: bound.Hypotheses) -> dict[SymExpr, Why]:
        looked_for.append(e)
        return relevant_inequalities(ranges, e, hypotheses)

    monkeypatch.setattr(bound, "relevant_inequalities", relevant)
    return looked_for


def test_a_bound_that_some_model_reaches_is_the_best(searches: list[SymExpr]):
    facts = Facts.none().assume(Relation(RelKind.GE, a, b, REASON))
    searches.clear()
    assert facts.bounds(a + b) == (0, None)
    assert searches == [-a - b]


def test_a_fact_that_holds_in_a_model_is_not_refuted(searches: list[SymExpr]):
    """It is learned without a search for a contradiction, and says what it said."""
    relation = Relation(RelKind.DIVIDES, 6, mod(a, 4) + b + dim_min(a, c), REASON)
    facts = Facts.none()
    assert facts.ask(relation).unknown
    searches.clear()
    facts = facts.assume(relation)
    assert searches == []
    assert facts.ask(relation).proved
