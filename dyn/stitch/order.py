"""Dependence graph of groups, which grows edge by edge and must stay without cycles.

Every node has a level above those of all it waits for, so that a search for a path looks at few nodes: a program's ops
come in order, and two groups that may be merged mostly lie close together.
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
        self._level: dict[int, int] = {}

    def add(self, node: int) -> None:
        self._before[node] = set()
        self._after[node] = set()
        self._level[node] = 0

    def edge(self, first: int, then: int) -> None:
        """Record that ``then`` waits for ``first``, which must not wait for it."""
        self._before[then].add(first)
        self._after[first].add(then)
        self._raise(then, self._level[first] + 1)

    def _raise(self, node: int, level: int) -> None:
        stack = [(node, level)]
        while stack:
            node, level = stack.pop()
            if level > self._level[node]:
                self._level[node] = level
                stack.extend((later, level + 1) for later in self._after[node])

    def reaches(self, first: int, last: int) -> bool:
        """Whether ``last`` waits for ``first``, directly or not."""
        return first != last and self._path(self._after[first], last)

    def between(self, first: int, last: int) -> bool:
        """Whether another group waits for ``first`` and is waited for by ``last``."""
        return self._path(self._after[first] - {last}, last)

    def _path(self, starts: set[int], last: int) -> bool:
        limit = self._level[last]
        seen = {n for n in starts if self._level[n] <= limit}
        stack = list(seen)
        while stack:
            node = stack.pop()
            if node == last:
                return True
            for later in self._after[node]:
                if later not in seen and self._level[later] <= limit:
                    seen.add(later)
                    stack.append(later)
        return False

    def merge(self, into: int, gone: int) -> None:
        """Make one node of two that no third lies between."""
        before = self._before.pop(gone) - {into}
        after = self._after.pop(gone) - {into}
        level = self._level.pop(gone)
        for node in before:
            self._after[node].discard(gone)
            self._after[node].add(into)
        for node in after:
            self._before[node].discard(gone)
            self._before[node].add(into)
        self._before[into].discard(gone)
        self._after[into].discard(gone)
        self._before[into] |= before
        self._after[into] |= after
        self._raise(into, level)
        for node in after:
            self._raise(node, self._level[into] + 1)

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
