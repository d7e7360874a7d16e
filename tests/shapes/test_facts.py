"""What the facts prove, case by case."""

from __future__ import annotations

import itertools

import pytest

from dyn.errors import ShapeError
from dyn.shapes import (
    Answer,
    Dim,
    Facts,
    Reason,
    Relation,
    RelKind,
    Symbol,
    Verdict,
    as_dim,
    broadcast,
    dim_max,
    dim_min,
    floordiv,
    mod,
    numel_relation,
    symbol,
)
from dyn.shapes import facts as facts_module
from dyn.shapes.walk import last_data_dependent
from dyn.source import Loc
from tests.threads import in_threads

EQ, GE, NONZERO = RelKind.EQ, RelKind.GE, RelKind.NONZERO
DIVIDES, BROADCASTS = RelKind.DIVIDES, RelKind.BROADCASTS
N, M, B, S, D = (symbol(name) for name in "nmbsd")
n, m, b, s, d = map(as_dim, (N, M, B, S, D))
EMPTY = Facts.EMPTY
REASON = Reason("a test says so")


def given(*relations: tuple[RelKind, Dim, Dim], facts: Facts = EMPTY) -> Facts:
    for relation in relations:
        facts = facts.assume(Relation(*relation, REASON))
    return facts


def sized(sym: Symbol, lo: int = 0, hi: int | None = None, k: int = 1, facts: Facts = EMPTY) -> Facts:
    return facts.declare(sym, min=lo, max=hi, multiple_of=k, reason=REASON)


# --- equality ------------------------------------------------------------------------------------------------------


def test_equality_picks_the_oldest():
    facts = given((EQ, m, n), (EQ, b, m))
    assert facts.simplify_shape((b, m, n, 3)) == (n, n, n, 3)
    assert facts.eq(b, n).proved
    assert facts.eq(b, n + 1).refuted
    assert facts.eq(b, s).unknown


def test_numbers_win_over_symbols():
    facts = given((EQ, m, n), (EQ, n, 7))
    assert facts.simplify(m * s) == 7 * s
    assert facts.eq(m, 8).refuted


@pytest.mark.parametrize(
    ("relation", "dim", "simple"),
    [
        ((EQ, n, 2 * s + 1), n, 2 * s + 1),
        ((EQ, 2 * n, 2 * m), m, n),
        ((EQ, 2 * n + 2 * m, 10), m, 5 - n),
        ((EQ, d, b * s), d * 3, 3 * b * s),
        ((EQ, m, n // 2), m, n // 2),
        ((EQ, n // 2, 5), n // 2, 5),
        ((EQ, n % 8, 0), n % 4, 0),
        ((EQ, n % 8, 0), 8 * (n // 8), n),
        ((EQ, n, 2 * (n // 2)), n % 2, 0),
        ((EQ, n * 5, 0), n, 0),
    ],
)
def test_one_equation(relation: tuple[RelKind, Dim, Dim], dim: Dim, simple: Dim):
    assert given(relation).simplify(dim) == simple


def test_an_equation_that_cannot_be_solved_still_proves_its_multiples():
    facts = given((EQ, 2 * n, 3 * m))
    assert facts.eq(4 * n, 6 * m).proved
    assert facts.eq(2 * n * b, 3 * m * b).proved
    assert facts.eq(n, m).unknown
    assert (facts.multiple(n), facts.multiple(m)) == (3, 2)
    assert facts.eq(4 * n + 1, 6 * m).refuted


def test_parity_refutes():
    assert EMPTY.eq(2 * n, 2 * m + 1).refuted
    assert EMPTY.eq(n, n + 1).refuted
    assert EMPTY.eq(n, 3).unknown
    assert sized(N, hi=2).eq(n, 3).refuted


def test_two_inequalities_make_an_equality():
    facts = given((GE, n, m), (GE, m, n))
    assert facts.simplify(m) == n


# --- element counts --------------------------------------------------------------------------------------------------


def test_a_factor_that_may_be_zero_is_not_cancelled():
    facts = EMPTY.assume(numel_relation((b, s, d), (b, s, 12, 64), REASON))
    assert facts.eq(d, 768).unknown
    assert facts.same_numel((b, s, d), (b * s, 768)).proved
    assert facts.eq(b * s * d, 768 * s * b).proved
    one_known = given((GE, b, 1), facts=facts)
    assert one_known.eq(d, 768).unknown
    assert one_known.eq(s * d, s * 768).proved
    both_known = given((NONZERO, s, 0), facts=one_known)
    assert both_known.simplify(d) == 768


def test_non_zero_factors_of_any_form_are_cancelled():
    facts = EMPTY.assume(numel_relation((n + 1, d), (n + 1, 768), REASON))
    assert facts.simplify(d) == 768


def test_common_factors_are_seen():
    facts = given((EQ, d, m))
    assert facts.same_numel((b, s, d), (s, m, b)).proved
    assert EMPTY.same_numel((b, s, 4), (b * s, 2, 2)).proved
    assert EMPTY.same_numel((b, 4), (b, 5)).unknown
    assert sized(B, lo=1).same_numel((b, 4), (b, 5)).refuted
    assert EMPTY.same_numel((), (1, 1)).proved


def test_a_product_that_is_a_number():
    facts = given((EQ, n * m, 12))
    assert facts.bounds(n) == (1, 12)
    assert facts.nonzero(m).proved
    assert facts.simplify(floordiv(n * b, n)) == b


# --- bounds, order, divisors -----------------------------------------------------------------------------------------


def test_every_size_is_at_least_zero():
    assert EMPTY.bounds(n) == (0, None)
    assert EMPTY.bounds(n * m + 2) == (2, None)
    assert EMPTY.bounds(n - m) == (None, None)
    assert EMPTY.nonzero(n).unknown
    assert EMPTY.nonzero(n + 1).proved
    assert EMPTY.ge(n * n, 0).proved


def test_declared_bounds():
    facts = sized(N, 1, 512, 8)
    assert facts.bounds(n) == (8, 512)
    assert facts.multiple(n * 3 + 12) == 12
    assert facts.divides(4, n).proved
    assert facts.divides(4, n + 1).refuted
    assert facts.divides(16, n).unknown
    assert facts.gt(513, n).proved
    assert facts.ge(n, 513).refuted
    assert facts.bounds(3 * n - 1) == (23, 1535)
    assert facts.multiple(0) == 1


def test_order_is_transitive_and_scales_with_sizes():
    facts = given((GE, n, m), (GE, m, s))
    assert facts.ge(n, s).proved
    assert facts.ge(b * n, b * s).proved
    assert facts.gt(s, n).refuted
    assert facts.simplify(dim_max(n, s)) == n
    assert facts.simplify(dim_min(n, m, s)) == s
    assert given((GE, s, 5), facts=facts).bounds(n) == (5, None)
    assert given((GE, 9, n), facts=facts).bounds(s) == (0, 9)


def test_polynomials_are_factored_for_their_bounds():
    facts = sized(S, lo=1)
    assert facts.ge(b * s, b).proved
    assert EMPTY.ge(b * s, b).unknown


def test_definitions_of_opaque_terms():
    assert EMPTY.ge(n, n // 2).proved
    assert EMPTY.ge(n % 4, 0).proved
    assert EMPTY.gt(4, n % 4).proved
    assert EMPTY.ge(n, n % 4).proved
    assert EMPTY.eq(4 * (n // 4) + n % 4, n).proved
    assert EMPTY.ge(dim_max(n, m), n).proved
    assert EMPTY.ge(n + m, dim_max(n, m)).proved
    assert EMPTY.ge(dim_min(n, m), 0).proved
    assert EMPTY.ge(4 * ((n + 3) // 4), n).proved
    assert EMPTY.ge(n + 3, 4 * ((n + 3) // 4)).proved


def test_divisibility():
    facts = given((DIVIDES, 8, n))
    assert facts.multiple(n) == 8
    assert facts.simplify((n + 3) % 8) == 3
    assert facts.simplify((n + 3) // 8) == n // 8
    assert facts.eq(8 * (n // 8), n).proved
    assert given((DIVIDES, 6, n), facts=facts).multiple(n) == 24
    assert given((DIVIDES, 6, 4 * n)).multiple(n) == 3
    assert given((DIVIDES, 4, n + m)).divides(4, 3 * n + 3 * m + 8).proved
    assert EMPTY.divides(n, n * m).proved
    assert given((DIVIDES, 2, m)).divides(2 * n, n * m).proved
    assert given((DIVIDES, 2, m)).divides(4 * n + 4 * s, 2 * n * m + 2 * s * m).proved
    assert given((DIVIDES, 2, m)).divides(4 * n, n * m).unknown
    assert EMPTY.divides(n, 0).proved
    assert EMPTY.divides(0, n).unknown
    assert EMPTY.divides(0, 3).refuted


def test_symbolic_divisors():
    assert EMPTY.simplify(floordiv(n * m, n)) == floordiv(n * m, n)
    facts = sized(N, lo=1)
    assert facts.simplify(floordiv(n * m, n)) == m
    assert facts.simplify(floordiv(n * m + n - 1, n)) == m
    assert facts.simplify(mod(n * m + 3, n)) == mod(3, n)
    assert facts.simplify(floordiv(n * m, n * s)) == floordiv(m, s)
    assert given((GE, n, m + 1), facts=facts).simplify(mod(m, n)) == m
    assert given((NONZERO, n - m, 0)).simplify(floordiv(b * n - b * m, n - m)) == b


def test_non_zero():
    facts = given((NONZERO, n * m, 0))
    assert facts.bounds(n) == (1, None)
    facts = given((NONZERO, n - m, 0))
    assert facts.nonzero(m - n).proved
    assert facts.eq(n, m).refuted


def test_a_product_above_something_positive_has_no_factor_of_0() -> None:
    facts = given((GE, b, 1), (GE, n * m, b))
    assert facts.nonzero(n).proved
    assert facts.nonzero(m).proved
    assert not given((GE, n * m, b)).nonzero(n).proved
    assert not given((GE, b, 1), (GE, n * m + s, b)).nonzero(n).proved


def test_a_quotient_without_remainder_that_gets_a_value() -> None:
    divided = floordiv(n * m, b)
    facts = given((NONZERO, b, 0), (EQ, b * divided, n * m))
    assert facts.eq(divided, 3).unknown
    assert given((EQ, divided, 3), facts=facts).simplify(n * m - 3 * b) == 0
    assert given((EQ, mod(n * m, b), 2), facts=given((NONZERO, b, 0), (EQ, divided, 3))).eq(n * m, 3 * b + 2).proved
    assert given((EQ, divided, 3), facts=given((NONZERO, b, 0), (EQ, mod(n * m, b), 2))).eq(n * m, 3 * b + 2).proved


def test_the_rows_of_a_mask_that_is_viewed_by_another_batch() -> None:
    """``mask.view(batch, -1)`` of ``(b, s)`` words, as transformers' GPT-2 has it: nothing of it is 0."""
    rows = floordiv(n * m, b)
    facts = given((NONZERO, b, 0), (NONZERO, s, 0), (EQ, b * rows, n * m), (EQ, rows, s))
    assert facts.nonzero(n * m).proved
    assert facts.simplify(floordiv(32 * b * s, b * s)) == 32
    assert given((GE, 1, s), facts=facts).eq(b, n * m).proved


# --- broadcast -------------------------------------------------------------------------------------------------------


def test_broadcast():
    assert EMPTY.broadcasts(n, 1).proved
    assert EMPTY.broadcasts(n, n).proved
    assert EMPTY.broadcasts(n, m).unknown
    assert EMPTY.broadcasts(3, 4).refuted
    assert EMPTY.broadcasts(n + 2, n + 3).refuted
    facts = given((BROADCASTS, n, m))
    assert facts.broadcasts(m, n).proved
    assert facts.eq(n, m).unknown
    assert facts.simplify(broadcast(n, m)) == broadcast(n, m)


def test_broadcast_with_a_size_that_is_not_one():
    facts = given((BROADCASTS, n, m), (GE, m, 2))
    assert facts.eq(n, m).unknown
    assert facts.simplify(broadcast(n, m)) == m
    assert given((GE, n, 2), facts=facts).eq(n, m).proved
    assert given((BROADCASTS, n, 0)).simplify(broadcast(n, 0)) == 0
    assert given((BROADCASTS, n, 3), (NONZERO, n - 1, 0)).simplify(n) == 3


def test_what_has_no_value_says_nothing():
    facts = given((EQ, n, 3), (EQ, m, 0))
    assert facts.simplify(broadcast(n, 4)) == broadcast(n, 4)
    assert facts.simplify(b // m) == b // m
    assert facts.eq(b // m, 7).unknown


def test_broadcast_of_what_is_equal():
    facts = given((EQ, n, m))
    assert facts.simplify(broadcast(n, m)) == n
    assert given((EQ, m, 1)).simplify(broadcast(n, m)) == n


def test_a_part_of_a_size_that_equals_another_joined_size():
    """As in the sum of two matrices that has to be square."""
    facts = given((BROADCASTS, n, b), (BROADCASTS, m, s), (EQ, broadcast(n, b), broadcast(m, s)))
    assert facts.simplify(broadcast(n, b)) is facts.simplify(broadcast(m, s))
    whole = facts.simplify(broadcast(n, b))
    for part in (n, b, m, s):
        assert facts.eq(broadcast(part, whole), whole).proved
        assert facts.eq(part, whole).unknown
    assert EMPTY.eq(broadcast(m, n, b), broadcast(n, b)).unknown


# --- assuming --------------------------------------------------------------------------------------------------------


def test_what_is_proved_is_not_recorded():
    facts = given((EQ, n, m))
    assert given((EQ, m + 1, n + 1), facts=facts) is facts
    assert given((GE, n, 0)) is EMPTY
    assert [r.describe() for r in facts.relations] == ["n == m"]


@pytest.mark.parametrize(
    "relation",
    [(DIVIDES, n, m), (EQ, n * n, m * m), (BROADCASTS, n + m, b * s), (GE, n * n, m * s), (NONZERO, n - m, 0)],
)
def test_whatever_was_assumed_is_proved(relation: tuple[RelKind, Dim, Dim]):
    facts = given(relation)
    assert facts is not EMPTY
    assert given(relation, facts=facts) is facts


def test_what_is_restated_is_checked_and_teaches_nothing():
    facts = given((GE, n, 5))
    assert facts.restate(Relation(GE, n, 3, REASON)) is facts
    more = facts.restate(Relation(EQ, n, m, REASON))
    assert more.eq(n, m).proved
    assert [r.describe() for r in more.relations] == ["n >= 5", "n == m"]
    assert more.ge(m, 5).unknown
    assert more.simplify(n + m) is n + m


def test_what_is_restated_is_checked_where_the_facts_refute_it() -> None:
    """They contradict one another, and what they imply was not refuted before a dim in it was simplified."""
    more = given((GE, n, 3)).restate(Relation(EQ, n, 2, REASON))
    assert more.eq(n, 2).proved
    assert [r.describe() for r in more.relations] == ["n >= 3", "n == 2"]


def test_snapshots_do_not_change():
    facts = given((EQ, n, m))
    more = given((EQ, n, 3), facts=facts)
    assert facts.eq(n, 3).unknown
    assert more.eq(m, 3).proved
    assert EMPTY.eq(n, m).unknown
    assert EMPTY.relations == ()


def test_reasons():
    equal = Reason("x.shape[0] and w.shape[0] are contracted by dot_general", Loc("model.py", 12))
    even = Reason("declared")
    facts = EMPTY.declare(N, multiple_of=2, reason=even).assume(Relation(EQ, m, n, equal))
    assert facts.eq(m, n) == Answer(Verdict.PROVED, (equal,))
    assert set(facts.divides(2, m).why) == {equal, even}
    assert EMPTY.eq(n + 1, 1 + n).why == ()
    assert facts.eq(b, s) == Answer(Verdict.UNKNOWN)


def test_an_answer_is_no_boolean():
    with pytest.raises(TypeError, match=r"ask \.proved, \.refuted or \.unknown"):
        bool(EMPTY.eq(n, m))


def test_impossible_relation():
    bound = Reason("s is declared with max=512", Loc("model.py", 3))
    wanted = Reason("x.shape[0] and w.shape[0] are contracted by dot_general", Loc("model.py", 12))
    facts = EMPTY.declare(S, max=512, reason=bound).assume(Relation(EQ, m, s, Reason("zip")))
    with pytest.raises(ShapeError) as error:
        facts.assume(Relation(EQ, s, 768, wanted))
    assert str(error.value) == (
        "s == 768 cannot hold, where s is m.\n"
        "  needed: x.shape[0] and w.shape[0] are contracted by dot_general\n"
        "  known: zip\n"
        "  known: s is declared with max=512 (model.py:3)\n"
        "  at model.py:12\n"
        "  help: make the sizes agree, or change the declaration that fixes them."
    )


def test_contradiction_found_while_learning():
    facts = sized(S, lo=4, k=3)
    with pytest.raises(ShapeError) as error:
        facts.declare(S, max=5, reason=Reason("declared again"))
    assert error.value.problem == "0 <= s <= 5 cannot hold."
    with pytest.raises(ShapeError) as error:
        given((DIVIDES, 2, n), (EQ, n, m), (DIVIDES, 2, m + 1))
    assert error.value.problem == "(m + 1) % 2 == 0 cannot hold, where m + 1 is n + 1."


def test_declarations_add_up():
    facts = sized(N, 1, 64, 4).declare(N, min=0, max=32, multiple_of=6, likely=[12], reason=Reason("again"))
    assert [d.describe() for d in facts.declarations] == ["1 <= n <= 32, n % 12 == 0"]
    assert facts.likely(N) == (12,)
    assert facts.likely(M) == ()
    assert facts.bounds(n) == (12, 24)


def test_hints_are_those_of_equal_sizes():
    facts = EMPTY.declare(N, likely=(128, 256), reason=REASON)
    assert facts.likely(M) == ()
    assert given((EQ, m, n), facts=facts).likely(M) == (128, 256)
    assert given((EQ, m, 2 * n), facts=facts).likely(M) == ()
    assert facts.eq(n, 128).unknown


def test_a_declaration_that_leaves_one_size():
    assert sized(N, 3, 3).simplify(n) == 3
    assert sized(N, 5, 8, 4).simplify(n // 8) == 1


def test_describe():
    facts = sized(N, 1, 512, 8).declare(M, likely=(3, 4), reason=Reason("argument x", Loc("model.py", 3)))
    facts = given((EQ, b, n), facts=facts).assume(numel_relation((s, 2), (d,), REASON))
    assert facts.describe() == [
        "1 <= n <= 512, n % 8 == 0: a test says so",
        "m >= 0, likely 3, 4: argument x (model.py:3)",
        "b == n: a test says so",
        "(s, 2) and (d,) have the same number of elements: a test says so",
    ]


# --- relations -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relation", "text"),
    [
        (Relation(EQ, n, 2 * s, REASON), "n == 2*s is required, but n is 5 and 2*s is 6 (s is 3)"),
        (Relation(EQ, s, 768, REASON), "s == 768 is required, but s is 3"),
        (Relation(GE, n, s + 3, REASON), "n >= s + 3 is required, but n is 5 and s + 3 is 6 (s is 3)"),
        (Relation(NONZERO, n - 5, 0, REASON), "n - 5 != 0 is required, but n - 5 is 0 (n is 5)"),
        (Relation(DIVIDES, 8, n + s, REASON), "(n + s) % 8 == 0 is required, but n + s is 8 (n is 5, s is 3)"),
        (Relation(BROADCASTS, n, s, REASON), "n broadcasts with s is required, but n is 5 and s is 3"),
        (
            numel_relation((n, s), (5,), REASON),
            "(n, s) and (5,) have the same number of elements is required, but n*s is 15 (n is 5, s is 3)",
        ),
        (
            Relation(EQ, n // (s - 3), 1, REASON),
            "floordiv(n, s - 3) == 1 is required, but floordiv(n, s - 3) is without a value "
            "(floordiv(n, s - 3) divides by zero: s - 3 is 0) (n is 5, s is 3)",
        ),
    ],
)
def test_failure_text(relation: Relation, text: str):
    assert relation.failure({N: 5, S: 3}) == f"{text}: a test says so."


def test_names_are_replaced_in_relations():
    relation = Relation(EQ, n, 2 * s, REASON)
    assert relation.describe({N: "tokens"}) == "tokens == 2*s"
    assert relation.failure({N: 5, S: 3}, {N: "tokens", S: "half"}) == (
        "tokens == 2*half is required, but tokens is 5 and 2*half is 6 (half is 3): a test says so."
    )


@pytest.mark.parametrize(
    ("kind", "pairs"),
    [
        (EQ, {(1, 1): True, (1, 2): False}),
        (GE, {(2, 1): True, (1, 1): True, (0, 1): False}),
        (NONZERO, {(0, 0): False, (-1, 0): True}),
        (DIVIDES, {(4, 8): True, (4, 6): False, (0, 0): True, (0, 1): False}),
        (BROADCASTS, {(1, 0): True, (0, 1): True, (3, 3): True, (0, 3): False}),
    ],
)
def test_holds(kind: RelKind, pairs: dict[tuple[int, int], bool]):
    for (x, y), expected in pairs.items():
        assert Relation(kind, n, m, REASON).holds({N: x, M: y}) is expected


def test_a_relation_without_a_value_does_not_hold():
    assert not Relation(EQ, n // m, n // m, REASON).holds({N: 1, M: 0})


# --- budgets and size ------------------------------------------------------------------------------------------------


def test_running_out_of_budget_is_unknown(monkeypatch: pytest.MonkeyPatch):
    facts = given((GE, n, m), (GE, m, s))
    original = Facts._ask
    monkeypatch.setattr(Facts, "_ask", lambda self, relation: original(self, relation, 1))
    assert facts.ge(n, s).unknown


def test_a_hard_question_ends():
    symbols = [as_dim(symbol(f"x{i}")) for i in range(60)]
    facts = EMPTY
    for i, x in enumerate(symbols):
        for y in symbols[i + 1 : i + 6]:
            facts = given((GE, 2 * x + 3 * y, y * x), facts=facts)
    left = sum([i * x * y for i, (x, y) in enumerate(itertools.pairwise(symbols))], 0)
    assert facts.ge(left, symbols[7] * symbols[9] * 1000).unknown
    assert facts_module.BUDGET < 10_000


def test_a_deep_expression_is_no_crash():
    e: Dim = n
    for _ in range(400):
        e = dim_max(e * 2 % 7, m)
    assert EMPTY.eq(e, 3) in (Answer(Verdict.UNKNOWN), Answer(Verdict.REFUTED))
    assert EMPTY.simplify(e) == e or EMPTY.eq(e, EMPTY.simplify(e)).proved


def test_a_hundred_layers():
    """Facts of a deep model: the work a layer costs does not grow with the layers before it."""
    facts = EMPTY
    for _ in range(100):
        rows, cols, keys = (as_dim(symbol(name)) for name in ("rows", "cols", "keys"))
        facts = given((EQ, rows, b * s), (EQ, cols, n), (GE, keys, s), (BROADCASTS, keys, n), facts=facts)
        facts = facts.assume(numel_relation((rows, cols), (b, s, n), REASON))
        facts = facts.assume(numel_relation((b, s, 768), (rows, 12, 64), REASON))
        assert facts.simplify(rows * cols) == b * s * n
    assert len(facts.relations) == 400


def test_many_threads_ask_one_snapshot():
    facts = given((GE, n, m), (GE, m, s), (EQ, d, b * s))

    def work(_: int) -> list[Answer]:
        return [facts.ge(n * b + i, d) for i in range(20)] + [facts.eq(d + i, b * s) for i in range(20)]

    results = in_threads(work, range(8))
    assert all(result == results[0] for result in results)
    assert [answer.verdict for answer in results[0][:2]] == [Verdict.PROVED, Verdict.PROVED]


# --- known imprecision: true, and not proved -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("facts", "ask", "best", "current"),
    [
        (EMPTY, lambda f: f.ge(n * n + m * m, 2 * n * m), Verdict.PROVED, Verdict.UNKNOWN),
        (given((EQ, n * n, m * m)), lambda f: f.eq(n, m), Verdict.PROVED, Verdict.UNKNOWN),
        (given((GE, n, m * m)), lambda f: f.ge(n, m), Verdict.PROVED, Verdict.PROVED),
        (given((GE, n * n, m * m)), lambda f: f.ge(n, m), Verdict.PROVED, Verdict.UNKNOWN),
        (EMPTY, lambda f: f.eq(dim_min(n, m) * dim_max(n, m), n * m), Verdict.PROVED, Verdict.PROVED),
        (EMPTY, lambda f: f.divides(6, n * (n + 1) * (n + 2)), Verdict.PROVED, Verdict.PROVED),
        (EMPTY, lambda f: f.eq(mod(n * n, 4) * (mod(n * n, 4) - 1), 0), Verdict.PROVED, Verdict.UNKNOWN),
        (EMPTY, lambda f: f.ge((n * m) // 2, (n // 2) * m), Verdict.PROVED, Verdict.PROVED),
        (given((GE, 5, 2 * n), (GE, 2 * n, 3)), lambda f: f.eq(n, 2), Verdict.PROVED, Verdict.PROVED),
        (given((EQ, 3 * n, 2 * m + 1)), lambda f: f.divides(2, n), Verdict.REFUTED, Verdict.UNKNOWN),
        # four extrema to take apart, one inside another
        (
            EMPTY,
            lambda f: f.ge(dim_max(0, m - 3, dim_min(4, n)), dim_min(2, dim_max(0, n - 2))),
            Verdict.PROVED,
            Verdict.UNKNOWN,
        ),
        # two sizes are left, and each would have to be tried
        (given((BROADCASTS, n, 5)), lambda f: f.ge(n % 4, 1), Verdict.PROVED, Verdict.UNKNOWN),
        (given((EQ, dim_max(0, n - 2), n % 4)), lambda f: f.eq(n, 0), Verdict.PROVED, Verdict.PROVED),
        # squares leave few remainders
        (given((GE, n, 1)), lambda f: f.ge(n, mod(m * m, 3)), Verdict.PROVED, Verdict.UNKNOWN),
        # a product that is smaller than one of its factors
        (given((EQ, n * m, b)), lambda f: f.ge(m, (b // 4) % 2), Verdict.PROVED, Verdict.UNKNOWN),
    ],
)  # fmt: skip
def test_known_imprecision(facts: Facts, ask, best: Verdict, current: Verdict):
    assert ask(facts).verdict is current
    assert current in (best, Verdict.UNKNOWN)


def test_what_a_broadcast_is_known_to_be_absorbs_its_parts() -> None:
    """A whole that is known takes the place of any part of it that has the whole among its sizes."""
    n, m, k, other_size = (as_dim(symbol(name)) for name in "nmkl")
    whole = broadcast(n, m, k)
    facts = Facts.EMPTY.assume(Relation(RelKind.EQ, whole, n, Reason("the matrix product needs it")))
    assert facts.eq(broadcast(n, m), n).proved
    assert facts.eq(broadcast(n, k), n).proved
    assert facts.simplify(broadcast(n, k, other_size)) == broadcast(n, other_size)
    assert not facts.eq(broadcast(m, k), n).proved  # both may be 1
    assert not facts.eq(m, n).proved
    other = Facts.EMPTY.assume(Relation(RelKind.EQ, whole, other_size, Reason("another size")))
    assert other.eq(broadcast(m, other_size), other_size).proved
    moved = facts.assume(Relation(RelKind.EQ, n, 2 * other_size, Reason("and later")))
    assert moved.eq(broadcast(m, 2 * other_size), n).proved


def test_sizes_that_add_up_to_nothing_are_nothing() -> None:
    n, m = (as_dim(symbol(name)) for name in "nm")
    facts = Facts.EMPTY.assume(Relation(RelKind.EQ, 3 * n + 2 * m, 0, Reason("a test says so")))
    assert facts.eq(n, 0).proved
    assert facts.eq(m, 0).proved
    assert facts.ge(3 * n, 0).proved


def test_what_is_measured_is_said_in_terms_of_what_is_known_before() -> None:
    """However the equality is written, and whichever symbol is older."""
    early = symbol("later_argument")
    first, second = (as_dim(symbol(name, data_dependent=True)) for name in "pq")
    late = as_dim(symbol("r"))
    for lhs, rhs in ((first, late), (late, first), (first + n, late), (2 * late - first, n)):
        facts = given((EQ, lhs, rhs))
        assert facts.simplify(late) is late
        assert first not in (facts.simplify(n), facts.simplify(as_dim(early)))
        assert facts.simplify(lhs) is facts.simplify(rhs)
    both = given((EQ, first, second))
    assert both.simplify(second) is first
    halves = given((EQ, 2 * first, late))  # late is not said to be twice the measured one
    assert halves.simplify(late) is late
    assert halves.eq(late, 2 * first).proved


def test_nothing_rests_on_a_dim_that_is_known_later():
    """``n >= k + 5`` implies ``n >= 5``, and is looked at when ``k`` is measured: an op before that needs the other."""
    n, m = as_dim(symbol("n")), as_dim(symbol("m"))
    k, p = (as_dim(symbol(name, data_dependent=True)) for name in "kp")
    late = given((RelKind.GE, n, k + 5))
    five = Relation(RelKind.GE, n, 5, Reason("there are five"))
    assert late.ask(five).unknown
    assert late.ge(n + 0 * k, k + 5).proved
    assert late.bounds(n) == (0, None)
    assert late.simplify(dim_max(n, 5)) is dim_max(n, 5)
    assert late.bounds(n + k) == (5, None), "where k is known, so is this"
    both = late.assume(five)
    assert [r.describe() for r in both.relations] == ["n >= k + 5", "n >= 5"]
    assert both.assume(five) is both
    assert both.simplify(dim_max(n, 5)) is n
    assert given((RelKind.GE, n, 7)).assume(five).relations == given((RelKind.GE, n, 7)).relations
    equal = given((RelKind.EQ, k, n), (RelKind.EQ, k, m), (RelKind.GE, k, 3))
    assert [r.describe() for r in equal.relations] == ["k == n", "n == m", "n >= 3"]
    second = given((RelKind.GE, k, 4), (RelKind.GE, p, n), (RelKind.GE, k, p), (RelKind.DIVIDES, 2, n + p))
    assert second.ge(k, 4).proved
    assert second.ge(k, n).unknown, "p is measured after k"
    assert second.ge(k + p, n + p).proved
    assert second.known_by(-1).relations == ()
    assert [r.describe() for r in second.known_by(last_data_dependent(k)).relations] == ["k >= 4"]
    assert second.known_by(last_data_dependent(p)) is second
    late_first = given((RelKind.GE, p, n), (RelKind.GE, k, 4), (RelKind.GE, n, 2))
    assert [r.describe() for r in late_first.known_by(last_data_dependent(k)).relations] == ["k >= 4", "n >= 2"]
    assert late_first.ge(n, 2).proved
    assert late_first.ge(k, 3).proved
    assert late_first.assume(Relation(GE, k, 6, REASON)).ge(k, 6).proved
    assert late_first.multiple(2 * n) == 2


def test_a_size_broadcasts_to_the_one_that_it_is() -> None:
    """``max(0, n - m, m - n)`` is ``max(n - m, m - n)`` in each case, and a question about broadcasts takes none."""
    gap = dim_max(n - m, m - n)
    assert EMPTY.broadcasts_to(dim_max(0, gap), gap).proved
    assert EMPTY.broadcasts_to(1, gap).proved
    assert not EMPTY.broadcasts_to(dim_max(2, gap), gap).proved
    assert EMPTY.broadcasts_to(n, broadcast(n, m)).proved
    assert not EMPTY.broadcasts_to(broadcast(n, m), n).proved
