"""The end of the process, while threads that nobody waits for still call.

When Python finalises, it ends a daemon thread where that next asks for the GIL, by unwinding its stack. C++ code, such
as the walk over trees of arguments, takes that for an error and aborts the process. So once the process begins to end,
calls of other threads wait outside, and those inside are waited for. Neither waits for long: what runs at exit may
itself wait for such a thread.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Callable

#: How long a call of another thread waits for the end, and how long the end waits for calls.
_CALLS_WAIT, _END_WAITS = 10.0, 2.0

#: The thread that ends the process, once there is one.
_ending: list[int] = []
#: The threads of the calls that are inside. Lists are appended to and removed from without a lock of our own.
_inside: list[int] = []
_never = threading.Event()
#: What is done as the process ends.
_last: list[Callable[[], object]] = []


def at_end(work: Callable[[], object]) -> None:
    """Have something done as the process ends; at once if it does: ``atexit`` takes nothing more then."""
    _last.append(work)
    if _ending:
        work()


def enter_call() -> None:
    """Begin a call that walks trees. Each is followed by one ``leave_call``."""
    thread = threading.get_ident()
    if _ending and thread not in _ending and thread not in _inside:
        _never.wait(_CALLS_WAIT)
    _inside.append(thread)


def leave_call() -> None:
    """The call is over."""
    _inside.remove(threading.get_ident())


def _end() -> None:
    _ending.append(threading.get_ident())
    for work in list(_last):
        work()
    deadline = time.monotonic() + _END_WAITS
    while any(thread not in _ending for thread in _inside) and time.monotonic() < deadline:
        time.sleep(0.001)


def _after_fork() -> None:
    """A child has the thread that forked alone, which may itself be inside."""
    _inside[:] = [thread for thread in _inside if thread == threading.get_ident()]


atexit.register(_end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
