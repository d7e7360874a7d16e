"""Machine code that programs share: kept by what it was made from, apart from the arrays that a function captures."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np

from dyn.backends.deferred import NOTHING_DEFERRED, DeferredKernels, DeferredState
from dyn.backends.once_table import OnceTable
from dyn.fork_safety import lock
from dyn.frozen import record

#: So much code is remembered, the latest used: what was forgotten is found on disk, or compiled anew.
MOST_CODES = 4096
MOST_BYTES = 1 << 30


@record(eq=False)
class Code:
    """The machine code of a program: a host program, its kernels and the test of its guards, as addresses.

    ``calls`` says whether Python is asked for library calls. ``reuses`` are the results, by number, that may lie in an
    argument's memory, each with that argument; ``useless`` the arguments that were donated in vain. ``kept`` is what
    the code refers to.
    """

    host: int
    kernels: tuple[int, ...]
    guards: int | None
    #: How many of ``kernels`` are kernels; the rest are entries of library calls.
    count: int
    calls: bool
    reuses: tuple[tuple[int, int], ...]
    useless: tuple[int, ...]
    nbytes: int
    #: The arrays of its large constants.
    constants: tuple[np.ndarray[Any, Any], ...] = ()
    kept: tuple[Any, ...] = ()
    #: The kernels that it can do without, until they are made.
    deferred: DeferredKernels = NOTHING_DEFERRED
    #: The dims, by number, that were 1 in the call for which it was made, and that others were not.
    ones: tuple[int, ...] = ()
    #: Frames of its calls that no call is using (``LoadedProgram``).
    idle: list[Any] = field(default_factory=list[Any])


class CodeInfo(NamedTuple):
    """Counts of the machine code that this process remembers.

    Attributes:
        programs: programs.
        nbytes: bytes of their code.
        hits: how often a program was found.
        variants: quicker variants of kernels, which calls can do without, that are compiled.
        missing: such variants that are not.
    """

    programs: int
    nbytes: int
    hits: int
    variants: int = 0
    missing: int = 0


class Codes:
    """A table of :class:`Code`, bounded by number and bytes. Every method may be called from many threads.

    Programs that are forgotten stay where they are for those who run them, and so do their addresses: code is never
    unmapped.
    """

    def __init__(self, most: int = MOST_CODES, most_bytes: int = MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._lock = lock()
        self._making: OnceTable[Code] = OnceTable()
        self._known: OrderedDict[str, Code] = OrderedDict()
        self._bytes = self._hits = 0

    def find(self, key: str | None) -> Code | None:
        """The code of a key, if it is remembered."""
        if key is None:
            return None
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
                self._hits += 1
            return found

    def get(self, key: str | None, make: Callable[[], Code]) -> Code:
        """The code of a key, made by ``make()`` where there is none: by one thread, while the others wait.

        None is the key of what cannot be shared.
        """
        if key is None:
            return make()
        found = self.find(key)
        if found is not None:
            return found

        def make_and_keep() -> Code:
            # Who has waited for another thread looks here first: the table of what is being made forgets at once.
            known = self.find(key)
            if known is not None:
                return known
            code = make()
            self._keep(key, code)
            return code

        code, _ = self._making.get(key, make_and_keep)
        self._making.forget(key)
        return code

    def _keep(self, key: str, code: Code) -> None:
        with self._lock:
            self._known[key] = code
            self._bytes += code.nbytes
            while len(self._known) > self._most or (self._bytes > self._most_bytes and len(self._known) > 1):
                _, old = self._known.popitem(last=False)
                self._bytes -= old.nbytes

    def info(self) -> CodeInfo:
        """Counts of the programs that this process remembers."""
        with self._lock:
            states = [state for code in self._known.values() for state in code.deferred.states().values()]
            made = states.count(DeferredState.MADE)
            return CodeInfo(len(self._known), self._bytes, self._hits, made, len(states) - made)

    def clear(self) -> None:
        """Forget all code, as a new process would."""
        with self._lock:
            self._known.clear()
            self._bytes = 0


#: The code of this process.
CODES = Codes()


def cache_info() -> CodeInfo:
    """Counts of the machine code that this process remembers, whichever functions it was made for.

    Returns:
        A :class:`CodeInfo`.

    Example:
        >>> dyn.cache_info().programs >= 0
        True
    """
    return CODES.info()
