"""Names of classes and modules that mean something else to the thread that traces a function, as long as it does."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from dyn.fork_safety import lock
from dyn.trace.garbage import is_collecting, surround_callbacks

T = TypeVar("T")


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
        """The value of this thread; None without one, and while the garbage collector runs."""
        return None if is_collecting() else self._of_threads.get(threading.get_ident())

    @contextlib.contextmanager
    def active(self, mine: T) -> Iterator[None]:
        """Have this thread have ``mine``."""
        surround_callbacks()
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
            if self._count == 0 and vars(self._owner).get(self._name) is self._value:  # and nobody has set another
                if self._before is _NOTHING:
                    delattr(self._owner, self._name)
                else:
                    setattr(self._owner, self._name, self._before)


_NOTHING = object()


@contextlib.contextmanager
def all_active(replacements: Iterable[Replacement[bool]]) -> Iterator[None]:
    """Have this thread have several replacements that are there or not."""
    with contextlib.ExitStack() as stack:
        for one in replacements:
            stack.enter_context(one.active(True))
        yield
