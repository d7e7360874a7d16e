"""The micro-kernel for a few rows and a right operand whose steps of the reduced dimension lie next to each other.

Packing such an operand writes all of it in another order, which does not pay where each element is used a few times.
Here squares of it are transposed in registers, which takes less time than they take to come from memory, and are
multiplied there: products are added in the order in which packed ones are.
"""

from __future__ import annotations

from functools import lru_cache

from dyn.frozen import record
from dyn.lower.x86.leaf_functions import LeafFunction, finish_leaf
from dyn.lower.x86.llvm_text import FunctionText, constant
from dyn.lower.x86.machine import Machine
from dyn.lower.x86.registers import register
from dyn.lower.x86.squares import square
from dyn.lower.x86.tile_kernels import I64, MICRO_PARAMS, FewRows, by_height, column_mask, multiply_add, row_pointers


@record()
class Turned(FewRows):
    """``acc[rows, cols] (+)= a[rows, depth] · b[depth, cols]`` for up to ``rows`` rows and any number of columns.

    Parameters are a micro-kernel's, but that ``ldb`` is the distance of two columns, and that ``panel`` has room for a
    square of vectors; ``acc`` is a block of ``stride`` elements a row. Products are added one by one, in the order of
    the reduced dimension.
    """

    stride: int

    @property
    def name(self) -> str:
        return self._name(f"turned.s{self.stride}")

    @lru_cache(maxsize=64)  # noqa: B019  (of frozen records, bounded)
    def leaf(self) -> LeafFunction:
        fn = FunctionText()
        whole = fn.value(f"and i64 %depth, {-self.vec.lanes}")
        mask = column_mask(fn, self.vec, fn.op("sub nsw", I64, "%depth", whole), 0)
        last = fn.value("add nsw i64 %cols, -1")
        heights = [*[height for height in (1, 4) if height < self.rows], self.rows]
        by_height(fn, heights, lambda height: self._rows(fn, height, whole, mask, last))
        return finish_leaf(self.name, MICRO_PARAMS, fn)

    def _rows(self, fn: FunctionText, height: int, whole: str, mask: str, last: str) -> None:
        """All columns, a vector of them at a time, for ``height`` rows at the most."""
        vec, size, w = self.vec, self.vec.bits // 8, self.vec.lanes
        left, right = register(self.operands.lhs).elem, register(self.operands.rhs).elem
        m = Machine(self.target, fn)
        a_rows = row_pointers(fn, left, height)
        cols = fn.loop("0", "%cols", w, hint="col")
        lines: list[str] = []
        for c in range(w):  # columns that do not exist are the last one once more
            j = fn.intrinsic("smin", I64, fn.op("add nuw", I64, cols.index, str(c)), last)
            lines.append(fn.gep(right, "%b", fn.op("mul nsw", I64, j, "%ldb")))
        first = fn.gep(vec.elem, "%acc", cols.index)
        places = [fn.gep(vec.elem, first, str(r * self.stride)) for r in range(height)]
        accs = self._initial(fn, places)
        reds = fn.loop("0", whole, w, [(vec, acc) for acc in accs], hint="red")
        accs = reds.carried
        for step, column in enumerate(self._square(m, lines, reds.index, "")):
            k = fn.op("add nuw", I64, reds.index, str(step))
            accs = self._add(m, a_rows, k, column, accs)
        accs = reds.close(accs)
        # What is left of the reduced dimension goes through memory: how many steps it has is not known.
        for step, column in enumerate(self._square(m, lines, whole, mask)):
            fn.store(vec, column, fn.gep(vec.elem, "%panel", str(step * w)), size)
        rest = fn.loop(whole, "%depth", 1, [(vec, acc) for acc in accs], hint="rest")
        place = fn.op("mul nsw", I64, fn.op("sub nsw", I64, rest.index, whole), str(w))
        column = fn.load(vec, fn.gep(vec.elem, "%panel", place), size)
        accs = rest.close(self._add(m, a_rows, rest.index, column, rest.carried))
        for acc, place in zip(accs, places, strict=True):
            fn.store(vec, acc, place, size)
        cols.close()
        fn.emit("ret void")

    def _initial(self, fn: FunctionText, places: list[str]) -> list[str]:
        """Accumulators of a vector of columns: zeros at first, or what they are so far."""
        vec, zero = self.vec, constant(0, self.vec)
        start, partial, begun = fn.block, fn.label("partial"), fn.label("begun")
        fn.branch_if("%first", begun, partial)
        fn.start(partial)
        loaded = [fn.load(vec, place, vec.bits // 8) for place in places]
        fn.branch(begun)
        fn.start(begun)
        return [fn.value(f"phi {vec.text} [ {zero}, %{start} ], [ {found}, %{partial} ]") for found in loaded]

    def _square(self, m: Machine, lines: list[str], at: str, mask: str) -> list[str]:
        """A square of the right operand from a step on: for each step a vector of columns."""
        own, right = self.operands, register(self.operands.rhs).elem
        return square(
            m.fn, self.vec, [own.load(m, own.rhs, m.fn.gep(right, p, at), self.vec.lanes, mask) for p in lines]
        )

    def _add(self, m: Machine, a_rows: list[str], k: str, column: str, accs: list[str]) -> list[str]:
        own, left = self.operands, register(self.operands.lhs).elem
        factors = [own.spread(m, own.lhs, m.fn.gep(left, a, k), self.vec.lanes) for a in a_rows]
        return [multiply_add(m, self.vec, a, column, acc) for a, acc in zip(factors, accs, strict=True)]
