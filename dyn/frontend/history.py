"""The latest compilations and fallbacks of the process, for ``dyn.report()``."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any

from dyn.frozen import record
from dyn.late_imports import import_whole
from dyn.source import Loc

#: So many events are remembered.
_MOST = 10_000


@record()
class CompileEvent:
    """A program that was compiled: why beside others, in how many seconds by stage, and by which line's call."""

    function: str
    because: str
    stages: tuple[tuple[str, float], ...]
    kernels: int
    loc: Loc
    #: Seconds since the epoch.
    at: float

    @property
    def seconds(self) -> float:
        """Seconds of all stages."""
        return sum([seconds for _, seconds in self.stages])


@record()
class FallbackEvent:
    """A call, or operations, that another library made: why, in words, and by which line's call."""

    function: str
    library: str
    text: str
    loc: Loc
    at: float


_events: deque[CompileEvent | FallbackEvent] = deque(maxlen=_MOST)


def note_compiled(
    function: str, because: str, stages: Sequence[tuple[str, float]], kernels: int, loc: Loc
) -> None:  # fmt: skip
    """Remember a program that was compiled."""
    _events.append(CompileEvent(function, because, tuple(stages), kernels, loc, time.time()))


def note_fallback(function: str, library: str, text: str, loc: Loc) -> None:
    """Remember what another library makes."""
    _events.append(FallbackEvent(function, library, text, loc, time.time()))


@record()
class ProcessReport:
    """Everything that the process compiled, and what fell back. Prints as text; Jupyter shows the HTML.

    Attributes:
        compiles: the programs that were compiled, in order.
        fallbacks: what other libraries made, in order.
    """

    compiles: tuple[CompileEvent, ...]
    fallbacks: tuple[FallbackEvent, ...]

    def counts(self) -> str:
        """``3 compiles of 2 functions in 0.41 s, 1 fallback``"""
        import_whole("dyn.explain.words")
        from dyn.explain.words import pluralized

        functions = len({event.function for event in self.compiles})
        seconds = sum([event.seconds for event in self.compiles])
        made = f"{pluralized(len(self.compiles), 'compile')} of {pluralized(functions, 'function')} in {seconds:.2f} s"
        return f"{made}, {pluralized(len(self.fallbacks), 'fallback')}"

    def __str__(self) -> str:
        import_whole("dyn.explain.words")
        from dyn.explain.words import pluralized

        lines = [self.counts()]
        for event in self.compiles:
            why = f"because {event.because}" if event.because else "for its first call"
            kernels = pluralized(event.kernels, "kernel")
            lines.append(f"{event.function}: {1000 * event.seconds:.0f} ms, {kernels}, {why}")
            lines += [f"  at {event.loc.describe()}"] if event.loc.line else []
        for event in self.fallbacks:
            first, *rest = event.text.splitlines()
            lines += [f"{event.function}, in {event.library}: {first}", *[f"  {line}" for line in rest]]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """A self-contained piece of HTML: two tables. No scripts, nothing is loaded."""
        from html import escape

        import_whole("dyn.explain.markup", "dyn.explain.style")
        from dyn.explain.markup import mono, table
        from dyn.explain.style import style

        compiled = [
            (
                mono(event.function), escape(event.because or "its first call"), f"{1000 * event.seconds:.0f} ms",
                str(event.kernels), mono(event.loc.describe()) if event.loc.line else "",
            )
            for event in self.compiles
        ]  # fmt: skip
        fallen = [
            (mono(event.function), escape(event.library), f"<pre>{escape(event.text)}</pre>")
            for event in self.fallbacks
        ]
        parts = [
            style(),
            f'<div class="dyn-explain"><div><span class="dyn-name">dyn.report()</span>{escape(self.counts())}</div>',
            table(("function", "compiled because of", "time", "kernels", "your line"), compiled),
            table(("function", "runs in", "why"), fallen) if fallen else "",
        ]
        return "".join([*parts, "</div>"])

    def as_dict(self) -> dict[str, Any]:
        """All of it as dicts, lists, strings and numbers.

        Returns:
            A dict with ``"compiles"`` and ``"fallbacks"``.
        """
        compiles = [
            {
                "function": event.function, "because": event.because, "stages": dict(event.stages),
                "kernels": event.kernels, "line": event.loc.describe() if event.loc.line else None, "at": event.at,
            }
            for event in self.compiles
        ]  # fmt: skip
        fallbacks = [
            {
                "function": event.function, "library": event.library, "text": event.text,
                "line": event.loc.describe() if event.loc.line else None, "at": event.at,
            }
            for event in self.fallbacks
        ]  # fmt: skip
        return {"compiles": compiles, "fallbacks": fallbacks}

    def to_json(self) -> str:
        """:meth:`as_dict` as JSON.

        Returns:
            A string.
        """
        import json

        return json.dumps(self.as_dict(), indent=2)


def report() -> ProcessReport:
    """Report on the process: every program that was compiled, why, how long it took, and what fell back and where.

    The latest 10,000 events are there, of functions that are gone too.

    Returns:
        A report: text when printed, HTML in Jupyter, and JSON by ``to_json()``.

    Example:
        >>> f = dyn.jit(lambda x: x + 1)
        >>> _ = f(np.zeros(3))
        >>> dyn.report().compiles[-1].function
        '<lambda>'
    """
    events = tuple(_events)
    compiles = tuple([event for event in events if isinstance(event, CompileEvent)])
    return ProcessReport(compiles, tuple([event for event in events if isinstance(event, FallbackEvent)]))
