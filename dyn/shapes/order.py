"""The well-founded order by which equations rewrite terms.

An equation that cannot be solved for a symbol replaces its greatest monomial by the others, and the order is such that
whatever holds the greatest gets smaller by that:

- A symbol weighs 1, ``floordiv(a, b)`` 1 more than its arguments together, ``mod(a, b)`` more than the
  ``a - b*floordiv(a, b)`` that it is, any other opaque term 1 more than its arguments together; a monomial weighs what
  its factors do, an expression what its heaviest monomial does, a number nothing.
- The heavier monomial is the greater one. Of two that weigh the same, the first factor that differs decides, the
  greatest factors first; of atoms that weigh the same, the opaque one is greater than the symbol, the older symbol than
  the younger, and of two opaque terms their kinds decide and then their arguments. Expressions are compared by their
  monomials, the greatest first, and then by their numbers.

This is a weighted path order (Yamada, Kusakabe, Sakabe, *A unified ordering for termination proving*, 2015) of terms
without variables, in which a polynomial is the multiset of its monomials and a monomial that of its factors
(Dershowitz and Manna, *Proving termination with multiset orderings*, 1979):

- It is *well-founded*: weights are natural numbers, and of terms of one weight a descending chain would give one of
  their arguments or factors, which weigh less, or of numbers, which are compared by their sizes.
- It is *monotone*: where a monomial is replaced by smaller ones, the expression around it gets smaller, since the
  monomials before that one stay, and so does each opaque term around that: its weight does not rise, and its first
  argument that differs is smaller.
- A term is *greater than what is in it*. So an equation never replaces a term by something that holds it.

Therefore no chain of replacements goes on for ever. Of products of symbols it is the graded lexicographic order that
expressions are printed in.
"""

from __future__ import annotations

from typing import Any

from dyn.shapes.expr import Atom, Dim, Monomial, OpaqueKind, Symbol, SymExpr, atom_dim
from dyn.shapes.symbols import KIND_ORDER

#: The position of a term: a tuple that begins with its weight.
_Key = tuple[Any, ...]


def leading_term(e: SymExpr) -> tuple[Monomial, int]:
    """The greatest monomial, with its coefficient."""
    keys: dict[Atom, _Key] = {}
    return max(e.terms, key=lambda term: _monomial_key(term[0], keys))


def is_less(e: Dim, atom: Atom) -> bool:
    """Whether an expression is smaller than an atom."""
    keys: dict[Atom, _Key] = {}
    return _key(e, keys) < _key(atom_dim(atom), keys)


def _key(e: Dim, keys: dict[Atom, _Key]) -> _Key:
    if isinstance(e, int):
        return 0, (), _number_key(e)
    terms = sorted([(_monomial_key(mono, keys), _number_key(c)) for mono, c in e.terms], reverse=True)
    return terms[0][0][0], tuple(terms), _number_key(e.constant)


def _number_key(n: int) -> tuple[int, bool]:
    return abs(n), n < 0


def _monomial_key(mono: Monomial, keys: dict[Atom, _Key]) -> _Key:
    factors = sorted([(_atom_key(atom, keys), power) for atom, power in mono.factors], reverse=True)
    return sum([key[0] * power for key, power in factors]), tuple(factors)


def _atom_key(atom: Atom, keys: dict[Atom, _Key]) -> _Key:
    if isinstance(atom, Symbol):
        return 1, 0, -atom.uid
    found = keys.get(atom)
    if found is None:
        args = tuple([_key(arg, keys) for arg in atom.args])
        weight = 1 + sum([arg[0] for arg in args])
        if atom.kind is OpaqueKind.MOD:
            weight += 1 + args[1][0]
        found = keys[atom] = weight, 1, KIND_ORDER[atom.kind], args
    return found
