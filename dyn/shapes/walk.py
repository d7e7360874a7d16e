"""Walks of an expression: its value, its symbols, and substitution of symbols.

Each walk visits a shared subexpression once, and none descends far: before an expression of many levels is walked, its
opaque terms are, arguments first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Set

from dyn.errors import ShapeError
from dyn.shapes.expr import (
    Atom,
    Dim,
    Monomial,
    Opaque,
    OpaqueKind,
    Symbol,
    SymExpr,
    all_atoms,
    atom_dim,
    floordiv,
    mod,
    monomial,
    polynomial,
)
from dyn.shapes.joins import broadcast, broadcast_sizes, dim_max, dim_min

_BUILD: dict[OpaqueKind, Callable[..., Dim]] = {
    OpaqueKind.FLOORDIV: floordiv,
    OpaqueKind.MOD: mod,
    OpaqueKind.MIN: dim_min,
    OpaqueKind.MAX: dim_max,
    OpaqueKind.BROADCAST: broadcast,
}


def rebuild(kind: OpaqueKind, args: tuple[Dim, ...]) -> Dim:
    """``kind(*args)`` in canonical form."""
    return _BUILD[kind](*args)


#: What has more levels of opaque terms is walked from below.
_HIGH = 24


def free_symbols(dim: Dim) -> frozenset[Symbol]:
    """The symbols that the value depends on."""
    return frozenset() if isinstance(dim, int) else dim.symbols


def opaques_below(dim: Dim, known: Callable[[Opaque], bool] | None = None) -> list[Opaque]:
    """The opaque terms in an expression of many levels, arguments first; of another none, which may be descended.

    Who asks of many expressions that share their parts leaves out what is ``known`` already, and what is only in that.
    """
    if isinstance(dim, int) or dim.height <= _HIGH:
        return []
    return [atom for atom in all_atoms(dim, known) if isinstance(atom, Opaque)]


def last_data_dependent(dim: Dim) -> int:
    """The age (``Symbol.uid``) of the youngest measured symbol in a dim; -1 where there is none."""
    return -1 if isinstance(dim, int) else dim.last_data_dependent


def evaluate(dim: Dim, env: Mapping[Symbol, int]) -> int:
    """The value for these sizes, in exact integers.

    Raises :class:`~dyn.errors.ShapeError` where it has none: sizes that cannot be broadcast, a division by 0.
    """
    if isinstance(dim, int):
        return dim
    seen: dict[Opaque, int] = {}
    for atom in opaques_below(dim):
        _evaluate_opaque(atom, env, seen)
    return _evaluate(dim, env, seen)


def _evaluate(dim: SymExpr, env: Mapping[Symbol, int], seen: dict[Opaque, int]) -> int:
    total = dim.constant
    for mono, coefficient in dim.terms:
        for atom, power in mono.factors:
            value = env[atom] if isinstance(atom, Symbol) else _evaluate_opaque(atom, env, seen)
            coefficient *= value**power
        total += coefficient
    return int(total)


def _evaluate_opaque(atom: Opaque, env: Mapping[Symbol, int], seen: dict[Opaque, int]) -> int:
    if atom in seen:
        return seen[atom]
    result = seen[atom] = apply_opaque(
        atom, [arg if isinstance(arg, int) else _evaluate(arg, env, seen) for arg in atom.args]
    )
    return result


def apply_opaque(atom: Opaque, values: list[int]) -> int:
    """The value of an opaque term, from those of its arguments. ShapeError where it has none."""
    value = value_of_opaque(atom.kind, values)
    if value is not None:
        return value
    if atom.kind is OpaqueKind.BROADCAST:
        a, b = itertools.islice(dict.fromkeys([value for value in values if value != 1]), 2)
        broadcast_sizes(a, b, f" in {atom!r}")  # which raises
    raise ShapeError(
        f"{atom!r} divides by zero: {atom.args[1]} is 0.",
        remedy="use max(n, 1) as a divisor that may be 0.",
    )


def value_of_opaque(kind: OpaqueKind, values: list[int]) -> int | None:
    """The value of an opaque term, from those of its arguments; None where it has none."""
    match kind:
        case OpaqueKind.MIN:
            return min(values)
        case OpaqueKind.MAX:
            return max(values)
        case OpaqueKind.FLOORDIV:
            return values[0] // values[1] if values[1] else None
        case OpaqueKind.MOD:
            return values[0] % values[1] if values[1] else None
        case OpaqueKind.BROADCAST:
            result = 1
            for value in values:
                if value not in (1, result):
                    if result != 1:
                        return None
                    result = value
            return result


def substitute(dim: Dim, env: Mapping[Symbol, Dim]) -> Dim:
    """The expression with symbols replaced, all at once; those that ``env`` lacks stay."""
    if isinstance(dim, int) or env.keys().isdisjoint(dim.symbols):
        return dim

    def replace(atom: Atom) -> Dim | None:
        return env.get(atom) if isinstance(atom, Symbol) else None

    return replace_deeply(dim, env.keys(), replace)


def replace_deeply(dim: SymExpr, symbols: Set[Symbol], replace: Callable[[Atom], Dim | None]) -> Dim:
    """The expression with atoms replaced, inside opaque terms too; None keeps an atom.

    What has none of ``symbols`` in it is kept as it is. Raises :class:`~dyn.errors.ShapeError` where no value is left.
    """
    seen: dict[Opaque, Dim | None] = {}

    def new(atom: Atom) -> Dim | None:
        if isinstance(atom, Symbol):
            return replace(atom) if atom in symbols else None
        if symbols.isdisjoint(atom.symbols):
            return None
        made = replace(atom)
        if made is not None:
            return made
        if atom not in seen:
            args = tuple([a if isinstance(a, int) else map_atoms(a, new) for a in atom.args])
            seen[atom] = None if args == atom.args else rebuild(atom.kind, args)
        return seen[atom]

    for atom in opaques_below(dim):
        new(atom)
    return map_atoms(dim, new)


def map_atoms(dim: SymExpr, replace: Callable[[Atom], Dim | None]) -> Dim:
    """The expression with its outermost atoms replaced; None keeps an atom."""
    kept: dict[Monomial, int] = {}
    changed: Dim = dim.constant
    for mono, coefficient in dim.terms:
        made = [replace(atom) for atom, _ in mono.factors]
        if all(new is None for new in made):
            kept[mono] = coefficient
            continue
        outside: dict[Atom, int] = {}
        factor: Dim = coefficient
        for (atom, power), new in zip(mono.factors, made, strict=True):
            if new is None:
                outside[atom] = power
            else:
                for _ in range(power):
                    factor = factor * new
        rest = monomial(outside)
        changed = changed + (factor if rest is None else factor * polynomial({rest: 1}, 0))
    if len(kept) == len(dim.terms):
        return dim
    return changed + polynomial(kept, 0)


def mentions(dim: Dim, atom: Atom) -> bool:
    """Whether an atom is in the expression."""
    if isinstance(dim, int) or not atom.symbols <= dim.symbols:
        return False
    return True if isinstance(atom, Symbol) else atom.height <= dim.height and atom in dim.atoms


def linear_in(dim: Dim, sym: Symbol) -> tuple[Dim, Dim] | None:
    """``(coefficient, rest)`` with ``dim == coefficient*sym + rest`` and neither mentioning ``sym``.

    None where there is no such form: a higher power, or ``sym`` inside an opaque term.
    """
    if isinstance(dim, int) or sym not in dim.symbols:
        return 0, dim
    return split_linear(dim, sym)


def split_linear(dim: SymExpr, atom: Atom) -> tuple[Dim, Dim] | None:
    """:func:`linear_in` for any atom that ``dim`` mentions."""
    factor: Dim = 0
    rest: dict[Monomial, int] = {}
    for mono, coefficient in dim.terms:
        powers = dict(mono.factors)
        power = powers.pop(atom, 0)
        if power > 1:
            return None
        if any(isinstance(a, Opaque) and mentions(atom_dim(a), atom) for a in powers):
            return None
        if power:
            remaining = monomial(powers)
            factor = factor + (coefficient if remaining is None else polynomial({remaining: coefficient}, 0))
        else:
            rest[mono] = coefficient
    return factor, polynomial(rest, dim.constant)
