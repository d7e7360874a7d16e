"""The programs of ``python -m benchmarks stitched``, by name."""

from __future__ import annotations

from benchmarks.memory.program import Program
from benchmarks.stitched import embeddings, norms, optimizer, points, transformer


def programs() -> dict[str, Program]:
    """All programs, by family. Imports the libraries."""
    modules = (norms, transformer, optimizer, embeddings, points)
    return {program.name: program for module in modules for program in module.programs()}
