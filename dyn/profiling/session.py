"""``dyn.profile()``: records what compiled code does while a block runs."""

from __future__ import annotations

import os
import threading

from dyn import events as log
from dyn.backends import recording
from dyn.errors import DynError
from dyn.late_imports import import_whole
from dyn.profiling.averages import Averages, average
from dyn.profiling.chrome import export
from dyn.profiling.events import CompileStage, Events
from dyn.profiling.reading import read

#: The bytes that the records of a profile may take.
_LIMIT = 1 << 30


class Profile:
    """Record of the calls, launches and compilations of a block; see :func:`dyn.profile`.

    ``print`` gives a table, and Jupyter shows one. A profile can be used once.

    Args:
        memory_limit: bytes that records may take; what comes after is counted, and dropped.
        limits: whether tables tell the share of the machine's limit, which is measured for the first of them.
    """

    def __init__(self, memory_limit: int = _LIMIT, limits: bool = True) -> None:
        self._limit, self._with_limits = memory_limit, limits
        self._recording: recording.Recording | None = None
        self._running = False
        self._compiles: list[CompileStage] = []
        self._threads: dict[int, str] = {}
        self._read: Events | None = None

    def start(self) -> None:
        """Begin to record; what ``with`` does at its beginning.

        Raises:
            DynError: if it was started before.
        """
        if self._recording is not None:
            raise DynError("this profile was started already.", remedy="make another with dyn.profile().")
        log.listen(self._note)
        self._running = True
        try:
            self._recording = recording.start(self._limit)
        except BaseException:
            self._running = False
            log.unlisten(self._note)
            raise

    def stop(self) -> None:
        """End recording; what ``with`` does at its end. Nothing if it is not running.

        A call of another thread that has not returned by then is left out, but for the launches that have.
        """
        if not self._running or self._recording is None:
            return
        self._running = False
        recording.stop(self._recording)
        log.unlisten(self._note)
        streams = self._recording.names
        threads = {*self._recording.words, *[stage.thread for stage in self._compiles]}
        self._threads = _names(threads - {*streams}) | streams

    def __enter__(self) -> Profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def _note(self, name: str, stage: str, start: float, end: float) -> None:
        if name:  # what is lowered to be looked at has none
            thread = threading.get_native_id()
            self._compiles.append(CompileStage(name, stage, thread, round(start * 1e9), round(end * 1e9)))

    def events(self) -> Events:
        """Every call, launch and stage of a compilation, in order of time.

        Names and formulas are made now: a program whose code was found on disk is lowered for it.

        Returns:
            The events, with the names of threads and the number of records that did not fit.

        Raises:
            DynError: while the profile is running, or before it has.
        """
        if self._running or self._recording is None:
            raise DynError(
                f"the profile {'is still running' if self._running else 'was not started'}.",
                remedy="look at it after its with block.",
            )
        if self._read is None:
            self._read = read(self._recording, self._compiles, self._threads)
            self._recording = recording.Recording()  # the words are not needed any more, nor the programs
        return self._read

    def key_averages(self, group_by_input_shape: bool = False) -> Averages:
        """Averages over the launches of each kernel and variant, PyTorch's name for them.

        Args:
            group_by_input_shape: whether launches of different sizes are rows of their own.

        Returns:
            A sequence of :class:`~dyn.profiling.averages.Average`, the longest first; ``.table(sort_by=, row_limit=)``
            is its text.
        """
        return average(self.events(), group_by_input_shape=group_by_input_shape, limits=self._with_limits)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

        Args:
            path: file to write; one whose name ends in ``.gz`` is compressed.

        Raises:
            DynError: while the profile is running, or before it has.
        """
        export(self.events(), path)

    def __str__(self) -> str:
        if self._running or self._recording is None:
            return f"<a profile that {'is running' if self._running else 'was not started'}>"
        return str(self.key_averages())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The table as HTML that loads nothing."""
        import_whole("dyn.profiling.html")
        from dyn.profiling.html import page

        return page(self.key_averages(group_by_input_shape=True), self.events())


def profile(*, memory_limit: int = _LIMIT, limits: bool = True) -> Profile:
    """Record what compiled code does while a block runs, in all threads of the process.

    ::

        with dyn.profile() as prof:
            f(x)
        print(prof)                              # a table of kernels
        prof.export_chrome_trace("trace.json")   # for ui.perfetto.dev

    For each launch of a kernel it has the kernel's name as in ``explain()``, the variant that was chosen, the sizes,
    the threads that took part and when each began and ended, the bytes moved, the operations; for each call the time
    of the host program beside its launches; for each compilation its stages. Functions compiled before the block are
    recorded too, and calls from PyTorch, JAX and other threads. While it is on, a call takes some 0.1 µs more, and a
    launch as much for each of its pieces; while it is off, one comparison a call. Profiles may overlap.

    Args:
        memory_limit: bytes that records may take; what comes after is counted, and dropped. A launch takes some 200.
        limits: whether tables tell which share of the machine's limit each kernel reaches. The first table of a process
            measures that, which takes a second at most; the block itself is not slower for it.

    Returns:
        A context manager whose value is itself: ``print`` it, ``key_averages()``, ``events()``,
        ``export_chrome_trace(path)``.
    """
    return Profile(memory_limit, limits)


def _names(threads: set[int]) -> dict[int, str]:
    """The names of threads, as far as they are known: Python's, or the system's."""
    own = {thread.native_id: thread.name for thread in threading.enumerate()}
    return {thread: own.get(thread) or _system_name(thread) for thread in sorted(threads)}


def _system_name(thread: int) -> str:
    try:
        with open(f"/proc/self/task/{thread}/comm", encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return f"thread {thread}"
