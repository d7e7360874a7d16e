"""The lines of ``DYN_LOG=compile,guards``: a compilation as it begins and ends."""

from __future__ import annotations

from collections.abc import Sequence

from dyn import events
from dyn.compilation_record import CompilationRecord
from dyn.explain.words import pluralized
from dyn.shapes import Relation


def log_miss(name: str, because: str) -> None:
    """A call found no program: it is compiled now."""
    events.compiled("%s: compiling %s", name, f"because {because}" if because else "for its first call")


def log_compiled(name: str, record: CompilationRecord, guards: Sequence[Relation]) -> None:
    """A program is ready."""
    if events.wanted("compile"):
        total = sum(record.seconds.values())
        stages = ", ".join(f"{stage} {1000 * seconds:.1f}" for stage, seconds in record.seconds.items())
        kernels = pluralized(record.kernels_compiled, "distinct kernel")
        events.compiled("%s: compiled in %.1f ms, %s (ms: %s)", name, 1000 * total, kernels, stages)
    for guard in guards:
        events.guards("%s: guard %s recorded: %s", name, guard.describe(), guard.reason)
