"""Imports of dyn's own modules when they are first needed, which no signal divides.

Python handles signals in the main thread between any two steps, the middle of an import among them. A handler that
then calls dyn would find half a module (``cannot import name … from partially initialized module``), and Ctrl-C would
leave locks of Python's imports taken, for which other threads wait for ever. So :func:`import_whole` comes before each
import of dyn's modules that stands in a function::

    import_whole("dyn.pipeline")
    from dyn.pipeline import optimize

While it imports in the main thread, signals are noted, and handled as soon as all is there. It takes as long as the
import does; what is imported already costs a look into a set.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from types import FrameType
from typing import TypeVar

from dyn.fork_safety import importing

T = TypeVar("T")

#: The modules that are there whole, by name. It only grows.
_whole: set[str] = set()
#: Whether signals are being noted: one entry, or none. Only the main thread looks.
_noting: list[bool] = []


def are_whole(names: Iterable[str]) -> bool:
    """Tell whether modules are there to their last line."""
    return _whole.issuperset(names)


def import_whole(*names: str) -> None:
    """Import modules of dyn's, to their ends whatever signals come, unless they are there."""
    if not are_whole(names):
        undisturbed(lambda: _import(names))


def _import(names: tuple[str, ...]) -> None:
    with importing:
        for name in names:
            module = import_module(name)
            # A module that is being imported further out in this thread is not whole yet.
            if not getattr(module.__spec__, "_initializing", False):
                _whole.add(name)


def undisturbed(work: Callable[[], T]) -> T:
    """``work()``; in the main thread signals whose handlers are Python's come after it."""
    if threading.current_thread() is not threading.main_thread() or _noting or sys.is_finalizing():
        return work()
    noted: list[int] = []
    handlers: dict[signal.Signals | int, Callable[..., object]] = {}

    def note(number: int, frame: FrameType | None) -> None:
        noted.append(number)

    try:
        # Ctrl-C first, and given back last: its handler raises, and may do so until it is replaced.
        for number in (signal.SIGINT, *signal.valid_signals()):
            handler = signal.getsignal(number)
            if callable(handler) and number not in handlers:
                handlers[number] = handler
                signal.signal(number, note)
        _noting.append(True)
        return work()
    finally:
        _noting.clear()
        for number in reversed(handlers):
            signal.signal(number, handlers[number])
        _deliver(noted)


def _deliver(numbers: list[int]) -> None:
    """Raise each signal; a handler's exception keeps none of the others from theirs."""
    if numbers:
        try:
            signal.raise_signal(numbers[0])
        finally:
            _deliver(numbers[1:])
