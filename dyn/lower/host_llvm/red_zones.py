"""Red zones of a host program: bytes that nobody may write, around slots of the arena and behind what launches write.

Where a program has them (``HostProgram.red_zone``), the arena is all bytes 0xFF when it is allocated, which are NaN as
floats and -1 as integers. There is a zone before the first slot of each segment and one behind each slot. Those right
behind the last bytes of what a launch is about to write are made anew before it: a slot may be larger than that. After
each launch all are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dyn.lower.abi import FAIL
from dyn.lower.host import Fault, HostProgram
from dyn.lower.host_llvm.text import HostText
from dyn.schedule.launch import Launch, walk_launches


class RedZones:
    """Writes what makes zones and looks at them.

    ``%zones`` has the address of each, or null where there is none: first of those behind what a launch writes, which
    say most, and then of those of the arena.
    """

    def __init__(self, program: HostProgram, text: HostText) -> None:
        self.program, self.text = program, text
        self.bytes = program.red_zone
        self._numbers = {launch: number for number, launch in enumerate(walk_launches(program.launches))}
        self._fixed = program.zones()
        self._most = program.most_written
        self._count = self._most + len(self._fixed)

    def stack(self) -> list[str]:
        """Stack for the addresses of zones: there are none yet."""
        if not self._count:
            return []
        return [
            f"  %zones = alloca [{self._count} x ptr], align 16",
            *(
                line
                for number in range(self._count)
                for line in (
                    f"  %zone{number} = getelementptr ptr, ptr %zones, i64 {number}",
                    f"  store ptr null, ptr %zone{number}, align 8",
                )
            ),
        ]

    def functions(self) -> list[str]:
        """The functions that are called here."""
        return [_FILL, _BROKEN] if self._count else []

    def arena(self, segment: int, arena: str, total: str, ends: Mapping[int, str]) -> None:
        """The zones of a segment that was just allocated; ``ends`` are the offsets behind its slots."""
        if not self._count:
            return
        self.text.emit(f"call void @red_zone_fill(ptr {arena}, i64 {total})")
        for number, (_, slot) in self._of(segment):
            at = arena if slot is None else self.text.value(f"getelementptr i8, ptr {arena}, i64 {ends[slot]}")
            self.text.emit(f"store ptr {at}, ptr %zone{number}, align 8")

    def forget(self, segment: int) -> None:
        """A segment that is given back has no zones."""
        if self._count:
            for number, _ in self._of(segment):
                self.text.emit(f"store ptr null, ptr %zone{number}, align 8")

    def before(self, ends: Mapping[int, str]) -> None:
        """Make the zones behind what a launch writes; ``ends`` are the addresses behind it, by the value's number."""
        for number, end in ends.items():
            self.text.emit(f"call void @red_zone_fill(ptr {end}, i64 {self.bytes})")
            self.text.emit(f"store ptr {end}, ptr %zone{number}, align 8")

    def after(self, launch: Launch, ends: Mapping[int, str]) -> None:
        """Fail where a zone was written."""
        if not self._count:
            return
        text, symbols = self.text, len(self.program.symbols)
        arguments = f"ptr %zones, i64 {self._count}, i64 {self.bytes}"
        zone = text.value(f"call i64 @red_zone_broken({arguments})")
        for number in ends:
            text.emit(f"store ptr null, ptr %zone{number}, align 8")
        broken, good = text.fresh("overrun"), text.fresh("inside")
        text.emit(f"br i1 {text.value(f'icmp sge i64 {zone}, 0')}, label %{broken}, label %{good}")
        text.label(broken)
        for position, value in ((symbols, str(self._numbers[launch])), (symbols + 1, zone)):
            slot = text.value(f"getelementptr i64, ptr %values, i64 {position}")
            text.emit(f"store i64 {value}, ptr {slot}, align 8")
        text.emit(f"store i32 {self.program.sites.index(Fault.OVERRUN)}, ptr %site, align 4")
        text.emit("br label %fail")
        text.runtime(FAIL)
        text.label(good)

    def _of(self, segment: int) -> Iterator[tuple[int, tuple[int, int | None]]]:
        for number, zone in enumerate(self._fixed, self._most):
            if zone[0] == segment:
                yield number, zone


#: The loop over the words of the zone of ``%bytes`` at ``%at``. Its body goes on behind this, with the word ``%here``.
_WORDS = """head:
  %i = phi i64 [ 0, %{before} ], [ %next, %body ]
  %inside = icmp slt i64 %i, %bytes
  br i1 %inside, label %body, label %{after}
body:
  %here = getelementptr i8, ptr %at, i64 %i
  %next = add i64 %i, 8
"""

_FILL = f"""define internal void @red_zone_fill(ptr %at, i64 %bytes) noinline {{
entry:
  br label %head
{_WORDS.format(before="entry", after="done")}\
  store i64 -1, ptr %here, align 1
  br label %head
done:
  ret void
}}
"""

_BROKEN = f"""define internal i64 @red_zone_broken(ptr %zones, i64 %count, i64 %bytes) noinline {{
entry:
  br label %zone
zone:
  %number = phi i64 [ 0, %entry ], [ %following, %whole ]
  %more = icmp slt i64 %number, %count
  br i1 %more, label %look, label %good
look:
  %slot = getelementptr ptr, ptr %zones, i64 %number
  %at = load ptr, ptr %slot, align 8
  %none = icmp eq ptr %at, null
  br i1 %none, label %whole, label %head
{_WORDS.format(before="look", after="whole")}\
  %found = load i64, ptr %here, align 1
  %same = icmp eq i64 %found, -1
  br i1 %same, label %head, label %broken
whole:
  %following = add i64 %number, 1
  br label %zone
broken:
  ret i64 %number
good:
  ret i64 -1
}}
"""
