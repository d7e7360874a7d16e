"""Conditions of a program beside a call's arguments: dicts, lists and arrays that have to hold what they held."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

from dyn.trace.static_keys import same_static

#: Types of values that are as good as equal ones.
VALUES = (int, float, bool, str, bytes, complex, type(None), tuple)


class _Absent:
    """Marker in the place of what a dict does not have."""


ABSENT = _Absent()


@dataclass(frozen=True)
class HeldDict:
    """A dict by names, and objects that it has under some of them, or under all, in their order. What it does not have
    is ABSENT."""

    names: Mapping[str, Any]
    entries: tuple[tuple[str, Any], ...]
    whole: bool
    #: What comes before a name in messages: ``Model.``
    title: str = ""

    def is_current(self) -> bool:
        """Return True if it still has these objects."""
        names = self.names
        if self.whole and (len(names) != len(self.entries) or [*names] != [name for name, _ in self.entries]):
            return False
        return not self.entries or all(names.get(name, ABSENT) is value for name, value in self.entries)

    def is_alike(self, values: tuple[type, ...] = VALUES) -> bool:
        """Return True if it has these objects, or objects of types in ``values`` that are equal to them."""
        names = self.names
        if self.whole and [*names] != [name for name, _ in self.entries]:
            return False
        return all(_is_alike(names.get(name, ABSENT), value, values) for name, value in self.entries)

    def is_gone(self) -> bool:
        """Return True if another object is there than one which is no plain value."""
        return any(
            not isinstance(value, (*VALUES, _Absent)) and self.names.get(name, ABSENT) is not value
            for name, value in self.entries
        )

    def changed(self) -> str:
        """The first of the names that has another value, in words."""
        for name, value in self.entries:
            if not _is_alike(self.names.get(name, ABSENT), value):
                return f"{self.title}{name}"
        return f"the entries of {self.title.removesuffix('.')}"


@dataclass(frozen=True)
class HeldList:
    """A list, and the objects that are its items."""

    items: list[Any]
    entries: tuple[Any, ...]
    #: What it is called in messages.
    title: str = "a list"

    def is_gone(self) -> bool:
        """Return True if an item is another object than one which is no plain value."""
        return len(self.items) != len(self.entries) or any(
            not isinstance(then, VALUES) and now is not then
            for now, then in zip(self.items, self.entries, strict=False)
        )

    def changed(self) -> str:
        """The list, as having other items, in words."""
        return f"the items of {self.title}"

    def is_current(self) -> bool:
        """Return True if it still has these items."""
        return len(self.items) == len(self.entries) and all(
            now is then for now, then in zip(self.items, self.entries, strict=False)
        )

    def is_alike(self) -> bool:
        """Return True if it has these items, or numbers, strings and tuples that are equal to them."""
        return len(self.items) == len(self.entries) and all(map(_is_alike, self.items, self.entries))


class HeldBuffer:
    """A ``dyn.Array`` that a program captures, or whose elements its trace has read, and the memory that it stood for
    then."""

    __slots__ = ("array", "data")

    def __init__(self, array: Any) -> None:
        self.array, self.data = array, array._data

    def is_current(self) -> bool:
        """Return True as long as the array stands for that memory. One that was donated stands for nothing else."""
        return getattr(self.array, "_label", None) is not None or self.array._data is self.data

    def is_alike(self) -> bool:
        """Return True as long as its elements are the same: what they are equal to is not asked."""
        return self.is_current()

    def is_gone(self) -> bool:
        """Return True once it stands for other memory."""
        return not self.is_current()

    def changed(self) -> str:
        """The array, as having other elements, in words."""
        return "an array whose elements Python has read"


@dataclass(frozen=True, eq=False)
class Frozen:
    """Owner of the memory of a captured array that nothing changes; another ``stamp`` says that it was changed."""

    owner: Any
    stamp: Hashable = None


Held = HeldDict | HeldList | HeldBuffer


def _is_alike(now: Any, then: Any, values: tuple[type, ...] = VALUES) -> bool:
    if now is then:
        return True
    if not (isinstance(now, values) and isinstance(then, values)):
        return False
    try:
        return same_static(now, then)
    except Exception:  # a tuple of anything may refuse to be compared
        return False
