"""Events of a profile: calls, launches, the pieces of them that threads ran, and stages of compilations.

Times are nanoseconds of the system's monotonic clock, which is ``time.perf_counter_ns`` too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PieceEvent:
    """A part of a launch that one thread ran: GRID iterations ``begin`` to ``end``, the latter left out."""

    thread: int
    begin: int
    end: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel or a call that is launched, as ``explain()`` names it.

    ``title`` is the kernel's line there; ``group`` its kind of group (``"stitch"``); ``variant`` the words of the
    version that was chosen, and ``when`` the condition under which it is. ``lines`` are the user's lines.
    """

    title: str
    group: str
    variant: str
    when: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchEvent:
    """A kernel that was launched, or a library or an outside function that was called.

    Attributes:
        function: name of the compiled function.
        kernel: what was launched.
        call: number of the call that launched it.
        thread: system's number of the thread that called; of a launch on a GPU the track of its stream, when it ran.
        space: sizes of what the kernel iterates over.
        dims: value of each dim of the program, by name.
        grid: GRID iterations, which threads share; None of what is no kernel.
        nbytes: bytes of memory that the kernel has to read and write, None where there is no formula for it.
        pieces: parts that threads ran.
    """

    function: str
    kernel: KernelInfo
    call: int
    thread: int
    space: tuple[int, ...]
    dims: Mapping[str, int]
    grid: int | None
    nbytes: int | None
    start_ns: int
    end_ns: int
    pieces: tuple[PieceEvent, ...] = ()

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def threads(self) -> int:
        """Threads that took part."""
        return max(len({piece.thread for piece in self.pieces}), 1)

    @property
    def wait_ns(self) -> int:
        """Time from the end of the thread that ended first to the end of the one that ended last."""
        ends: dict[int, int] = {}
        for piece in self.pieces:
            ends[piece.thread] = max(ends.get(piece.thread, 0), piece.end_ns)
        return max(ends.values()) - min(ends.values()) if ends else 0

    @property
    def gbps(self) -> float | None:
        """Bytes a nanosecond, which are GB/s."""
        return None if self.nbytes is None or self.duration_ns <= 0 else self.nbytes / self.duration_ns


@dataclass(frozen=True, slots=True)
class CallEvent:
    """A call of a compiled function: its host program, from the checks of the sizes to the end of the last launch.

    ``failed`` says that it ended with an error. ``launched_ns`` is the time in its launches, and the rest is the host
    program's own: shape arithmetic, memory, choices.
    """

    function: str
    number: int
    thread: int
    dims: Mapping[str, int]
    failed: bool
    start_ns: int
    end_ns: int
    launched_ns: int

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns

    @property
    def host_ns(self) -> int:
        return self.duration_ns - self.launched_ns


@dataclass(frozen=True, slots=True)
class CompileStage:
    """A stage of the compilation of a function: ``"trace"``, ``"stitch"``, ``"compile"``, …"""

    function: str
    stage: str
    thread: int
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Events:
    """All that a profile has seen, by time. ``threads`` are names of threads; ``dropped`` counts what did not fit."""

    calls: tuple[CallEvent, ...] = ()
    launches: tuple[LaunchEvent, ...] = ()
    compiles: tuple[CompileStage, ...] = ()
    threads: Mapping[int, str] = field(default_factory=dict[int, str])
    dropped: int = 0
