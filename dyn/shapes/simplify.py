"""The canonical representative of an expression under the facts."""

from __future__ import annotations

import itertools

from dyn.errors import ShapeError
from dyn.shapes.bound import Bounds, is_large
from dyn.shapes.expr import (
    Atom,
    Dim,
    Opaque,
    OpaqueKind,
    Symbol,
    SymExpr,
    atom_dim,
    floordiv,
    mod,
    polynomial,
)
from dyn.shapes.interval import Interval
from dyn.shapes.joins import broadcast, has_part, joined_from
from dyn.shapes.poly import common_factor, divide, over, quotient, reduce_scaled, remove_factor, single
from dyn.shapes.relation import Why
from dyn.shapes.state import State, Work
from dyn.shapes.sums import remainder, without_complements
from dyn.shapes.walk import map_atoms, rebuild, split_linear

_ROUNDS = 8
#: Questions about the parts of a sum lie so deep in one another at most.
_MOST_ASKED = 4
#: Sums of so many terms are no element counts of broadcast arrays.
_FEW = 8


class Simplifier:
    """Simplifies under one state, within one budget."""

    __slots__ = ("_active", "_asked", "bounds", "state", "work")

    def __init__(self, state: State, work: Work) -> None:
        self.state = state
        self.work = work
        self.bounds = Bounds(state, work)
        self._active: set[Atom] = set()
        #: How many questions of :meth:`_is_one_or` are being asked, each inside of the one before.
        self._asked = 0

    def simplify(self, dim: Dim) -> Dim:
        if isinstance(dim, int) or not self._may_change(dim):
            return dim
        if dim.is_large:
            return map_atoms(dim, self._known_value)
        return self.work.remember(("simplify", dim), self._simplify)

    def _may_change(self, dim: SymExpr) -> bool:
        if dim.height or self.state.rows:
            return True
        return not self.state.values.keys().isdisjoint(dim.atoms)

    def _known_value(self, atom: Atom) -> Dim | None:
        known = self.state.values.get(atom)
        if known is None:
            return None
        self.work.use(known.why)
        return known.dim

    def _simplify(self, dim: SymExpr) -> Dim:
        result: Dim = dim
        for _ in range(_ROUNDS):
            before = result
            if isinstance(result, SymExpr) and len(result.terms) < _FEW:
                result = self._joined_parts(result)
            if isinstance(result, SymExpr):
                result = map_atoms(result, self._replacement)
            if isinstance(result, SymExpr):
                result = self._multiply_out(result)
            if isinstance(result, SymExpr):
                result = self._fold(result)
            if isinstance(result, SymExpr):
                result = self._whole_multiples(result)
            if isinstance(result, SymExpr) and self.state.rows:
                result = self._rewrite(result)
            if result is before:
                break
        return result

    # --- atoms ---------------------------------------------------------------------------------------------------

    def _replacement(self, atom: Atom) -> Dim | None:
        if atom in self._active:
            return None
        if atom not in self.state.values and (isinstance(atom, Symbol) or is_large(atom)):
            return None
        self._active.add(atom)
        try:
            new = self.work.remember(("replace", atom), self._replace)
        finally:
            self._active.discard(atom)
        return None if isinstance(new, SymExpr) and new.is_atom is atom else new

    def _replace(self, atom: Atom) -> Dim:
        known = self.state.values.get(atom)
        if known is not None:
            self.work.use(known.why)
            return self.simplify(known.dim)
        assert isinstance(atom, Opaque)
        args = tuple([self.simplify(arg) for arg in atom.args])
        if args != atom.args:
            try:
                return self.simplify(rebuild(atom.kind, args))
            except ShapeError:  # it has no value for any size: nothing to say here, whoever evaluates it will
                return atom_dim(atom)
        constant = self._constant(atom)
        if constant is not None:
            return constant
        a, b = atom.args[0], atom.args[1]
        match atom.kind:
            case OpaqueKind.FLOORDIV:
                return self._floordiv(atom, a, b)
            case OpaqueKind.MOD:
                return self._mod(atom, a, b)
            case OpaqueKind.MIN | OpaqueKind.MAX:
                return self._extremum(atom)
            case OpaqueKind.BROADCAST:
                return self._broadcast(atom)

    def _constant(self, atom: Opaque) -> int | None:
        """The number that an opaque term is by its bounds. In all models it is that one."""
        values = {model.value(atom_dim(atom)) for model in self.work.models} - {None}
        if len(values) > 1 or (values and self.bounds.least(atom) not in values):
            return None
        lo, hi = self.bounds.atom(atom)
        return lo if lo == hi else None

    def _floordiv(self, atom: Opaque, a: Dim, b: Dim) -> Dim:
        whole, rest, divided = self._divide(a, b)
        if divided:
            return whole + (0 if rest == 0 or self._below(rest, b) else floordiv(rest, b))
        if isinstance(b, int) and isinstance(a, SymExpr):
            multiples, rest = self._split_multiples(a, b)
            if isinstance(rest, int) and rest == 0:
                return atom_dim(atom)
            if isinstance(multiples, SymExpr) and self._below(rest, b):
                return floordiv(multiples, b)
        reduced = self._cancel(a, b)
        if reduced is not None:
            return floordiv(*reduced)
        return self._divide_twice(a, b) if isinstance(b, SymExpr) else atom_dim(atom)

    def _divide_twice(self, a: Dim, b: SymExpr) -> Dim:
        """``floordiv(floordiv(x, j) + c, b)`` is ``floordiv(x + c*j, j*b)`` for every ``b > 0``."""
        constant = a.constant if isinstance(a, SymExpr) else 0
        inside = a - constant
        inner = inside.is_atom if isinstance(inside, SymExpr) else None
        if isinstance(inner, Opaque) and inner.kind is OpaqueKind.FLOORDIV and self.bounds.positive_divisor(b):
            x, j = inner.args
            return floordiv(x + constant * j, j * b)
        return floordiv(a, b)

    def _mod(self, atom: Opaque, a: Dim, b: Dim) -> Dim:
        _, rest, divided = self._divide(a, b)
        if divided:
            return rest if rest == 0 or self._below(rest, b) else mod(rest, b)
        if self._below(a, b):
            return a
        if isinstance(b, int) and isinstance(a, SymExpr):
            multiples, rest = self._split_multiples(a, b)
            if isinstance(multiples, SymExpr):
                return rest if self._below(rest, b) else mod(rest, b)
            if self.bounds.multiple(a) % b == 0:
                return 0
        return atom_dim(atom)

    def _divide(self, a: Dim, b: Dim) -> tuple[Dim, Dim, bool]:
        """``a == whole*b + rest`` for a symbolic ``b`` that is not 0; whether that is of use."""
        if isinstance(b, int) or not self.bounds.nonzero(b):
            return 0, a, False
        whole, rest = divide(a, b)
        return whole, rest, whole != 0 or rest == 0 or self._below(rest, b)

    def _below(self, rest: Dim, b: Dim) -> bool:
        """Whether ``0 <= rest < b``."""
        return self.bounds.at_least(rest, 0) and self.bounds.at_least(b - 1 - rest, 0)

    def _split_multiples(self, a: SymExpr, k: int) -> tuple[Dim, Dim]:
        """The terms of ``a`` that ``k`` is known to divide, and the others; all where it divides ``a``."""
        whole = {m: c for m, c in a.terms if self.bounds.term_multiple(m, c) % k == 0}
        if not whole and self.bounds.multiple(a) % k == 0:
            return a, 0
        rest = {m: c for m, c in a.terms if m not in whole}
        return polynomial(whole, 0), polynomial(rest, a.constant)

    def _cancel(self, a: Dim, b: Dim) -> tuple[Dim, Dim] | None:
        """The fraction without the monomial factors that are not 0."""
        if isinstance(a, int) or isinstance(b, int):
            return None
        above, below = common_factor(a), common_factor(b)
        shared = {atom: min(n, below[atom]) for atom, n in above.items() if atom in below}
        shared = {atom: n for atom, n in shared.items() if self.bounds.nonzero(atom_dim(atom))}
        return (remove_factor(a, shared), remove_factor(b, shared)) if shared else None

    def _extremum(self, atom: Opaque) -> Dim:
        smallest = atom.kind is OpaqueKind.MIN
        kept = list(atom.args)
        for x, y in itertools.permutations(atom.args, 2):
            if x in kept and y in kept and self.bounds.at_least(y - x if smallest else x - y, 0):
                kept.remove(y)
        return rebuild(atom.kind, tuple(kept))

    def _broadcast(self, atom: Opaque) -> Dim:
        kept = list(atom.args)
        sizes = {x: [model.value(x) for model in self.work.models] for x in kept}
        for x, y in itertools.combinations(atom.args, 2):
            if x in kept and y in kept and not _differ(sizes[x], sizes[y]) and self.is_zero(x - y):
                kept.remove(y)
        for part in tuple(kept):
            for whole, why in self.state.broadcasts_into.get(part, {}).items():
                joined = joined_from(whole)  # by a size that is here, or by what is joined from such
                if whole is not part and (whole in kept or (part not in joined and all(arg in kept for arg in joined))):
                    self.work.use(why)
                    kept.remove(part)
                    break
        for x in kept:  # a size that is not 1, and that the others fit
            if self.bounds.nonzero(x - 1) and all(self.fits(x, y) for y in kept if y is not x):
                return x
        return broadcast(*kept)

    # --- terms ---------------------------------------------------------------------------------------------------

    def _multiply_out(self, dim: SymExpr) -> Dim:
        """``8*floordiv(n, 8)`` is ``n`` where 8 divides it."""
        result: Dim = dim
        for mono, coefficient in dim.terms:
            for atom, _ in mono.factors:
                if not (isinstance(atom, Opaque) and atom.kind is OpaqueKind.FLOORDIV):
                    continue
                a, b = atom.args
                rest = quotient(mono, coefficient, atom, b)
                if rest is not None and self._divides(b, a):
                    result = result - single(dict(mono.factors), coefficient) + rest * a
                    break
        return result

    def _joined_parts(self, dim: SymExpr) -> Dim:
        """``m*floordiv(n, max(m, 1))`` is ``n`` where ``m`` is 1 or ``n``: the shape of a reversed broadcast."""
        result: Dim = dim
        for mono, coefficient in dim.terms:
            for atom, _ in mono.factors if len(mono.factors) > 1 else ():
                if not (isinstance(atom, Opaque) and atom.kind is OpaqueKind.FLOORDIV):
                    continue
                a, b = atom.args
                size = _at_least_one(b)
                rest = quotient(mono, coefficient, atom, size)
                if rest is not None and self._is_one_or(size, a):
                    result = result - single(dict(mono.factors), coefficient) + rest * a
                    break
        return result

    def _is_one_or(self, part: Dim, whole: Dim) -> bool:
        """Whether ``part`` is known to be a size that is 1 or ``whole``, as that of an axis that is broadcast to it."""
        if self._asked >= _MOST_ASKED:
            return False
        self._asked += 1
        try:
            whole = self.simplify(whole)
        finally:
            self._asked -= 1
        parts = joined_from(part)
        if len(parts) > 1:  # each of them, and so what they make up
            return all(own == 1 or self._is_one_or(own, whole) for own in parts)
        why = self.state.broadcasts_into.get(part, {}).get(whole)
        wholes = joined_from(whole)  # which has a value only where its parts are 1 or it
        if why is None and (len(wholes) < 2 or part not in wholes):
            return False
        if not self.bounds.at_least(part, 0):
            return False
        self.work.use(why if why is not None else ())
        return True

    def _divides(self, b: Dim, a: Dim) -> bool:
        if isinstance(b, int):
            return self.bounds.multiple(a) % b == 0
        return self.simplify(mod(a, b)) == 0

    def _whole_multiples(self, dim: SymExpr) -> Dim:
        """``n - n % 8`` is ``8*(n // 8)``, where that makes the sum a shorter one."""
        for mono, c in dim.terms:
            atom, power = mono.factors[0]
            if len(mono.factors) == power == 1 and isinstance(atom, Opaque) and atom.kind is OpaqueKind.MOD:
                a, b = atom.args
                shorter = dim - c * atom_dim(atom) + c * (a - b * floordiv(a, b))
                if isinstance(shorter, int) or len(shorter.terms) < len(dim.terms):
                    return shorter
        return dim

    @staticmethod
    def _fold(dim: SymExpr) -> Dim:
        """``n - min(n, k)`` is ``max(n - k, 0)``: what a slice leaves out and what another takes become one text, and
        the sum of both is ``n``."""
        shorter = without_complements(dim)
        return shorter if shorter is not dim else remainder(dim)

    def _rewrite(self, dim: Dim) -> Dim:
        """Take out equations, by their greatest monomials, where their leading coefficients divide."""
        for row, (lead, k, why) in self.state.rows.items():
            while isinstance(dim, SymExpr):
                for mono, coefficient in dim.terms:
                    powers = over(mono, lead) if coefficient % k == 0 else None
                    if powers is not None:
                        self.work.step()
                        self.work.use(why)
                        dim = dim - single(powers, coefficient // k) * row
                        break
                else:
                    break
        return dim

    # --- equality ------------------------------------------------------------------------------------------------

    def is_zero(self, dim: Dim) -> bool:
        for model in self.work.models:
            value = model.value(dim)
            if value is not None and value != 0:
                return False
        return self.residue(dim) == 0

    def residue(self, dim: Dim) -> Dim:
        """Remainder of a non-zero multiple of ``dim`` under all equations: 0 where it is known to be 0."""
        dim = self.simplify(dim)
        if isinstance(dim, SymExpr) and self.state.rows:
            left, used = reduce_scaled(dim, self.state.rows)
            if isinstance(left, int):
                for row in used:
                    self.work.use(self.state.rows[row].why)
                return left
        if isinstance(dim, SymExpr):
            return self._without_mod(dim)
        return dim

    def _without_mod(self, dim: SymExpr) -> Dim:
        """A dim with ``mod(a, b)`` written as ``a - b*floordiv(a, b)``, where that makes a number."""
        result: Dim = dim
        for atom in [a for m, _ in dim.terms for a, _ in m.factors]:
            if isinstance(atom, Opaque) and atom.kind is OpaqueKind.MOD and isinstance(result, SymExpr):
                parts = split_linear(result, atom)
                if parts is not None:
                    a, b = atom.args
                    result = parts[0] * (a - b * floordiv(a, b)) + parts[1]
        if result is not dim:
            result = self.simplify(result)
        return result if isinstance(result, int) else dim

    def fits(self, a: Dim, b: Dim, *, as_parts: bool = True) -> bool:
        """Whether sizes ``a`` and ``b`` are known to broadcast together.

        Without ``as_parts`` it is not enough that what one of them is a part of is known to fit the other.
        """
        if a is b or a == 1 or b == 1:
            return True
        for model in self.work.models:
            sizes = model.value(a), model.value(b)
            if None not in sizes and sizes[0] != sizes[1] and 1 not in sizes:
                return False
        into = self.state.broadcasts_into
        for why in (self._known_to_fit(a, b, as_parts), into.get(a, {}).get(b), into.get(b, {}).get(a)):
            if why is not None:
                self.work.use(why)
                return True
        if self.is_zero(a - b) or self.is_zero(a - 1) or self.is_zero(b - 1) or self._few_sizes(a, b):
            return True
        return self._all_fit(a, b) or self._all_fit(b, a)

    def _known_to_fit(self, a: Dim, b: Dim, as_parts: bool) -> Why | None:
        """Reasons by which two sizes fit, or two that they are parts of."""
        for part, other in ((a, b), (b, a)):
            known = self.state.broadcasts.get(other, {})
            why = known.get(part)
            if why is None and as_parts:
                why = next((why for whole, why in known.items() if has_part(whole, part)), None)
            if why is not None:
                return why
        return None

    def _few_sizes(self, a: Dim, b: Dim) -> bool:
        """Whether only one size that is not 1 is left to either: 0 with 0 or 1, 1 or 2 with 2."""
        left = [_other_than_one(self.bounds.plain_terms(dim)) for dim in (a, b)]
        return None in left or (
            left[0] == left[1] and left[0] is not None and left[0][0] == left[0][1] and left[0][0] is not None
        )

    def _all_fit(self, a: Dim, b: Dim) -> bool:
        """Whether ``a`` is joined from sizes that each fit ``b``, or from ``b`` itself: it is one of them."""
        parts = joined_from(a)
        return len(parts) > 1 and (b in parts or all(self.fits(arg, b) for arg in parts))


def _differ(a: list[int | None], b: list[int | None]) -> bool:
    """Whether the sizes of two dims differ in some model."""
    return a != b and any(x != y and x is not None and y is not None for x, y in zip(a, b, strict=True))


def _at_least_one(dim: Dim) -> Dim:
    """The size of which ``dim`` is the maximum with 1; ``dim`` itself where it is none."""
    atom = dim.is_atom if isinstance(dim, SymExpr) else None
    if isinstance(atom, Opaque) and atom.kind is OpaqueKind.MAX and len(atom.args) == 2 and atom.args[0] == 1:
        return atom.args[1]
    return dim


def _other_than_one(sizes: Interval) -> Interval | None:
    """The sizes without 1 at either end; None where none is left."""
    lo, hi = 2 if sizes[0] == 1 else sizes[0], 0 if sizes[1] == 1 else sizes[1]
    return None if lo is not None and hi is not None and lo > hi else (lo, hi)
