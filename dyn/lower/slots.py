"""Choice of slots of the arena: which free one an array takes, or a new one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dyn.frozen import record
from dyn.shapes import Answer, Atom, Dim, Facts, Opaque, OpaqueKind, dim_max, free_symbols
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
    """A size, and its *gates*: factors that are 0 where a quicker variant is not the one that runs, and else 1.

    The more of them are 1 the larger it is, and it ``closes`` where it is 0 as soon as one of them is. Sizes are
    compared with numbers for gates: ``8 n >= 4 n`` is plain, and a proof about ``4 n * gate`` takes long.
    """

    size: Dim
    gates: frozenset[Opaque] = frozenset()
    closes: bool = False

    @staticmethod
    def of(size: Dim) -> GatedSize:
        if isinstance(size, int) or not size.height:
            return GatedSize(size)
        atoms = [[atom for atom, _ in mono.factors] for mono, _ in size.terms]
        inside = [_gates_inside(of_term) for of_term in atoms]
        gates = frozenset[Opaque]().union(*inside)
        closes = size.constant == 0 and all(gates <= {*of_term} for of_term in atoms)
        grows = all(
            coefficient > 0 and not any(_may_be_negative(atom) for atom in of_term)
            for (_, coefficient), of_term, own in zip(size.terms, atoms, inside, strict=True)
            if own
        )
        return GatedSize(size, gates, closes) if gates and (closes or grows) else GatedSize(size)

    def where(self, opened: frozenset[Opaque]) -> Dim:
        """The size where these gates are 1, and others 0."""
        return _with_gates(self.size, opened) if self.gates else self.size

    def holds(self, other: GatedSize, facts: Facts) -> Answer:
        """Whether this is room for another, whatever the gates are."""
        if not (self.gates or other.gates):
            return facts.ge(self.size, other.size)
        least = self.where(other.gates if other.closes else frozenset())
        if least == 0:
            return UNKNOWN
        answer = facts.ge(least, other.where(other.gates))
        return answer if answer.proved else UNKNOWN


def _is_gate(atom: Atom) -> bool:
    return isinstance(atom, Opaque) and atom.kind is OpaqueKind.MAX and atom.natural == (0, 1)


def _may_be_negative(atom: Atom) -> bool:
    if not isinstance(atom, Opaque):
        return False
    least = atom.natural[0]
    return least is None or least < 0


def _gates_inside(atoms: Iterable[Atom]) -> frozenset[Opaque]:
    """The gates among atoms, and in the sizes that a maximum is of."""
    found = set[Opaque]()
    for atom in atoms:
        if isinstance(atom, Opaque) and atom.kind is OpaqueKind.MAX:
            found |= (
                {atom} if _is_gate(atom) else frozenset[Opaque]().union(*[GatedSize.of(a).gates for a in atom.args])
            )
    return frozenset(found)


def _with_gates(size: Dim, opened: frozenset[Opaque]) -> Dim:
    def replaced(atom: Atom) -> Dim | None:
        if not isinstance(atom, Opaque) or atom.kind is not OpaqueKind.MAX:
            return None
        if _is_gate(atom):
            return int(atom in opened)
        return dim_max(*[_with_gates(arg, opened) if GatedSize.of(arg).gates else arg for arg in atom.args])

    return size if isinstance(size, int) else map_atoms(size, replaced)


def _is_among(need: Dim, needs: Dim) -> bool:
    """Return True for one of the dims that another dim is the maximum of."""
    atom = None if isinstance(needs, int) else needs.is_atom
    return isinstance(atom, Opaque) and atom.kind is OpaqueKind.MAX and need in atom.args


@dataclass(eq=False)
class Slots:
    """The slots of an arena: the bytes of each, and the segment that it is in; ``facts`` has what is known of dims.

    ``round_up`` makes the size of a slot of what an array needs. Needs are compared, not what rounding makes of them.
    """

    sizes: list[Dim]
    segments: list[int]
    facts: Facts
    round_up: Callable[[Dim], Dim]
    #: What the arrays of each slot need.
    _needs: list[Dim] = field(init=False)
    _gated: dict[Dim, GatedSize] = field(init=False, default_factory=dict[Dim, GatedSize])

    def __post_init__(self) -> None:
        self._needs = list(self.sizes)

    def choose(self, need: Dim, segment: int, free: list[int], life: Life | None = None) -> int:
        """A free slot for ``need`` bytes: of the same size first, or one that such an array has had, then a larger,
        then one that grows, else a new one.

        The need is known with ``segment``: a slot of one before it cannot grow to it. A larger slot is left to arrays
        of its size that are written before this one dies: else what is kept of each layer takes those that all work in.
        """
        size = self.round_up(need)
        same = next((slot for slot in free if self.sizes[slot] == size), None)
        if same is None:
            same = next((slot for slot in free if _is_among(need, self._needs[slot])), None)
        if same is not None:  # most are, and then nothing needs to be proved
            free.remove(same)
            return same
        best: tuple[int, int] | None = None
        for slot in free[:_MOST_CANDIDATES]:
            have = self._needs[slot]
            if len(free_symbols(have) | free_symbols(need)) > _MOST_SYMBOLS:
                continue
            # What is asked of the facts takes most of the time: no more is than what may find a better slot.
            answer = self._is_room(have, need)
            if answer.proved:
                if life is not None and life.is_wanted(self.sizes[slot]):
                    continue
                best = (1, slot)
                break
            if segment > self.segments[slot] or (best is not None and best[0] == 2):
                continue
            if answer.refuted or self._is_room(need, have).proved:
                best = (2, slot)
            elif best is None:
                best = (3, slot)
        if best is None:
            self.sizes.append(size)
            self._needs.append(need)
            self.segments.append(segment)
            return len(self.sizes) - 1
        kind, slot = best
        free.remove(slot)
        if kind == 2:
            self.sizes[slot], self._needs[slot] = size, need
        elif kind == 3:
            self.sizes[slot] = dim_max(self.sizes[slot], size)
            self._needs[slot] = dim_max(self._needs[slot], need)
        return slot

    def _is_room(self, have: Dim, need: Dim) -> Answer:
        """Whether what one array needs is room for another."""
        return self._of(have).holds(self._of(need), self.facts)

    def _of(self, need: Dim) -> GatedSize:
        found = self._gated.get(need)
        if found is None:
            found = self._gated[need] = GatedSize.of(need)
        return found
