"""Proofs that later facts once lost, and facts that once said less than they mean.

Each question is judged on all small sizes too: what is asked here is true.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyn.errors import ShapeError
from dyn.shapes import (
    Answer,
    Dim,
    Facts,
    Outcome,
    Relation,
    RelKind,
    Verdict,
    as_dim,
    broadcast,
    dim_max,
    dim_min,
    free_symbols,
    mod,
)
from dyn.shapes import facts as facts_module
from dyn.shapes.models import first_models
from tests.shapes.worlds import REASON, SYMBOLS, cut, quick, relations

a, b, c, d = map(as_dim, SYMBOLS)
EQ, GE, NONZERO, DIVIDES, BROADCASTS = RelKind.EQ, RelKind.GE, RelKind.NONZERO, RelKind.DIVIDES, RelKind.BROADCASTS
Rel = tuple[RelKind, Dim, Dim]

#: An extremum that can only be one of its arguments is that one.
EXTREMA: list[tuple[tuple[Rel, ...], Rel]] = [
    (((EQ, dim_max(0, a - 1), a),), (EQ, a, 0)),
    (((EQ, dim_max(0, a - 3), 5),), (EQ, a, 8)),
    (((GE, dim_max(0, a - 1), 2),), (GE, a, 3)),
    (((EQ, dim_max(4, a), 6),), (DIVIDES, 2, a)),
    (((EQ, dim_min(3, a), 2),), (EQ, a, 2)),
    (((GE, 1, dim_min(4, a)),), (GE, 1, a)),
    (((NONZERO, b * dim_max(0, a - 3), 0),), (GE, a, 4)),
    (((GE, dim_max(a, b), 6), (GE, 3, a)), (GE, b, 6)),
    (((GE, 1, dim_min(a, b)), (GE, a, 2)), (GE, 1, b)),
    (((GE, 4 * ((a + 3) // 4) * dim_max(0, a - 1), 5),), (GE, a, 2)),
]
#: What a fact about an opaque term says of its arguments.
ARGUMENTS: list[tuple[tuple[Rel, ...], Rel]] = [
    (((GE, a % 4, 2),), (GE, a, 2)),
    (((GE, mod(a, b), 2),), (GE, b, 3)),
    (((GE, b, 1), (GE, a // b, 2)), (GE, a, 2 * b)),
    (((DIVIDES, 2, a * b), (DIVIDES, 3, (a * b) // 2)), (DIVIDES, 6, a * b)),
    (((DIVIDES, 3, (a * b) // 2), (DIVIDES, 2, a * b)), (DIVIDES, 6, a * b)),
    (((DIVIDES, 2, a % 4),), (DIVIDES, 2, a)),
    (((GE, 3 * ((a + 2) // 3), 4),), (GE, a, 2)),
    (((BROADCASTS, a, 6),), (GE, a, 1)),
    (((BROADCASTS, a, 6),), (GE, 6, a)),
    (((BROADCASTS, a, 0),), (GE, 1, a)),
    (((DIVIDES, 3, 4 * a + 2),), (NONZERO, a, 0)),
]
#: A fact about a term that later facts make a simpler one.
SETTLED: list[tuple[tuple[Rel, ...], Rel]] = [
    (((DIVIDES, 4, dim_max(0, a - 1)), (GE, a, 1)), (DIVIDES, 4, a - 1)),
    (((DIVIDES, 2, dim_max(1, b)), (NONZERO, b * b, 0)), (DIVIDES, 2, b)),
    (((EQ, dim_max(0, a - 2) // 3, 6), (GE, a, 2)), (EQ, (a - 2) // 3, 6)),
    (((GE, dim_max(b, a - 3), c), (GE, a, b + 3)), (GE, a, c + 3)),
    (((NONZERO, dim_min(a, b) - 3, 0), (GE, b, a)), (NONZERO, a - 3, 0)),
    (((BROADCASTS, dim_max(1, a), b), (GE, a, 1)), (BROADCASTS, b, a)),
]
#: Extrema taken apart in questions that are no inequalities, and one argument that is enough.
QUESTIONS: list[tuple[tuple[Rel, ...], Rel]] = [
    ((), (BROADCASTS, dim_max(1, a), a)),
    ((), (NONZERO, dim_max(0, a - 3) + 1, 0)),
    (((DIVIDES, 3, a), (DIVIDES, 6, b)), (DIVIDES, 3, dim_min(a, b) + dim_max(a, b))),
    (((GE, 1, a),), (BROADCASTS, a, 0)),
    (((GE, 2, a), (GE, a, 1)), (BROADCASTS, a, 2)),
    ((), (GE, a, dim_min(4, dim_max(0, a - 3)))),
    (((EQ, b, a),), (GE, a, dim_min(c, dim_max(0, b - 3)))),
]


def learned(*demands: Rel) -> Facts:
    facts = Facts.EMPTY
    for demand in demands:
        facts = facts.assume(Relation(*demand, REASON))
    return facts


@pytest.mark.parametrize(("demands", "question"), [*EXTREMA, *ARGUMENTS, *SETTLED, *QUESTIONS])
def test_proved(demands: tuple[Rel, ...], question: Rel):
    asked = Relation(*question, REASON)
    assert learned(*demands).ask(asked).proved
    wanted = [Relation(*demand, REASON) for demand in demands]
    dims = [dim for relation in (*demands, question) for dim in relation[1:]]
    symbols = sorted({symbol for dim in dims for symbol in free_symbols(dim)}, key=lambda symbol: symbol.uid)
    count = 0
    for sizes in itertools.product((*range(13), 18, 20), repeat=len(symbols)):
        env = dict(zip(symbols, sizes, strict=True))
        if asked.outcome(env) is not Outcome.NO_VALUE and all(relation.holds(env) for relation in wanted):
            count += 1
            assert asked.holds(env), env
    assert count > 0


@pytest.mark.parametrize(
    ("demands", "impossible"),
    [
        (((GE, 3, a), (GE, 4, b)), (GE, dim_max(a, b), 5)),
        (((GE, a, 3),), (EQ, dim_max(a, 5), 2)),
        (((GE, a, 1),), (EQ, dim_max(0, a - 1), a)),
    ],
)
def test_an_extremum_that_can_be_none_of_its_arguments(demands: tuple[Rel, ...], impossible: Rel):
    facts = learned(*demands)
    with pytest.raises(ShapeError):
        facts.assume(Relation(*impossible, REASON))


def test_a_size_made_of_itself_ends():
    """Each use of the second fact makes the first one longer: it is not used so."""
    facts = learned((EQ, 3 * ((dim_min(a, b) + 2) // 3), a), (NONZERO, (c // 3) * (b % 3), 0))
    assert facts.ge(c, 3).proved


def again(facts: Facts, relation: Relation) -> bool:
    """Whether a fact is proved in other words than those in which it was learned."""
    match relation.kind:
        case RelKind.EQ:
            return facts.eq(relation.lhs + 1, relation.rhs + 1).proved
        case RelKind.GE:
            return facts.ge(relation.lhs + 1, relation.rhs + 1).proved
        case RelKind.DIVIDES:
            return facts.divides(relation.lhs, relation.rhs + relation.lhs).proved
        case RelKind.NONZERO:
            return facts.nonzero(-relation.lhs).proved
        case _:
            return True


def bounded(x: Dim, k: int) -> Relation:
    return Relation(DIVIDES, k, dim_max(0, x - k), REASON)


@given(st.sampled_from([a, b, a + b, a * b]), st.integers(2, 5), st.integers(0, 9), st.sampled_from([a, b]))
@quick
def test_divisors_survive_what_is_learned_later(x: Dim, k: int, least: int, y: Dim):
    facts = Facts.EMPTY
    for demand in (bounded(x, k), Relation(GE, y, least, REASON), Relation(NONZERO, x, 0, REASON)):
        facts = facts.assume(demand)
    assert all(again(facts, relation) for relation in facts.relations)


# --- sizes that are tried --------------------------------------------------------------------------------------------


def may_always_hold(relation: Relation) -> bool:
    """Whether no size that is tried contradicts the relation; those for which a side has no value do not."""
    return not any(model.outcome(relation) is False for model in first_models())


@given(relations(cut()))
@quick
def test_what_is_proved_without_facts_stands_every_trial(question: Relation):
    if Facts.EMPTY.ask(question).proved:
        assert may_always_hold(question)


@pytest.mark.parametrize(
    ("question", "maybe"),
    [
        ((EQ, a, b), False),
        ((GE, a, b), False),
        ((GE, b, a), False),
        ((GE, a * b, a), False),
        ((NONZERO, a - b, 0), False),
        ((DIVIDES, 2, a), False),
        ((BROADCASTS, a, b), False),
        ((GE, a, a // 2), True),
        ((EQ, a // b * b + a % b, a), True),  # which has no value for 0
        ((EQ, broadcast(a, b), dim_max(a, b)), False),
    ],
)
def test_trials(question: Rel, maybe: bool):
    assert may_always_hold(Relation(*question, REASON)) is maybe


def test_undecided_questions_are_not_searched_twice(monkeypatch: pytest.MonkeyPatch):
    facts = learned((GE, a, b), (BROADCASTS, b, c))
    searched: list[str] = []
    original = facts_module.decide_relation

    def decide(s: facts_module.Simplifier, relation: Relation) -> Verdict:
        searched.append(relation.describe())
        return original(s, relation)

    monkeypatch.setattr(facts_module, "decide_relation", decide)
    assert facts.eq(c, d).unknown
    assert facts.broadcasts(a, c).unknown
    assert searched == []  # some sizes that are allowed have decided it


def test_what_was_decided_in_a_part_stands_under_more_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part's facts are made anew when more is known around it, and a proof may be harder to find from more."""
    demands = (Relation(GE, a, b, REASON),)
    inner = (Relation(GE, b, 2 * c, REASON),)
    question = Relation(GE, a, c, REASON)
    around = Facts.none()
    part = around.within(demands)
    assert part.within(inner).ask(question).proved
    grown = around.assume(Relation(GE, c, 3, REASON))
    beside = Facts.none().assume(Relation(GE, c, 3, REASON))
    monkeypatch.setattr(Facts, "_ask", lambda *_: Answer(Verdict.UNKNOWN))
    assert grown.within(demands).within(inner).ask(question).proved
    assert grown.within(demands).ask(question).unknown
    assert beside.within(demands).within(inner).ask(question).unknown
    assert beside.within((*demands, *inner), part.within(inner)).ask(question).proved
