"""A library call as native code, ``i32 symbol(rt, tensors, results)``, with what every such text is written with.

The tensors are those of a host program's library call (``dyn.lower.host_llvm.emit``): the op's operands and then its
results, dense; ``results`` is where the results begin. It returns one of the statuses below.
"""

from __future__ import annotations

from dyn.ir.core import Op
from dyn.lower.abi import ALLOC, FREE, TensorOffsets
from dyn.lower.native import Module

#: What a call answers: that its results are there, that there was no memory to compute with, and that a size is one
#: that it cannot compute with.
DONE, NO_MEMORY, TOO_LONG = range(3)


class NativeCall:
    """The text of one call in the making. ``f`` is its function."""

    def __init__(self, op: Op, symbol: str) -> None:
        self.op, self.symbol = op, symbol
        self.module = Module()
        self.f = self.module.function(symbol, "i32", [("ptr", "rt"), ("ptr", "tensors"), ("ptr", "results")])
        self.values = (*op.operands, *op.results)
        self._block: str | None = None

    # Sizes ------------------------------------------------------------------------------------------------------------

    def size(self, tensor: int, axis: int) -> str:
        """A size of a tensor, the operands and then the results, by its axis; negative ones count from the end."""
        dims = self.f.load("ptr", "%tensors", tensor * TensorOffsets.BYTES + TensorOffsets.DIMS)
        return self.f.load("i64", dims, 8 * (axis % len(self.values[tensor].shape)))

    def data(self, tensor: int) -> str:
        """The address of a tensor's elements."""
        return self.f.load("ptr", "%tensors", tensor * TensorOffsets.BYTES + TensorOffsets.DATA)

    def product(self, *sizes: str) -> str:
        total = sizes[0] if sizes else "1"
        for size in sizes[1:]:
            total = self.f.mul(total, size)
        return total

    def least(self, a: str, b: str) -> str:
        return self.f.select(self.f.icmp("slt", a, b), a, b)

    def most(self, a: str, b: str) -> str:
        return self.f.select(self.f.icmp("sgt", a, b), a, b)

    # Memory -----------------------------------------------------------------------------------------------------------

    def scratch(self, *bytes: str) -> list[str]:
        """Memory of so many bytes each, until :meth:`finish`; asked for once."""
        f, places, total = self.f, list[str](), "0"
        for size in bytes:
            places.append(total)
            total = f.add(total, f.and_(f.add(size, "63"), "-64"))
        alloc = f.load("ptr", "%rt", 8 * ALLOC)
        block = self._block = f.call("ptr", alloc, [("ptr", "%rt"), ("i64", total)])
        f.ret_if(f.is_null(block), "i32", str(NO_MEMORY))
        return [f.at(block, place) for place in places]

    def finish(self) -> None:
        """Give back memory, and return."""
        if self._block is not None:
            free = self.f.load("ptr", "%rt", 8 * FREE)
            self.f.call("void", free, [("ptr", "%rt"), ("ptr", self._block), ("i64", "0")])
        self.f.ret("i32", str(DONE))
