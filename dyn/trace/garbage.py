"""Whether Python collects garbage in this thread: what finalizers and callbacks do then is none of a traced function's.

They run in the midst of whatever made the object that was one too many: Dynamo's take parameters out of a module when
an optimizer dies, and a callback of ``gc.callbacks`` may write down the time.
"""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Callable

_THREADS: set[int] = set()


def is_collecting() -> bool:
    """Whether what runs now in this thread was called by the garbage collector."""
    return threading.get_ident() in _THREADS


def surround_callbacks() -> None:
    """Be called before all other callbacks of ``gc.callbacks`` at a start, and after them at a stop."""
    if gc.callbacks[:1] != [_start]:
        _withdraw(_start)
        gc.callbacks.insert(0, _start)
    if gc.callbacks[-1] is not _stop:
        _withdraw(_stop)
        gc.callbacks.append(_stop)


def _withdraw(callback: Callable[[str, dict[str, int]], None]) -> None:
    with contextlib.suppress(ValueError):
        gc.callbacks.remove(callback)


def _start(phase: str, _: dict[str, int]) -> None:
    if phase == "start":
        _THREADS.add(threading.get_ident())


def _stop(phase: str, _: dict[str, int]) -> None:
    if phase == "stop":
        _THREADS.discard(threading.get_ident())


surround_callbacks()
