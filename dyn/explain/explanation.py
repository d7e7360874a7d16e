"""``explain()``: what a compilation found out and decided, as text, as JSON, and as HTML with a picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dyn.explain.report import Report
from dyn.explain.text import version_text
from dyn.explain.words import pluralized
from dyn.frozen import record
from dyn.late_imports import import_whole


@record(eq=False)
class WayToCall:
    """The programs for calls of one kind: arguments of one tree, with their dtypes, ranks and static values.

    ``notes`` are what a front end says of it, and ``pieces`` the operations in the midst of it that another library
    runs, each as text.
    """

    programs: tuple[Report, ...]
    notes: tuple[str, ...] = ()
    pieces: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """The explanation of every program of a function. ``str()`` and ``print`` give the text; Jupyter shows the HTML.

    Attributes:
        name: the function's.
        ways: the ways to call it that there have been, each with its programs.
        cache: counts, by what is counted.
        notes: what a front end says of all of them.
        failures: why another library makes calls, a text each.
        parts: explanations of the functions that its calls are made of, where they are several.
    """

    name: str
    ways: tuple[WayToCall, ...]
    cache: Mapping[str, int]
    notes: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    parts: tuple[Explanation, ...] = ()

    @property
    def versions(self) -> tuple[Report, ...]:
        """The reports of all programs."""
        return tuple([report for way in self.ways for report in way.programs])

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.counts()}", *self.notes]
        count, number = len(self.versions), 0
        for way in self.ways:
            lines += [f"  {line}" for note in way.notes for line in note.splitlines()]
            for report in way.programs:
                number += 1
                because = f", because {report.because}" if report.because else ""
                lines += [f"program {number} of {count}{because}"] if count > 1 else []
                lines.append(version_text(report))
            lines += [f"  {line}" for piece in way.pieces for line in piece.splitlines()]
        if not (self.ways or self.failures or self.parts):
            lines.append("  not called yet: nothing is compiled")
        return "\n".join([*lines, *self.failures, *[f"\n{part}" for part in self.parts]])

    __repr__ = __str__

    def at(self, sizes: Mapping[str, int]) -> Explanation:
        """The explanation with figures of each kernel and each boundary at some sizes.

        Args:
            sizes: the size of each name, as in ``{"b": 8, "s": 128}``.

        Returns:
            An explanation. Of several programs those have figures that hold for the sizes.

        Raises:
            ArgumentError: for a name that no program has a size of, for what is no size, where a size is missing, and
                for sizes that no program holds for.
        """
        import_whole("dyn.explain.pricing")
        from dyn.explain.pricing import priced  # a program that prices nothing does without

        return priced(self, sizes)

    def counts(self) -> str:
        """``1 compile, 2 hits, 0 guards``"""
        return ", ".join(pluralized(count, what) for what, count in self.cache.items())

    def _repr_html_(self) -> str:
        """A self-contained piece of HTML: a picture of the kernels, tables, code. No scripts, nothing is loaded."""
        import_whole("dyn.explain.html")
        from dyn.explain.html import page  # a program that shows nothing does without

        return page(self)

    def as_dict(self) -> dict[str, Any]:
        """All of it as dicts, lists, strings and numbers.

        Returns:
            A dict. Programs are under ``"ways"``, each with its dims, facts, guards, kernels, memory and seconds; with
            sizes also its ``"figures"``, whose ``"kernels"`` are in the order of ``"groups"``.
        """
        return {
            "name": self.name,
            "counts": dict(self.cache),
            "notes": list(self.notes),
            "failures": list(self.failures),
            "ways": [
                {
                    "notes": list(way.notes),
                    "pieces": list(way.pieces),
                    "programs": [report.as_dict() for report in way.programs],
                }
                for way in self.ways
            ],
            "parts": [part.as_dict() for part in self.parts],
        }

    def to_json(self) -> str:
        """:meth:`as_dict` as JSON.

        Returns:
            A string.
        """
        return json.dumps(self.as_dict(), indent=2)
