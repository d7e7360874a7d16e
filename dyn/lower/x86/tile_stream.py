"""The micro-kernel for a few rows and a right operand whose columns lie next to each other.

What such a product takes is the time that its right operand takes to come from memory, once. Accumulators in registers
would read a few lines of each of its rows, pages apart, which no prefetcher follows. Here a piece of a row is as long
as accumulators in the first-level cache are, of one row longer than of several, and a few rows are added at a time, so
that each accumulator is loaded and stored once for them. Processors foresee long pieces: to ask for lines by hand takes
longer then.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from dyn.frozen import record
from dyn.lower.x86.leaf_functions import LeafFunction, finish_leaf
from dyn.lower.x86.llvm_text import CountedLoop, FunctionText, constant, vtype
from dyn.lower.x86.machine import Machine
from dyn.lower.x86.registers import register
from dyn.lower.x86.tile_kernels import I64, MICRO_PARAMS, FewRows, by_height, column_mask, multiply_add, row_pointers
from dyn.schedule.x86.blocking import (
    LONG_PIECE,
    LONG_PIECE_ROWS,
    ROWS_WITH_TIME,
    streamed_heights,
    streamed_stride,
)

#: Rows that go through the right operand's piece together, where it is a short one, and steps that they take at once:
#: rows of some 4 KiB fall into few sets of the first-level cache, which has to hold these and those that come next.
_PAIR, _STEPS_BY_TWO = 2, 4


def steps_together(rows: int, registers: int) -> int:
    """The number of steps of the reduced dimension that are added at a time: their factors stay in registers, one for
    each row, beside an accumulator for each row and what is loaded."""
    steps = 8
    while steps > 1 and rows * (steps + 1) + 2 > registers:
        steps //= 2
    return steps


@record()
class Stream(FewRows):
    """``acc[rows, cols] (+)= a[rows, depth] · b[depth, cols]`` for up to ``rows`` rows, and as many columns as there
    are accumulators for that many.

    Parameters are a micro-kernel's. Products are added one by one, in the order of the reduced dimension; ``by_pairs``
    the second of two before the first, as the unit does it that adds bfloat16 for more rows.
    """

    by_pairs: bool = False

    @property
    def name(self) -> str:
        return self._name("stream.pairs" if self.by_pairs else "stream")

    @lru_cache(maxsize=64)  # noqa: B019  (of frozen records, bounded)
    def leaf(self) -> LeafFunction:
        fn = FunctionText()
        whole = fn.value(f"and i64 %cols, {-self.vec.lanes}")
        mask = column_mask(fn, self.vec, fn.op("sub nsw", I64, "%cols", whole), 0)
        by_height(fn, streamed_heights(self.rows), lambda height: self._rows(fn, height, whole, mask))
        return finish_leaf(self.name, MICRO_PARAMS, fn)

    def _rows(self, fn: FunctionText, height: int, whole: str, mask: str) -> None:
        """All steps, for ``height`` rows at the most. Those that do not exist have accumulators of their own."""
        vec, size = self.vec, self.vec.bits // 8
        clear, add = fn.label("clear"), fn.label("add")
        fn.branch_if("%first", clear, add)
        fn.start(clear)
        cols = fn.loop("0", "%cols", vec.lanes, hint="col")
        for place in self._places(fn, height, "%acc", self._row_stride(height), cols.index):
            fn.store(vec, constant(0, vec), place, size)
        cols.close()
        fn.branch(add)
        fn.start(add)
        group = height if height <= LONG_PIECE_ROWS else _PAIR
        together, start = steps_together(group, self.target.registers), "0"
        together = together if group == height else min(together, _STEPS_BY_TWO)
        pointers = row_pointers(fn, register(self.operands.lhs).elem, height) if group == height else []
        counts = [together, 2, 1] if self.by_pairs else [together, 1]
        for count in sorted(set(counts), reverse=True):
            stop = fn.value(f"and i64 %depth, {-count}") if count > 1 else "%depth"
            reds, lines = self._open(fn, count, start, stop)
            if pointers:
                asked = self._following(fn, lines, height)
                self._steps(fn, pointers, "%acc", self._row_stride(height), reds.index, lines, whole, mask, asked)
            else:
                self._by_two(fn, self._row_stride(height), reds.index, lines, whole, mask)
            reds.close()
            start = stop
        fn.emit("ret void")

    def _row_stride(self, height: int) -> int:
        return streamed_stride(height, self.vec.bits // 8, self.vec.lanes)

    def _places(self, fn: FunctionText, height: int, acc: str, stride: int, column: str) -> list[str]:
        """The addresses of a column's accumulators."""
        first = fn.gep(self.vec.elem, acc, column)
        return [fn.gep(self.vec.elem, first, str(r * stride)) for r in range(height)]

    def _open(self, fn: FunctionText, together: int, start: str, stop: str) -> tuple[CountedLoop, list[str]]:
        """Open a loop over steps, some at a time: it, and the right operand's rows of these."""
        right = register(self.operands.rhs).elem
        reds = fn.loop(start, stop, together, hint="red")
        lines = [fn.gep(right, "%b", fn.op("mul nsw", I64, reds.index, "%ldb"))]
        for _ in range(together - 1):
            lines.append(fn.gep(right, lines[-1], "%ldb"))
        return reds, lines

    def _following(self, fn: FunctionText, lines: list[str], height: int) -> list[str]:
        """The lines that are asked for with some: those that come after them where pieces are short, and lie apart or
        leave time. Else once more the same, which costs nothing."""
        right = register(self.operands.rhs)
        asks = fn.op("icmp slt", I64, "%cols", str(LONG_PIECE // self.operands.rhs.itemsize))
        if height < ROWS_WITH_TIME:
            asks = fn.op("and", vtype("i1"), asks, fn.op("icmp ne", I64, "%cols", "%ldb"))
        distance = fn.select(asks, I64, fn.op("mul nsw", I64, "%ldb", str(len(lines))), "0")
        return [fn.gep(right.elem, line, distance) for line in lines]

    def _by_two(self, fn: FunctionText, stride: int, step: str, lines: list[str], whole: str, mask: str) -> None:
        """The products of some steps for two rows at a time: so many steps are added at once for so few, that
        accumulators are seldom loaded and stored, and the right operand's piece is in the first-level cache meanwhile.
        Every two of them ask for two of the lines that come next."""
        left, right = register(self.operands.lhs).elem, register(self.operands.rhs).elem
        last = fn.value("add nsw i64 %rows, -1")
        rows = fn.loop("0", "%rows", _PAIR, at_least_once=True, hint="rows")
        pointers: list[str] = []
        for r in range(_PAIR):
            row = fn.intrinsic("smin", I64, fn.op("add nuw", I64, rows.index, str(r)), last)
            pointers.append(fn.gep(left, "%a", fn.op("mul nsw", I64, row, "%lda")))
        acc = fn.gep(self.vec.elem, "%acc", fn.op("mul nuw", I64, rows.index, str(stride)))
        following = fn.op("mul nsw", I64, fn.op("add nuw", I64, rows.index, str(len(lines))), "%ldb")
        asked = [fn.gep(right, lines[0], following)] if len(lines) > 1 else []
        asked += [fn.gep(right, asked[0], "%ldb")] if asked else []
        self._steps(fn, pointers, acc, stride, step, lines, whole, mask, asked)
        rows.close()

    def _steps(
        self, fn: FunctionText, a_rows: list[str], acc: str, stride: int, step: str, lines: list[str], whole: str,
        mask: str, asked: Sequence[str] = (),
    ) -> None:  # fmt: skip
        """The products of some steps for some rows, column by column; and asks for the same columns of other lines."""
        vec, own, m = self.vec, self.operands, Machine(self.target, fn)
        left, right = register(own.lhs).elem, register(own.rhs).elem
        factors: list[list[str]] = []
        for a in a_rows:
            first = fn.gep(left, a, step)
            factors.append([own.spread(m, own.lhs, fn.gep(left, first, str(u)), vec.lanes) for u in range(len(lines))])
        cols = fn.loop("0", whole, vec.lanes, hint="col")
        for line in asked:
            fn.prefetch(fn.gep(right, line, cols.index))
        self._vector(m, factors, lines, self._places(fn, len(a_rows), acc, stride, cols.index), cols.index, "")
        cols.close()
        # The last vector, of which some columns exist, or none.
        rest, done = fn.label("rest"), fn.label("done")
        fn.branch_if(fn.op("icmp slt", I64, whole, "%cols"), rest, done)
        fn.start(rest)
        self._vector(m, factors, lines, self._places(fn, len(a_rows), acc, stride, whole), whole, mask)
        fn.branch(done)
        fn.start(done)

    def _vector(
        self, m: Machine, factors: list[list[str]], lines: list[str], places: list[str], column: str, mask: str
    ) -> None:
        """Add the products of some steps to a vector of columns of each row."""
        fn, vec, own, size = m.fn, self.vec, self.operands, self.vec.bits // 8
        right = register(own.rhs).elem
        accs = [fn.load(vec, place, size) for place in places]
        order = list(range(len(lines)))
        if self.by_pairs:
            order = [u ^ 1 if u ^ 1 in order else u for u in order]
        for u in order:
            line = lines[u]
            b = own.load(m, own.rhs, fn.gep(right, line, column), vec.lanes, mask)
            accs = [multiply_add(m, vec, row[u], b, acc) for row, acc in zip(factors, accs, strict=True)]
        for acc, place in zip(accs, places, strict=True):
            fn.store(vec, acc, place, size)
