"""Where a call computes: samples of the main thread's stack, each some milliseconds of the process's CPU time."""

from __future__ import annotations

import os
import signal
from collections import Counter
from types import FrameType

from dyn.backends import host_programs
from dyn.trace import function

_TRACE, _RUN = function.__file__, host_programs.__file__
_OWN = os.path.dirname(os.path.dirname(_TRACE)) + os.sep
_STANDARD = os.path.dirname(os.__file__) + os.sep
#: Seconds of CPU time from one sample to the next; systems give no less than their own tick.
_STEP = 0.001


class Samples:
    """Counts of samples by stage, taken inside of a ``with`` block; of several blocks they add up.

    Stages are ``PyTorch`` and ``dyn``, the two parts of capturing: a sample is dyn's where the innermost library on
    the stack is dyn, as of converters and questions about sizes that PyTorch asks; ``compile``; and ``run``.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGPROF, self._take)
        signal.setitimer(signal.ITIMER_PROF, _STEP, _STEP)

    def __exit__(self, *exc: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        # A last signal may be on its way, and by default it would end the process.
        signal.signal(signal.SIGPROF, signal.SIG_IGN if self._before == signal.SIG_DFL else self._before)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.counts[_stage(frame)] += 1

    def share(self, *stages: str) -> float:
        """The part of all samples that are of these stages."""
        return sum(self.counts[stage] for stage in stages) / max(sum(self.counts.values()), 1)


def _stage(frame: FrameType | None) -> str:
    library = ""
    while frame is not None:
        path, name = frame.f_code.co_filename, frame.f_code.co_name
        if path.startswith(_OWN):
            library = library or "dyn"
            if path == _TRACE and name == "trace_function":
                return library
            if path == _RUN and name == "__call__":
                return "run"
        elif not path.startswith((_STANDARD, "<")) or "site-packages" in path:
            library = library or "PyTorch"
        frame = frame.f_back
    return "compile"
