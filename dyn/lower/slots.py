"""Choice of slots of the arena: which free one an array takes, or a new one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dyn.frozen import record
from dyn.shapes import Answer, Dim, Facts, Opaque, OpaqueKind, Symbol, dim_max, free_symbols
from dyn.shapes.questions import UNKNOWN
from dyn.shapes.walk import map_atoms

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


@record()
class GatedSize:
    """A size, where it has *gates*: factors that are 0 where a quicker variant is not the one that runs, and else 1.

    ``most`` is the size where all ``gates`` are 1, which it is at no more than. It ``closes`` where it is 0 as soon as
    one of them is. Sizes are compared by that: ``8 n >= 4 n`` is plain, and a proof about ``4 n * gate`` takes long.
    """

    most: Dim
    gates: frozenset[Opaque] = frozenset()
    closes: bool = False

    @staticmethod
    def of(size: Dim) -> GatedSize:
        if isinstance(size, int) or not size.height:
            return GatedSize(size)
        inside: dict[Opaque, GatedSize] = {}
        for atom in {atom for mono, _ in size.terms for atom, _ in mono.factors}:
            if isinstance(atom, Symbol) or atom.kind is not OpaqueKind.MAX:
                continue
            if atom.natural == (0, 1):
                inside[atom] = GatedSize(1, frozenset([atom]), closes=True)
            else:
                parts = [GatedSize.of(arg) for arg in atom.args]
                gates = frozenset[Opaque]().union(*[part.gates for part in parts])
                if gates:
                    inside[atom] = GatedSize(dim_max(*[part.most for part in parts]), gates)
        gates = frozenset[Opaque]().union(*[part.gates for part in inside.values()])
        closing = frozenset([atom for atom, part in inside.items() if part.closes])
        closes = size.constant == 0 and all(
            closing == gates and closing <= {atom for atom, _ in mono.factors} for mono, _ in size.terms
        )
        grows = all(c > 0 for mono, c in size.terms if any(atom in inside for atom, _ in mono.factors))
        if not gates or not (closes or grows):
            return GatedSize(size)
        opened = map_atoms(size, lambda atom: inside[atom].most if atom in inside else None)
        return GatedSize(opened, gates, closes)

    def holds(self, other: GatedSize, facts: Facts) -> Answer:
        """Whether this is room for another, whatever the gates are."""
        if self.gates and not (self.gates <= other.gates and other.closes):
            return UNKNOWN
        answer = facts.ge(self.most, other.most)
        return answer if answer.proved or not (self.gates or other.gates) else UNKNOWN


@dataclass(eq=False)
class Slots:
    """The slots of an arena: the bytes of each, and the segment that it is in; ``facts`` has what is known of dims."""

    sizes: list[Dim]
    segments: list[int]
    facts: Facts
    _gated: dict[Dim, GatedSize] = field(default_factory=dict[Dim, GatedSize])

    def choose(self, size: Dim, segment: int, free: list[int], life: Life | None = None) -> int:
        """A free slot for ``size`` bytes: the same size first, then a larger, then one that grows, else a new one.

        The size is known with ``segment``: a slot of one before it cannot grow to it. A larger slot is left to arrays
        of its size that are written before this one dies: else what is kept of each layer takes those that all work in.
        """
        sizes = self.sizes
        same = next((slot for slot in free if sizes[slot] == size), None)
        if same is not None:  # most are, and then nothing needs to be proved
            free.remove(same)
            return same
        best: tuple[int, int, Dim] | None = None
        for slot in free[:_MOST_CANDIDATES]:
            have = sizes[slot]
            if len(free_symbols(have) | free_symbols(size)) > _MOST_SYMBOLS:
                continue
            # What is asked of the facts takes most of the time: no more is than what may find a better slot.
            answer = self._is_room(have, size)
            if answer.proved:
                if life is not None and life.is_wanted(have):
                    continue
                best = (1, slot, have)
                break
            if segment > self.segments[slot] or (best is not None and best[0] == 2):
                continue
            if answer.refuted or self._is_room(size, have).proved:
                best = (2, slot, size)
            elif best is None:
                best = (3, slot, dim_max(have, size))
        if best is None:
            sizes.append(size)
            self.segments.append(segment)
            return len(sizes) - 1
        _, slot, grown = best
        free.remove(slot)
        sizes[slot] = grown
        return slot

    def _is_room(self, have: Dim, size: Dim) -> Answer:
        """Whether a slot of one size is room for another."""
        return self._of(have).holds(self._of(size), self.facts)

    def _of(self, size: Dim) -> GatedSize:
        found = self._gated.get(size)
        if found is None:
            found = self._gated[size] = GatedSize.of(size)
        return found
