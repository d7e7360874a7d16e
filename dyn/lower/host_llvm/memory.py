"""Memory of a host program: the arena's segments, outputs, and where values lie."""

from __future__ import annotations

from collections.abc import Collection

from dyn.lower.abi import ALLOC, ALLOC_OUTPUT, FREE
from dyn.lower.host import Fault, HostProgram, MemorySpace
from dyn.lower.host_llvm.red_zones import RedZones
from dyn.lower.host_llvm.region_sizes import Regions
from dyn.lower.host_llvm.sizes import SizeEmitter
from dyn.lower.host_llvm.text import TENSOR, HostText
from dyn.lower.layout import ALIGNMENT, StoragePlace
from dyn.shapes import free_symbols

#: So many bytes of a segment lie on the stack: asking for memory, and giving it back, takes as long as a small kernel.
_ON_STACK = 2048


class Memory:
    """Allocates into the scope in force.

    ``taken`` has for each output that may lie in an input's memory an i1 that says whether it does. ``constants`` is
    where constants begin in ``ctx``.
    """

    def __init__(self, program: HostProgram, text: HostText, regions: Regions, zones: RedZones, constants: int) -> None:
        self.program, self.text, self.regions, self.zones = program, text, regions, zones
        self.first_constant = constants
        self.sizes: SizeEmitter = regions.sizes
        self.taken: dict[int, str] = {}
        #: The failure of a launch: for want of scratch, or whatever a device's driver says.
        self.failed = Fault.NO_MEMORY if program.space is MemorySpace.HOST else Fault.DEVICE

    def segments(self) -> list[int]:
        """The segments that have slots."""
        return sorted(set(self.program.segments))

    def allocate(self, segment: int) -> None:
        """A segment of the arena, and the outputs whose shapes are known by now."""
        self._arena(segment)
        inputs = {reuse.output: reuse.input for reuse in self.program.reuses}
        scope = self.sizes.scope
        for number, result in enumerate(self.program.function.results):
            place = StoragePlace("output", number)
            if place in scope.pointers or not all(scope.bound.issuperset(free_symbols(d)) for d in result.shape):
                continue
            allocate = self._describe(number)
            if number in inputs:
                data = self._take(number, inputs[number], allocate)
            else:
                data = self.text.value(allocate)
                self.text.fault(Fault.NO_MEMORY, self.text.value(f"icmp eq ptr {data}, null"))
            scope.pointers[place] = data
        if any(launch.bodies for launch in self.program.launches):
            # What one branch finds out another one would not know: here all of it is known to all.
            spare = [c.spare for loop in self.program.loops.values() for c in loop.carried if c.spare is not None]
            for place in dict.fromkeys((*self.program.places.values(), *spare)):
                there = place.kind == "arena" and place.number in scope.slot_offsets
                if there or place.kind in ("input", "constant"):
                    self.pointer(place)

    def _describe(self, number: int) -> str:
        """Write an output's dims into its tensor; gives the call that allocates it."""
        result = self.program.function.results[number]
        tensor = self.text.value(f"getelementptr {TENSOR}, ptr %out, i64 {number}")
        field = self.text.value(f"getelementptr {TENSOR}, ptr {tensor}, i32 0, i32 3")
        dims = self.text.value(f"load ptr, ptr {field}, align 8") if result.shape else "null"
        for axis, dim in enumerate(result.shape):
            at = self.text.value(f"getelementptr i64, ptr {dims}, i64 {axis}")
            self.text.emit(f"store i64 {self.sizes.dim(dim)}, ptr {at}, align 8")
        return f"call ptr {self.text.runtime(ALLOC_OUTPUT)}(ptr %rt, i32 {number}, ptr {tensor})"

    def _arena(self, segment: int) -> None:
        offset, scope = str(self.zones.bytes), self.sizes.scope
        ends: dict[int, str] = {}
        slots = [n for n, of in enumerate(self.program.segments) if of == segment]
        scoped = {slot: body for body, own in self.program.scopes.items() for slot in own.slots}
        for number in slots:
            scope.slot_offsets[number] = offset
            if number in scoped:
                size = self.regions.slot_bytes(scoped[number], self.program.slots[number])
            else:
                size = self.sizes.dim(self.program.slots[number])
            ends[number] = offset = self.sizes.checked("sadd", offset, size)
            if self.zones.bytes:
                offset = self.sizes.checked("sadd", offset, str(self.zones.bytes))
        self.sizes.refuse_nonsense()
        if slots:
            arena = self._block(segment, offset)
            scope.arenas[segment] = arena, offset
            self.zones.arena(segment, arena, offset, ends)

    def _block(self, segment: int, size: str) -> str:
        """Allocate a segment of ``size`` bytes: on the stack if they are few, else by the runtime's allocator.

        A profile's table sees every segment.
        """
        text = self.text
        ask = f"call ptr {text.runtime(ALLOC)}(ptr %rt, i64 {size})"
        if not self._may_be_on_stack:
            block = text.value(ask)
            text.fault(Fault.NO_MEMORY, text.value(f"icmp eq ptr {block}, null"))
            text.emit(f"store ptr {block}, ptr %arena{segment}, align 8")
            return block
        before, many, asked, placed = (text.fresh(name) for name in ("before", "many", "asked", "placed"))
        few = text.value(f"icmp ule i64 {size}, {_ON_STACK}")
        few = text.value(f"and i1 {few}, {text.value('icmp eq ptr %rt, %table')}")
        text.emit(f"br label %{before}")
        text.label(before)
        text.emit(f"br i1 {few}, label %{placed}, label %{many}")
        text.label(many)
        block = text.value(ask)
        text.fault(Fault.NO_MEMORY, text.value(f"icmp eq ptr {block}, null"))
        text.emit(f"store ptr {block}, ptr %arena{segment}, align 8")
        text.emit(f"br label %{asked}")
        text.label(asked)
        text.emit(f"br label %{placed}")
        text.label(placed)
        return text.value(f"phi ptr [ %few{segment}, %{before} ], [ {block}, %{asked} ]")

    def stack(self) -> list[str]:
        """Stack for segments of few bytes."""
        segments = self.segments() if self._may_be_on_stack else []
        return [f"  %few{segment} = alloca [{_ON_STACK} x i8], align {ALIGNMENT}" for segment in segments]

    @property
    def _may_be_on_stack(self) -> bool:
        return self.program.space is MemorySpace.HOST and not self.zones.bytes

    def _take(self, output: int, input: int, allocate: str) -> str:
        """The memory of an output: the input's where the caller says so, else what ``allocate`` gives."""
        text = self.text
        given = self.pointer(StoragePlace("input", input))
        field = text.value(f"getelementptr {TENSOR}, ptr %in, i64 {input}, i32 1")
        flag = text.value(f"load i32, ptr {field}, align 8")
        taken = text.value(f"icmp ne i32 {flag}, 0")
        risky = self.regions.risky()
        if risky is not None:  # where a region would fail if it ran, nothing of the caller's is written
            taken = text.value(f"select i1 {risky}, i1 false, i1 {taken}")
        self.taken[output] = taken
        before, own, allocated, placed = (text.fresh(name) for name in ("given", "own", "allocated", "placed"))
        text.emit(f"br label %{before}")
        text.label(before)
        text.emit(f"br i1 {taken}, label %{placed}, label %{own}")
        text.label(own)
        data = text.value(allocate)
        text.fault(Fault.NO_MEMORY, text.value(f"icmp eq ptr {data}, null"))
        text.emit(f"br label %{allocated}")
        text.label(allocated)
        text.emit(f"br label %{placed}")
        text.label(placed)
        return text.value(f"phi ptr [ {given}, %{before} ], [ {data}, %{allocated} ]")

    def pointer(self, place: StoragePlace) -> str:
        """The address of a value's memory."""
        if place.kind == "variable":
            return self.text.value(f"load ptr, ptr %variable{place.number}, align 8")
        scope = self.sizes.scope
        found = scope.pointers.get(place)
        if found is None:
            if place.kind == "input":
                field = self.text.value(f"getelementptr {TENSOR}, ptr %in, i64 {place.number}, i32 0")
                found = self.text.value(f"load ptr, ptr {field}, align 8")
            elif place.kind == "constant":
                at = self.text.value(f"getelementptr ptr, ptr %ctx, i64 {self.first_constant + place.number}")
                found = self.text.value(f"load ptr, ptr {at}, align 8")
            else:
                arena, _ = scope.arenas[self.program.segments[place.number]]
                found = self.text.value(f"getelementptr i8, ptr {arena}, i64 {scope.slot_offsets[place.number]}")
            scope.pointers[place] = found
        return found

    def free(self, segments: Collection[int]) -> None:
        """Give back segments that are there."""
        for segment in segments:
            if segment in self.sizes.scope.arenas:
                arena, size = self.sizes.scope.arenas[segment]
                give = f"call void {self.text.runtime(FREE)}(ptr %rt, ptr {arena}, i64 {size})"
                if self._may_be_on_stack:
                    asked, given = self.text.fresh("asked"), self.text.fresh("given")
                    few = self.text.value(f"icmp eq ptr {arena}, %few{segment}")
                    self.text.emit(f"br i1 {few}, label %{given}, label %{asked}")
                    self.text.label(asked)
                    self.text.emit(give)
                    self.text.emit(f"br label %{given}")
                    self.text.label(given)
                else:
                    self.text.emit(give)
                self.text.emit(f"store ptr null, ptr %arena{segment}, align 8")
                self.zones.forget(segment)

    def free_all(self) -> None:
        """Give back what there is of the arena, wherever the program has failed."""
        for segment in self.segments():
            give, kept = self.text.fresh("give_back"), self.text.fresh("kept")
            held = self.text.value(f"load ptr, ptr %arena{segment}, align 8")
            self.text.emit(f"br i1 {self.text.value(f'icmp ne ptr {held}, null')}, label %{give}, label %{kept}")
            self.text.label(give)
            self.text.emit(f"call void {self.text.runtime(FREE)}(ptr %rt, ptr {held}, i64 0)")
            self.text.emit(f"br label %{kept}")
            self.text.label(kept)
