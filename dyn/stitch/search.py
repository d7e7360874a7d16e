"""The search for groups: every op begins as a group of its own, and the two that gain most by it become one.

What may become one, and as what, the kinds of fusion say (``dyn.stitch.fusion``); what is gained is told in
seconds (``dyn.stitch.cost``). What is computed and read at the same places comes first; then groups that read the same
array; and at last what is computed again by its readers.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator

from dyn.stitch.beside import beside, reads_whole
from dyn.stitch.cost import Prices, Savings
from dyn.stitch.drafts import Draft, Drafts, Fusion
from dyn.stitch.fusion import Rule
from dyn.stitch.merging import merging
from dyn.stitch.nested import fold_within, nested
from dyn.stitch.pieces import pieces
from dyn.stitch.prologues import prologue
from dyn.stitch.stretched import stretched

#: Of so many readers of one array pairs are looked at.
_MOST_SIBLINGS = 16


def search(drafts: Drafts, prices: Prices) -> Savings:
    """Make groups of the groups that there are, until nothing is gained by it; gives what it was decided by."""
    savings = Savings(drafts, prices)
    for rule, pairs in _KINDS:
        _Search(drafts, rule, pairs, savings).run()
    fold_within(drafts)
    return savings


def _near(drafts: Drafts) -> Iterator[tuple[int, int]]:
    """Pairs of groups of which one reads the other."""
    for number, others in drafts.near.items():
        yield from ((number, other) for other in others if number < other)


def _siblings(drafts: Drafts) -> Iterator[tuple[int, int]]:
    """Pairs of groups that read an array of their whole space."""
    for source, readers in drafts.readers.items():
        if len(readers) > 1 and source.type.size != 1:
            groups = dict.fromkeys(drafts.draft_of[reader] for reader in readers)
            whole = [draft.number for draft in groups if reads_whole(drafts, draft, source)][:_MOST_SIBLINGS]
            yield from itertools.combinations(sorted(whole), 2)


class _Search:
    """Pairs of groups by what is gained if they become one; numbers tell groups apart, as some cease to be."""

    def __init__(
        self, drafts: Drafts, rule: Rule, pairs: Callable[[Drafts], Iterable[tuple[int, int]]], savings: Savings
    ) -> None:
        self.drafts, self.rule, self.savings = drafts, rule, savings
        #: The pairs that may gain, the one that gains most first; of equals the one that reads first in the program,
        #: and of what that reads what was made last.
        self.heap: list[tuple[float, int, int]] = []
        self.partners: dict[int, set[int]] = {}
        for a, b in dict.fromkeys(pairs(drafts)):
            self.partners.setdefault(a, set()).add(b)
            self.partners.setdefault(b, set()).add(a)
            self._push(a, b)

    def _push(self, a: int, b: int) -> None:
        groups = self.drafts.groups
        share = self.savings.share(groups[a], groups[b])
        self._push_at(-share, a, b)

    def _push_at(self, place: float, a: int, b: int) -> None:
        heapq.heappush(self.heap, (place, max(a, b), -min(a, b)))

    def run(self) -> None:
        """Make one of two until no pair is left that may become one."""
        groups = self.drafts.groups
        while self.heap:
            place, b, a = heapq.heappop(self.heap)
            if -a in groups and b in groups:
                self._try(groups[-a], groups[b], place)

    def _bring_in(self, first: Draft, then: Draft, place: float) -> None:
        """Try next to bring those that are between two groups into the first one, for what these gain as one: such as
        the few numbers of each row between two passes over it."""
        for between in self.drafts.order.first_between(first.number, then.number):
            if between in self.partners[first.number]:
                self._push_at(place, first.number, between)

    def _try(self, a: Draft, b: Draft, place: float) -> None:
        first, then = (a, b) if self.drafts.order.comes_first(a.number, b.number) else (b, a)
        fusion = self.rule(self.drafts, first, then)
        if not isinstance(fusion, Fusion):
            if fusion.by_others:
                self._bring_in(first, then, place)
            return
        made = self.drafts.merge(first, then, fusion)
        others = (self.partners.pop(a.number) | self.partners.pop(b.number)) - {a.number, b.number}
        self.partners[made.number] = others
        for other in sorted(others):
            self.partners[other] -= {a.number, b.number}
            self.partners[other].add(made.number)
            self._push(made.number, other)


#: The kinds of fusion, in the order in which they are looked for, each with the pairs that it may be of.
_KINDS: tuple[tuple[Rule, Callable[[Drafts], Iterable[tuple[int, int]]]], ...] = (
    (merging, _near),
    (nested, _near),
    (merging, _near),
    (beside, _siblings),
    (stretched, _near),
    (pieces, _near),
    (prologue, _near),
)
