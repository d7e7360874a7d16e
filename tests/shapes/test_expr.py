"""Canonical expressions: arithmetic, division, joins, interning."""

from __future__ import annotations

import copy
import gc
import math
import operator
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dyn.errors import ShapeError, UndecidedDimError
from dyn.shapes import (
    Dim,
    Opaque,
    RelKind,
    Symbol,
    SymExpr,
    as_dim,
    broadcast,
    dim_max,
    dim_min,
    dim_sum,
    evaluate,
    floordiv,
    free_symbols,
    keeping_recent,
    linear_in,
    mod,
    product,
    substitute,
    symbol,
    value_conditions,
)
from dyn.shapes import expr as expr_module
from dyn.shapes.expr import MAX_HEIGHT, all_atoms, atom_dim
from dyn.shapes.relation import truth
from dyn.shapes.sums import without_complements
from tests.shapes.worlds import SYMBOLS, dims, envs, quick, value
from tests.threads import in_threads

N, M, B, S = symbol("n"), symbol("m"), symbol("b"), symbol("s")
n, m, b, s = map(as_dim, (N, M, B, S))


def test_equal_polynomials_are_one_object():
    assert (n + m) * 2 is 2 * m + n * 2
    assert (n + m) * (n - m) is n * n - m * m
    assert n + 1 - 1 is n
    assert n - n == 0
    assert 0 * n == 0
    assert isinstance(n + 3 - n, int)
    assert n != m
    assert n != symbol("n")
    assert {n + m: 1}[m + n] == 1


def test_shape_of_an_expression():
    e = 2 * b * s + 3
    assert isinstance(e, SymExpr)
    assert e.constant == 3
    assert [(str(mono), k) for mono, k in e.terms] == [("b*s", 2)]
    assert isinstance(n, SymExpr)
    assert n.is_symbol is N
    assert e.is_symbol is None
    assert free_symbols(e) == {B, S}
    assert free_symbols(3) == frozenset()


@pytest.mark.parametrize(
    ("dim", "text"),
    [
        ((4 * n + 8) // 4, "n + 2"),
        ((4 * n + 3) % 4, "3"),
        (floordiv(n, 1), "n"),
        (mod(n, 1), "0"),
        (floordiv(n // 2, 3), "floordiv(n, 6)"),
        ((n // 2 + 1) // 3, "floordiv(n + 2, 6)"),
        (-(-n // 4), "floordiv(n + 3, 4)"),
        ((n - 1) // 4 + 1, "floordiv(n + 3, 4)"),
        ((2 * n + 3) // 4, "floordiv(n + 1, 2)"),
        ((4 * n - m) // 4, "n - floordiv(m + 3, 4)"),
        (7 * n // 4, "n + floordiv(3*n, 4)"),
        (floordiv(n, -2), "-floordiv(n + 1, 2)"),
        (floordiv(n - n % 8 + 8, 8), "floordiv(n, 8) + 1"),
        (floordiv(n - n % 16 + 8, 8), "2*floordiv(n, 16) + 1"),
        (floordiv(n - n % 8, 16), "floordiv(n, 16)"),
        (floordiv(2 * n - n % 8 + 3, 8), "floordiv(n, 8) + floordiv(n + 3, 8)"),
        (floordiv(n % 8 + 3, 8), "floordiv(mod(n, 8) + 3, 8)"),
        (floordiv(n * m, n), "floordiv(n*m, n)"),
        (floordiv(0, n), "floordiv(0, n)"),
        (floordiv(2 * n, 2 * m), "floordiv(n, m)"),
        (floordiv(7, 2), "3"),
        (floordiv(-7, 2), "-4"),
        (mod(-7, 2), "1"),
        ((n % 8) % 4, "mod(n, 4)"),
        ((2 * n) % 4, "2*mod(n, 2)"),
        ((5 * n + 9) % 4, "mod(n + 1, 4)"),
        (mod(6 * n, 4 * m), "2*mod(3*n, 2*m)"),
        (8 // n, "floordiv(8, n)"),
        (8 % n, "mod(8, n)"),
        (dim_min(n, n + 3, m, 5, 7), "min(5, n, m)"),
        (dim_max(n, dim_max(m, n + 1), 2, 1), "max(2, n + 1, m)"),
        (dim_min(n), "n"),
        (broadcast(), "1"),
        (broadcast(1, 1), "1"),
        (broadcast(n, 1, n), "n"),
        (broadcast(3, n), "broadcast(3, n)"),
        (broadcast(0, n), "broadcast(0, n)"),
        (broadcast(0, 1), "0"),
        (broadcast(n, dim_min(n, 512)), "n"),
        (broadcast(dim_min(n, 512), m, n), "broadcast(n, m)"),
        (broadcast(n, dim_min(n, 0)), "broadcast(n, min(0, n))"),
        (broadcast(n, dim_min(m, 512)), "broadcast(n, min(512, m))"),
        (broadcast(broadcast(m, 3), broadcast(n, m)), "broadcast(3, n, m)"),
        (n * n * m - m, "n**2*m - m"),
        (-n + 1, "-n + 1"),
        (3 - n, "-n + 3"),
        (product([b, s, 12]), "12*b*s"),
        (product([]), "1"),
    ],
)
def test_canonical_text(dim: Dim, text: str):
    assert str(dim) == text


def test_broadcast_is_a_semilattice():
    assert broadcast(n, broadcast(m, 3)) is broadcast(broadcast(3, n), m)
    assert broadcast(n, m) is broadcast(m, n)
    assert broadcast(n, n) is n


@given(dims(), dims())
@quick
def test_canonicalisation_keeps_the_value(x: Dim, y: Dim):
    for env in envs(3, 2):
        vx, vy = value(x, env), value(y, env)
        if vx is None or vy is None:
            continue
        assert value(x + y, env) == vx + vy
        assert value(x - y, env) == vx - vy
        assert value(x * y, env) == vx * vy
        assert value(dim_min(x, y, 3), env) == min(vx, vy, 3)
        assert value(dim_max(x, y, 3), env) == max(vx, vy, 3)
        for k in (-4, 2, 6):
            assert value(floordiv(x, k), env) == vx // k
            assert value(mod(x, k), env) == vx % k
        if vy:
            assert value(floordiv(x, y), env) == vx // vy
            assert value(mod(x, y), env) == vx % vy


@given(dims(), dims())
@quick
def test_substitution_is_evaluation_of_the_value(x: Dim, y: Dim):
    try:
        replaced = substitute(x, {SYMBOLS[0]: y})
    except ShapeError:
        return
    for env in envs(3, 2):
        inner = value(y, env)
        expected = None if inner is None else value(x, {**env, SYMBOLS[0]: inner})
        if expected is not None:
            assert value(replaced, env) == expected


@quick
@given(st.lists(dims(), max_size=5))
def test_a_product_is_multiplication_one_by_one(factors: list[Dim]):
    one_by_one: Dim = 1
    for factor in factors:
        one_by_one = one_by_one * factor
    together = product(factors)
    assert together is one_by_one or (isinstance(together, int) and together == one_by_one)


@quick
@given(st.lists(dims(), max_size=5))
def test_a_sum_is_addition_one_by_one(terms: list[Dim]):
    one_by_one: Dim = 0
    for term in terms:
        one_by_one = one_by_one + term
    together, whole = dim_sum(terms), without_complements(one_by_one)  # min(n, k) + max(n - k, 0) is n
    assert together is whole or (isinstance(together, int) and together == whole)


def _says_what_its_terms_say(dim: Dim) -> None:
    assert isinstance(dim, SymExpr)
    atoms = set(all_atoms(dim))
    opaque = [atom for atom in atoms if isinstance(atom, Opaque)]
    assert dim.atoms == atoms
    assert dim.symbols == {atom for atom in atoms if isinstance(atom, Symbol)}
    assert dim.height == max([atom.height for atom in opaque], default=0)
    assert dim.divides == any(atom.divides for atom in opaque)
    outer = {atom for mono, _ in dim.terms for atom, _ in mono.factors}
    assert dim.weight == sum(atom.weight if isinstance(atom, Opaque) else 1 for atom in outer)
    assert list(dim.terms) == sorted(dim.terms, key=lambda term: term[0].key)
    assert all(coefficient for _, coefficient in dim.terms)
    assert dim.is_large == (dim.height > MAX_HEIGHT or any(atom_dim(atom).is_large for atom in opaque))


@quick
@given(dims(), dims(), st.integers(-3, 3))
def test_what_is_kept_of_a_sum(x: Dim, y: Dim, k: int):
    """However it was made: by a term more, by a factor, or from its terms."""
    fresh = [as_dim(symbol(f"s{i}")) for i in range(9)]
    long = dim_sum(fresh) + floordiv(fresh[0] + 1, fresh[1])
    for dim in (long + x, x - long, long - x + y, long * k + x, -long + x * y, long + fresh[3], long - fresh[3]):
        if isinstance(dim, SymExpr):
            _says_what_its_terms_say(dim)


def test_a_sum_of_many_terms_is_one_object():
    sizes = [as_dim(symbol(f"s{i}")) for i in range(40)]
    up, down = sizes[0], sizes[-1]
    for size in sizes[1:]:
        up = up + size
    for size in reversed(sizes[:-1]):
        down = size + down
    assert up is down is dim_sum(sizes)
    for size in sizes[:-1]:
        up = up - size
    assert up is sizes[-1]


def test_substitution_is_simultaneous():
    assert substitute(n + 2 * m, {N: m, M: n}) is m + 2 * n
    assert substitute(floordiv(n * m, 4), {N: 4}) is m
    assert substitute(n // m, {B: 3}) is n // m


@given(dims(leaves=4))
@quick
def test_linear_form(x: Dim):
    found = linear_in(x, SYMBOLS[0])
    if found is not None:
        factor, rest = found
        assert factor * as_dim(SYMBOLS[0]) + rest is x or factor * as_dim(SYMBOLS[0]) + rest == x
        assert SYMBOLS[0] not in free_symbols(factor) | free_symbols(rest)


def test_linear_form_by_hand():
    assert linear_in(2 * n * m + 3, N) == (2 * m, 3)
    assert linear_in(m, N) == (0, m)
    assert linear_in(5, N) == (0, 5)
    assert linear_in(n * n, N) is None
    assert linear_in(n + n // 2, N) is None


def test_evaluation_is_exact():
    assert evaluate(n * m + 1, {N: 10**30, M: 10**30}) == 10**60 + 1
    assert evaluate(broadcast(n, m), {N: 1, M: 0}) == 0
    with pytest.raises(ShapeError) as error:
        evaluate(broadcast(n, m), {N: 2, M: 3})
    assert error.value.problem == (
        "sizes 2 and 3 cannot be broadcast together in broadcast(n, m): they differ and neither is 1."
    )
    with pytest.raises(ShapeError) as error:
        evaluate(n // m, {N: 2, M: 0})
    assert str(error.value) == (
        "floordiv(n, m) divides by zero: m is 0.\n  help: use max(n, 1) as a divisor that may be 0."
    )


def test_numbers_that_do_not_fit():
    with pytest.raises(ShapeError) as error:
        broadcast(3, n, 4)
    assert error.value.problem == "sizes 3 and 4 cannot be broadcast together: they differ and neither is 1."
    with pytest.raises(ShapeError) as error:
        floordiv(n, 0)
    assert error.value.problem == "floordiv(n, 0) divides by zero."
    with pytest.raises(TypeError, match="at least one"):
        dim_min()


@pytest.mark.parametrize(
    ("ask", "question"),
    [
        (bool, "bool(n)"),
        (int, "int(n)"),
        (float, "float(n)"),
        (operator.index, "operator.index(n)"),
        (lambda e: e < m, "n < m"),
        (lambda e: e <= 3, "n <= 3"),
        (lambda e: e > m, "n > m"),
        (lambda e: e >= 3, "n >= 3"),
    ],
)
def test_undecided_questions_raise(ask, question: str):
    with pytest.raises(UndecidedDimError) as error:
        ask(n)
    assert error.value.problem == f"{question} has no one answer for every shape."
    assert error.value.remedy == (
        "compute with the dimension instead; declare what is known of it (dyn.Dim(..., min=, max=, multiple_of=), "
        "constraints=); or make the axis static by an integer in shapes=."
    )
    assert error.value.loc is not None
    assert error.value.loc.file == __file__


def test_order_that_the_algebra_decides():
    assert n < n + 1
    assert n + 1 >= n
    assert not n > n


def test_foreign_operands_are_left_to_python():
    with pytest.raises(TypeError):
        _ = n + "x"  # pyright: ignore[reportOperatorIssue]
    with pytest.raises(TypeError):
        _ = n * 2.0  # pyright: ignore[reportOperatorIssue]


def test_copies_are_the_same_object():
    e = n // 2 + m
    assert copy.deepcopy([e, N]) == [e, N]
    assert copy.copy(e) is e
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(e)


def test_booleans_become_numbers():
    assert str(n * True) == "n"
    assert str(n + True) == "n + 1"
    assert str(opaque_of_bool()) == "min(1, n)"


def opaque_of_bool() -> Dim:
    return dim_min(n, True)


def test_tables_are_weak():
    gc.collect()
    before = len(expr_module._expressions)
    for i in range(100):
        _ = (n + 1000 + i) // 7 * m
    gc.collect()
    assert len(expr_module._expressions) <= before + 5


def test_recent_expressions_are_kept_until_the_last_block_ends(monkeypatch: pytest.MonkeyPatch):
    """What is made twice in a block is made once, in nested blocks and after a thread's block too; then nothing is."""
    made: list[None] = []
    summarize = expr_module._summarize
    monkeypatch.setattr(expr_module, "_summarize", lambda dim: (made.append(None), summarize(dim))[1])

    def make() -> int:
        made.clear()
        _ = n * m * 77777 + n // 77777
        return len(made)

    once = make()
    assert once > 1
    assert make() == once
    with keeping_recent():
        assert make() == once
        with keeping_recent():
            assert make() == 0
        in_threads(lambda _: make(), range(2))
        assert make() == 0
    gc.collect()
    assert make() == once
    assert not expr_module._recent_expressions
    assert not expr_module._recent_monomials


def test_no_more_expressions_are_kept_than_so_many():
    with keeping_recent():
        for i in range(3 * expr_module._MOST_RECENT // 2):
            _ = (n + i) * m
            assert len(expr_module._recent_expressions) <= expr_module._MOST_RECENT
        long = n
        for i in range(20):
            long = long + as_dim(symbol(f"l{i}"))
        assert all(len(one.terms) <= expr_module._MOST_TERMS for one in expr_module._recent_expressions.values())


def test_an_error_in_a_block_ends_it():
    with pytest.raises(ShapeError, match="divides by zero"), keeping_recent():
        _ = (n * 5 + 3) * m // 0
    assert not expr_module._recent_expressions


def test_interning_from_many_threads():
    """All threads get the same objects, though none of the objects existed before."""
    symbols = [as_dim(symbol(f"t{i}")) for i in range(8)]

    def work(_: int) -> list[Dim]:
        found: list[Dim] = []
        for i in range(60):
            x, y, z = symbols[i % 8], symbols[(i * 3 + 1) % 8], symbols[(i * 5 + 2) % 8]
            found.append((x * y + i) // 3 + dim_max(y, z, i) * mod(z + i, 5))
        return found

    for others in zip(*in_threads(work, range(8)), strict=True):
        assert all(other is others[0] or isinstance(other, int) for other in others)


def test_shared_subexpressions_are_visited_once():
    """A tree of 2**60 leaves has a value, symbols and a substitution."""
    e: Dim = n
    for _ in range(60):
        e = dim_max(e + e // 3, e + 1)
    assert free_symbols(e) == {N}
    assert evaluate(e, {N: 1}) > 60
    assert evaluate(substitute(e, {N: m}), {M: 1}) == evaluate(e, {N: 1})
    assert math.isfinite(evaluate(e, {N: 0}))


@quick
@given(dims(3))
def test_an_expression_has_a_value_where_its_conditions_hold(dim: Dim):
    conditions = value_conditions(dim)
    for env in envs(3, 4):
        sides = [(kind, value(lhs, env), value(rhs, env)) for kind, lhs, rhs in conditions]
        holds = all(lhs is not None and rhs is not None and truth(kind, lhs, rhs) for kind, lhs, rhs in sides)
        assert holds == (value(dim, env) is not None)


def test_conditions_are_of_parts_too():
    assert value_conditions(3) == value_conditions(n // 2 + dim_min(n, m)) == []
    assert value_conditions(dim_min(broadcast(n, m) // b, 4)) == [
        (RelKind.BROADCASTS, n, m),
        (RelKind.NONZERO, b, 0),
    ]
