"""Values by key, each made once, whichever threads ask for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from dyn.fork_safety import lock

if TYPE_CHECKING:
    from _thread import RLock

V = TypeVar("V")


class OnceTable(Generic[V]):
    """A table that fills itself.

    Who makes a value holds the lock of its key, and the others wait for that without the GIL. A value that cannot be
    made is not remembered: whoever made it gets the error, and those who waited try themselves. An interrupt at any
    moment leaves the table in order. In the child of a fork, what other threads were making is not waited for.
    """

    def __init__(self) -> None:
        self._values: dict[str, V] = {}
        #: The locks of values that are being made, or could not be.
        self._making: dict[str, RLock] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str, make: Callable[[], V]) -> tuple[V, bool]:
        """The value of ``key``, made by ``make()`` if there is none; and whether this call made it.

        A finalizer or a signal's handler that comes in between and needs the value that its own thread is making makes
        it for itself.
        """
        found = self._values.get(key)
        if found is not None:
            return found, False
        # A thread that got the lock before the value was there, and one that gets another after it, both look again.
        with self._making.setdefault(key, lock()):
            found = self._values.get(key)
            if found is not None:
                return found, False
            value = self._values[key] = make()
            self._making.pop(key, None)
            return value, True

    def forget(self, key: str) -> None:
        """Forget one value. Those who wait for it get it all the same."""
        self._values.pop(key, None)

    def clear(self) -> None:
        """Forget every value. Those that are being made are kept."""
        self._values.clear()
