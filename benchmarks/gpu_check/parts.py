"""The parts of a check, the most telling first, each with the seconds that it may take."""

from __future__ import annotations

from functools import cache

from benchmarks.gpu_check import calls, figures, front_ends, models, programs
from benchmarks.gpu_check.checks import Part


@cache
def parts() -> dict[str, Part]:
    """The parts by their names, in their order."""
    found = (
        Part("device", "The device", 40, calls.device_checks()),
        Part("programs", "Forty programs against the reference", 90, programs.checks()),
        Part("models", "Models against the reference", 80, models.checks()),
        Part("calls", "Donation, streams, threads", 50, calls.checks()),
        Part("front-ends", "Front ends of these versions", 40, front_ends.checks()),
        Part("copy", "Copies and launches", 20, figures.copy_checks(), is_correctness=False),
        Part("memory", "Memory-bound programs", 50, figures.memory_checks(), is_correctness=False),
        Part("contractions", "Contractions", 30, figures.contraction_checks(), is_correctness=False),
        Part("streams", "Streams of shapes", 120, figures.stream_checks(), is_correctness=False),
    )
    return {part.name: part for part in found}


def parse_names(words: list[str]) -> dict[str, tuple[str, ...]]:
    """Names of checks by part, of words such as ``programs`` and ``programs/softmax``; all parts of no words.

    Raises ValueError, with what there is.
    """
    known = parts()
    chosen: dict[str, list[str]] = {}
    for word in words or list(known):
        name, _, check = word.partition("/")
        if name not in known:
            raise ValueError(f"there is no part {name!r}; there are {', '.join(known)}.")
        own = [one.name for one in known[name].checks]
        if check and check not in own:
            raise ValueError(f"{name} has no check {check!r}; it has {'; '.join(own)}.")
        chosen.setdefault(name, []).extend([check] if check else own)
    return {name: tuple(dict.fromkeys(chosen[name])) for name in known if name in chosen}
