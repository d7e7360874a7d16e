"""Events of a profile: calls, launches, the pieces of them that threads ran, and stages of compilations.

Times are nanoseconds of the system's monotonic clock, which is ``time.perf_counter_ns`` too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PieceEvent:
    """Part of a launch that one thread ran.

    Attributes:
        thread: system's number of the thread.
        begin: first GRID iteration.
        end: the iteration after the last.
        start_ns: when it began.
        end_ns: when it ended.
    """

    thread: int
    begin: int
    end: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """Kernel or call that is launched, as ``explain()`` names it.

    Attributes:
        title: kernel's line in ``explain()``.
        group: kind of group: ``"loop"``, ``"stitch"``, …
        variant: words of the variant that was chosen.
        when: condition on the sizes under which it is.
        lines: user's lines that it computes.
    """

    title: str
    group: str
    variant: str
    when: str
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchEvent:
    """Launch of a kernel, or call of a library or an outside function.

    Attributes:
        function: name of the compiled function.
        kernel: what was launched.
        call: number of the call that launched it.
        thread: system's number of the thread that called; of a launch on a GPU the track of its stream, when it ran.
        space: sizes of what the kernel iterates over.
        dims: value of each dim of the program, by name.
        grid: GRID iterations, which threads share; None of what is no kernel.
        nbytes: bytes of memory that the kernel has to read and write, None where there is no formula for it.
        start_ns: when it began.
        end_ns: when it ended.
        pieces: parts that threads ran.
        operations: operations by the name of the dtype that they compute in, as ``cost_analysis()`` counts them; None
            where there is no formula, and of further launches of a group, for which the first has them all.
        on_device: True where it ran on a GPU.
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
    operations: Mapping[str, int] | None = None
    on_device: bool = False

    @property
    def flops(self) -> int | None:
        """Operations in all dtypes."""
        return None if self.operations is None else sum(self.operations.values())

    @property
    def gflops(self) -> float | None:
        """Operations a nanosecond, which are GFLOP/s."""
        return None if self.flops is None or self.duration_ns <= 0 else self.flops / self.duration_ns

    @property
    def duration_ns(self) -> int:
        """Time from beginning to end."""
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
    """Call of a compiled function: its host program, from the checks of the sizes to the end of the last launch.

    Attributes:
        function: name of the compiled function.
        number: number of the call.
        thread: system's number of the thread that called.
        dims: value of each dim of the program, by name.
        failed: True where it ended with an error.
        start_ns: when it began.
        end_ns: when it ended.
        launched_ns: time in its launches.
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
        """Time from beginning to end."""
        return self.end_ns - self.start_ns

    @property
    def host_ns(self) -> int:
        """Time of the host program itself, in shape arithmetic, memory and choices."""
        return self.duration_ns - self.launched_ns


@dataclass(frozen=True, slots=True)
class CompileStage:
    """Stage of the compilation of a function.

    Attributes:
        function: name of the compiled function.
        stage: ``"trace"``, ``"stitch"``, ``"compile"``, …
        thread: system's number of the thread that compiled.
        start_ns: when it began.
        end_ns: when it ended.
    """

    function: str
    stage: str
    thread: int
    start_ns: int
    end_ns: int

    @property
    def duration_ns(self) -> int:
        """Time from beginning to end."""
        return self.end_ns - self.start_ns


@dataclass(frozen=True, slots=True)
class Events:
    """All that a profile has seen, by time.

    Attributes:
        calls: calls of compiled functions.
        launches: launches of kernels.
        compiles: stages of compilations.
        threads: names of threads, by the system's numbers.
        dropped: number of records that did not fit.
    """

    calls: tuple[CallEvent, ...] = ()
    launches: tuple[LaunchEvent, ...] = ()
    compiles: tuple[CompileStage, ...] = ()
    threads: Mapping[int, str] = field(default_factory=dict[int, str])
    dropped: int = 0
