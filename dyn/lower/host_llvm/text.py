"""The text of a host program in the making: instructions, labels, and branches to where it fails."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from dyn.lower.host import Fault

TENSOR = "{ ptr, i32, i32, ptr, ptr }"
DECLARATIONS = (
    "declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)",
    "declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)",
    "declare { i64, i1 } @llvm.ssub.with.overflow.i64(i64, i64)",
    "declare i64 @llvm.smin.i64(i64, i64)",
    "declare i64 @llvm.smax.i64(i64, i64)",
)
#: The labels of the blocks that fail.
BLOCKS = {
    Fault.TOO_LARGE: "too_large",
    Fault.NO_VALUE: "no_value",
    Fault.NO_MEMORY: "no_memory",
    Fault.LIBRARY: "library_failed",
    Fault.TOO_LONG: "too_long",
    Fault.DEVICE: "device_failed",
}


#: LLVM takes time that grows with the square of a block's length: 22,000 instructions take 0.7 s as one block, and
#: 0.3 s in blocks of 256 or 1,000. Twice as many take 3.5 and 0.6 s.
_LONGEST_BLOCK = 512


class HostText:
    """The instructions of one function. ``faults`` and ``functions`` are those that it has used so far: its failures,
    and its slots of the runtime table."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.faults: set[Fault] = set()
        self.functions: set[int] = set()
        self._names = count()
        #: The instructions of the block so far that have a value.
        self._length = 0

    def emit(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def value(self, text: str) -> str:
        """The result of an instruction."""
        if self._length == _LONGEST_BLOCK:
            following = self.fresh("on")
            self.emit(f"br label %{following}")
            self.label(following)
        self._length += 1
        name = f"%t{next(self._names)}"
        self.emit(f"{name} = {text}")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self._length = 0

    def fresh(self, name: str) -> str:
        return f"{name}{next(self._names)}"

    def runtime(self, slot: int) -> str:
        """A function of the runtime table: each is loaded at the entry."""
        self.functions.add(slot)
        return f"%rt{slot}"

    def any(self, flags: Sequence[str]) -> str | None:
        """An i1 that is true where one of the flags is; None where there is none."""
        if not flags:
            return None
        flag = flags[0]
        for other in flags[1:]:
            flag = self.value(f"or i1 {flag}, {other}")
        return flag

    def fault(self, fault: Fault, flag: str) -> None:
        """Fail where ``flag`` is true. The blocks of faults stand at the end."""
        good = self.fresh("good")
        self.faults.add(fault)
        self.emit(f"br i1 {flag}, label %{BLOCKS[fault]}, label %{good}")
        self.label(good)

    def branch_on(self, failures: Sequence[tuple[int, str]]) -> None:
        """Emit one branch for checks, each the number of its site and an i1 that is true where it fails.

        Which one failed is found out on the cold path.
        """
        if not failures:
            return
        failed = self.any([flag for _, flag in failures])
        site = "-1"
        for number, flag in reversed(failures):
            site = self.value(f"select i1 {flag}, i32 {number}, i32 {site}")
        good = self.fresh("checked")
        self.emit(f"store i32 {site}, ptr %site, align 4")
        self.emit(f"br i1 {failed}, label %fail, label %{good}")
        self.label(good)
