"""Locks and sections that ``os.fork`` must not cut in half.

The child of a fork has the thread that forked alone, and everything else as the other threads left it at that moment.
What they held stays locked for ever, and a module that one of them was importing is never finished: Python's own import
then waits for a thread that there is not. So

- every lock of dyn's is made by :func:`lock`, and is free in the child, unless the thread that forked holds it itself.
  What such a lock guards is in order between any two steps of Python;
- a fork waits while dyn imports modules of its own (:data:`importing`), and while LLVM works (:func:`no_fork`), whose
  locks nobody can reach. It takes what one kernel takes to compile. New work of the kind waits for the fork.

No wait is for ever: after some seconds the fork goes ahead, as it would without this file.

Locks are re-entrant: a finalizer or a signal's handler that comes between two lines of a guarded section, in the same
thread, and calls dyn again goes on. They are Python's own objects, since ``with`` and an interrupt between them leave
no such lock taken; a lock written in Python could be left so.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _thread import RLock

T = TypeVar("T")

#: How long a fork waits for others to come to a place where it may happen.
_FORK_WAITS = 10.0

#: As Any: the types of Python's locks do not tell of the methods that its own modules call after a fork.
_locks: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> RLock:
    """A new re-entrant lock, which is free in the child of a fork."""
    made = threading.RLock()
    _locks.add(made)
    return made


#: Held while modules of dyn's are imported by a function that needs them first.
importing = lock()
#: Held by who begins :func:`no_fork` work, and by a fork from before to after it.
_entering = lock()
_HELD: tuple[Any, ...] = (importing, _entering)
#: The threads that are at :func:`no_fork` work. Lists are appended to and removed from without a lock of their own.
_inside: list[int] = []


def no_fork(work: Callable[[], T]) -> T:
    """``work()``, which no other thread's fork divides. It must not wait for other threads."""
    thread = threading.get_ident()
    with _entering:
        _inside.append(thread)
    try:
        return work()
    finally:
        _inside.remove(thread)


#: Which locks a thread that is forking has taken for it.
_taken: dict[int, list[Any]] = {}


def _before() -> None:
    own = threading.get_ident()
    logging_before = _lock_of_logging()
    # Noted beforehand, for a signal may come between taking one and noting it.
    _taken[own] = [held for held in _HELD if not held._is_owned()]
    for held in _taken[own]:
        held.acquire(timeout=_FORK_WAITS)
    deadline = time.monotonic() + _FORK_WAITS
    while any(thread != own for thread in _inside) and time.monotonic() < deadline:
        time.sleep(0.0005)
    if logging_before is None and (logging_now := _lock_of_logging()) is not None:
        # Whom we waited for has imported logging. Its hook for after a fork will be called, which frees this lock; the
        # one for before, which takes it, was not there in time.
        logging_now.acquire()


def _lock_of_logging() -> Any:
    return getattr(sys.modules.get("logging"), "_lock", None)


def _after_in_parent() -> None:
    for held in _taken.pop(threading.get_ident(), ()):
        if held._is_owned():
            held.release()


def _after_in_child() -> None:
    _after_in_parent()
    own = threading.get_ident()
    _inside[:] = [thread for thread in _inside if thread == own]
    for held in list(_locks):
        if not held._is_owned():
            held._at_fork_reinit()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child)
