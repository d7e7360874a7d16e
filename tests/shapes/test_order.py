"""The order by which equations rewrite terms: what a replacement leaves is always smaller."""

from __future__ import annotations

import hypothesis
import pytest

from dyn.errors import ShapeError
from dyn.shapes import (
    Dim,
    Facts,
    Opaque,
    Reason,
    Relation,
    RelKind,
    SymExpr,
    as_dim,
    dim_max,
    dim_min,
    floordiv,
    mod,
    numel_relation,
    symbol,
)
from dyn.shapes.case_proofs import replace_atom
from dyn.shapes.expr import Atom, atom_dim
from dyn.shapes.order import is_less, leading_term
from dyn.shapes.poly import single
from tests.shapes.worlds import dims, quick

REASON = Reason("a test says so")
a, b, c, d, n, m = (as_dim(symbol(name)) for name in "abcdnm")


def _atoms(e: Dim) -> list[Atom]:
    return [] if isinstance(e, int) else sorted(e.atoms, key=lambda atom: atom.key)


@quick
@hypothesis.given(dims())
def test_a_term_is_greater_than_what_is_in_it(e: Dim) -> None:
    for atom in _atoms(e):
        if isinstance(atom, Opaque):
            assert all(is_less(arg, atom) for arg in atom.args)
            assert all(is_less(atom_dim(part), atom) for part in _atoms(atom_dim(atom)) if part is not atom)


@quick
@hypothesis.given(dims(), dims(leaves=3), dims(leaves=3))
def test_a_smaller_part_makes_a_smaller_term(e: Dim, x: Dim, y: Dim) -> None:
    part, less = (x, y) if _is_opaque(x) else (y, x)
    if not isinstance(part, SymExpr) or part.is_atom is None or not is_less(less, part.is_atom):
        return
    try:
        whole = floordiv(e * part + n, part * part + m)
        after = replace_atom(whole, part.is_atom, less)
    except ShapeError:
        return
    if isinstance(whole, SymExpr) and whole.is_atom is not None and part.is_atom in whole.atoms:
        assert is_less(after, whole.is_atom)


def _is_opaque(e: Dim) -> bool:
    return isinstance(e, SymExpr) and isinstance(e.is_atom, Opaque)


@pytest.mark.parametrize(
    ("e", "greatest"),
    [
        (a * b - c * d, a * b),
        (a * a - b * c * d, b * c * d),
        (a * b * c - n * floordiv(a * b * c, n), n * floordiv(a * b * c, n)),
        (dim_max(a, b) - 3 * floordiv(dim_max(a, b), n), floordiv(dim_max(a, b), n)),
        (mod(a, n) - n * floordiv(a, n), mod(a, n)),
        (dim_min(a, b) * c - a * b * c * d * n, a * b * c * d * n),
    ],
)
def test_the_greatest_monomial(e: Dim, greatest: Dim) -> None:
    assert isinstance(e, SymExpr)
    assert single(dict(leading_term(e)[0].factors)) is greatest


def test_an_equation_of_a_product_with_what_divides_it() -> None:
    """The elements of ``(a, b, c)`` are those of a shape with their quotient: that is not put in place of them."""
    rows = mod(n, dim_min(m, b))
    size = dim_max(1, rows)
    whole, part = a * b * c, floordiv(a * b * c, size)
    facts = Facts.EMPTY
    for relation in (
        Relation(RelKind.GE, rows, 1, REASON),
        Relation(RelKind.GE, n, m, REASON),
        numel_relation((a, b, c), (rows, dim_max(m - c, c - m), part), REASON),
    ):
        facts = facts.assume(relation)
    again = floordiv(part * rows * dim_max(m - c, c - m), size)
    assert facts.simplify(again) is floordiv(whole, rows)
    assert facts.eq(whole, part * rows * dim_max(m - c, c - m)).proved
    assert facts.eq(again, floordiv(whole, rows)).proved
    assert facts.eq(again, part * dim_max(m - c, c - m)).unknown


def test_two_equations_that_hold_one_anothers_sides() -> None:
    facts = Facts.EMPTY
    for lhs, rhs in (
        (a * b, n * floordiv(c * d, m)),
        (c * d, n * dim_max(a * b, m)),
        (dim_min(a, b * c), m * floordiv(b * c, n)),
        (b * c, d * dim_min(a, b * c) * n),
    ):
        facts = facts.assume(Relation(RelKind.EQ, lhs, rhs, REASON))
    for e in (a * b, c * d, floordiv(a * b * c * d, n), dim_min(a * b, c * d) * b * c):
        simple = facts.simplify(e)
        assert facts.simplify(simple) is simple
        assert facts.eq(e, simple).proved


@pytest.mark.parametrize("first", [True, False])
def test_a_quotient_times_its_divisor_is_the_whole(first: bool) -> None:
    """Whichever of the sizes is the older one."""
    names = "nbs" if first else "bsn"
    sizes = {name: as_dim(symbol(name)) for name in names}
    rows, whole = sizes["n"], sizes["b"] * sizes["s"]
    facts = Facts.EMPTY.assume(Relation(RelKind.GE, rows, 1, REASON))
    facts = facts.assume(numel_relation((sizes["b"], sizes["s"]), (rows, floordiv(whole, rows)), REASON))
    assert facts.simplify(rows * floordiv(whole, rows)) is whole
    assert facts.simplify(mod(whole, rows)) == 0
    assert facts.divides(rows, whole).proved


def test_a_value_that_becomes_the_greater_side_is_turned_around() -> None:
    """An opaque term's value is smaller than it, also once a symbol in the value is known to be something large."""
    facts = Facts.EMPTY
    large = floordiv(a * b * c, m)
    for lhs, rhs in ((dim_max(a, b), 2 * d), (d, large)):
        facts = facts.assume(Relation(RelKind.EQ, lhs, rhs, REASON))
    assert facts.simplify(2 * large) is dim_max(a, b)
    assert facts.simplify(2 * d) is dim_max(a, b)
    assert facts.eq(dim_max(a, b), 2 * large).proved
