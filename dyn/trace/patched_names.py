"""Names of classes and modules that mean something else to the thread that traces a function, as long as it does."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator
from typing import Any, Generic, TypeVar

from dyn.fork_safety import lock

T = TypeVar("T")

#: The threads in which the garbage collector runs.
_COLLECTING: set[int] = set()


def _note_collection(phase: str, _: object) -> None:
    change = _COLLECTING.add if phase == "start" else _COLLECTING.discard
    change(threading.get_ident())


gc.callbacks.append(_note_collection)


class Replacement(Generic[T]):
    """Attribute ``name`` of a class or module, which is ``value`` while any thread traces.

    ``value`` is everyone's then: it asks :attr:`current` what the thread that uses it has, and does as the original
    does where that is None.
    """

    def __init__(self, owner: Any, name: str, value: Any) -> None:
        self._owner, self._name, self._value = owner, name, value
        self._lock = lock()
        self._count = 0
        self._before: Any = None
        self._of_threads: dict[int, T] = {}

    @property
    def current(self) -> T | None:
        """The value of this thread; None without one, and in finalizers that the garbage collector runs.

        What those do in the midst of a trace is not the traced function's: Dynamo's take parameters out of a module
        when an optimizer dies.
        """
        thread = threading.get_ident()
        return None if thread in _COLLECTING else self._of_threads.get(thread)

    @contextlib.contextmanager
    def active(self, mine: T) -> Iterator[None]:
        """Have this thread have ``mine``."""
        thread = threading.get_ident()
        before = self._of_threads.get(thread)
        self._of_threads[thread] = mine
        self._add(1)
        try:
            yield
        finally:
            self._add(-1)
            if before is None:
                del self._of_threads[thread]
            else:
                self._of_threads[thread] = before

    def _add(self, count: int) -> None:
        with self._lock:
            if self._count == 0:
                self._before = vars(self._owner).get(self._name, _NOTHING)
                setattr(self._owner, self._name, self._value)
            self._count += count
            if self._count == 0:
                if self._before is _NOTHING:
                    delattr(self._owner, self._name)
                else:
                    setattr(self._owner, self._name, self._before)


_NOTHING = object()
