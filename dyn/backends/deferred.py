"""Deferred kernels of programs: made when a call has met their condition, by a thread that no call waits for.

A call that finds the slot of such a kernel empty marks it and goes on with another variant
(``dyn.runtime.deferred_kernels``). The thread that is started then makes what is marked and ends. Its code is written
down with the program's, so that another process finds it there.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import Protocol
from weakref import WeakSet

from dyn import events
from dyn.backends.programs import Deferred
from dyn.backends.runtime import native_runtime
from dyn.errors import CompileError
from dyn.fork_safety import lock
from dyn.lower.abi import KernelSlot
from dyn.runtime.address_space import fits

#: So many deferred kernels of one launch are made.
MOST_MADE = 4
#: A thread's stack, and what it allocates first.
_THREAD_BYTES = 32 << 20
#: How long the end of the process waits for a kernel that is being compiled.
_END_WAITS = 10.0


class DeferredState(Enum):
    """State of a deferred kernel."""

    NOT_YET = "not compiled yet"
    MADE = "compiled"
    FAILED = "could not be compiled"
    TOO_MANY = f"not compiled: {MOST_MADE} others of its launch are"


class KernelMaker(Protocol):
    """Maker of a program's deferred kernels."""

    def make_deferred(self, names: Sequence[str]) -> list[int]:
        """The addresses of deferred kernels, compiled or found."""
        ...


class _Slot:
    """A deferred kernel of a program, and the memory by which calls know of it (``dyn.lower.abi.KernelSlot``)."""

    def __init__(self, deferred: Deferred) -> None:
        self.deferred = deferred
        self.state = DeferredState.NOT_YET
        self._words = (ctypes.c_int64 * KernelSlot.WORDS)()
        self.address = ctypes.addressof(self._words)

    @property
    def is_wanted(self) -> bool:
        return self.state is DeferredState.NOT_YET and self._words[KernelSlot.WANTED // 8] != 0

    def take_back(self) -> None:
        """Take the mark away: the next call that wants it sets it again."""
        self._words[KernelSlot.WANTED // 8] = 0

    def publish(self, address: int) -> None:
        _publish()(self.address, address)
        self.state = DeferredState.MADE


@lru_cache(maxsize=1)
def _publish() -> Callable[[int, int], None]:
    return native_runtime().function("dyn_slot_publish", None, ctypes.c_void_p, ctypes.c_void_p)


class DeferredKernels:
    """The deferred kernels of one piece of code, which programs share. Every method may be called from many threads.

    Those programs make them, and are not kept alive for it.
    """

    def __init__(self, deferred: Sequence[Deferred], made: Mapping[str, int] | None = None) -> None:
        self._slots = {one.name: _Slot(one) for one in deferred}
        self._makers: WeakSet[KernelMaker] = WeakSet()
        self._lock = lock()
        for name, address in (made or {}).items():
            self._slots[name].publish(address)
        if deferred:
            with _lock:
                _LIVE.add(self)
            _threads()

    @property
    def addresses(self) -> list[int]:
        """The addresses of the slots."""
        return [slot.address for slot in self._slots.values()]

    def states(self) -> dict[str, DeferredState]:
        """The state of each kernel, by name."""
        return {name: slot.state for name, slot in self._slots.items()}

    @property
    def made(self) -> tuple[str, ...]:
        """The names of those that are made."""
        return tuple([name for name, state in self.states().items() if state is DeferredState.MADE])

    def add_maker(self, maker: KernelMaker) -> None:
        """Have them made by a program, as long as it lives."""
        if self._slots:
            self._makers.add(maker)

    def make(self, names: Collection[str] | None = None) -> None:
        """Make kernels, or all, that are not made yet: at most MOST_MADE a launch. Raises what making raises."""
        if self._slots:
            self._make(list(self._slots) if names is None else names)

    def _make(self, names: Collection[str]) -> None:
        with self._lock:
            todo: list[str] = []
            for name in names:
                slot = self._slots[name]
                if slot.state is DeferredState.NOT_YET:
                    if self._may_make(slot, todo):
                        todo.append(name)
                    else:
                        slot.state = DeferredState.TOO_MANY
            maker = next(iter(self._makers), None)
            if not todo or maker is None:
                return
            try:
                for name, address in zip(todo, maker.make_deferred(todo), strict=True):
                    self._slots[name].publish(address)
            except BaseException:
                for name in todo:
                    self._slots[name].state = DeferredState.FAILED
                raise

    def _may_make(self, slot: _Slot, others: Collection[str]) -> bool:
        """Whether each launch of a kernel may have one more."""
        there = [one for name, one in self._slots.items() if one.state is DeferredState.MADE or name in others]
        counts = [sum(launch in one.deferred.launches for one in there) for launch in slot.deferred.launches]
        return max(counts, default=0) < MOST_MADE

    def make_wanted(self) -> bool:
        """Make one kernel that calls have wanted; gives whether there was one. A failure is logged, once a kernel."""
        name = next((name for name, slot in self._slots.items() if slot.is_wanted), None)
        if name is None:
            return False
        try:
            self._make([name])
        except BaseException as error:
            reason = f"{type(error).__name__}: {error}" if isinstance(error, CompileError) else repr(error)
            events.cache(
                "%s: %s; calls go on with a more general variant: %s", name, DeferredState.FAILED.value, reason
            )
        slot = self._slots[name]
        if slot.state is DeferredState.NOT_YET:  # nobody is left who could make it, and so nobody who calls it
            slot.take_back()
        return True

    def ask_again(self) -> None:
        """Take the marks away of what nobody makes any more, in a forked child: calls set them again."""
        for slot in self._slots.values():
            if slot.is_wanted:
                slot.take_back()


_lock = lock()
#: The deferred kernels of this process's programs.
_LIVE: WeakSet[DeferredKernels] = WeakSet()
_BEGIN = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Threads:
    """Threads that make what is wanted: one at a time."""

    def __init__(self) -> None:
        runtime = native_runtime()
        self._configure = runtime.function("dyn_variants_configure", None, ctypes.c_void_p)
        self._end = runtime.function("dyn_variants_end", ctypes.c_int32)
        self._idle = runtime.function("dyn_variants_idle", None)
        self._state = runtime.function("dyn_variants_state", ctypes.c_int32)
        self._closing = False
        self._begun = _BEGIN(self._begin)
        self._configure(self._begun)
        atexit.register(self._close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._after_fork)

    @property
    def at_work(self) -> bool:
        """Whether kernels are being made, or are about to be."""
        return self._state() != 0

    def _begin(self, _: int | None) -> None:
        """Start a thread of Python's; called by one of the system's, which ends then."""
        try:
            if self._closing or not fits(_THREAD_BYTES):
                raise RuntimeError
            # A daemon: nobody waits for the whole of its work. The end of the process waits for the kernel at hand.
            threading.Thread(target=self._work, name="dyn-variants", daemon=True).start()
        except BaseException:  # there is no thread: what is marked is made with what is wanted next
            self._idle()

    def _work(self) -> None:
        try:
            going = True
            while going and not self._closing:
                for one in _live():
                    while not self._closing and one.make_wanted():
                        pass
                going = bool(self._end())
        except BaseException as error:
            events.cache("deferred variants are not compiled: %r", error)
            self._idle()
        finally:
            if self._closing:
                self._idle()

    def _close(self) -> None:
        """Begin nothing more, and wait for what is being compiled: the process must not end under LLVM's feet."""
        self._closing = True
        self._configure(None)
        deadline = time.monotonic() + _END_WAITS
        while self.at_work and time.monotonic() < deadline:
            time.sleep(0.001)

    def _after_fork(self) -> None:
        self._idle()
        for one in _live():
            one.ask_again()


def _live() -> list[DeferredKernels]:
    with _lock:
        return list(_LIVE)


@lru_cache(maxsize=1)
def _made_threads() -> _Threads:
    return _Threads()


def _threads() -> _Threads:
    with _lock:
        return _made_threads()


def finish(seconds: float = 60.0) -> bool:
    """Wait until everything that calls have wanted is made, or some seconds; gives whether it is."""
    deadline = time.monotonic() + seconds
    while _threads().at_work and time.monotonic() < deadline:
        time.sleep(0.001)
    return not _threads().at_work


#: Those of a program that has none.
NOTHING_DEFERRED = DeferredKernels(())
