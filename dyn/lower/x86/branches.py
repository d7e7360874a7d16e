"""Code for elements that are rare, and calls of libm's functions: the loader finds those in the process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dyn.lower.x86.llvm_text import VType, vtype
from dyn.lower.x86.machine import Machine


def libm(m: Machine, ty: VType, name: str, *args: str) -> str:
    """A function of libm's, an element at a time."""

    def build(inner: Machine, names: list[str]) -> str:
        return elementwise(inner, ty, name, names)

    return m.helper(f"libm.{name}", ty, [(ty, a) for a in args], build)


def elementwise(m: Machine, ty: VType, name: str, args: Sequence[str]) -> str:
    """A function of each lane, called one lane after the other."""
    fn, scalar = m.fn, vtype(ty.elem)
    symbol = name + "f" if ty.elem == "float" else name
    result = "poison"
    for lane in range(ty.lanes):
        value = fn.call(symbol, scalar, [(scalar, fn.extract(ty, a, lane)) for a in args])
        if ty.lanes == 1:
            return value
        result = fn.value(f"insertelement {ty} {result}, {scalar} {value}, i64 {lane}")
    return result


def either(m: Machine, ty: VType, rare: str, slow: Callable[[], str], quick: Callable[[], str]) -> str:
    """``slow()`` if ``rare`` holds in any lane, else ``quick()``."""
    fn = m.fn
    any_rare = rare
    if ty.lanes > 1:
        mask = ty.of("i1")
        any_rare = fn.call(f"llvm.vector.reduce.or.{mask.mangled}", vtype("i1"), [(mask, rare)])
    then, otherwise, done = fn.label("slow"), fn.label("quick"), fn.label("done")
    fn.branch_if(any_rare, then, otherwise)
    results: list[tuple[str, str]] = []
    for label, compute in ((then, slow), (otherwise, quick)):
        fn.start(label)
        value = compute()
        results.append((value, fn.block))
        fn.branch(done)
    fn.start(done)
    return fn.value(f"phi {ty} " + ", ".join([f"[ {value}, %{block} ]" for value, block in results]))
