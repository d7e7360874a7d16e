"""Scoped tables: a block's entries, and those of the blocks around it."""

from __future__ import annotations

from typing import Generic, TypeVar

Key = TypeVar("Key")
Entry = TypeVar("Entry")


class ValueScope(Generic[Key, Entry]):
    """A block's entries by key; those of the blocks around it are found too."""

    __slots__ = ("_outer", "own")

    def __init__(self, outer: ValueScope[Key, Entry] | None = None) -> None:
        #: The block's own entries.
        self.own: dict[Key, Entry] = {}
        self._outer = outer

    def __setitem__(self, key: Key, entry: Entry) -> None:
        self.own[key] = entry

    def __getitem__(self, key: Key) -> Entry:
        found = self.find(key)
        if found is None:
            raise KeyError(key)
        return found

    def find(self, key: Key) -> Entry | None:
        """The entry of the innermost block that has one."""
        scope: ValueScope[Key, Entry] | None = self
        while scope is not None:
            found = scope.own.get(key)
            if found is not None:
                return found
            scope = scope._outer
        return None
