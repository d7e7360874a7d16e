"""Sizes of the arguments of one program: a symbol for each, what a trace assumes of them, and the guards for that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from dyn.ir.binding import Bind, Binding
from dyn.lazy_property import lazy_property
from dyn.shapes import (
    Dim,
    Facts,
    Opaque,
    OpaqueKind,
    Reason,
    Relation,
    RelKind,
    Symbol,
    SymExpr,
    as_dim,
    evaluate,
    exact_text,
    floordiv,
    format_dim,
    free_symbols,
    mod,
    substitute,
)
from dyn.shapes.expr import atom_dim
from dyn.source import Loc


class ReasonKind(Enum):
    """Kinds of reasons why a program is for some sizes only, the mildest first."""

    ASKED = "a line asks"
    EQUAL = "JAX wants equal sizes"
    ORDER = "JAX has to know which is larger"
    DIVIDES = "JAX has to divide"
    NUMBER = "a line takes the number"
    STATIC = "JAX takes no symbol here"


@dataclass(frozen=True, slots=True)
class SizeGuard:
    """A condition on the sizes of a call, beside what was declared.

    ``loc`` is the user's line that made it necessary, ``why`` what JAX said of it.
    """

    relation: Relation
    kind: ReasonKind
    loc: Loc
    why: str = ""

    @staticmethod
    def of(kind: ReasonKind, relation: RelKind, lhs: Dim, rhs: Dim, loc: Loc, why: str = "") -> SizeGuard:
        """The guard that a relation of sizes holds: that a division leaves no rest, where that is what it says."""
        if relation in (RelKind.EQ, RelKind.NONZERO) and (rest := _rest_of(lhs - rhs)) is not None:
            lhs, rhs = rest, 0
        return SizeGuard(Relation(relation, lhs, rhs, Reason(why or kind.value, loc)), kind, loc, why)

    def text(self, names: Mapping[Symbol, str]) -> str:
        """``x.shape[0] == y.shape[0]``"""
        own = self.relation
        rest = _rest(own.lhs) if own.rhs == 0 and own.kind in (RelKind.EQ, RelKind.NONZERO) else None
        if rest is not None:
            told = replace(own, kind=RelKind.DIVIDES, lhs=rest[1], rhs=rest[0]).describe(names)
            return told if own.kind is RelKind.EQ else told.replace(" == 0", " != 0")
        if own.kind is not RelKind.NONZERO or isinstance(own.lhs, int):
            return own.describe(names)
        # a - b != 0 is a != b, and a - 1 != 0 is a != 1.
        left = sum([factor * term for term, factor in _terms(own.lhs) if factor > 0], start=0)
        return f"{format_dim(left, names)} != {format_dim(left - own.lhs, names)}"

    def place(self, names: Mapping[Symbol, str]) -> str:
        """The size that has one program for each of its values, or the whole guard."""
        takes_number = self.kind in (ReasonKind.NUMBER, ReasonKind.STATIC)
        return format_dim(self.relation.lhs, names) if takes_number else self.text(names)

    def same(self, other: SizeGuard) -> bool:
        """Whether both ask for the same."""
        mine, theirs = self.relation, other.relation
        return (mine.kind, mine.lhs, mine.rhs) == (theirs.kind, theirs.lhs, theirs.rhs)


def _rest_of(difference: Dim) -> Dim | None:
    """The rest of a division that a difference is, as ``n - 2*(n // 2)`` is ``n % 2``; None where it is none."""
    for sign in (1, -1):
        own = sign * difference
        for mono, factor in own.terms if isinstance(own, SymExpr) else ():
            (atom, power), *others = mono.factors
            if factor > -2 or others or power != 1 or not isinstance(atom, Opaque):
                continue
            dividend = own - factor * atom_dim(atom)
            if floordiv(dividend, -factor) == atom_dim(atom):
                return mod(dividend, -factor)
    return None


def _is_positive(dim: Dim) -> bool:
    """Whether a dim is a sum of sizes, and so at least 1."""
    return dim >= 1 if isinstance(dim, int) else dim.constant >= 0 and all(factor > 0 for _, factor in dim.terms)


def _rest(dim: Dim) -> tuple[Dim, Dim] | None:
    """The dividend and the divisor of a dim that is the rest of a division; None for others."""
    atom = dim.is_atom if isinstance(dim, SymExpr) else None
    return (atom.args[0], atom.args[1]) if isinstance(atom, Opaque) and atom.kind is OpaqueKind.MOD else None


def _terms(dim: SymExpr) -> list[tuple[Dim, int]]:
    """The terms of a dim, but for its constant, each with its factor."""
    found: list[tuple[Dim, int]] = []
    for mono, factor in dim.terms:
        term: Dim = 1
        for atom, power in mono.factors:
            for _ in range(power):
                term = term * atom_dim(atom)
        found.append((term, factor))
    return found


@dataclass(frozen=True, slots=True)
class AxisSource:
    """The axis that a symbol's value is read from: ``factor*symbol + offset`` is its size."""

    leaf: int
    axis: int
    factor: int = 1
    offset: int = 0

    def of(self, size: Any) -> Any:
        """The value, where ``size`` is the axis's: a number or a dim."""
        return floordiv(size - self.offset, self.factor)

    def text(self, size: str) -> str:
        """The value as Python writes it."""
        if self.offset:
            size = f"({size} - {self.offset})"
        return size if self.factor == 1 else f"({size} // {self.factor})"


@dataclass(frozen=True)
class TraceSizes:
    """The sizes that a trace is made with.

    ``axes`` has for each symbolic leaf what its axes are: numbers, and dims of symbols. ``actual`` are the symbols'
    values in the call that the program is made for, and ``places`` where each is read.
    """

    axes: Mapping[int, tuple[Dim, ...]]
    actual: Mapping[Symbol, int]
    places: Mapping[Symbol, AxisSource]
    guards: tuple[SizeGuard, ...] = ()
    #: Whether JAX has one symbol for sizes that are equal: it finds some by their hashes, as keys of a table.
    merges: bool = False

    # What there is ------------------------------------------------------------------------------------------------

    @lazy_property
    def symbols(self) -> Mapping[str, Symbol]:
        """The symbols by name: JAX has them by these."""
        return {symbol.name: symbol for symbol in self.actual}

    @lazy_property
    def numbers(self) -> Mapping[Symbol, int]:
        """The symbols that JAX is given numbers for."""
        kept = [one.relation.lhs for one in self.guards if one.kind is ReasonKind.STATIC]
        named = {symbol for dim in kept for symbol in free_symbols(dim)}
        return {symbol: self.actual[symbol] for symbol in named}

    @property
    def free(self) -> tuple[Symbol, ...]:
        """The symbols that JAX has for symbols."""
        return tuple([symbol for symbol in self.actual if symbol not in self.numbers])

    def value(self, dim: Dim) -> int | None:
        """The value of a dim in the call at hand; None where it has none."""
        try:
            return evaluate(dim, self.actual)
        except Exception:  # a division by 0
            return None

    def facts(self) -> Facts:
        """Facts about the symbols: they are at least 1, as JAX takes them to be, and the guards hold."""
        reason = Reason("JAX's sizes are at least 1")
        known = Facts.EMPTY
        for symbol in self.actual:
            known = known.assume(Relation(RelKind.GE, as_dim(symbol), 1, reason))
        for guard in self.guards:
            known = known.assume(guard.relation)
        return known

    # What can be learnt -------------------------------------------------------------------------------------------

    def with_guard(self, guard: SizeGuard) -> TraceSizes:
        """These sizes under one more condition."""
        if any(guard.same(other) for other in self.guards):
            return self
        return replace(self, guards=(*self.guards, guard))

    def static(self, symbol: Symbol, loc: Loc, why: str) -> TraceSizes:
        """These sizes with a symbol that is a number: one program for each."""
        if symbol in self.numbers:
            return self
        guard = SizeGuard.of(ReasonKind.STATIC, RelKind.EQ, as_dim(symbol), self.actual[symbol], loc, why)
        return replace(self, guards=(*[one for one in self.guards if not guard.same(one)], guard))

    def all_static(self, loc: Loc, why: str) -> TraceSizes:
        """These sizes as numbers, without any symbol."""
        made = self
        for symbol in self.free:
            made = made.static(symbol, loc, why)
        return made

    def again(self, guard: SizeGuard) -> TraceSizes | None:
        """These sizes with a guard of another program that its trace found by failing; None where that is not so."""
        if guard.kind not in (ReasonKind.EQUAL, ReasonKind.STATIC):
            return None
        names = {symbol: self.symbols.get(symbol.name) for symbol in guard.relation.symbols()}
        known = {symbol: as_dim(own) for symbol, own in names.items() if own is not None}
        if len(known) < len(names):
            return None
        if guard.kind is ReasonKind.STATIC:
            own = free_symbols(substitute(guard.relation.lhs, known))
            return self.static(next(iter(own)), guard.loc, guard.why)
        mine = replace(guard, relation=guard.relation.substituted(known))
        return self.with_guard(mine) if mine.relation.holds(self.actual) else None

    # What JAX is given --------------------------------------------------------------------------------------------

    def shapes(self, jax: Any) -> dict[int, tuple[Any, ...]]:
        """The shapes of the symbolic leaves, with JAX's dimensions in a scope of their own."""
        scope, numbers = jax.export.SymbolicScope(), self.written
        found: dict[int, tuple[Any, ...]] = {}
        for leaf, axes in self.axes.items():
            texts = [exact_text(substitute(axis, numbers)).replace("**", "^") for axis in axes]
            found[leaf] = tuple(jax.export.symbolic_shape(f"({', '.join(texts)},)", scope=scope)) if texts else ()
        return found

    @lazy_property
    def written(self) -> Mapping[Symbol, Dim]:
        """Dims that symbols are written as: numbers, and where this ``merges`` the sizes that they are equal to."""
        known: dict[Symbol, Dim] = dict(self.numbers)
        order = {own: number for number, own in enumerate(self.actual)}
        for guard in self.guards if self.merges else ():
            own = guard.relation
            if own.kind is not RelKind.EQ or guard.kind in (ReasonKind.STATIC, ReasonKind.NUMBER):
                continue
            sides = [substitute(side, known) for side in (own.lhs, own.rhs)]
            names = [None if isinstance(side, int) else side.is_symbol for side in sides]
            found = [
                (order[name], name, sides[1 - at])
                for at, name in enumerate(names)
                if name is not None and name not in free_symbols(sides[1 - at]) and _is_positive(sides[1 - at])
            ]
            if found:
                _, name, dim = max(found, key=lambda one: one[0])
                known = {one: substitute(other, {name: dim}) for one, other in known.items()} | {name: dim}
        return known

    # How calls are told apart -------------------------------------------------------------------------------------

    def conditions(self, position: Mapping[int, int]) -> tuple[Binding, tuple[Relation, ...]]:
        """The guards as relations between dims, and how these follow from the shapes of the symbolic leaves.

        ``position`` is the place of each leaf among the symbolic ones.
        """
        binds = tuple([Bind(one, position[p.leaf], p.axis, p.factor, p.offset) for one, p in self.places.items()])
        return Binding(binds, ()), tuple([guard.relation for guard in self.guards])

    def demands(self, shapes: Mapping[int, Sequence[Dim]]) -> list[Relation]:
        """The guards as relations of the dims that leaves have in a program; those about other leaves are left out."""
        known = {one: p.of(shapes[p.leaf][p.axis]) for one, p in self.places.items() if p.leaf in shapes}
        own = [guard.relation for guard in self.guards]
        return [relation.substituted(known) for relation in own if relation.symbols() <= known.keys()]
