"""Figures of a program at some sizes: bytes, operations and estimated times, of each kernel and each boundary."""

from __future__ import annotations

from collections.abc import Mapping

from dyn.explain.words import amount, duration, pluralized
from dyn.frozen import record
from dyn.stitch.cost import Limit

#: Names of the levels of memory, from 1; the last one of a target's prices is the memory itself.
_LEVELS = ("first level", "second level", "third level")


@record()
class BoundaryFigures:
    """Savings if the two sides of a boundary were one kernel: bytes that would not be moved, and seconds."""

    nbytes: int
    seconds: float | None

    def text(self) -> str:
        """``joined it would save 1.2 MB, about 12 µs``"""
        about = "" if self.seconds is None else f", about {duration(self.seconds)}"
        return f"joined it would save {amount(self.nbytes, 'B')}{about}"


@record()
class KernelFigures:
    """A kernel at some sizes: what one run takes, how many runs a call has, and their share of the program's time.

    ``runs`` is None where the program does not say it, as of a loop that goes on while something holds; operations are
    None where they are those of a function outside, and times where operations are, or where the prices are those of
    another kind of machine. Of a loop or a choice all that its ``regions`` do is one run, which has no limit; nothing
    is known of it where their runs are not.
    """

    kernel: str
    nbytes: int | None
    flops: int | None
    transcendentals: int | None
    seconds: float | None
    limit: Limit | None
    #: The level of the memory in which its arrays lie, from 1 for the nearest; 0 for memory, the last.
    level: int
    runs: int | None
    share: float | None = None
    #: One for each of the kernel's ends.
    boundaries: tuple[BoundaryFigures | None, ...] = ()
    #: The kernels in the regions of a loop or a choice.
    regions: tuple[KernelFigures, ...] = ()

    def amounts(self) -> str:
        """``3.1 MB, 12 MFLOP, 131 k transcendental functions``"""
        if self.nbytes is None:
            return "how often its regions run is not known"
        return _amounts(self.nbytes, self.flops, self.transcendentals)

    def time(self) -> str:
        """``about 41 µs, bound by memory (the second level), 12 times, 34 % of the program``"""
        parts = [] if self.seconds is None else [f"about {duration(self.seconds)}"]
        parts += [] if self.limit is None else [f"bound by {self.limit_text()}"]
        if self.runs != 1 and self.nbytes is not None:
            parts.append("in each run" if self.runs is None else pluralized(self.runs, "time"))
        parts += [] if self.share is None else [f"{_percent(self.share)} of the program"]
        return ", ".join(parts)

    def limit_text(self) -> str:
        """``memory (the second level)``"""
        match self.limit:
            case Limit.MEMORY:
                return f"memory (the {_LEVELS[self.level - 1]})" if self.level else "memory"
            case Limit.LAUNCH:
                return "launch overhead"
            case _:
                return "arithmetic"

    def text(self, sizes: str) -> str:
        """``at b=8, s=128: 3.1 MB, 12 MFLOP; about 41 µs, bound by memory (the second level), 34 % of the program``"""
        if self.runs == 0:
            return f"{at(sizes)}: does not run"
        time = self.time()
        return f"{at(sizes)}: {self.amounts()}{f'; {time}' if time else ''}"


@record()
class ProgramFigures:
    """A program at some ``sizes``: what all kernels take together, and the figures of each of the report's groups.

    ``unknown`` has the names, with their meanings, of numbers that were not given. Kernels that run so often are left
    out of all sums.
    """

    sizes: Mapping[str, int]
    nbytes: int
    flops: int
    transcendentals: int
    seconds: float | None
    kernels: tuple[KernelFigures | None, ...]
    unknown: Mapping[str, str]

    @property
    def sizes_text(self) -> str:
        """``b=8, s=128``"""
        return ", ".join([f"{name}={size}" for name, size in self.sizes.items()])

    def text(self) -> str:
        """``all of them at b=8, s=128: 9.4 MB, 120 MFLOP; about 0.12 ms on one core``"""
        about = "" if self.seconds is None else f"; about {duration(self.seconds)} on one core"
        left_out = [f"{name} ({meaning})" for name, meaning in self.unknown.items()]
        without = f", without what depends on {', '.join(left_out)}" if left_out else ""
        amounts = _amounts(self.nbytes, self.flops, self.transcendentals)
        return f"all of them {at(self.sizes_text)}: {amounts}{about}{without}"


def at(sizes: str) -> str:
    """``at b=8, s=128``, and words for no sizes."""
    return f"at {sizes}" if sizes else "at all sizes"


def _amounts(nbytes: int, flops: int | None, transcendentals: int | None) -> str:
    parts = [amount(nbytes, "B")]
    if flops is None or transcendentals is None:
        return f"{parts[0]}, operations not known"
    parts += [amount(flops, "FLOP")] if flops or not transcendentals else []
    parts += [f"{amount(transcendentals)} transcendental functions"] if transcendentals else []
    return ", ".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 or not share else "under 1 %"
