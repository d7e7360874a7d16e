"""Declarations of symbols: their ranges and divisors, and the sizes that users expect."""

from __future__ import annotations

import math
from collections.abc import Callable

from dyn.frozen import record
from dyn.shapes.expr import Symbol, as_dim
from dyn.shapes.models import Assignment, Models
from dyn.shapes.relation import Reason, RelKind
from dyn.shapes.retract import Fact


@record()
class Declaration:
    """Declared range of a symbol. ``likely`` are hints, and promise nothing."""

    symbol: Symbol
    min: int
    max: int | None
    multiple_of: int
    likely: tuple[int, ...]
    reason: Reason

    def describe(self) -> str:
        """``1 <= s <= 512, s % 8 == 0``; ``s >= 0`` where nothing else is said."""
        name = self.symbol.name
        parts = [f"{name} >= {self.min}" if self.max is None else f"{self.min} <= {name} <= {self.max}"]
        if self.multiple_of > 1:
            parts.append(f"{name} % {self.multiple_of} == 0")
        return ", ".join(parts)

    def holds(self, size: int) -> bool:
        """Whether the symbol may have this size."""
        return self.min <= size and (self.max is None or size <= self.max) and size % self.multiple_of == 0

    def joined(self, other: Declaration) -> Declaration:
        """This declaration and a later one of the same symbol."""
        greatest = [hi for hi in (self.max, other.max) if hi is not None]
        same = self.reason == other.reason
        return Declaration(
            other.symbol,
            max(self.min, other.min),
            min(greatest) if greatest else None,
            math.lcm(self.multiple_of, other.multiple_of),
            other.likely if other.likely else self.likely,
            other.reason if same else Reason(f"{self.reason.text}; {other.reason.text}", other.reason.loc),
        )

    def facts(self) -> list[Fact]:
        """The declaration as facts."""
        dim, why = as_dim(self.symbol), (self.reason,)
        facts = [Fact(RelKind.GE, dim - self.min, why)]
        if self.max is not None:
            facts.append(Fact(RelKind.GE, self.max - dim, why))
        if self.multiple_of > 1:
            facts.append(Fact(RelKind.DIVIDES, dim, why, self.multiple_of))
        return facts

    def models(self, models: Models, check: Callable[[Assignment, Symbol], bool]) -> Models:
        """The models that the declaration allows, with another size of the symbol where that is needed.

        ``check`` tells whether what is known of a symbol holds in a model.
        """
        sym, kept = self.symbol, list[Assignment]()
        for model in models:
            size = model.size(sym)
            if not self.holds(size):
                k = self.multiple_of
                size = self.min + (size if self.max is None else size % (self.max + 1))
                size = min(size + -size % k, size if self.max is None else self.max // k * k)
                model = model.but(sym, size)
                if not self.holds(size) or not check(model, sym):
                    continue
            kept.append(model)
        return tuple(kept)
