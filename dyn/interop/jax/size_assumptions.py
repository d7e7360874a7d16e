"""Facts about sizes with which JAX can go on tracing, where a trace has failed: the mildest first.

A trace fails with one of many messages. What they have in common: the sizes that they are about have our names, and
before JAX raised it asked whether they are equal (:attr:`dyn.interop.jax.answers.Answers.doubts`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dyn.interop.jax.answers import Doubt
from dyn.interop.jax.askers import loc_of_error
from dyn.interop.jax.sizes import ReasonKind, SizeGuard, TraceSizes
from dyn.shapes import RelKind, Symbol, free_symbols
from dyn.source import Loc

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class FailedTrace:
    """A trace that JAX, or the function, gave up: the exception, and the sizes with what was assumed and doubted."""

    error: Exception
    sizes: TraceSizes
    doubts: tuple[Doubt, ...]
    #: Sizes that a number was needed for, or may have been, the latest last.
    needed: tuple[Symbol, ...] = ()
    #: Whether it failed since Python needs a number in the place of an array.
    wants_number: bool = False

    @property
    def loc(self) -> Loc:
        return loc_of_error(self.error)

    @property
    def text(self) -> str:
        """The message's first paragraph in one line."""
        first = (
            str(self.error).strip().split("\n\n")[0].split("\nThis error arises")[0].split("\nUsing symbolic scope")[0]
        )
        return " ".join(first.split()) or type(self.error).__name__

    def leads_on(self, after: FailedTrace) -> bool:
        """Tell whether something was gained: another message or place, another doubt, or another size's number is
        needed."""
        if (type(self.error), self.loc, self.text) != (type(after.error), after.loc, after.text):
            return True
        if after.needed and after.needed[-1:] != self.needed[-1:]:
            return True
        return bool({*after.doubts} - {*self.doubts})

    def symbols(self) -> tuple[Symbol, ...]:
        """The free symbols that the message mentions."""
        words = dict.fromkeys(_WORD.findall(self.text))
        found = [self.sizes.symbols[word] for word in words if word in self.sizes.symbols]
        return tuple([symbol for symbol in found if symbol not in self.sizes.numbers])


def next_sizes(failure: FailedTrace) -> Iterator[TraceSizes]:
    """Sizes to trace with next, the mildest first: at the end each symbol is a number by itself."""
    loc, why, mentioned = failure.loc, failure.text, failure.symbols()
    needed = [symbol for symbol in reversed(failure.needed) if symbol not in failure.sizes.numbers]
    for symbol in needed if failure.wants_number else ():
        yield failure.sizes.static(symbol, loc, why)
    sizes = replace(failure.sizes, merges=True)
    yield sizes  # with other symbols, where sizes are known to be equal
    known = sizes.facts()
    open_ = [one for one in failure.doubts if not known.eq(one.left, one.right).proved]
    about = [one for one in open_ if (free_symbols(one.left) | free_symbols(one.right)) & {*mentioned}]
    latest = list(reversed(about or open_))
    for doubt in sorted(latest, key=_rank):
        yield sizes.with_guard(SizeGuard.of(ReasonKind.EQUAL, RelKind.EQ, doubt.left, doubt.right, loc, why))
    for symbol in needed or mentioned or sizes.free:
        yield sizes.static(symbol, loc, why)


def _rank(doubt: Doubt) -> int:
    """Two sizes of arguments first, then of several, then one that is to be a number."""
    sides = [doubt.left, doubt.right]
    names = free_symbols(doubt.left) | free_symbols(doubt.right)
    if len(names) == 2 and all(not isinstance(one, int) and one.is_symbol is not None for one in sides):
        return 0
    return 1 if len(names) > 1 else 2
