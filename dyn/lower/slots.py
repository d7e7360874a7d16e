"""Choice of slots of the arena: which free one an array takes, or a new one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from dyn.frozen import record
from dyn.shapes import Dim, Facts, dim_max, free_symbols

#: Of so many free slots the best is looked for.
_MOST_CANDIDATES = 8
#: Sizes that depend on more dims are not compared: the maximum of the sizes of a hundred leaves is no size to compute.
_MOST_SYMBOLS = 4


@record()
class Life:
    """When an array is written and read last, and the ``times`` at which arrays of each size are written."""

    start: int
    end: int
    times: Mapping[Dim, Sequence[int]]

    def is_wanted(self, size: Dim) -> bool:
        """Whether an array of just this size is written in the meantime."""
        times = self.times.get(size, ())
        at = bisect_right(times, self.start)
        return at < len(times) and times[at] <= self.end


def chosen_slot(
    size: Dim, segment: int, slots: list[Dim], segments: list[int], free: list[int], facts: Facts, life: Life | None
) -> int:
    """A free slot for ``size`` bytes: the same size first, then a larger, then one that grows, else a new one.

    The size is known with ``segment``: a slot of one before it cannot grow to it. A larger slot is left to arrays of
    its size that are written before this one dies: else what is kept of each layer takes those that all work in.
    """
    same = next((slot for slot in free if slots[slot] == size), None)
    if same is not None:  # most are, and then nothing needs to be proved
        free.remove(same)
        return same
    best: tuple[int, int, Dim] | None = None
    for slot in free[:_MOST_CANDIDATES]:
        have = slots[slot]
        if len(free_symbols(have) | free_symbols(size)) > _MOST_SYMBOLS:
            continue
        # What is asked of the facts takes most of the time: no more is than what may find a better slot.
        if facts.ge(have, size).proved:
            if life is not None and life.is_wanted(have):
                continue
            best = (1, slot, have)
            break
        if segment > segments[slot] or (best is not None and best[0] == 2):
            continue
        if facts.ge(size, have).proved:
            best = (2, slot, size)
        elif best is None:
            best = (3, slot, dim_max(have, size))
    if best is None:
        slots.append(size)
        segments.append(segment)
        return len(slots) - 1
    _, slot, grown = best
    free.remove(slot)
    slots[slot] = grown
    return slot
