"""Symbols and facts of a trace are there for the next trace of the function, and for no other at the same time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dyn
import dyn.numpy as dnp
from dyn.errors import ShapeError
from dyn.shapes import Facts, KeptFacts, Reason, Relation, RelKind, SymbolSequence, as_dim, facts
from dyn.trace.symbol_reuse import MEMORIES, Memories
from tests.threads import in_threads

REASON = Reason("it was said")


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A list that grows with each fact that is learned."""
    MEMORIES.clear()
    seen: list[Any] = []
    learn = facts.learn

    def noted(state: Any, new: Any, *rest: Any) -> Any:
        seen.append(new)
        return learn(state, new, *rest)

    monkeypatch.setattr(facts, "learn", noted)
    return seen


def ones(*shape: int) -> Any:
    return np.ones(shape, "f4")


# --- symbols ----------------------------------------------------------------------------------------------------------


def test_a_program_that_asks_again_is_given_the_same_symbols() -> None:
    sequence = SymbolSequence()
    first = [sequence.symbol("n", "x.shape[0]"), sequence.symbol("k", "a count", data_dependent=True)]
    sequence.restart()
    assert [sequence.symbol("n", "x.shape[0]"), sequence.symbol("k", "a count", data_dependent=True)] == first
    assert len(sequence) == 2


@pytest.mark.parametrize("other", [("m", "x.shape[0]", False), ("n", "y.shape[0]", False), ("n", "x.shape[0]", True)])
def test_from_where_it_asks_for_others_they_are_fresh(other: tuple[str, str, bool]) -> None:
    sequence = SymbolSequence()
    zero, one, two = (sequence.symbol(name, "x.shape[0]") for name in "anc")
    sequence.restart()
    same = sequence.symbol("a", "x.shape[0]")
    different = sequence.symbol(other[0], other[1], data_dependent=other[2])
    last = sequence.symbol("c", "x.shape[0]")
    assert same is zero
    assert different is not one
    assert last is not two
    assert zero.uid < two.uid < different.uid < last.uid  # the order in which they were asked for


# --- facts ------------------------------------------------------------------------------------------------------------


def test_facts_that_are_kept_become_the_same_facts_again() -> None:
    sequence = SymbolSequence()
    n, m = (as_dim(sequence.symbol(name)) for name in "nm")
    none = Facts.none(KeptFacts())
    relation = Relation(RelKind.EQ, n, m, REASON)
    known = none.assume(relation)
    assert none.assume(Relation(RelKind.EQ, n, m, REASON)) is known
    other = none.assume(Relation(RelKind.EQ, n, m, Reason("another line says so")))
    assert other is not known
    assert [str(r.reason) for r in other.relations] == ["another line says so"]
    assert none.relations == ()


def test_facts_apart_keep_nothing_with_those_that_they_are_of() -> None:
    sequence = SymbolSequence()
    n, m, k = (as_dim(sequence.symbol(name)) for name in "nmk")
    kept = KeptFacts()
    known = Facts.none(kept).assume(Relation(RelKind.EQ, n, m, REASON))
    before = kept.entries
    apart = known.apart()
    assert apart.relations == known.relations
    assert apart.eq(n, m).proved
    more = Relation(RelKind.EQ, m, k, REASON)
    assert apart.assume(more) is not apart.assume(more)
    assert kept.entries == before


# --- traces -----------------------------------------------------------------------------------------------------------


def loss(w: Any, x: Any) -> Any:
    return dnp.tanh(x @ w + w[0]).sum()


def test_what_was_proved_for_one_call_is_not_proved_for_the_next(learned: list[Any]) -> None:
    first = dyn.grad(loss)(ones(3, 4), ones(2, 3))
    assert learned
    learned.clear()
    again = dyn.grad(loss)(ones(3, 4), ones(2, 3))
    dyn.grad(loss)(ones(5, 7), ones(1, 5))
    assert not learned
    np.testing.assert_array_equal(first, again)


def test_sizes_that_are_measured_and_arrays_that_are_closed_over_too(learned: list[Any]) -> None:
    c = ones(6)

    def kept(x: Any) -> Any:
        chosen = x[x > 0]
        return (chosen * chosen).sum() + (x * c).sum()

    for x in (np.arange(-2, 4, dtype="f4"), np.arange(-4, 2, dtype="f4")):
        learned.clear()
        np.testing.assert_array_equal(dyn.grad(kept)(x), np.where(x > 0, 2 * x, 0) + 1)
    assert not learned


def test_a_function_that_asks_something_else_is_answered_anew() -> None:
    rows = [True]

    def either(x: Any, y: Any) -> Any:
        return (x + y).sum() if rows[0] else (x[: y.shape[0]] * 2).sum() + y.sum()

    one = dyn.grad(either, argnums=(0, 1))
    np.testing.assert_array_equal(one(ones(3), ones(3))[0], ones(3))
    rows[0] = False
    np.testing.assert_array_equal(one(ones(3), ones(2))[0], [2, 2, 0])
    rows[0] = True
    with pytest.raises(ShapeError) as caught:
        one(ones(3), ones(2))
    with pytest.raises(ShapeError) as again:
        one(ones(3), ones(2))
    assert str(caught.value) == str(again.value)
    np.testing.assert_array_equal(one(ones(4), ones(4))[1], ones(4))


def test_an_error_in_a_trace_leaves_what_the_next_one_needs() -> None:
    fails = [True]

    def f(x: Any) -> Any:
        y = (x + x[::-1]).sum()
        if fails[0]:
            raise RuntimeError("not today")
        return y

    for _ in range(2):
        with pytest.raises(RuntimeError, match="not today"):
            dyn.grad(f)(ones(3))
    fails[0] = False
    np.testing.assert_array_equal(dyn.grad(f)(ones(3)), [2, 2, 2])


def test_no_two_traces_at_a_time_have_one_memory() -> None:
    memories = Memories()
    with memories.of("f") as outer:
        n = outer.symbols.symbol("n")
        with memories.of("f") as inner:
            assert inner is not outer
            assert inner.symbols.symbol("n") is not n
    with memories.of("f") as later:
        assert later is outer  # which was the last to be given back
        assert later.symbols.symbol("n") is n


def test_threads_that_trace_one_function_do_not_meet() -> None:
    def work(size: int) -> None:
        for _ in range(20):
            assert dyn.grad(loss)(ones(size, 2), np.zeros((3, size), "f4")).shape == (size, 2)

    in_threads(work, (1, 2, 5))


def test_memories_are_bounded_by_their_entries() -> None:
    memories = Memories(most=250)
    for key in "abc":
        with memories.of(key):
            pass
    with memories.of("c") as last:
        last.symbols.symbol("n")
    with memories.of("c") as again:
        assert again is last
    for key in ("a", "c"):
        with memories.of(key) as memory:
            assert len(memory.symbols) == (1 if key == "c" else 0)
    with memories.of("large") as large:
        assert large.kept is not None
        large.kept.entries = 1000
    with memories.of("large") as fresh:
        assert fresh is not large


def test_what_is_known_to_add_nothing_is_not_looked_for() -> None:
    sequence = SymbolSequence()
    n, m = (as_dim(sequence.symbol(name)) for name in "nm")
    known = Facts.none().assume(Relation(RelKind.EQ, n, m, REASON))
    assert not known.is_settled(RelKind.GE, n + m, 0)
    assert known.assume(Relation(RelKind.GE, n + m, 0, REASON)) is known
    assert known.is_settled(RelKind.GE, n + m, 0)
    assert not known.is_settled(RelKind.GE, n, 1)
    with pytest.raises(ShapeError):
        known.assume(Relation(RelKind.GE, -1 - n, 0, REASON))
    assert not known.is_settled(RelKind.GE, -1 - n, 0)
    assert not Facts.EMPTY.assume(Relation(RelKind.GE, n, 0, REASON)).is_settled(RelKind.GE, n, 0)
