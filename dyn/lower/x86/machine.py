"""Abilities of the target's instructions, as far as the text depends on them, and functions that are called."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dyn.lower.shared_functions import Routine
from dyn.lower.x86.llvm_text import FunctionText, VType, render
from dyn.schedule.target import Target

#: Arrays of so many bytes are taken to be beyond the caches.
BEYOND_CACHES = 16 << 20


class Machine:
    """A function under construction for a target: what scalar code is written with."""

    def __init__(self, target: Target, fn: FunctionText, helpers: dict[str, str] | None = None) -> None:
        self.target, self.fn = target, fn
        #: The functions that this one calls: their definitions by name.
        self.helpers: dict[str, str] = {} if helpers is None else helpers
        #: Those of them that other kernels have as well, and that call no others.
        self.routines: list[Routine] = []
        self.avx512 = target.avx512
        self.has_fma = target.has("fma") or self.avx512
        self.has_f16c = target.has("f16c") or self.avx512

    def attributes(self) -> str:
        """The attributes of every function. Without the widths LLVM prefers 256 bits on some CPUs."""
        bits = self.target.vector_bytes * 8
        return f'nounwind "prefer-vector-width"="{bits}" "min-legal-vector-width"="{bits}"'

    def fma(self, ty: VType, a: str, b: str, c: str) -> str:
        """``a * b + c``, rounded once where the target can: for polynomials, whose bounds allow either."""
        if self.has_fma:
            return self.fn.fma(ty, a, b, c)
        return self.fn.op("fadd", ty, self.fn.op("fmul", ty, a, b), c)

    def helper(
        self,
        name: str,
        result: VType,
        args: Sequence[tuple[VType, str]],
        build: Callable[[Machine, list[str]], str],
    ) -> str:
        """Call a function of the module's own; ``build`` writes its body, once, and returns its result.

        For code that is long beside the cost of a call, or that needs branches.
        """
        symbol = f"dyn.{name}.{args[0][0].mangled}"
        if symbol not in self.helpers:
            self.helpers[symbol] = ""  # a helper may call others, but not itself
            inner = Machine(self.target, FunctionText(), self.helpers)
            names = [f"%a{i}" for i in range(len(args))]
            value = build(inner, names)
            inner.fn.emit(f"ret {result} {value}")
            self.fn.declarations.update(inner.fn.declarations)
            parameters = ", ".join([f"{ty} {n}" for (ty, _), n in zip(args, names, strict=True)])
            header = f"define internal {result} @{symbol}({parameters}) {self.attributes()} {{"
            self.helpers[symbol] = "\n".join([header, "entry:", render(inner.fn.body), "}"])
        values = ", ".join([f"{ty} {value}" for ty, value in args])
        return self.fn.value(f"call {result} @{symbol}({values})")
