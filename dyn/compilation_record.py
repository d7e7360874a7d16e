"""Record of a compilation: for ``explain()``, ``as_text`` and the dump."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from dyn import events
from dyn.backends.base import Source
from dyn.backends.binaries import Origin


@dataclass(eq=False)
class CompilationRecord:
    """A compilation's times, texts and origins, filled stage by stage."""

    #: The name of the function.
    name: str = ""
    #: Why it is compiled beside others; ``""`` for the first call.
    because: str = ""
    #: Text after each stage, in order, where the setting ``dump`` asks for it.
    texts: dict[str, str] = field(default_factory=dict[str, str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    #: The number of distinct kernels.
    kernels_compiled: int = 0
    #: The rendered kernels, and then the host program; none where the program was found whole.
    sources: tuple[Source, ...] = ()
    #: Where the binary of each source came from.
    origins: tuple[Origin, ...] = ()

    def kernel_origins(self) -> tuple[Origin, ...]:
        """Origin of each distinct kernel's machine code: compiled, or found in a cache."""
        return self.origins[: self.kernels_compiled]

    def add(self, stage: str, seconds: float, end: float) -> None:
        """Note that a stage took some seconds, until ``end`` by ``time.perf_counter``."""
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        events.stage(self.name, stage, end - seconds, end)

    def timed(self, stage: str) -> _Timer:
        return _Timer(self, stage)


class _Timer:
    def __init__(self, record: CompilationRecord, stage: str) -> None:
        self.record, self.stage = record, stage

    def __enter__(self) -> None:
        self.start = time.perf_counter()
        events.begin(self.record.name, self.stage, self.start)

    def __exit__(self, *exc: object) -> None:
        end = time.perf_counter()
        self.record.add(self.stage, end - self.start, end)
