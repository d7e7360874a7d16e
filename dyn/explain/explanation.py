"""``explain()``: what a compilation found out and decided, as text and, in notebooks, as HTML with a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dyn.explain.report import Report
from dyn.explain.text import version_text
from dyn.explain.words import pluralized
from dyn.late_imports import import_whole


@dataclass(frozen=True)
class Explanation:
    """The explanation of every program of a function. ``str()`` and ``print`` give the text; Jupyter shows the HTML."""

    name: str
    versions: tuple[Report, ...]
    cache: Mapping[str, int]

    def __str__(self) -> str:
        head = f"{self.name}: {self.counts()}"
        if not self.versions:
            return f"{head}\n  not called yet: nothing is compiled"
        if len(self.versions) == 1:
            return f"{head}\n{version_text(self.versions[0])}"
        parts = [head]
        for number, report in enumerate(self.versions, 1):
            because = f", because {report.because}" if report.because else ""
            parts.append(f"program {number} of {len(self.versions)}{because}\n{version_text(report)}")
        return "\n".join(parts)

    __repr__ = __str__

    def counts(self) -> str:
        """``1 compile, 2 hits, 0 guards``"""
        return ", ".join(pluralized(count, what) for what, count in self.cache.items())

    def _repr_html_(self) -> str:
        """A self-contained piece of HTML: a picture of the kernels, tables, code. No scripts, nothing is loaded."""
        import_whole("dyn.explain.html")
        from dyn.explain.html import page  # a program that shows nothing does without

        return page(self.name, self.cache, self.versions)
