"""Dependence graph of groups, which must stay without cycles while groups become one.

Nodes have places in a line, each behind all that it waits for, so that a search for a path looks only at what lies
between its ends; where two become one, only what lies between them moves (D. J. Pearce and P. H. J. Kelly, *A dynamic
topological sort algorithm for directed acyclic graphs*, 2006).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any


class GroupOrder:
    """A directed graph without cycles over numbered groups."""

    def __init__(self) -> None:
        self._before: dict[int, set[int]] = {}
        self._after: dict[int, set[int]] = {}
        #: The nodes in line; none where one was that has become part of another.
        self._line: list[int | None] = []
        self._place: dict[int, int] = {}

    def add(self, node: int) -> None:
        """Add a node at the end of the line."""
        self._before[node] = set()
        self._after[node] = set()
        self._place[node] = len(self._line)
        self._line.append(node)

    def edge(self, first: int, then: int) -> None:
        """Record that ``then``, which was added later, waits for ``first``."""
        assert self._place[first] < self._place[then]
        self._before[then].add(first)
        self._after[first].add(then)

    def place(self, node: int) -> int:
        """The place of a node in the line."""
        return self._place[node]

    def comes_first(self, a: int, b: int) -> bool:
        """Whether ``a`` lies before ``b``: then it does not wait for it."""
        return self._place[a] < self._place[b]

    def reaches(self, first: int, last: int) -> bool:
        """Whether ``last`` waits for ``first``, directly or not."""
        return first != last and last in self._behind(self._after[first], self._place[last], last)

    def first_between(self, first: int, last: int) -> list[int]:
        """The groups that wait for one directly, and are waited for by another one."""
        return [node for node in self._after[first] if node != last and self.reaches(node, last)]

    def between(self, a: int, b: int) -> bool:
        """Whether a third group waits for one of two and is waited for by the other."""
        first, last = (a, b) if self.comes_first(a, b) else (b, a)
        return last in self._behind(self._after[first] - {last}, self._place[last], last)

    def _behind(self, starts: set[int], limit: int, wanted: int | None = None) -> set[int]:
        """Some nodes, and those that wait for them, as far as a place in the line; all of them, unless the search ends
        at the one that is wanted."""
        place = self._place
        seen = {node for node in starts if place[node] <= limit}
        stack = list(seen)
        while stack and wanted not in seen:
            for later in self._after[stack.pop()]:
                if later not in seen and place[later] <= limit:
                    seen.add(later)
                    stack.append(later)
        return seen

    def merge(self, into: int, gone: int) -> None:
        """Make one node of two that no third lies between."""
        self._bring_together(into, gone)
        before, after = self._before.pop(gone), self._after.pop(gone)
        for node in before:
            self._after[node].discard(gone)
            self._after[node].add(into)
        for node in after:
            self._before[node].discard(gone)
            self._before[node].add(into)
        self._before[into] = (self._before[into] | before) - {into, gone}
        self._after[into] = (self._after[into] | after) - {into, gone}

    def _bring_together(self, into: int, gone: int) -> None:
        """Give two nodes one place: before it what does not wait for the first of them, behind it what does."""
        first, last = (into, gone) if self.comes_first(into, gone) else (gone, into)
        start, end = self._place[first], self._place[last]
        behind = self._behind(self._after[first], end)
        between = [node for node in self._line[start + 1 : end] if node is not None]
        line = [node for node in between if node not in behind]
        line += [into, *[node for node in between if node in behind]]
        self._line[start : end + 1] = [*line, *[None] * (end + 1 - start - len(line))]
        self._place.update((node, place) for place, node in enumerate(line, start))
        del self._place[gone]

    def sorted(self, key: Callable[[int], Any]) -> list[int]:
        """The nodes, each after all it waits for; of those that could come next, the one with the smallest key."""
        waiting = {node: len(before) for node, before in self._before.items()}
        ready = [(key(node), node) for node, count in waiting.items() if count == 0]
        heapq.heapify(ready)
        done: list[int] = []
        while ready:
            _, node = heapq.heappop(ready)
            done.append(node)
            for later in self._after[node]:
                waiting[later] -= 1
                if waiting[later] == 0:
                    heapq.heappush(ready, (key(later), later))
        return done
