"""Symbols and facts of a trace that is over, kept for the next trace of the same function.

Outside of ``jit`` a function is traced at each call, and asks the same of the same dims each time: which sizes are
equal, which broadcast, what a sum of them is. With fresh symbols all of it would have to be proved anew. A trace that
is given the memory of one that is over is given its symbols, and with them every answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from dyn.fork_safety import lock
from dyn.shapes import Facts, KeptFacts, SymbolSequence

#: So many entries of tables are remembered, of the latest functions; one is some 60 bytes.
MOST_ENTRIES = 500_000
#: What a function's memory takes beside its entries.
_EACH = 100


class DimMemory:
    """The symbols of a trace, and what its facts begin with. With ``kept`` they remember what is assumed of them."""

    __slots__ = ("facts", "kept", "symbols")

    def __init__(self, kept: KeptFacts | None) -> None:
        self.kept = kept
        self.symbols = SymbolSequence()
        self.facts = Facts.none(kept)

    @property
    def entries(self) -> int:
        """Size of this memory, in entries of tables."""
        return _EACH + len(self.symbols) + (0 if self.kept is None else self.kept.entries)


class Memories:
    """The memories of traces that are over, the latest used, bounded by their entries.

    A trace takes one out while it runs: no two traces at a time, of threads or one in the other, share a symbol.
    """

    def __init__(self, most: int = MOST_ENTRIES) -> None:
        self._most = most
        self._lock = lock()
        #: With the entries that each was counted for: a program that is compiled later may add to its own.
        self._known: OrderedDict[Hashable, tuple[DimMemory, int]] = OrderedDict()
        self._entries = 0

    def of(self, key: Hashable) -> _BorrowedMemory:
        """The memory of the last trace with this key, for a trace that runs inside of ``with``."""
        return _BorrowedMemory(self, key)

    def take(self, key: Hashable) -> DimMemory:
        """Take out the memory of a key, for a trace to use; a fresh one where there is none."""
        with self._lock:
            memory = self._pop(key)
        if memory is None:
            return DimMemory(KeptFacts())
        memory.symbols.restart()
        return memory

    def give_back(self, key: Hashable, memory: DimMemory) -> None:
        """Keep a memory that was taken out."""
        entries = memory.entries
        with self._lock:
            self._pop(key)
            self._known[key] = memory, entries
            self._entries += entries
            while self._entries > self._most:
                self._pop(next(iter(self._known)))

    def _pop(self, key: Hashable) -> DimMemory | None:
        memory, entries = self._known.pop(key, (None, 0))
        self._entries -= entries
        return memory

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._known.clear()
            self._entries = 0


class _BorrowedMemory:
    """``with`` a memory that is taken out."""

    __slots__ = ("_key", "_memories", "_memory")

    def __init__(self, memories: Memories, key: Hashable) -> None:
        self._memories, self._key = memories, key

    def __enter__(self) -> DimMemory:
        self._memory = self._memories.take(self._key)
        return self._memory

    def __exit__(self, *exc: object) -> None:
        self._memories.give_back(self._key, self._memory)


#: Those of this process.
MEMORIES = Memories()
