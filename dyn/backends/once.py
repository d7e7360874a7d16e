"""Values by key, each made once, whichever threads ask for it."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class _Making:
    """A value that some thread is making; the others wait for it, without the GIL."""

    __slots__ = ("done", "maker")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.maker = threading.get_ident()


class Once(Generic[V]):
    """A table that fills itself.

    A value that cannot be made is not remembered: whoever made it gets the error, and those who waited try themselves.
    In the child of a fork, what other threads were making is forgotten, for those threads are not there.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._values: dict[str, V] = {}
        self._making: dict[str, _Making] = {}
        _tables.add(self)

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: str, make: Callable[[], V]) -> tuple[V, bool]:
        """The value of ``key``, made by ``make()`` if there is none; and whether this call made it."""
        while True:
            with self._lock:
                found = self._values.get(key)
                if found is not None:
                    return found, False
                making = self._making.get(key)
                if making is None:
                    making = mine = self._making[key] = _Making()
                else:
                    mine = None
            if mine is not None:
                break
            if making.maker == threading.get_ident():
                # A finalizer or a signal handler has come in between: waiting for ourselves would never end.
                return make(), True
            making.done.wait()
        try:
            value = make()
            with self._lock:
                self._values[key] = value
            return value, True
        finally:
            with self._lock:
                self._making.pop(key, None)
            making.done.set()

    def clear(self) -> None:
        """Forget every value. Those that are being made are kept."""
        with self._lock:
            self._values.clear()

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self._making.clear()


_tables: weakref.WeakSet[Once[Any]] = weakref.WeakSet()


def _forget_other_threads() -> None:
    for table in _tables:
        table._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_other_threads)
