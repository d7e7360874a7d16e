"""Scopes of a host program's text: the values that are known at one place."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TypeAlias

from dyn.frozen import record
from dyn.lower.layout import StoragePlace
from dyn.shapes import Dim, Monomial, Symbol

#: A sum's terms; or the value of all of them but the last, and that one.
SumKey: TypeAlias = tuple[tuple[Monomial, int], ...] | tuple[str, Monomial, int]


@dataclass(slots=True)
class Values:
    """Dims that have been computed, by the names of their values."""

    dims: dict[Dim, str] = field(default_factory=dict[Dim, str])
    #: Sums without their constants.
    sums: dict[SumKey, str] = field(default_factory=dict[SumKey, str])

    def add(self, others: Values) -> None:
        """Know what others know."""
        self.dims |= others.dims
        self.sums |= others.sums

    def copy(self) -> Values:
        """A copy, to be added to."""
        return Values(dict(self.dims), dict(self.sums))


@record()
class UncheckedSize:
    """The name of a value that may be nonsense, since nobody looks whether it passed 64 bits: no size."""

    name: str


@dataclass(slots=True)
class HostScope:
    """Values that have been computed by here.

    A value is *pending* until the flags of what went wrong have been looked at; ``known`` are those that code behind
    here may rely on. Estimates are neither, and of another type.

    A region that may not be reached has a scope of its own: what is computed and allocated in it is known to nobody
    else.
    """

    known: Values = field(default_factory=Values)
    pending: Values = field(default_factory=Values)
    estimates: dict[Dim, UncheckedSize] = field(default_factory=dict[Dim, UncheckedSize])
    #: The symbols that have their values.
    bound: set[Symbol] = field(default_factory=set[Symbol])
    pointers: dict[StoragePlace, str] = field(default_factory=dict[StoragePlace, str])
    #: The segments of the arena that are there, with their bytes.
    arenas: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    slot_offsets: dict[int, str] = field(default_factory=dict[int, str])
    #: i1s of what is pending: of sizes that passed 64 bits, of divisors that are 0, and of sizes that do not broadcast.
    overflow: list[str] = field(default_factory=list[str])
    zeros: list[str] = field(default_factory=list[str])
    conflicts: list[str] = field(default_factory=list[str])

    def nonsense(self) -> list[str]:
        """All flags of what is pending."""
        return [*self.zeros, *self.overflow, *self.conflicts]

    def inner(self) -> HostScope:
        """A scope inside this one, in which nothing has gone wrong yet.

        What is pending here is looked at here, before anything inside is used.
        """
        known = self.known.copy()
        known.add(self.pending)
        return HostScope(
            known, Values(), dict(self.estimates), set(self.bound), dict(self.pointers), dict(self.arenas),
            dict(self.slot_offsets),
        )  # fmt: skip

    def settle(self) -> None:
        """Know what was pending: its flags have been looked at."""
        self.known.add(self.pending)
        self.pending = Values()
        self.overflow.clear()
        self.zeros.clear()
        self.conflicts.clear()

    def is_due(self, symbols: Collection[Symbol], measured: Symbol | None) -> bool:
        """Whether what is about these symbols can be computed, and could not before ``measured`` was known."""
        return self.bound.issuperset(symbols) and (measured is None or measured in symbols)

    def is_late(self, symbols: Collection[Symbol]) -> bool:
        """Whether what is about these symbols can be computed, and could not before one of them was measured."""
        return self.is_due(symbols, None) and any(s.data_dependent for s in symbols)
