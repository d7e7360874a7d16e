"""Functions that kernels have in common, micro-kernels of contractions above all: compiled once, and called by each."""

from __future__ import annotations

from dyn.frozen import record


@record()
class Routine:
    """A function of a kernel's text. ``text`` is a translation unit that defines ``symbol`` for others.

    A kernel's text defines it for itself, by the lines ``definition``; with ``declaration`` in their place it calls the
    one of ``text``.
    """

    symbol: str
    text: str
    definition: str
    declaration: str
