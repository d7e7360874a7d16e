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
    PTR,
    FewRows,
    column_mask,
    multiply_add,
    row_pointers,
)


@record()
class Dot(FewRows):
    """``acc[rows, cols] = a[rows, depth] · b[depth, cols]`` for any number of columns.

    Parameters are a micro-kernel's, but that ``ldb`` is the distance of two columns. Products are summed in a fixed
    order that depends on ``depth`` and the vector width alone.
    """

    @property
    def name(self) -> str:
        return self._name("dot")

    @lru_cache(maxsize=64)  # noqa: B019  (of frozen records, bounded)
    def leaf(self) -> LeafFunction:
        fn = FunctionText()
        vec, elem, size = self.vec, self.vec.elem, self.vec.bits // 8
        group, right_elem = 16 // size, register(self.operands.rhs).elem
        a_rows = row_pointers(fn, register(self.operands.lhs).elem, self.rows)
        whole = fn.value(f"and i64 %depth, {-vec.lanes}")
        mask = column_mask(fn, vec, fn.op("sub nsw", I64, "%depth", whole), 0)
        last = fn.value("add nsw i64 %cols, -1")
        cols = fn.loop("0", "%cols", group, [(PTR, "%acc")], hint="col")
        columns: list[str] = []
        for c in range(group):  # columns that do not exist are the last one once more
            j = fn.intrinsic("smin", I64, fn.op("add nuw", I64, cols.index, str(c)), last)
            columns.append(fn.gep(right_elem, "%b", fn.op("mul nsw", I64, j, "%ldb")))
        zeros = [(vec, constant(0, vec))] * (self.rows * group)
        reds = fn.loop("0", whole, vec.lanes, zeros, hint="red")
        accs = reds.close(self._step(fn, a_rows, columns, reds.index, reds.carried, ""))
        accs = self._step(fn, a_rows, columns, whole, accs, mask)
        acc = cols.carried[0]
        part = vtype(elem, group)
        for r in range(self.rows):
            sums = _add_lanes(fn, vec, accs[r * group : (r + 1) * group])
            fn.store(part, sums, fn.gep(elem, acc, str(r * self.stride)), size)
        cols.close([fn.gep(elem, acc, str(group))])
        fn.emit("ret void")
        return finish_leaf(self.name, MICRO_PARAMS, fn)

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
