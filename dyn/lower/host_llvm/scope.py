"""What is known at one place of a host program."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from dyn.lower.layout import Place
from dyn.shapes import Dim, Monomial, Symbol


@dataclass(slots=True)
class HostScope:
    """The values that have been computed by here, by name.

    A region that may not be reached has a scope of its own: what is computed and allocated in it is known to nobody
    else.
    """

    dims: dict[Dim, str] = field(default_factory=dict[Dim, str])
    #: Sums, by the value of all terms but the last, and that term.
    sums: dict[tuple[str, Monomial, int], str] = field(default_factory=dict[tuple[str, Monomial, int], str])
    #: The symbols that have their values.
    bound: set[Symbol] = field(default_factory=set[Symbol])
    pointers: dict[Place, str] = field(default_factory=dict[Place, str])
    #: The segments of the arena that are there, with their bytes.
    arenas: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    slot_offsets: dict[int, str] = field(default_factory=dict[int, str])
    #: i1s of sizes that passed 64 bits, and of divisors that are 0, which nothing has looked at yet.
    overflow: list[str] = field(default_factory=list[str])
    zeros: list[str] = field(default_factory=list[str])

    def inner(self) -> HostScope:
        """A scope inside this one, in which nothing has gone wrong yet."""
        return HostScope(
            dict(self.dims), dict(self.sums), set(self.bound), dict(self.pointers), dict(self.arenas),
            dict(self.slot_offsets),
        )  # fmt: skip

    def is_due(self, symbols: Collection[Symbol], measured: Symbol | None) -> bool:
        """Whether what is about these symbols can be computed, and could not before ``measured`` was known."""
        return self.bound.issuperset(symbols) and (measured is None or measured in symbols)

    def is_late(self, symbols: Collection[Symbol]) -> bool:
        """Whether what is about these symbols can be computed, and could not before one of them was measured."""
        return self.is_due(symbols, None) and any(s.measured for s in symbols)
