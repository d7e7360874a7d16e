"""Symbolic integers in one canonical form.

A :class:`SymExpr` is a constant plus a sum of integer coefficients times monomials; a :class:`Monomial` is a product of
powers of atoms; an atom is a :class:`Symbol` or an :class:`Opaque` term (``floordiv``, ``mod``, ``min``, ``max``,
``broadcast``)::

    2*b*s + floordiv(n, 2) + 3      constant 3, terms {b*s: 2, floordiv(n, 2): 1}

Everything but the symbols is interned, so that two expressions are the same polynomial exactly when they are the same
object: ``==`` and ``hash`` are those of ``object``. An expression without terms is an ``int``, never a ``SymExpr``.
The tables hold their values weakly; a lock guards insertion, reading takes none.

Expressions are DAGs: a size that is computed in a loop has few terms and, written out, exponentially many. So nothing
here walks into the arguments of opaque terms; what is kept with a node is made of what its children keep, and is
bounded. :mod:`dyn.shapes.walk` has the walks, which visit a shared part once.

This file is longer than most: the operators of ``SymExpr`` need interning, division and text, and all of them need it.
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any, NoReturn, TypeAlias
from weakref import WeakValueDictionary, ref

from dyn.errors import ShapeError, UndecidedDimError
from dyn.fork_safety import lock
from dyn.shapes import interval as iv
from dyn.shapes.interval import Interval
from dyn.shapes.symbols import KIND_ORDER, OpaqueKind, Symbol, bounds_by_definition, no_dim
from dyn.shapes.text import format_dim, text_for_people
from dyn.source import user_loc

_lock = lock()

#: Up to so many atoms an expression keeps the set of all that are in it; what has more is found by a walk.
_KEPT_ATOMS = 96
#: Up to so many levels of opaque terms the sort key of a term is its whole structure, and above it a digest.
_WHOLE_KEY = 12
#: What has more levels is large, however few its atoms are: the solver's recursion follows the levels.
MAX_HEIGHT = 24
_DIVISIONS = (OpaqueKind.FLOORDIV, OpaqueKind.MOD)
#: Weights are counted up to here.
_HEAVIEST = 1 << 20


class _Interned:
    """Base of interned objects: copying gives the same object."""

    __slots__ = ("__weakref__",)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a symbolic dimension belongs to its process and cannot be pickled; write its text instead")


class Opaque(_Interned):
    """``kind(*args)``, treated as an unknown by the arithmetic. Made by :func:`opaque`.

    ``height`` counts the levels of opaque terms, ``weight`` the atoms that its text has (up to a million),
    ``divides`` says whether something in it is divided by what is no number, and so may be 0, and ``natural`` are
    bounds that hold whatever is known of the sizes, which are at least 0.
    """

    __slots__ = ("args", "digest", "dim", "divides", "height", "key", "kind", "natural", "symbols", "weight")
    kind: OpaqueKind
    args: tuple[Dim, ...]
    key: tuple[Any, ...]
    height: int
    weight: int
    divides: bool
    symbols: frozenset[Symbol]
    natural: Interval
    dim: Any
    digest: bytes

    def __getattr__(self, name: str) -> Any:
        if name == "digest":  # which few are asked for
            self.digest = _digest(self)
            return self.digest
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        return format_dim(atom_dim(self))


class Monomial(_Interned):
    """A product of atoms with powers: ``factors`` in atom order, never empty. Made by :func:`monomial`."""

    __slots__ = ("factors", "key")
    factors: tuple[tuple[Atom, int], ...]
    #: By falling degree, then lexicographic: graded lexicographic order, largest first.
    key: tuple[Any, ...]

    def __repr__(self) -> str:
        return format_dim(_expression(((self, 1),), 0))


class SymExpr(_Interned):
    """A symbolic integer: ``constant + sum(coefficient * monomial for monomial, coefficient in terms)``.

    ``terms`` is never empty, holds no zero coefficient and stands in canonical order, largest monomial first; the
    constant is not among them. ``atoms`` are all symbols and opaque terms in it, those inside opaque terms included;
    where they are many (``is_large``) they are found by a walk, each time anew. ``symbols``, ``height``, ``weight`` and
    ``divides`` are as those of :class:`Opaque`; ``last_data_dependent`` is the age of the youngest measured symbol, or
    -1; ``text`` is what people read. Made by arithmetic, :func:`as_dim` and the functions of this package.
    """

    __slots__ = (
        "atoms", "constant", "divides", "height", "is_large", "key", "last_data_dependent", "symbols", "terms", "text",
        "weight",
    )  # fmt: skip
    terms: tuple[tuple[Monomial, int], ...]
    constant: int
    atoms: frozenset[Atom]
    symbols: frozenset[Symbol]
    height: int
    weight: int
    divides: bool
    is_large: bool
    key: tuple[Any, ...]
    last_data_dependent: int
    text: str

    def __getattr__(self, name: str) -> Any:
        if name == "last_data_dependent":
            self.last_data_dependent = max([s.uid for s in self.symbols if s.data_dependent], default=-1)
            return self.last_data_dependent
        if name == "text":  # which every demand of a size has in its reason, and most expressions are in no demand
            self.text = text_for_people(self)
            return self.text
        if name == "key":  # which only what stands in an opaque term is asked for
            self.key = (1, tuple([(m.key, c) for m, c in self.terms]), self.constant)
            return self.key
        if name == "atoms":  # which is not kept for a large expression
            return frozenset(all_atoms(self))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

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
            long, short = (self, other) if len(self.terms) >= len(other.terms) else (other, self)
            return _sum(long, short, 1)
        if isinstance(other, int):
            return _expression(self.terms, self.constant + other, self) if other else self
        return NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return _expression(tuple([(m, -c) for m, c in self.terms]), -self.constant, self)

    def __pos__(self) -> Dim:
        return self

    def __sub__(self, other: Dim) -> Dim:
        if isinstance(other, SymExpr):
            return 0 if other is self else _sum(self, other, -1)
        if isinstance(other, int):
            return _expression(self.terms, self.constant - other, self) if other else self
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
            if other == 0:
                return 0
            return _expression(tuple([(m, c * other) for m, c in self.terms]), self.constant * other, self)
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


def all_atoms(dim: Dim, known: Callable[[Opaque], bool] | None = None) -> dict[Atom, None]:
    """The symbols and opaque terms in an expression, each once, arguments before the terms that have them.

    Opaque terms that are ``known`` are left out, and what is only in those.
    """
    found: dict[Atom, None] = {}
    stack: list[tuple[Dim | Opaque, bool]] = [(dim, False)]
    while stack:
        node, entered = stack.pop()
        if isinstance(node, Opaque):
            if entered:
                found[node] = None
            elif node not in found and (known is None or not known(node)):
                stack.append((node, True))
                stack.extend([(arg, False) for arg in reversed(node.args)])
        elif isinstance(node, SymExpr):
            for mono, _ in reversed(node.terms):
                for atom, _ in reversed(mono.factors):
                    if isinstance(atom, Symbol):
                        found[atom] = None
                    elif atom not in found:
                        stack.append((atom, False))
    return found


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
#: Monomials and expressions that were asked for lately (:class:`keeping_recent`): all are forgotten at once, and long
#: ones are not kept.
_recent_monomials: dict[tuple[tuple[Atom, int], ...], Monomial] = {}
_recent_expressions: dict[tuple[tuple[tuple[Monomial, int], ...], int], SymExpr] = {}
_MOST_RECENT, _MOST_TERMS = 4096, 8
#: The blocks that keep them now, in all threads.
_keepers: list[keeping_recent] = []


class keeping_recent:
    """``with keeping_recent():`` expressions that were made lately are found again although nobody holds them.

    Half of those that a program's proofs go through are made twice or more. What is kept is forgotten when the last
    such block ends; outside of them an expression lives as long as somebody holds it.
    """

    def __enter__(self) -> None:
        with _lock:
            _keepers.append(self)

    def __exit__(self, *exc: object) -> None:
        with _lock:
            _keepers.remove(self)
            if not _keepers:
                _recent_monomials.clear()
                _recent_expressions.clear()


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
                inner = [arg for arg in args if isinstance(arg, SymExpr)]
                found.height = 1 + max([arg.height for arg in inner], default=0)
                found.weight = min(1 + sum([arg.weight for arg in inner]), _HEAVIEST)
                found.divides = any(arg.divides for arg in inner) or (
                    kind in _DIVISIONS and isinstance(args[1], SymExpr)
                )
                found.symbols = _union([arg.symbols for arg in inner])
                found.natural = bounds_by_definition(kind, [natural_bounds(arg) for arg in args])
                found.key = _opaque_key(found)
                found.dim = no_dim
                _opaques[kind, args] = found
    return atom_dim(found)


def _monomial(factors: tuple[tuple[Atom, int], ...]) -> Monomial:
    found = _recent_monomials.get(factors)
    if found is None:
        found = _known_monomial(factors)
        if _keepers:
            if len(_recent_monomials) >= _MOST_RECENT:
                _recent_monomials.clear()
            _recent_monomials[factors] = found
    return found


def _known_monomial(factors: tuple[tuple[Atom, int], ...]) -> Monomial:
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


def _expression(terms: tuple[tuple[Monomial, int], ...], constant: int, *parts: SymExpr) -> SymExpr:
    """The expression with these terms, in canonical order. Its monomials are those of ``parts``, if given,
    which share no symbol."""
    key = terms, constant
    found = _recent_expressions.get(key)
    if found is None:
        found = _known_expression(terms, constant, parts)
        if _keepers and len(terms) <= _MOST_TERMS:
            if len(_recent_expressions) >= _MOST_RECENT:
                _recent_expressions.clear()
            _recent_expressions[key] = found
    return found


def _known_expression(terms: tuple[tuple[Monomial, int], ...], constant: int, parts: tuple[SymExpr, ...]) -> SymExpr:
    found = _expressions.get((terms, constant))
    if found is None:
        with _lock:
            found = _expressions.get((terms, constant))
            if found is None:
                found = SymExpr()
                found.terms, found.constant = terms, int(constant)
                if parts:
                    _summarize_parts(found, parts)
                else:
                    _summarize(found)
                _expressions[terms, constant] = found
    return found


def _summarize(dim: SymExpr) -> None:
    """Keep with an expression what is known of it by what its atoms know."""
    outer = {atom for mono, _ in dim.terms for atom, _ in mono.factors}
    opaques = [atom for atom in outer if isinstance(atom, Opaque)]
    symbols = frozenset([atom for atom in outer if isinstance(atom, Symbol)])
    dim.symbols = _union([symbols, *[atom.symbols for atom in opaques]]) if opaques else symbols
    dim.height, dim.weight = 0, len(outer) - len(opaques)
    dim.is_large = dim.divides = False
    if not opaques:
        dim.atoms = symbols
        return
    atoms: set[Atom] = set(outer)
    for atom in opaques:
        dim.height = max(dim.height, atom.height)
        dim.weight += atom.weight
        dim.divides = dim.divides or atom.divides
        for arg in atom.args:
            if isinstance(arg, SymExpr) and not dim.is_large:
                if arg.is_large:
                    dim.is_large = True
                else:
                    atoms |= arg.atoms
    dim.weight = min(dim.weight, _HEAVIEST)
    _keep_atoms(dim, atoms)


def _summarize_parts(dim: SymExpr, parts: tuple[SymExpr, ...]) -> None:
    """Keep with an expression what is known of it by its parts."""
    dim.symbols = _union([part.symbols for part in parts])
    dim.height = max([part.height for part in parts])
    dim.weight = min(sum([part.weight for part in parts]), _HEAVIEST)
    dim.divides = any(part.divides for part in parts)
    dim.is_large = any(part.is_large for part in parts)
    if not dim.height:
        dim.atoms = dim.symbols
    elif not dim.is_large:
        _keep_atoms(dim, parts[0].atoms.union(*[part.atoms for part in parts[1:]]))


def _keep_atoms(dim: SymExpr, atoms: Set[Atom]) -> None:
    """Keep the atoms in an expression with opaque terms, unless it is a large one."""
    dim.is_large = dim.is_large or len(atoms) > _KEPT_ATOMS or dim.height > MAX_HEIGHT
    if not dim.is_large:
        dim.atoms = atoms if isinstance(atoms, frozenset) else frozenset(atoms)


def _union(sets: list[frozenset[Symbol]]) -> frozenset[Symbol]:
    """The union; one of the sets itself where that is all, for most terms of a program are about few symbols."""
    if not sets:
        return frozenset()
    largest = max(sets, key=len)
    return largest if all(each <= largest for each in sets) else largest.union(*sets)


def natural_bounds(dim: Dim) -> Interval:
    """Bounds that hold whatever is known of the sizes."""
    if isinstance(dim, int):
        return dim, dim
    if not dim.height:  # then each monomial is a product of sizes
        signs = [coefficient > 0 for _, coefficient in dim.terms]
        return dim.constant if all(signs) else None, None if any(signs) else dim.constant
    total: Interval = (dim.constant, dim.constant)
    for mono, coefficient in dim.terms:
        bounds: Interval = (1, 1)
        for atom, power in mono.factors:
            own = (0, None) if isinstance(atom, Symbol) else atom.natural
            bounds = iv.times(bounds, own if power == 1 else iv.power(own, power))
        total = iv.plus(total, iv.scale(bounds, coefficient))
        if total == iv.ANY:
            break
    return total


def _opaque_key(atom: Opaque) -> tuple[Any, ...]:
    """The position of an opaque term: by its structure and the age of its symbols alone.

    Of a term that is high it is a digest of the structure, in which a symbol is its rank among those of the term: the
    same program has the same order, whichever numbers its symbols have.
    """
    if atom.height <= _WHOLE_KEY:
        return (1, KIND_ORDER[atom.kind], tuple([dim_key(arg) for arg in atom.args]))
    ages = tuple(sorted([s.uid for s in atom.symbols]))
    return (2, atom.height, KIND_ORDER[atom.kind], atom.digest, ages)


def _digest(atom: Opaque) -> bytes:
    rank = {s: i for i, s in enumerate(sorted(atom.symbols, key=lambda s: s.uid))}
    hasher = hashlib.blake2b(atom.kind.encode(), digest_size=12)
    for arg in atom.args:
        if not isinstance(arg, SymExpr):
            hasher.update(f"|{arg}".encode())
            continue
        hasher.update(f"|{arg.constant}".encode())
        for mono, coefficient in arg.terms:
            hasher.update(f"+{coefficient}".encode())
            for factor, power in mono.factors:
                hasher.update(f"*{power}{sorted([rank[s] for s in factor.symbols])}".encode())
                if isinstance(factor, Opaque):
                    hasher.update(factor.digest)
    return hasher.digest()


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


#: What has so many times as many terms as another is copied, and the other's terms are put in.
_LONGER = 4


def _sum(a: SymExpr, b: SymExpr, sign: int) -> Dim:
    """``a + sign*b``. What is long gets longer by a term in the time of a copy: sizes of joined arrays are sums that
    each have a term more than the last."""
    constant = a.constant + sign * b.constant
    if len(a.terms) < _LONGER * len(b.terms):
        coefficients = dict(a.terms)
        for mono, coefficient in b.terms:
            coefficients[mono] = coefficients.get(mono, 0) + sign * coefficient
        return polynomial(coefficients, constant)
    terms = list(a.terms)
    for mono, coefficient in b.terms:
        at = bisect_left(terms, mono.key, key=_term_order)
        if at < len(terms) and terms[at][0] is mono:
            coefficient = terms[at][1] + sign * coefficient
            terms[at : at + 1] = [(mono, coefficient)] if coefficient else []
        else:
            terms.insert(at, (mono, sign * coefficient))
    return _expression(tuple(terms), constant, *((a, b) if a.symbols.isdisjoint(b.symbols) else ()))


def atom_dim(atom: Atom) -> SymExpr:
    """The expression that is this atom."""
    found: SymExpr | None = atom.dim()
    if found is None:
        found = _expression(((_monomial(((atom, 1),)), 1),), 0)
        object.__setattr__(atom, "dim", ref(found))  # a symbol is frozen
    return found


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
    for m, c in a.terms:  # c*(x % j) is c*x - c*j*(x // j): of use where x is in the sum already
        atom = m.factors[0][0]
        if len(m.factors) == 1 and m.factors[0][1] == 1 and isinstance(atom, Opaque) and atom.kind is OpaqueKind.MOD:
            x, j = atom.args
            if not isinstance(j, int):
                continue
            rest = a + c * (x - atom_dim(atom))
            if c * j % k == 0 and _is_shorter(rest, a):
                return floordiv(rest, k) - c * j // k * floordiv(x, j)
            rest = rest - c * j * floordiv(x, j)
            if _is_shorter(rest, a):
                return floordiv(rest, k)
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


def _is_shorter(a: Dim, b: SymExpr) -> bool:
    """Whether a sum has fewer terms than another."""
    return isinstance(a, int) or len(a.terms) < len(b.terms)


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
