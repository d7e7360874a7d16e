"""Sets of sizes: ``set(lengths)``, by which code finds out whether lengths agree.

A set compares hashes first, and the hash of a symbolic size is not that of its number. Here elements are compared one
by one, by the answers to ``==``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableSet
from typing import Any

_SETS = (set, frozenset)


class SetOfSizes(MutableSet[Any]):
    """A ``set`` with symbolic sizes among its elements, or tuples with sizes in them.

    Python's order of several elements follows from their numbers: those that are asked for one after the other are made
    numbers by ``numbers``, which leaves what is no size as it is.
    """

    def __init__(self, elements: Iterable[Any], numbers: Callable[[Any], Any]) -> None:
        self._numbers, self._elements = numbers, list[Any]()
        self.update(elements)

    @property
    def __class__(self) -> type:  # pyright: ignore[reportIncompatibleMethodOverride]  # to ``isinstance``
        return set

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self._elements))}}}" if self._elements else "set()"

    def __len__(self) -> int:
        return len(self._elements)

    def __contains__(self, x: object) -> bool:
        hash(x)  # as a set, of lists for example
        return any(x is one or bool(x == one) for one in self._elements)

    def __iter__(self) -> Iterator[Any]:
        if len(self._elements) < 2:
            return iter(self._elements)
        return iter(set(map(self._numbers, self._elements)))

    def add(self, value: Any) -> None:
        if value not in self:
            self._elements.append(value)

    def discard(self, value: Any) -> None:
        self._elements = [one for one in self._elements if not (value is one or bool(value == one))]

    def _from_iterable(self, it: Iterable[Any]) -> SetOfSizes:  # pyright: ignore[reportIncompatibleMethodOverride]
        return SetOfSizes(it, self._numbers)

    def copy(self) -> SetOfSizes:
        """Another set of the same elements."""
        return self._from_iterable(self._elements)

    def update(self, *others: Iterable[Any]) -> None:
        """Add elements."""
        for other in others:
            for one in other:
                self.add(one)

    def union(self, *others: Iterable[Any]) -> SetOfSizes:
        """A set of these elements and of others."""
        made = self.copy()
        made.update(*others)
        return made

    def intersection(self, *others: Iterable[Any]) -> SetOfSizes:
        """A set of the elements that are in all others."""
        sets = [self._from_iterable(other) for other in others]
        return self._from_iterable([one for one in self._elements if all(one in other for other in sets)])

    def difference(self, *others: Iterable[Any]) -> SetOfSizes:
        """A set of the elements that are in no other."""
        sets = [self._from_iterable(other) for other in others]
        return self._from_iterable([one for one in self._elements if not any(one in other for other in sets)])

    def symmetric_difference(self, other: Iterable[Any]) -> SetOfSizes:
        """A set of what is in one of two sets."""
        theirs = self._from_iterable(other)
        return self.difference(theirs._elements).union(theirs.difference(self._elements)._elements)

    def issubset(self, other: Iterable[Any]) -> bool:
        """Return True if all elements are in another set."""
        theirs = self._from_iterable(other)
        return all(one in theirs for one in self._elements)

    def issuperset(self, other: Iterable[Any]) -> bool:
        """Return True if all elements of another set are in this one."""
        return all(one in self for one in other)

    def isdisjoint(self, other: Iterable[Any]) -> bool:
        """Return True if no element of another set is in this one."""
        return not any(one in self for one in other)

    # Operators, of two sets each. Those of ``MutableSet`` look elements up in the other one, by their hashes.

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _SETS):
            return NotImplemented
        theirs = self._from_iterable(other)
        return len(theirs) == len(self) and self.issubset(theirs._elements)

    def __le__(self, other: Any) -> bool:
        return self.issubset(other) if isinstance(other, _SETS) else NotImplemented

    def __ge__(self, other: Any) -> bool:
        return self.issuperset(other) if isinstance(other, _SETS) else NotImplemented

    def __lt__(self, other: Any) -> bool:
        return self <= other and self != other if isinstance(other, _SETS) else NotImplemented

    def __gt__(self, other: Any) -> bool:
        return self >= other and self != other if isinstance(other, _SETS) else NotImplemented

    def __and__(self, other: Any) -> Any:
        return self.intersection(other) if isinstance(other, _SETS) else NotImplemented

    def __or__(self, other: Any) -> Any:
        return self.union(other) if isinstance(other, _SETS) else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return self.difference(other) if isinstance(other, _SETS) else NotImplemented

    def __xor__(self, other: Any) -> Any:
        return self.symmetric_difference(other) if isinstance(other, _SETS) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return self._from_iterable(other).difference(self._elements) if isinstance(other, _SETS) else NotImplemented

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__
    __hash__ = None  # as of a set
