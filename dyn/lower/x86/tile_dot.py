"""The micro-kernel for a few rows and a right operand that is contiguous along the reduced dimension.

Packing such an operand means transposing all of it, which does not pay when each element is used once or a few times.
Here the vectors lie along the reduced dimension of both operands, and lanes are added up at the end: a few rows times
four columns at a time.
"""

from __future__ import annotations

from functools import lru_cache

from dyn.dtypes import DType
from dyn.frozen import record
from dyn.lower.x86.leaf_functions import LeafFunction, finish_leaf
from dyn.lower.x86.llvm_text import FunctionText, VType, constant, vtype
from dyn.lower.x86.machine import Machine
from dyn.lower.x86.registers import register
from dyn.lower.x86.squares import interleave
from dyn.lower.x86.tile_kernels import (
    I64,
    MICRO_PARAMS,
    FewRows,
    by_height,
    column_mask,
    multiply_add,
    row_pointers,
)
from dyn.schedule.x86.blocking import streamed_heights


@record()
class Dot(FewRows):
    """``acc[rows, cols] = a[rows, depth] · b[depth, cols]`` for any number of columns.

    Parameters are a micro-kernel's, but that ``ldb`` is the distance of two columns; ``acc`` is a block of ``stride``
    elements a row. Products are summed in a fixed order that depends on ``depth`` and the vector width alone.
    """

    stride: int

    @property
    def name(self) -> str:
        return self._name(f"dot.s{self.stride}")

    @lru_cache(maxsize=64)  # noqa: B019  (of frozen records, bounded)
    def leaf(self) -> LeafFunction:
        fn = FunctionText()
        whole = fn.value(f"and i64 %depth, {-self.vec.lanes}")
        mask = column_mask(fn, self.vec, fn.op("sub nsw", I64, "%depth", whole), 0)
        by_height(fn, streamed_heights(self.rows), lambda height: self._rows(fn, height, whole, mask))
        return finish_leaf(self.name, MICRO_PARAMS, fn)

    def _rows(self, fn: FunctionText, height: int, whole: str, mask: str) -> None:
        """All columns, as many at a time as 16 bytes hold elements, for ``height`` rows at the most.

        Each of these goes through a part of the columns of its own, from one to the next: they lie one after the other,
        and processors follow a few long streams where they lose short ones.
        """
        vec, elem, size = self.vec, self.vec.elem, self.vec.bits // 8
        group, right_elem = 16 // size, register(self.operands.rhs).elem
        a_rows = row_pointers(fn, register(self.operands.lhs).elem, height)
        last = fn.value("add nsw i64 %cols, -1")
        part = fn.op("udiv", I64, fn.op("add nuw", I64, "%cols", str(group - 1)), str(group))
        cols = fn.loop("0", part, 1, hint="col")
        places, columns = list[str](), list[str]()
        for c in range(group):  # columns that do not exist are the last one once more
            first = fn.op("mul nuw", I64, part, str(c)) if c else "0"
            places.append(fn.intrinsic("smin", I64, fn.op("add nuw", I64, cols.index, first), last))
            columns.append(fn.gep(right_elem, "%b", fn.op("mul nsw", I64, places[-1], "%ldb")))
        zeros = [(vec, constant(0, vec))] * (height * group)
        reds = fn.loop("0", whole, vec.lanes, zeros, hint="red")
        accs = reds.close(self._step(fn, a_rows, columns, reds.index, reds.carried, ""))
        accs = self._step(fn, a_rows, columns, whole, accs, mask)
        sums = vtype(elem, group)
        for r in range(height):
            found = _add_lanes(fn, vec, accs[r * group : (r + 1) * group])
            row = fn.gep(elem, "%acc", str(r * self.stride))
            for c, place in enumerate(places):
                one = fn.value(f"extractelement {sums.text} {found}, i32 {c}")
                fn.store(vtype(elem), one, fn.gep(elem, row, place), size)
        cols.close()
        fn.emit("ret void")

    def _step(
        self, fn: FunctionText, a_rows: list[str], columns: list[str], k: str, accs: list[str], mask: str
    ) -> list[str]:
        """One vector of the reduced dimension, from ``k`` on."""
        vec, own, m = self.vec, self.operands, Machine(self.target, fn)

        def load(dtype: DType, pointer: str) -> str:
            return own.load(m, dtype, fn.gep(register(dtype).elem, pointer, k), vec.lanes, mask)

        left = [load(own.lhs, a) for a in a_rows]
        right = [load(own.rhs, b) for b in columns]
        pairs = [(a, b) for a in left for b in right]
        return [multiply_add(m, vec, a, b, c) for (a, b), c in zip(pairs, accs, strict=True)]


def _add_lanes(fn: FunctionText, vec: VType, accs: list[str]) -> str:
    """The sums of the lanes of as many vectors as 16 bytes hold elements, side by side in 16 bytes."""
    add = "fadd" if vec.is_float else "add"
    vectors = list(accs)
    d = 1
    while len(vectors) > 1:
        low, high = interleave(vec, d, 128 // vec.bits)
        pairs = zip(vectors[::2], vectors[1::2], strict=True)
        vectors = [fn.op(add, vec, fn.shuffle(vec, a, b, low), fn.shuffle(vec, a, b, high)) for a, b in pairs]
        d *= 2
    result, lanes = vectors[0], vec.lanes
    while lanes * vec.bits > 128:
        ty, lanes = vtype(vec.elem, lanes), lanes // 2
        low = fn.shuffle(ty, result, "poison", range(lanes))
        high = fn.shuffle(ty, result, "poison", range(lanes, 2 * lanes))
        result = fn.op(add, vtype(vec.elem, lanes), low, high)
    return result
