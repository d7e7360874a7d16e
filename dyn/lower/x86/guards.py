"""Stretches of code that control may pass by, and the extents of sections of vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyn.lower.x86.llvm_text import VType, vtype
from dyn.lower.x86.scopes import LaneValue

if TYPE_CHECKING:
    from dyn.lower.x86.emit import KernelEmitter

I64 = vtype("i64")


class LoopGuard:
    """``if extent > 0``: opened in front of a loop, closed after it with the values for both cases."""

    def __init__(self, em: KernelEmitter, extent: str, carried: list[tuple[VType, str]]) -> None:
        fn = self.fn = em.fn
        self.carried = carried
        self.always = not extent.startswith("%") and int(extent) > 0
        if self.always:
            return
        enter, self.exit = fn.label("some"), fn.label("none")
        fn.branch_if(fn.op("icmp sgt", I64, extent, "0"), enter, self.exit)
        self.before = fn.block
        fn.start(enter)

    def close(self, values: list[str]) -> list[str]:
        """Leave; the initial values where the test failed."""
        if self.always:
            return values
        fn = self.fn
        inside = fn.block
        fn.branch(self.exit)
        fn.start(self.exit)
        return [
            fn.value(f"phi {ty} [ {initial}, %{self.before} ], [ {value}, %{inside} ]")
            for (ty, initial), value in zip(self.carried, values, strict=True)
        ]


def multiple(em: KernelEmitter, extent: LaneValue, step: int) -> str:
    """The largest multiple of a power of two that is at most ``extent``."""
    name = extent.parts[0]
    if not name.startswith("%"):
        return str(int(name) & -step)
    key = ("multiple", name, step)
    found = em.scopes.find(key)
    if found is None:
        saved, em.fn.here = em.fn.here, em.scopes.chunk(extent.depth)
        found = LaneValue(I64, (em.fn.op("and", I64, name, str(-step)),), extent.depth)
        em.fn.here = saved
        em.scopes.keep(key, found)
    return found.parts[0]
