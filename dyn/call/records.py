"""Records for the native entry: memory of 8-byte words, with the objects and the memory whose addresses are in it."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Sequence
from typing import Any


class Words:
    """Memory of 8-byte words that native code reads, and the objects that it points to."""

    def __init__(self, count: int) -> None:
        self.words = (ctypes.c_int64 * max(count, 1))()
        self.address = ctypes.addressof(self.words)
        self.kept: list[Any] = []

    def put(self, offset: int, value: int) -> None:
        """Write one word: a number or an address."""
        self.words[offset // 8] = value

    def get(self, offset: int) -> int:
        return self.words[offset // 8]

    def object(self, offset: int, value: object) -> None:
        """Write the address of an object, and keep it."""
        self.kept.append(value)
        self.put(offset, id(value))

    def memory(self, offset: int, words: Words) -> None:
        """Write the address of other memory, and keep it."""
        self.kept.append(words)
        self.put(offset, words.address)


@dataclasses.dataclass(frozen=True, eq=False)
class ObjectAddress:
    """An object whose address goes into a record."""

    value: Any


#: A record: what lies at each offset. Numbers, and addresses of objects and of memory, which are kept.
Row = dict[int, "int | ObjectAddress | Words"]


def records(rows: Sequence[Row], size: int) -> Words:
    """Records of ``size`` bytes, each given as values by offset."""
    memory = Words(len(rows) * size // 8)
    for number, row in enumerate(rows):
        for offset, value in row.items():
            if isinstance(value, ObjectAddress):
                memory.object(number * size + offset, value.value)
            elif isinstance(value, Words):
                memory.memory(number * size + offset, value)
            else:
                memory.put(number * size + offset, value)
    return memory
