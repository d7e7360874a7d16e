"""Sizes that are computed in loops, which are DAGs; questions from any depth of the stack; models and budgets."""

from __future__ import annotations

import gc
import itertools
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dyn
import dyn.numpy as dnp
from dyn.errors import ShapeError
from dyn.shapes import (
    Dim,
    Facts,
    Relation,
    RelKind,
    Symbol,
    SymExpr,
    as_dim,
    broadcast,
    dim_max,
    dim_min,
    evaluate,
    exact_text,
    floordiv,
    format_dim,
    free_symbols,
    parse_dim,
    substitute,
    symbol,
)
from dyn.shapes.expr import MAX_HEIGHT, all_atoms
from dyn.shapes.state import BUDGET, Work
from tests.shapes.worlds import REASON, SYMBOLS, cut, dims, quick, relations

GE, EQ, BROADCASTS = RelKind.GE, RelKind.EQ, RelKind.BROADCASTS


def halved(n: Any, m: Any, levels: int) -> Any:
    """A size of which every level mentions the one before it twice."""
    for _ in range(levels):
        n = dim_max(n // 2, m) + dim_min(n // 3, m)
    return n


def symbols() -> tuple[Symbol, Symbol]:
    return symbol("n"), symbol("m")


def deep(levels: int) -> tuple[SymExpr, Symbol, Symbol]:
    n, m = symbols()
    found = halved(as_dim(n), as_dim(m), levels)
    assert isinstance(found, SymExpr)
    return found, n, m


@pytest.mark.parametrize("levels", [1, 5, 30, 1000])
def test_the_value(levels: int):
    size, n, m = deep(levels)
    a, b = 10**6, 7
    for _ in range(levels):
        a = max(a // 2, b) + min(a // 3, b)
    assert evaluate(size, {n: 10**6, m: 7}) == a


@pytest.mark.parametrize("levels", [5, 30, 1000])
def test_replacing_symbols(levels: int):
    size, n, m = deep(levels)
    other = symbol("k")
    replaced = substitute(size, {n: as_dim(other) + 1})
    assert free_symbols(size) == {n, m}
    assert free_symbols(replaced) == {other, m}
    assert evaluate(replaced, {other: 99, m: 5}) == evaluate(size, {n: 100, m: 5})
    assert substitute(replaced, {other: as_dim(n) - 1}) is size
    assert substitute(size, {n: 100, m: 5}) == evaluate(size, {n: 100, m: 5})


@pytest.mark.parametrize("levels", [1, 5, 30, 1000])
def test_the_exact_text_is_read_again(levels: int):
    size, n, m = deep(levels)
    text = exact_text(size)
    assert parse_dim(text, {"n": n, "m": m}) is size
    assert len(text) < 200 * levels + 1500
    assert text == format_dim(size) or levels > 5


def test_people_are_shown_the_outside():
    size, n, m = deep(1000)
    assert format_dim(size) == (
        "min(m, floordiv(min(m, floordiv(min(m, floordiv(…, 3)) + max(m, floordiv(…, 2)), 3)) + "
        "max(m, floordiv(min(m, floordiv(…, 3)) + max(m, floordiv(…, 2)), 2)), 3)) + "
        "max(m, floordiv(min(m, floordiv(min(m, floordiv(…, 3)) + max(m, floordiv(…, 2)), 3)) + "
        "max(m, floordiv(min(m, floordiv(…, 3)) + max(m, floordiv(…, 2)), 2)), 2))"
    )
    assert "…" in format_dim(size)
    assert len(str(size)) <= 400
    wide = dim_max(*[as_dim(symbol(f"s{i}")) // 2 for i in range(300)])
    assert len(format_dim(wide)) < 400
    assert parse_dim(exact_text(wide), {s.name: s for s in free_symbols(wide)}) is wide
    both = wide
    for i in range(8):  # as wide as it is deep
        both = dim_max(*[(both + j) // (j + 2) for j in range(12 + i)])
    assert len(format_dim(both)) < 5000
    with pytest.raises(dyn.errors.ArgumentError, match="unexpected '…'"):
        parse_dim(format_dim(size), {"n": n, "m": m})


def test_parts_get_names_that_no_symbol_has():
    p, p0 = symbol("p"), symbol("p0")
    size = halved(as_dim(p), as_dim(p0), 40)
    text = exact_text(size)
    assert text.startswith(("let(ppp, ", "let(pp, "))
    assert parse_dim(text, {"p": p, "p0": p0}) is size


def test_the_order_does_not_depend_on_how_old_symbols_are():
    texts: set[str] = set()
    for _ in range(3):
        n, m = map(as_dim, symbols())
        parts = [halved(n + i, m, 30 + i % 3) for i in range(5)] + [halved(m, n, 30), halved(n, m, 3)]
        texts.add(exact_text(dim_max(*parts)))
        texts.add(exact_text(dim_max(*reversed(parts))))
        assert dim_max(*parts) is dim_max(*reversed(parts))
    assert len(texts) == 1


@pytest.mark.parametrize("levels", [MAX_HEIGHT // 2, MAX_HEIGHT, 1000])
def test_questions_about_deep_sizes_end(levels: int):
    size, n, m = deep(levels)
    facts = Facts.none().declare(n, min=1, reason=REASON)
    for left, right in ((size, 0), (size, size), (size + 1, size)):
        assert facts.ge(left, right).proved
    assert facts.eq(size, as_dim(n)).unknown
    assert facts.broadcasts(size, as_dim(m)).unknown
    assert facts.bounds(size)[0] is not None
    assert facts.multiple(6 * size) % 6 == 0
    known = facts.assume(Relation(EQ, size, as_dim(m), REASON)).assume(
        Relation(BROADCASTS, size, 3 + 0 * m.uid, REASON)
    )
    assert known.eq(size, as_dim(m)).proved
    assert known.broadcasts(size, 3).proved


def test_a_deep_size_in_a_program():
    @dyn.jit
    def f(x, y):
        return dnp.zeros((halved_dims(x.shape[0], y.shape[0], 200),)) + 1

    def halved_dims(n: Any, m: Any, levels: int) -> Any:
        for _ in range(levels):
            n = np.maximum(n // 2, m) + np.minimum(n // 3, m)
        return n

    for a, b in ((1000, 3), (5, 0), (0, 7)):
        assert f(np.ones(a, "f4"), np.ones(b, "f4")).shape == (halved_dims(a, b, 200),)
    assert f.cache_info().compiles == 1


def test_atoms_of_large_expressions_are_found():
    size, n, m = deep(1000)
    assert size.is_large
    assert {n, m} <= size.atoms == frozenset(all_atoms(size))
    assert not deep(2)[0].is_large


# --- from any depth of the stack ----------------------------------------------------------------------------------


def at_depth(frames: int, ask: Callable[[], Any]) -> Any:
    return ask() if frames <= 0 else at_depth(frames - 1, ask)


def frames_left() -> int:
    """How many calls fit on the stack."""
    try:
        return 1 + frames_left()
    except RecursionError:
        return 0


def questions() -> list[Relation]:
    a, b, c, d = map(as_dim, SYMBOLS)
    nested: Dim = a
    for i in range(MAX_HEIGHT // 3):
        nested = dim_max(nested // 2, b, i) + c % (i + 2)
    return [
        Relation(GE, a * b, a * c, REASON),
        Relation(EQ, broadcast(a, d), dim_max(b // 2, d), REASON),
        Relation(GE, a, dim_max(0, dim_min(a, b) - dim_min(c, b)), REASON),
        Relation(GE, nested, 0, REASON),
        Relation(GE, nested + b // 3, nested - 1, REASON),
        Relation(BROADCASTS, nested, d, REASON),
    ]


def ask_all() -> list[tuple[str, Dim]]:
    a, b, c, d = map(as_dim, SYMBOLS)
    found: list[tuple[str, Dim]] = []
    for question in questions():
        facts = Facts.none().declare(SYMBOLS[0], min=1, reason=REASON)
        for demand in (Relation(GE, b, c, REASON), Relation(BROADCASTS, a, d, REASON)):
            facts = facts.assume(demand)
        found.append((facts.ask(question).verdict.value, facts.simplify(question.lhs + question.rhs)))
    return found


def test_answers_do_not_depend_on_the_depth_of_the_stack(monkeypatch: pytest.MonkeyPatch):
    # Weak references that die where the stack ends have no room for their callbacks, which Python tells of.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    expected = at_depth(10, ask_all)
    assert {verdict for verdict, _ in expected} == {"proved", "unknown"}
    asked: list[int] = []
    for spare in (400, 200, 120, 90, 70, 60, 50, 45, 40, 35, 30, 25, 20):
        try:
            assert at_depth(frames_left() - spare, ask_all) == expected
        except RecursionError:  # raised to the user, where not even the question can be put
            continue
        asked.append(spare)
    assert len(asked) >= 8, asked


# --- models and budgets -------------------------------------------------------------------------------------------


@given(st.lists(relations(cut()), max_size=4), relations(dims(leaves=4)))
@quick
def test_models_satisfy_what_is_known(demands: list[Relation], question: Relation):
    facts = Facts.none().declare(SYMBOLS[0], min=1, reason=REASON).declare(SYMBOLS[1], max=5, reason=REASON)
    facts = facts.declare(SYMBOLS[2], min=2, multiple_of=2, reason=REASON)
    for demand in demands:
        try:
            facts = facts.assume(demand)
        except ShapeError:
            break
    facts.ask(question)
    for model in (*facts._models, *facts._more_models(question)):
        assert all(declared.holds(model.size(declared.symbol)) for declared in facts.declarations)
        assert all(relation.holds({s: model.size(s) for s in SYMBOLS}) for relation in facts.relations)


@given(st.lists(relations(cut()), max_size=2), relations(cut()), relations(cut()))
@quick
def test_what_is_implied_follows(demands: list[Relation], premise: Relation, claim: Relation):
    facts = Facts.none()
    for demand in demands:
        try:
            facts = facts.assume(demand)
        except ShapeError:
            return
    if not facts.implies(premise, claim):
        return
    for sizes in np.ndindex(5, 5, 5, 2):
        env = dict(zip(SYMBOLS, map(int, sizes), strict=True))
        if all(relation.holds(env) for relation in (*facts.relations, premise)):
            assert claim.outcome(env) is not False, (claim.describe(), env)


def test_what_is_demanded_first_is_proved_after_many_other_facts():
    """What was proved once is kept: it is not proved again under every snapshot."""
    facts = Facts.none()
    sizes = [as_dim(symbol(f"s{i}")) for i in range(30)]
    claim = Relation(GE, sizes[0] * sizes[1] + sizes[2] // 2, sizes[2] // 3, REASON)
    assert facts.ask(claim).proved
    for x, y in itertools.pairwise(sizes):
        facts = facts.assume(Relation(GE, x + 3, y, REASON))
    assert facts.ask(claim).proved
    assert not any(isinstance(key, tuple) and key[0] == "ask" for key in facts._memo)


@given(st.lists(relations(dims(leaves=6)), max_size=3), relations(dims(leaves=8)))
@quick
def test_no_question_takes_more_than_its_budget(demands: list[Relation], question: Relation):
    taken: list[Work] = []

    class Counted(Work):
        __slots__ = ()

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            taken.append(self)

    facts = Facts.none()
    for demand in demands:
        try:
            facts = facts.assume(demand)
        except ShapeError:
            return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dyn.shapes.facts.Work", Counted)
        facts.ask(question)
    assert sum(work.taken for work in taken) < 3 * BUDGET


def test_facts_of_nothing_keep_nothing():
    def ask() -> weakref.ref[Symbol]:
        n, m = symbols()
        Facts.EMPTY.ge(as_dim(n) + dim_max(as_dim(m), 1), as_dim(n) // 2)
        Facts.EMPTY.simplify(floordiv(as_dim(n) * 4 + 4, 4))
        Facts.EMPTY.within((Relation(GE, as_dim(n), as_dim(m), REASON),))
        restated = Facts.EMPTY.restate(Relation(GE, as_dim(n), as_dim(m), REASON))
        assert restated.ge(as_dim(m) * 2, dim_min(as_dim(n), 3)).unknown
        return weakref.ref(n)

    dead = ask()
    gc.collect()
    assert dead() is None
    assert not Facts.EMPTY._memo
    assert not Facts.EMPTY._decided
    assert not Facts.EMPTY._tried


# --- what reversed broadcasts ask ---------------------------------------------------------------------------------


def test_a_part_times_what_it_was_repeated():
    a, b, c, d = map(as_dim, SYMBOLS)
    facts = Facts.none().assume(Relation(EQ, broadcast(a, b), c, REASON))
    for part in (a, b):
        assert facts.eq(part * (c // dim_max(part, 1)), c).proved
        assert facts.eq(d * part * (c // dim_max(part, 1)), d * c).proved
    whole = broadcast(a, b)
    assert Facts.EMPTY.eq(a * (whole // dim_max(a, 1)), whole).proved
    assert Facts.EMPTY.eq(d * (whole // dim_max(d, 1)), whole).unknown
    less = a - 1  # which may be below 0, where it does not hold
    assert not Facts.EMPTY.eq(less * (broadcast(less, b) // dim_max(less, 1)), broadcast(less, b)).proved
