"""Places of a call's stored values: inputs, outputs, constants, slots of an arena, and variables of loops.

The arena has a segment that is there when the first launch runs, and one for each dim that the call measures, there as
soon as the dim is known: its slots' sizes may depend on it.

A slot of the arena is used again once the last reader of its value has run. What a loop carries lies in two slots that
take turns, or in one where a step may write the next value over the last; which of them is meant is a *variable* of the
host program: a pointer that it changes from step to step. A row of a scanned array is one too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from dyn.errors import IRError
from dyn.frozen import record
from dyn.ir.builder import buffer_of
from dyn.ir.core import Dense, Value
from dyn.ir.opdef import Control
from dyn.ir.region_passes import carries, is_loop, unchanged
from dyn.lower.slots import Life, Slots
from dyn.schedule.donate import stored_results
from dyn.schedule.launch import Body, Launch, aliases, may_lack_value
from dyn.shapes import Dim, Facts, Symbol, SymExpr, floordiv, free_symbols
from dyn.stitch.groups import Plan

#: Every buffer starts at a multiple of this many bytes: a cache line, and the widest vector.
ALIGNMENT = 64


@dataclass(eq=False)
class ArenaScope:
    """Memory that a conditional region has alone: its sizes mean something where it may run.

    ``sizes`` are the bytes of its arrays, where they depend on the call, and ``slots`` the parts of the arena that are
    empty where it may not run.
    """

    sizes: tuple[Dim, ...] = ()
    slots: list[int] = field(default_factory=list[int])
    free: list[int] = field(default_factory=list[int])


@record()
class StoragePlace:
    """Place of a stored value: ``input``, ``output`` or ``constant`` number, an ``arena`` slot, or at a ``variable``
    pointer."""

    kind: str
    number: int


@record()
class Carried:
    """A value that a loop changes: the variable that points to it, which starts at ``home``.

    Where the next value has a variable of its own, that one starts at ``spare``, and the two are swapped after a step.
    """

    current: int
    home: StoragePlace
    following: int | None = None
    spare: StoragePlace | None = None


@record()
class RowPointer:
    """A variable that goes along the rows of an array, ``step`` bytes at a time."""

    variable: int
    array: StoragePlace
    step: Dim


@record(eq=False)
class LoopPlaces:
    """The variables of a loop; where its condition's answer lies, if it has one, or how many steps it takes."""

    carried: tuple[Carried, ...]
    rows: tuple[RowPointer, ...] = ()
    condition: StoragePlace | None = None
    length: Dim = 0
    reverse: bool = False

    def text(self) -> str:
        """The loop as people read it."""
        what = f"while arena {self.condition.number}" if self.condition is not None else f"{self.length} times"
        turns = [
            f"variable {c.current} from {c.home.kind} {c.home.number}"
            + ("" if c.spare is None else f", in turns with variable {c.following} from arena {c.spare.number}")
            for c in self.carried
        ]
        along = [f"variable {r.variable} along {r.array.kind} {r.array.number} by {r.step} bytes" for r in self.rows]
        return "; ".join([what + (", backward" if self.reverse else ""), *turns, *along])


@dataclass(eq=False)
class MemoryLayout:
    """The whole layout. ``sizes`` are the bytes of every array, where they depend on the call.

    Slot ``i`` is in segment ``segments[i]``: 0, or the number of the dim, from 1, in the order of the launches.
    """

    places: dict[Value, StoragePlace]
    slots: list[Dim] = field(default_factory=list[Dim])
    segments: list[int] = field(default_factory=list[int])
    loops: dict[Launch, LoopPlaces] = field(default_factory=dict[Launch, LoopPlaces])
    variables: int = 0
    #: The regions that demand something of the dims, and the values that are theirs alone.
    scopes: dict[Body, ArenaScope] = field(default_factory=dict[Body, ArenaScope])
    scoped: set[Value] = field(default_factory=set[Value])
    #: The constants that lie in buffers, each once, by what they are known by.
    constants: dict[str, Dense] = field(default_factory=dict[str, Dense])

    @property
    def sizes(self) -> tuple[Dim, ...]:
        return _sizes([v for v in self.places if v not in self.scoped])


def _sizes(values: Sequence[Value]) -> tuple[Dim, ...]:
    # An array of no elements may have axes whose other sizes multiply to more than fits; products count each.
    sizes = [v.type.nbytes for v in values]
    return tuple(dict.fromkeys([size for size in sizes if isinstance(size, SymExpr)]))


def lay_out(plan: Plan, launches: tuple[Launch, ...]) -> MemoryLayout:
    """Give each stored value of a plan, and of its loops and choices, a place."""
    function = plan.function
    places = {value: StoragePlace("input", i) for i, value in enumerate(function.params)}
    places |= {value: StoragePlace("output", number) for number, value in enumerate(stored_results(plan))}
    layout = MemoryLayout(places)
    numbers: dict[str, int] = {}
    for value, dense in _buffers(plan):
        name = dense.content.hex()
        layout.constants.setdefault(name, dense)
        places[value] = StoragePlace("constant", numbers.setdefault(name, len(numbers)))
    _Layouter(layout, function.facts).block(launches)
    return layout


def _buffers(plan: Plan) -> Iterator[tuple[Value, Dense]]:
    """The large constants of a plan, and of its loops and choices."""
    for op in plan.function.ops:
        dense = buffer_of(op)
        if dense is not None:
            yield op.result, dense
    for group in plan.groups:
        for body in group.bodies:
            yield from _buffers(body)


def aligned(size: Dim) -> Dim:
    """A size in bytes rounded up to ALIGNMENT."""
    if isinstance(size, int):
        return (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    return floordiv(size + (ALIGNMENT - 1), ALIGNMENT) * ALIGNMENT


class _Layouter:
    def __init__(self, layout: MemoryLayout, facts: Facts) -> None:
        self.layout, self.facts = layout, facts
        self.slots = Slots(layout.slots, layout.segments, facts, self.aligned)
        self.places = layout.places
        self.free: list[int] = []
        #: The slots that are free once nothing reads a value any more.
        self.owned: dict[Value, list[int]] = {}
        #: The segments that begin with the dims that are measured, and how many there are so far.
        self.data_dependent: dict[Symbol, int] = {}
        self.count = 0
        #: The innermost conditional region around.
        self.scope: ArenaScope | None = None
        #: Sizes in bytes rounded up: layers have most of theirs in common.
        self._aligned: dict[Dim, Dim] = {}

    def aligned(self, nbytes: Dim) -> Dim:
        found = self._aligned.get(nbytes)
        if found is None:
            found = self._aligned[nbytes] = aligned(nbytes)
        return found

    def region(self, body: Body, around: Mapping[Value, Value] = MappingProxyType({})) -> None:
        """The launches of a region; ``around`` has the values outside that some of its own are."""
        known, outer = len(self.places), self.scope
        self.places |= {own: self.places[value] for own, value in around.items()}
        if not body.conditional:
            self.block(body.launches)
            return
        self.scope = self.layout.scopes[body] = ArenaScope()
        self.block(body.launches)
        own = [v for v in itertools.islice(self.places, known, None) if v not in self.layout.scoped]
        self.scope.sizes = _sizes(own)
        self.layout.scoped.update(own)
        self.scope = outer

    def block(self, launches: Sequence[Launch]) -> None:
        """Launches one after the other: of a call, or of a region, whose results have their places."""
        same, before, outer = aliases(launches), self.count, set(self.owned)
        last: dict[Value, int] = {}
        for time, launch in enumerate(launches):
            for value in launch.buffers:
                last[same.get(value, value)] = time
        #: When arrays of a size are written.
        times: dict[Dim, list[int]] = {}
        for time, launch in enumerate(launches):
            for value in () if launch.bodies else (*launch.group.outputs, *launch.temporaries):
                times.setdefault(self.aligned(value.type.nbytes), []).append(time)
        for time, launch in enumerate(launches):
            if launch.bodies:
                self.control(launch)
            elif launch.measures is not None:
                self.count += 1
                self.data_dependent[launch.measures] = self.count
                self.places[launch.buffers[1]] = self.places[launch.buffers[0]]
            else:
                for value in (*launch.group.outputs, *launch.temporaries):
                    self.allocate(value, Life(time, last[value], times))
            for value in launch.buffers:
                value = same.get(value, value)
                if last[value] == time and value not in outer:
                    self.release(self.owned.pop(value, ()))
        # The segments of a region are not there behind it.
        for free in (self.free, *([] if self.scope is None else [self.scope.free])):
            free[:] = [slot for slot in free if self.layout.segments[slot] <= before]

    def allocate(self, value: Value, life: Life | None = None) -> None:
        if value not in self.places:
            slot = self.slot(value.type.nbytes, life)
            self.places[value] = StoragePlace("arena", slot)
            self.owned[value] = [slot]

    def slot(self, nbytes: Dim, life: Life | None = None) -> int:
        segment = max([self.data_dependent[s] for s in free_symbols(nbytes) if s.data_dependent], default=0)
        if self.scope is None or self.is_sound(nbytes):
            return self.slots.choose(nbytes, segment, self.free, life)
        slot = self.slots.choose(nbytes, segment, self.scope.free, life)
        if slot not in self.scope.slots:
            self.scope.slots.append(slot)
        return slot

    def release(self, slots: Iterable[int]) -> None:
        for slot in slots:
            scoped = self.scope is not None and slot in self.scope.slots
            (self.scope.free if self.scope is not None and scoped else self.free).append(slot)

    def is_sound(self, size: Dim) -> bool:
        """Whether a size in a region means something even where the region may not run."""
        return isinstance(size, int) or not (may_lack_value([size]) or not self.facts.ge(size, 0).proved)

    def variable(self) -> int:
        self.layout.variables += 1
        return self.layout.variables - 1

    # Loops and choices ------------------------------------------------------------------------------------------

    def control(self, launch: Launch) -> None:
        if launch.is_choice:
            self.alternatives(launch)
            return
        (op,) = launch.group.ops
        count = len(op.operands)
        operands, results = launch.buffers[:count], launch.buffers[count:]
        #: Slots for what nobody reads: free after it.
        aside: list[int] = []
        if is_loop(op):
            self.loop(launch, operands, results, aside)
        else:
            for result in results:
                self.result(result, launch, result.type.nbytes, aside)
            for body in launch.bodies:
                # Their sizes are the region's own: in its dims they may have a value in it alone.
                own = zip((*body.params, *body.results), (*operands[1:], *results), strict=True)
                self.region(body, dict(own))
        self.release(aside)

    def alternatives(self, launch: Launch) -> None:
        """What is read and made has its place for all of them; the rest of each is its own.

        The general one comes first: the others need no more.
        """
        for value in launch.group.outputs:
            self.allocate(value)
        for body in reversed(launch.bodies):
            own = zip((*body.params, *body.results), launch.buffers, strict=True)
            self.region(body, {value: around for value, around in own if value is not around})

    def result(self, result: Value, launch: Launch, nbytes: Dim, aside: list[int]) -> None:
        """Room for a result; for one that nobody reads as little as ``nbytes``."""
        if result in self.places:
            return
        if result in launch.group.outputs:
            self.allocate(result)
        else:
            aside.append(self.slot(nbytes))
            self.places[result] = StoragePlace("arena", aside[-1])

    def loop(self, launch: Launch, operands: Sequence[Value], results: Sequence[Value], aside: list[int]) -> None:
        (op,) = launch.group.ops
        count = carries(op)
        carried: list[Carried] = []
        for i, keep in enumerate(unchanged(op)):
            if not keep:
                carried.append(self.carried(i, launch, operands[i], results[i]))
            else:
                self.places[results[i]] = self.places[operands[i]]
                self.places |= {b.params[i]: self.places[operands[i]] for b in launch.bodies}
        rows: list[RowPointer] = []
        condition: StoragePlace | None = None
        if op.opdef.loops is Control.SCAN:
            rows = self.rows(launch, operands[count:], results[count:], aside)
        else:
            (answer,) = launch.bodies[0].results
            aside.append(self.slot(answer.type.nbytes))
            condition = self.places[answer] = StoragePlace("arena", aside[-1])
        for inner in launch.bodies:
            self.region(inner)
        self.layout.loops[launch] = LoopPlaces(
            tuple(carried), tuple(rows), condition, op.attrs.get("length", 0), op.attrs.get("reverse", False)
        )

    def carried(self, i: int, launch: Launch, start: Value, result: Value) -> Carried:
        """The variables of the carried value ``i``, whose memory is from now on the result's."""
        body = launch.bodies[-1]
        home = self.places[start]
        if home.kind != "arena":
            raise IRError(f"{start!r}, which a loop changes, is not its own")
        current = self.variable()
        here = StoragePlace("variable", current)
        self.places |= {b.params[i]: here for b in launch.bodies}
        self.places[result] = here
        self.owned[result] = self.owned.pop(start, [])
        if i in body.in_place:
            self.places[body.results[i]] = here
            return Carried(current, home)
        following = self.variable()
        self.places[body.results[i]] = StoragePlace("variable", following)
        slot = self.slot(result.type.nbytes)
        self.owned[result].append(slot)
        return Carried(current, home, following, StoragePlace("arena", slot))

    def rows(
        self, launch: Launch, arrays: Sequence[Value], results: Sequence[Value], aside: list[int]
    ) -> list[RowPointer]:
        """Variables for the rows that a step reads, and for those that it makes."""
        body = launch.bodies[-1]
        rows: list[RowPointer] = []
        inside = [*body.params[len(body.params) - len(arrays) :], *body.results[len(body.results) - len(results) :]]
        for array in results:
            self.result(array, launch, array.type.nbytes, aside)
        (op,), count = launch.group.ops, carries(launch.group.ops[0])
        # The op's own values: what lies in memory may be what they are views of. And not the row's type, which may be
        # another one by facts that hold in the body alone.
        types = [v.type for v in (*op.operands[count:], *op.results[count:])]
        for array, row, type in zip((*arrays, *results), inside, types, strict=True):
            variable = self.variable()
            self.places[row] = StoragePlace("variable", variable)
            rows.append(RowPointer(variable, self.places[array], type.with_shape(type.shape[1:]).nbytes))
        return rows
