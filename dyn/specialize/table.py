"""The programs of one function: found by key and by guards, made where there is none."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from dyn.fork_safety import lock

V = TypeVar("V")

#: So many latest calls are remembered.
_MOST_RECENT = 4096


class ProgramTable(Generic[V]):
    """Programs by key, those of one key in the order in which they were made.

    The table holds no lock while a program is looked at or made, since both run code of users and of solvers. Threads
    that need the same program at once may each trace it, where the caller lets them; the machine code is made once
    (``dyn.specialize.shared_code``), and the first program that is there is everybody's.
    """

    def __init__(self) -> None:
        self._lock = lock()
        self._by_key: dict[Hashable, tuple[V, ...]] = {}
        #: Every program, by age: their numbers in what is explained.
        self.in_order: tuple[V, ...] = ()
        #: Programs of latest calls, by all that decides on them, sizes too (:meth:`remember`).
        self.recent: dict[Hashable, V] = {}

    def of(self, key: Hashable) -> tuple[V, ...]:
        """The programs of a key, in the order in which they are tried."""
        return self._by_key.get(key, ())

    def remember(self, exactly: Hashable, program: V, recent: dict[Hashable, V]) -> None:
        """Remember the program of a call by all that decides on it, until one of those that there are is forgotten or
        another one is tried before them. ``recent`` is as it was before the program was found."""
        if len(recent) < _MOST_RECENT:
            recent[exactly] = program
        elif recent is self.recent:
            self.recent = {}

    def find(self, key: Hashable, fits: Callable[[V], bool]) -> V | None:
        """The first program of a key that ``fits``. What that raises is raised."""
        return next((program for program in self.of(key) if fits(program)), None)

    def get(
        self, key: Hashable, fits: Callable[[V], bool], make: Callable[[], V], *, first: bool = False
    ) -> tuple[V, bool]:
        """The program of a key that ``fits``, made by ``make()`` where there is none; and whether this call made it.

        One that is made ``first`` is tried before those that there are.
        """
        found = self.find(key, fits)
        if found is not None:
            return found, False
        made = make()
        while True:
            known = self.of(key)
            # Another thread may have made one in the meantime.
            found = next((program for program in known if fits(program)), None)
            if found is not None:
                return found, False
            with self._lock:
                if self.of(key) is known:  # nobody has added one since
                    self._by_key[key] = (made, *known) if first else (*known, made)
                    self.recent = {} if first else self.recent
                    self.in_order = (*self.in_order, made)
                    return made, True

    def forget(self, key: Hashable, gone: Callable[[V], bool]) -> list[V]:
        """Forget the programs of a key that are ``gone``, which are given."""
        lost = [program for program in self.of(key) if gone(program)]
        with self._lock:
            self.recent = {}
            self._by_key[key] = tuple([program for program in self.of(key) if program not in lost])
            self.in_order = tuple([program for program in self.in_order if program not in lost])
        return lost

    def pairs(self) -> list[tuple[Hashable, V]]:
        """All programs, each with its key."""
        with self._lock:
            return [(key, program) for key, known in self._by_key.items() for program in known]

    def keep(self, stays: Callable[[V], bool]) -> list[V]:
        """Forget all programs but those that stay. Those that are forgotten are given."""
        lost = [program for program in self.in_order if not stays(program)]
        with self._lock:
            left = {key: tuple([one for one in known if one not in lost]) for key, known in self._by_key.items()}
            self.recent = {}
            self._by_key = {key: known for key, known in left.items() if known}
            self.in_order = tuple([program for program in self.in_order if program not in lost])
        return lost

    def replace(self, old: V, new: V) -> None:
        """Have a program in the place of another one."""
        with self._lock:
            self.recent = {}
            for key, known in self._by_key.items():
                self._by_key[key] = tuple([new if program is old else program for program in known])
            self.in_order = tuple([new if program is old else program for program in self.in_order])

    def clear(self) -> None:
        """Forget all programs."""
        with self._lock:
            self._by_key, self.in_order, self.recent = {}, (), {}
