"""Learning equalities: an equation is solved for an atom where it can be, and kept where not."""

from __future__ import annotations

from dyn.shapes.expr import (
    Atom,
    Dim,
    Opaque,
    OpaqueKind,
    Symbol,
    SymExpr,
    atom_dim,
    content,
    divide_exactly,
    floordiv,
    mod,
    product,
)
from dyn.shapes.learn.divisibility import learn_divisors
from dyn.shapes.learn.inequalities import bound_factors
from dyn.shapes.learn.learner import ContradictionError, Learner, join_why
from dyn.shapes.order import is_less, leading_term
from dyn.shapes.poly import common_factor, quotient, remove_factor, single
from dyn.shapes.relation import RelKind, Why
from dyn.shapes.relevant_inequalities import implied
from dyn.shapes.retract import Fact, withdraw
from dyn.shapes.simplify import Simplifier
from dyn.shapes.state import AtomEquality, Equation, OutOfBudgetError
from dyn.shapes.walk import last_data_dependent, mentions, split_linear


def equal(learner: Learner, s: Simplifier, fact: Fact) -> None:
    e, why = fact.dim, fact.why
    if s.bounds.nonzero(e):
        raise ContradictionError(join_why(why, s))
    if isinstance(e, int):
        return
    e = _without_factors(learner, s, divide_exactly(e, content(e)))
    if isinstance(e, int):
        raise ContradictionError(join_why(why, s))
    zeros = _all_zero(learner, s, e)
    why = join_why(why, s)
    if zeros:
        for term in zeros:
            learner.push(RelKind.EQ, term, why)
        return
    pivot = _pivot(e)
    if pivot is not None:
        solve(learner, s, *pivot, why)
        return
    remainders = _as_remainders(e)
    if remainders is not e:
        learner.push(RelKind.EQ, remainders, why)
        return
    if learn_divisors(learner, s, e, why):
        learner.push(RelKind.EQ, e, why)  # which the divisors may decide
        return
    lead, coefficient = leading_term(e)
    if coefficient < 0:
        e = -e
        assert isinstance(e, SymExpr)
    learner.state.rows[e] = Equation(lead, abs(coefficient), why)
    learner.note(e)
    learner.keep_bounds()
    if len(e.terms) == 1:
        bound_factors(learner, s, e, why)
        bound_factors(learner, s, -e, why)


def _all_zero(learner: Learner, s: Simplifier, e: SymExpr) -> list[Dim]:
    """The terms of a sum that is 0, where none of them can be on the other side of 0: each is 0 then."""
    sign = 1 if e.terms[0][1] > 0 else -1
    terms = [single(dict(mono.factors), sign * coefficient) for mono, coefficient in e.terms]
    if len(terms) == 1 or e.constant or any(not s.bounds.at_least(term, 0) for term in terms):
        return []
    return terms


def _without_factors(learner: Learner, s: Simplifier, e: Dim) -> Dim:
    """``e`` without factors that are not 0: it is 0 exactly where ``e`` is."""
    if isinstance(e, int):
        return e
    shared = common_factor(e)
    if not shared:
        return e
    rest = remove_factor(e, shared)
    maybe_zero = [atom for atom in shared if not s.bounds.nonzero(atom_dim(atom))]
    factor = product([atom_dim(atom) for atom in maybe_zero])
    return factor if s.bounds.nonzero(rest) else factor * rest


def solve(learner: Learner, s: Simplifier, atom: Atom, value: Dim, why: Why) -> None:
    """Give ``atom`` a value, and say of the value what was known of the atom."""
    lo, hi = s.bounds.atom(atom)
    known = join_why(why, s)
    if lo is not None:
        learner.push(RelKind.GE, value - lo, known)
    if hi is not None:
        learner.push(RelKind.GE, hi - value, known)
    if isinstance(atom, Opaque):
        _solve_opaque(learner, s, atom, value, known)
    learner.queue.extend(withdraw(learner.state, atom))
    learner.state.values[atom] = AtomEquality(value, why)
    learner.touch(atom)
    if isinstance(atom, Opaque) and atom.kind is OpaqueKind.BROADCAST:
        # Where the whole is 1 each part is, and elsewhere each is the whole or 1.
        into = learner.state.broadcasts_into
        into.update({arg: {**into.get(arg, {}), value: why} for arg in atom.args if arg is not value})
    learner.changed()
    for other, old in list(learner.state.values.items()):
        if mentions(old.dim, atom):
            try:
                new = learner.simplifier().simplify(old.dim)
            except OutOfBudgetError:
                continue  # the value stays true as it is, and is simplified when it is used
            reasons = old.why + tuple([r for r in why if r not in old.why])
            if isinstance(other, Symbol) or is_less(new, other):
                learner.state.values[other] = AtomEquality(new, reasons)
            else:  # another term of the equation is the greatest now
                del learner.state.values[other]
                learner.push(RelKind.EQ, atom_dim(other) - new, reasons)


def _solve_opaque(learner: Learner, s: Simplifier, atom: Opaque, value: Dim, why: Why) -> None:
    for dim in implied(s.bounds, atom):
        learner.push(RelKind.GE, _replace_outer(dim, atom, value), why)
    if atom.kind is OpaqueKind.MOD and isinstance(atom.args[1], int):
        learner.push(RelKind.DIVIDES, atom.args[0] - value, why, atom.args[1])
    if atom.kind in (OpaqueKind.FLOORDIV, OpaqueKind.MOD):
        _divide_with_rest(learner, s, atom, value, why)


def _divide_with_rest(learner: Learner, s: Simplifier, atom: Opaque, value: Dim, why: Why) -> None:
    """Infer ``a == b*floordiv(a, b) + mod(a, b)`` where one of them gets a value and the other has one."""
    a, b = atom.args
    if not s.bounds.nonzero(b):
        return
    is_quotient = atom.kind is OpaqueKind.FLOORDIV
    other = mod(a, b) if is_quotient else floordiv(a, b)
    known = s.simplify(other)
    if known != other:
        learner.push(RelKind.EQ, a - b * value - known if is_quotient else a - b * known - value, join_why(why, s))


def _pivot(e: SymExpr) -> tuple[Atom, Dim] | None:
    """The atom to solve ``e == 0`` for, and its value: the youngest symbol, or else the greatest term if it is opaque.

    A symbol that has a value is in no value and in no other fact, so to replace it comes to an end. Of opaque terms
    that is only sure where the value is smaller. What is known when a program starts is not said in terms of what it
    measures later.
    """
    found: list[tuple[Atom, Dim]] = []
    for mono, coefficient in e.terms:
        atom, n = mono.factors[0]
        if abs(coefficient) != 1 or len(mono.factors) > 1 or n > 1 or isinstance(atom, Opaque):
            continue
        parts = split_linear(e, atom)
        if parts is not None and isinstance(parts[0], int):
            found.append((atom, parts[1] * -coefficient))
    mono, coefficient = leading_term(e)
    atom, n = mono.factors[0]
    if abs(coefficient) == 1 and len(mono.factors) == n == 1:
        found.append((atom, atom_dim(atom) - coefficient * e))
    possible = [
        (atom, value) for atom, value in found if last_data_dependent(value) <= last_data_dependent(atom_dim(atom))
    ]
    return max(possible, key=lambda item: (isinstance(item[0], Symbol), item[0].key), default=None)


def _as_remainders(e: SymExpr) -> Dim:
    """``n - k*floordiv(n, k)`` is ``mod(n, k)``, where that makes the sum a shorter one."""
    for mono, coefficient in e.terms:
        for atom, _ in mono.factors:
            if isinstance(atom, Opaque) and atom.kind is OpaqueKind.FLOORDIV:
                a, b = atom.args
                rest = quotient(mono, coefficient, atom, b)
                if rest is not None:
                    shorter = e - single(dict(mono.factors), coefficient) + rest * (a - a % b)
                    if isinstance(shorter, int) or len(shorter.terms) < len(e.terms):
                        return shorter
    return e


def _replace_outer(dim: Dim, atom: Atom, value: Dim) -> Dim:
    parts = split_linear(dim, atom) if isinstance(dim, SymExpr) and mentions(dim, atom) else None
    return dim if parts is None else parts[0] * value + parts[1]
