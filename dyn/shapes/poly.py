"""Division of polynomials with integer coefficients, in graded lexicographic order.

Cox, Little, O'Shea, *Ideals, Varieties, and Algorithms*, §2.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from dyn.shapes.expr import Atom, Dim, Monomial, SymExpr, content, divide_exactly, monomial, polynomial
from dyn.shapes.state import Equation


def over(m: Monomial, d: Monomial) -> dict[Atom, int] | None:
    """The powers of ``m / d``, or None where ``d`` does not divide it."""
    powers = dict(m.factors)
    for atom, power in d.factors:
        left = powers.get(atom, 0) - power
        if left < 0:
            return None
        powers[atom] = left
    return powers


def single(powers: dict[Atom, int], coefficient: int = 1) -> Dim:
    """``coefficient`` times the product of powers."""
    mono = monomial(powers)
    return coefficient if mono is None else polynomial({mono: coefficient}, 0)


def divide(a: Dim, b: SymExpr) -> tuple[Dim, Dim]:
    """``(q, r)`` with ``a == q*b + r``, taking out ``b`` as long as its leading term divides a term exactly."""
    lead, k = b.terms[0]
    quotient: Dim = 0
    rest: Dim = 0
    while isinstance(a, SymExpr) and b.terms[0][0].key[0] >= a.terms[0][0].key[0]:  # until the degree is too small
        mono, coefficient = a.terms[0]
        powers = over(mono, lead) if coefficient % k == 0 else None
        if powers is None:
            head = polynomial({mono: coefficient}, 0)
            rest, a = rest + head, a - head
        else:
            part = single(powers, coefficient // k)
            quotient, a = quotient + part, a - part * b
    return quotient, rest + a


def exact_quotient(a: Dim, b: Dim) -> Dim | None:
    """``q`` with ``a == q*b``, or None where there is none or it is not found."""
    if isinstance(b, int):
        return divide_exactly(a, b) if b and content(a) % b == 0 else None
    quotient, rest = divide(a, b)
    return quotient if isinstance(rest, int) and rest == 0 else None


def reduce_scaled(a: Dim, rows: Mapping[SymExpr, Equation]) -> tuple[Dim, list[SymExpr]]:
    """Remainder of a non-zero multiple of ``a`` after taking out ``rows``, and which of them were used.

    Where all rows are 0, ``a`` is 0 if the rest is; a rest that is another number says that ``a`` is not 0.
    """
    used: list[SymExpr] = []
    for row, (lead, k, _) in rows.items():
        for _ in range(64):
            found = _divisible_term(a, lead)
            if found is None:
                break
            powers, coefficient = found
            scale = abs(k) // math.gcd(k, coefficient)
            a = a * scale - single(powers, coefficient * scale // k) * row
            used.append(row)
    return a, used


def _divisible_term(a: Dim, lead: Monomial) -> tuple[dict[Atom, int], int] | None:
    if isinstance(a, SymExpr):
        for mono, coefficient in a.terms:
            powers = over(mono, lead)
            if powers is not None:
                return powers, coefficient
    return None


def common_factor(a: SymExpr) -> dict[Atom, int]:
    """The powers of the largest monomial that divides ``a``; empty where there is a constant."""
    if a.constant:
        return {}
    shared = dict(a.terms[0][0].factors)
    for mono, _ in a.terms[1:]:
        powers = dict(mono.factors)
        shared = {atom: min(power, powers[atom]) for atom, power in shared.items() if atom in powers}
    return shared


def remove_factor(a: SymExpr, powers: dict[Atom, int]) -> Dim:
    """``a`` divided by a monomial that divides it."""
    mono = monomial(powers)
    if mono is None:
        return a
    result: Dim = 0
    for m, coefficient in a.terms:
        left = over(m, mono)
        assert left is not None
        result = result + single(left, coefficient)
    return result


def quotient(mono: Monomial, coefficient: int, atom: Atom, b: Dim) -> Dim | None:
    """The term ``coefficient*mono`` without ``b*atom``, where it has such a factor."""
    lead, k = (None, b) if isinstance(b, int) else b.terms[0]
    if isinstance(b, SymExpr) and (len(b.terms) > 1 or b.constant):
        return None
    powers = dict(mono.factors)
    powers[atom] -= 1
    if lead is not None:
        for factor, n in lead.factors:
            powers[factor] = powers.get(factor, 0) - n
    if coefficient % k or any(n < 0 for n in powers.values()):
        return None
    return single(powers, coefficient // k)
