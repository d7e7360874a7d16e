"""Symbolic integers in one canonical form.

A :class:`SymExpr` is a constant plus a sum of integer coefficients times monomials; a :class:`Monomial` is a product of
powers of atoms; an atom is a :class:`Symbol` or an :class:`Opaque` term (``floordiv``, ``mod``, ``min``, ``max``,
``broadcast``)::

    2*b*s + floordiv(n, 2) + 3      constant 3, terms {b*s: 2, floordiv(n, 2): 1}

Everything but the symbols is interned, so that two expressions are the same polynomial exactly when they are the same
object: ``==`` and ``hash`` are those of ``object``. An expression without terms is an ``int``, never a ``SymExpr``.
The tables hold their values weakly; a lock guards insertion, reading takes none.

This file is longer than most: the operators of ``SymExpr`` need interning, division and text, and all of them need it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NoReturn, TypeAlias
from weakref import WeakValueDictionary

from dyn.errors import ShapeError, UndecidedDimError
from dyn.forking import lock
from dyn.source import user_loc

_uids = itertools.count()
_lock = lock()


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Symbol:
    """An unknown size. It is itself and nothing else: two symbols of one name are two unknowns.

    ``origin`` says where it came from (``"x.shape[0]"``); ``uid`` counts up, and gives the canonical order. What is
    ``measured`` no argument's shape says: the program finds it out while it runs, from values.
    """

    name: str
    origin: str
    uid: int
    measured: bool = False
    #: The position among atoms: symbols by age, then opaque terms by structure.
    key: tuple[Any, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (0, self.uid))

    def __str__(self) -> str:
        return self.name

    def __copy__(self) -> Symbol:
        return self

    def __deepcopy__(self, memo: object) -> Symbol:
        return self


def symbol(name: str, origin: str = "", *, measured: bool = False) -> Symbol:
    """A fresh symbol."""
    return Symbol(name, origin, next(_uids), measured)


class OpaqueKind(StrEnum):
    """The functions that polynomials cannot express."""

    FLOORDIV = "floordiv"
    MOD = "mod"
    MIN = "min"
    MAX = "max"
    BROADCAST = "broadcast"


_KIND_ORDER = {kind: i for i, kind in enumerate(OpaqueKind)}


class _Interned:
    """What there is one of: copying gives the same object."""

    __slots__ = ("__weakref__",)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a symbolic dimension belongs to its process and cannot be pickled; write its text instead")


class Opaque(_Interned):
    """``kind(*args)``, treated as an unknown by the arithmetic. Made by :func:`opaque`."""

    __slots__ = ("args", "key", "kind")
    kind: OpaqueKind
    args: tuple[Dim, ...]
    key: tuple[Any, ...]

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(map(str, self.args))})"


class Monomial(_Interned):
    """A product of atoms with powers: ``factors`` in atom order, never empty. Made by :func:`monomial`."""

    __slots__ = ("factors", "key")
    factors: tuple[tuple[Atom, int], ...]
    #: By falling degree, then lexicographic: graded lexicographic order, largest first.
    key: tuple[Any, ...]

    def __repr__(self) -> str:
        return _format_monomial(self, None)


class SymExpr(_Interned):
    """A symbolic integer: ``constant + sum(coefficient * monomial for monomial, coefficient in terms)``.

    ``terms`` is never empty, holds no zero coefficient and stands in canonical order, largest monomial first; the
    constant is not among them. ``atoms`` are all symbols and opaque terms in it, those inside opaque terms included.
    Made by arithmetic, :func:`as_dim` and the functions of this package.
    """

    __slots__ = ("atoms", "constant", "key", "terms")
    terms: tuple[tuple[Monomial, int], ...]
    constant: int
    atoms: frozenset[Atom]
    key: tuple[Any, ...]

    @property
    def is_symbol(self) -> Symbol | None:
        """The symbol that this expression is, or None."""
        atom = self.is_atom
        return atom if isinstance(atom, Symbol) else None

    @property
    def is_atom(self) -> Atom | None:
        """The symbol or opaque term that this expression is, or None."""
        if self.constant == 0 and len(self.terms) == 1:
            mono, coefficient = self.terms[0]
            if coefficient == 1 and len(mono.factors) == 1 and mono.factors[0][1] == 1:
                return mono.factors[0][0]
        return None

    def __add__(self, other: Dim) -> Dim:
        if isinstance(other, SymExpr):
            terms = dict(self.terms)
            for mono, coefficient in other.terms:
                terms[mono] = terms.get(mono, 0) + coefficient
            return polynomial(terms, self.constant + other.constant)
        if isinstance(other, int):
            return _expression(self.terms, self.constant + other) if other else self
        return NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return _expression(tuple([(m, -c) for m, c in self.terms]), -self.constant)

    def __pos__(self) -> Dim:
        return self

    def __sub__(self, other: Dim) -> Dim:
        if isinstance(other, SymExpr):
            if other is self:
                return 0
            terms = dict(self.terms)
            for mono, coefficient in other.terms:
                terms[mono] = terms.get(mono, 0) - coefficient
            return polynomial(terms, self.constant - other.constant)
        if isinstance(other, int):
            return _expression(self.terms, self.constant - other) if other else self
        return NotImplemented

    def __rsub__(self, other: int) -> Dim:
        return -self + other

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, SymExpr):
            terms: dict[Monomial, int] = {}
            for m, c in self.terms:
                for n, d in other.terms:
                    mn = monomial_product(m, n)
                    terms[mn] = terms.get(mn, 0) + c * d
            for left, k in ((self, other.constant), (other, self.constant)):
                if k:
                    for m, c in left.terms:
                        terms[m] = terms.get(m, 0) + c * k
            return polynomial(terms, self.constant * other.constant)
        if isinstance(other, int):
            if other == 1:
                return self
            return _expression(tuple([(m, c * other) for m, c in self.terms]), self.constant * other) if other else 0
        return NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return floordiv(self, other)

    def __rfloordiv__(self, other: int) -> Dim:
        return floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return mod(self, other)

    def __rmod__(self, other: int) -> Dim:
        return mod(other, self)

    def __lt__(self, other: Dim) -> bool:
        return self._sign_of_difference(other, "<") < 0

    def __le__(self, other: Dim) -> bool:
        return self._sign_of_difference(other, "<=") <= 0

    def __gt__(self, other: Dim) -> bool:
        return self._sign_of_difference(other, ">") > 0

    def __ge__(self, other: Dim) -> bool:
        return self._sign_of_difference(other, ">=") >= 0

    def _sign_of_difference(self, other: Dim, sign: str) -> int:
        difference = self - other
        if isinstance(difference, SymExpr):
            raise _undecided(f"{self} {sign} {other}")
        return difference

    def __bool__(self) -> bool:
        raise _undecided(f"bool({self})")

    def __int__(self) -> int:
        raise _undecided(f"int({self})")

    def __index__(self) -> int:
        raise _undecided(f"operator.index({self})")

    def __float__(self) -> float:
        raise _undecided(f"float({self})")

    def __repr__(self) -> str:
        return format_dim(self)


Atom: TypeAlias = Symbol | Opaque
Dim: TypeAlias = int | SymExpr


def _undecided(question: str) -> UndecidedDimError:
    return UndecidedDimError(
        f"{question} has no one answer for every shape.",
        loc=user_loc(),
        remedy="compute with the dimension instead; declare what is known of it (dyn.Dim(..., min=, max=, "
        "multiple_of=), constraints=); or make the axis static by an integer in shapes=.",
    )


# --- interning ---------------------------------------------------------------------------------------------------

_opaques: WeakValueDictionary[tuple[OpaqueKind, tuple[Dim, ...]], Opaque] = WeakValueDictionary()
_monomials: WeakValueDictionary[tuple[tuple[Atom, int], ...], Monomial] = WeakValueDictionary()
_expressions: WeakValueDictionary[tuple[tuple[tuple[Monomial, int], ...], int], SymExpr] = WeakValueDictionary()


def opaque(kind: OpaqueKind, args: tuple[Dim, ...]) -> Dim:
    """The expression ``kind(*args)``, as it stands: callers have put it into canonical form."""
    args = tuple([arg if isinstance(arg, SymExpr) else int(arg) for arg in args])
    found = _opaques.get((kind, args))
    if found is None:
        with _lock:
            found = _opaques.get((kind, args))
            if found is None:
                found = Opaque()
                found.kind, found.args = kind, args
                found.key = (1, _KIND_ORDER[kind], tuple([dim_key(arg) for arg in args]))
                _opaques[kind, args] = found
    return atom_dim(found)


def _monomial(factors: tuple[tuple[Atom, int], ...]) -> Monomial:
    found = _monomials.get(factors)
    if found is None:
        with _lock:
            found = _monomials.get(factors)
            if found is None:
                found = Monomial()
                found.factors = factors
                degree = sum([power for _, power in factors])
                found.key = (-degree, *[(atom.key, -power) for atom, power in factors])
                _monomials[factors] = found
    return found


def _expression(terms: tuple[tuple[Monomial, int], ...], constant: int) -> SymExpr:
    found = _expressions.get((terms, constant))
    if found is None:
        with _lock:
            found = _expressions.get((terms, constant))
            if found is None:
                found = SymExpr()
                found.terms, found.constant = terms, int(constant)
                found.atoms = _atoms_of(terms)
                found.key = (1, tuple([(m.key, c) for m, c in terms]), constant)
                _expressions[terms, constant] = found
    return found


def _atoms_of(terms: tuple[tuple[Monomial, int], ...]) -> frozenset[Atom]:
    atoms: set[Atom] = set()
    for mono, _ in terms:
        for atom, _ in mono.factors:
            atoms.add(atom)
            if isinstance(atom, Opaque):
                for arg in atom.args:
                    if isinstance(arg, SymExpr):
                        atoms |= arg.atoms
    return frozenset(atoms)


def dim_key(dim: Dim) -> tuple[Any, ...]:
    """A sort key that puts numbers first and depends on structure and symbols' age alone."""
    return dim.key if isinstance(dim, SymExpr) else (0, dim)


def _atom_order(factor: tuple[Atom, int]) -> tuple[Any, ...]:
    return factor[0].key


def _term_order(term: tuple[Monomial, int]) -> tuple[Any, ...]:
    return term[0].key


def monomial(powers: Mapping[Atom, int]) -> Monomial | None:
    """The product of the atoms with their powers; None for the empty product, 1."""
    factors = [(atom, power) for atom, power in powers.items() if power]
    if not factors:
        return None
    if len(factors) > 1:
        factors.sort(key=_atom_order)
    return _monomial(tuple(factors))


def monomial_product(a: Monomial, b: Monomial) -> Monomial:
    powers = dict(a.factors)
    for atom, power in b.factors:
        powers[atom] = powers.get(atom, 0) + power
    return _monomial(tuple(sorted(powers.items(), key=_atom_order)))


def polynomial(terms: Mapping[Monomial, int], constant: int) -> Dim:
    """The expression with these coefficients, which may be zero and in any order."""
    live = [term for term in terms.items() if term[1]]
    if not live:
        return constant
    if len(live) > 1:
        live.sort(key=_term_order)
    return _expression(tuple(live), constant)


def atom_dim(atom: Atom) -> SymExpr:
    """The expression that is this atom."""
    return _expression(((_monomial(((atom, 1),)), 1),), 0)


def as_dim(x: Symbol | Dim) -> Dim:
    """``x`` as a dimension."""
    return atom_dim(x) if isinstance(x, Symbol) else x


def product(dims: Iterable[Dim]) -> Dim:
    """The product; 1 for none."""
    # Single terms, as nearly all dims are, are gathered into one: shapes are multiplied out all the time, and no
    # product on the way needs to be made.
    constant = 1
    powers: dict[Atom, int] = {}
    rest: Dim = 1
    for dim in dims:
        if not isinstance(dim, SymExpr):
            constant *= dim
        elif dim.constant == 0 and len(dim.terms) == 1:
            mono, coefficient = dim.terms[0]
            constant *= coefficient
            for atom, power in mono.factors:
                powers[atom] = powers.get(atom, 0) + power
        else:
            rest = rest * dim
    if not powers or constant == 0:
        return rest * constant
    term = _expression(((_monomial(tuple(sorted(powers.items(), key=_atom_order))), constant),), 0)
    return rest * term if isinstance(rest, SymExpr) else term


# --- division ----------------------------------------------------------------------------------------------------


def content(dim: Dim) -> int:
    """The greatest common divisor of all coefficients and the constant, at least 0."""
    if isinstance(dim, int):
        return abs(dim)
    return math.gcd(dim.constant, *[c for _, c in dim.terms])


def divide_exactly(dim: Dim, k: int) -> Dim:
    """``dim / k`` for a ``k`` that divides :func:`content`."""
    if isinstance(dim, int):
        return dim // k
    return _expression(tuple([(m, c // k) for m, c in dim.terms]), dim.constant // k)


def floordiv(a: Dim, b: Dim) -> Dim:
    """``a // b``, rounded towards minus infinity, with everything taken out that divides for every value."""
    if isinstance(b, int):
        _check_divisor(b, a, "floordiv")
        if b < 0:
            a, b = -a, -b
        return a // b if isinstance(a, int) else _floordiv_by_int(a, b)
    a, b, _, _ = _reduce_fraction(a, b)
    return opaque(OpaqueKind.FLOORDIV, (a, b))


def _floordiv_by_int(a: SymExpr, k: int) -> Dim:
    if k == 1:
        return a
    whole = {m: c // k for m, c in a.terms if c % k == 0}
    rest = {m: c for m, c in a.terms if c % k}
    if not rest:
        return polynomial(whole, a.constant // k)
    if next(iter(rest.values())) < 0:  # floor(-x / k) == -floor((x + k-1) / k): a floor and its ceiling share a form
        flipped = polynomial({m: -c for m, c in rest.items()}, k - 1 - a.constant)
        return polynomial(whole, 0) - floordiv(flipped, k)
    for m, c in rest.items():
        whole[m], rest[m] = divmod(c, k)
    outside, constant = divmod(a.constant, k)
    shared = math.gcd(k, *rest.values())
    inner = polynomial({m: c // shared for m, c in rest.items()}, constant // shared)
    k //= shared
    nested = (inner - constant // shared) if isinstance(inner, SymExpr) else inner
    atom = nested.is_atom if isinstance(nested, SymExpr) else None
    if isinstance(atom, Opaque) and atom.kind is OpaqueKind.FLOORDIV:
        x, j = atom.args
        if isinstance(j, int):  # floor((floor(x / j) + c) / k) == floor((x + j*c) / (j*k))
            return polynomial(whole, outside) + floordiv(x + j * (constant // shared), j * k)
    return polynomial(whole, outside) + opaque(OpaqueKind.FLOORDIV, (inner, k))


def mod(a: Dim, b: Dim) -> Dim:
    """``a % b``, with the sign of ``b``: ``a - b * floordiv(a, b)``."""
    if isinstance(b, int):
        _check_divisor(b, a, "mod")
        if b < 0:
            return -mod(-a, -b)
        return a % b if isinstance(a, int) else _mod_by_int(a, b)
    a, b, shared, sign = _reduce_fraction(a, b)
    return shared * sign * opaque(OpaqueKind.MOD, (a, b))


def _mod_by_int(a: SymExpr, k: int) -> Dim:
    for m, c in a.terms:  # (x % j) % k == x % k where k divides j
        atom = m.factors[0][0]
        if len(m.factors) == 1 and m.factors[0][1] == 1 and isinstance(atom, Opaque) and atom.kind is OpaqueKind.MOD:
            x, j = atom.args
            if isinstance(j, int) and c * j % k == 0:
                return mod(a + c * (x - atom_dim(atom)), k)
    rest = {m: c % k for m, c in a.terms if c % k}
    if not rest:
        return a.constant % k
    shared = math.gcd(k, *rest.values())
    constant, outside = divmod(a.constant % k, shared)
    inner = polynomial({m: c // shared for m, c in rest.items()}, constant)
    return shared * opaque(OpaqueKind.MOD, (inner, k // shared)) + outside


def _reduce_fraction(a: Dim, b: SymExpr) -> tuple[Dim, SymExpr, int, int]:
    """``a / b`` in lowest integer terms with a positive leading divisor; also the factor taken out, and its sign."""
    shared, sign = math.gcd(content(a), content(b)), 1 if b.terms[0][1] > 0 else -1
    reduced = divide_exactly(b, shared) * sign
    assert isinstance(reduced, SymExpr)
    return divide_exactly(a, shared) * sign, reduced, shared, sign


def _check_divisor(b: int, a: Dim, name: str) -> None:
    if b == 0:
        raise ShapeError(
            f"{name}({a}, 0) divides by zero.",
            loc=user_loc(),
            remedy="use max(n, 1) as a divisor that may be 0.",
        )


# --- text --------------------------------------------------------------------------------------------------------


def format_dim(dim: Dim, names: Mapping[Symbol, str] | None = None) -> str:
    """``2*b*s + 3``: the text that :func:`dyn.shapes.parse_dim` reads. ``names`` replaces symbols' own names."""
    if isinstance(dim, int):
        return str(int(dim))
    parts: list[str] = []
    for mono, coefficient in dim.terms:
        text = _format_monomial(mono, names)
        magnitude = abs(coefficient)
        _append_signed(parts, text if magnitude == 1 else f"{magnitude}*{text}", coefficient < 0)
    if dim.constant:
        _append_signed(parts, str(abs(dim.constant)), dim.constant < 0)
    return "".join(parts)


def _append_signed(parts: list[str], text: str, negative: bool) -> None:
    if parts:
        parts.append(" - " if negative else " + ")
    elif negative:
        parts.append("-")
    parts.append(text)


def _format_monomial(mono: Monomial, names: Mapping[Symbol, str] | None) -> str:
    return "*".join([_format_atom(a, names) + (f"**{p}" if p > 1 else "") for a, p in mono.factors])


def _format_atom(atom: Atom, names: Mapping[Symbol, str] | None) -> str:
    if isinstance(atom, Symbol):
        return atom.name if names is None else names.get(atom, atom.name)
    return f"{atom.kind}({', '.join([format_dim(arg, names) for arg in atom.args])})"
