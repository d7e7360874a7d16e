"""The micro-kernel of units with accumulators in tile registers (AMX).

A tile register holds up to 16 rows of 64 bytes; how many of each is configured for all eight at once, which clears
them. Here four are accumulators, and the others hold the operands: rows of the left one where it lies or is packed, and
words of the right one from its panel, whose rows are neighbours along the columns. Accumulators are two by two; for at
most 16 rows they are four side by side, which read a panel from its beginning to its end, as the memory likes it, and
ask for lines ahead. Rows that are left over are rows that the registers do not have. What is left over of the
contracted axis is one more step in registers of another configuration, for which accumulators go through memory. So
nothing is read that does not exist.

Registers are named by number, and released at the end: a thread between two tiles has none for the system to save.
Products are added as Intel's manual has it (volume 2, TDPBF16PS and TDPBSSD); ``dyn.backends.amx`` has a reference.
"""

from __future__ import annotations

from functools import lru_cache

from dyn.frozen import record
from dyn.lower.x86.leaf_functions import LeafFunction, finish_leaf
from dyn.lower.x86.llvm_text import FunctionText, VType, vtype
from dyn.lower.x86.tile_kernels import I64, MICRO_PARAMS, Operands
from dyn.schedule.units import Unit

I8, I16, BYTES = vtype("i8"), vtype("i16"), vtype("i8", 64)
#: The first register of accumulators, of which there are four, and of the left operand.
_ACC, _ACCUMULATORS, _LEFT = 0, 4, 4
#: The registers of the right operand: those behind the left one's.
_RIGHT_OF = {1: (5, 6, 7), 2: (6, 7)}
#: Bytes ahead of which lines of a panel are asked for, where a few rows read it.
_AHEAD = 2048
#: Places in a configuration: bytes of a row (16 bits a register), and rows (8 bits).
_ROW_BYTES, _ROWS = 16, 48
#: Bytes of a word and of a row of a register.
_WORD, _ROW = 4, 64
#: How LLVM's intrinsics are called, before an instruction's name.
PREFIX = "llvm.x86."


@record()
class TileRegisters:
    """``acc[rows, vectors*16] (+)= a[rows, depth] · b[depth, vectors*16]`` by a unit of tile registers.

    Parameters and fields are those of ``Micro``; ``depth`` counts words. Rows that do not exist are not computed.
    ``_across`` vectors of columns are added for all steps, then the next ones.
    """

    vec: VType
    rows: int
    vectors: int
    stride: int
    resumes: bool
    operands: Operands
    unit: Unit

    @property
    def name(self) -> str:
        kind = "tiles" if self.resumes else "tiles.whole"
        name = f"dyn.tile.{kind}.{self.vec.mangled}.{self.rows}x{self.vectors}.s{self.stride}.{self.unit.text}"
        return name if self.operands.lhs is self.operands.acc else f"{name}.left"

    @property
    def _down(self) -> int:
        """Registers that lie below each other."""
        return -(-self.rows // self.unit.rows)

    @property
    def _across(self) -> int:
        """Accumulators that lie beside each other."""
        return _ACCUMULATORS // self._down

    @property
    def _right(self) -> tuple[int, ...]:
        """The registers that take turns to hold the right operand."""
        return _RIGHT_OF[self._down]

    @lru_cache(maxsize=64)  # noqa: B019  (of frozen records, bounded)
    def leaf(self) -> LeafFunction:
        fn, steps = FunctionText(), self.unit.steps
        config = fn.value("alloca [64 x i8], align 64")
        row = fn.op("mul nsw", I64, "%lda", str(self.operands.lhs.itemsize))
        rest = fn.value(f"and i64 %depth, {steps - 1}")
        whole = fn.op("sub nsw", I64, "%depth", rest)
        lefts = ["%a"]
        for _ in range(1, self._down):
            lefts.append(fn.gep("i8", lefts[-1], fn.op("mul nsw", I64, row, str(self.unit.rows))))
        self._configure(fn, config, str(steps))
        for first in range(0, self.vectors, self._across):
            across = min(self._across, self.vectors - first)
            self._begin(fn, first, across)
            reds = fn.loop("0", whole, steps, hint="red")
            self._step(fn, lefts, row, reds.index, first, across)
            reds.close()
            self._move(fn, "tilestored64", first, across)
            more, done = fn.label("rest"), fn.label("done")
            fn.branch_if(fn.op("icmp ne", I64, rest, "0"), more, done)
            fn.start(more)
            self._configure(fn, config, rest)
            self._move(fn, "tileloadd64", first, across)
            self._step(fn, lefts, row, whole, first, across)
            self._move(fn, "tilestored64", first, across)
            if first + across < self.vectors:
                self._configure(fn, config, str(steps))
            fn.branch(done)
            fn.start(done)
        _run(fn, "tilerelease")
        fn.emit("ret void")
        return finish_leaf(self.name, MICRO_PARAMS, fn)

    def _configure(self, fn: FunctionText, config: str, words: str) -> None:
        """Registers for so many words along the contracted axis, and the rows that there are. All become 0."""
        known = [0] * 64
        known[0] = 1  # the one palette that there is
        for register in range(8):
            known[_ROW_BYTES + 2 * register] = _ROW
            known[_ROWS + register] = self.unit.rows
        fn.store(BYTES, f"<{', '.join([f'i8 {byte}' for byte in known])}>", config, 64)
        above = (self._down - 1) * self.unit.rows
        rows = fn.cast("trunc", I64, fn.op("sub nsw", I64, "%rows", str(above)), I8)
        last = self._down - 1
        for register in [*[self._acc(last, c) for c in range(self._across)], _LEFT + last]:
            fn.store(I8, rows, fn.gep("i8", config, str(_ROWS + register)), 1)
        if words != str(self.unit.steps):
            size = fn.cast("trunc", I64, fn.op("mul nuw", I64, words, str(_WORD)), I16)
            count = fn.cast("trunc", I64, words, I8)
            for register in range(_LEFT, _LEFT + self._down):
                fn.store(I16, size, fn.gep("i8", config, str(_ROW_BYTES + 2 * register)), 2)
            for register in self._right:
                fn.store(I8, count, fn.gep("i8", config, str(_ROWS + register)), 1)
        _run(fn, "ldtilecfg", f"ptr {config}")

    def _acc(self, down: int, across: int) -> int:
        """The register of an accumulator."""
        return _ACC + down * self._across + across

    def _begin(self, fn: FunctionText, first: int, across: int) -> None:
        """Accumulators for some vectors of columns: 0, or what is there."""
        if not self.resumes:
            self._zero(fn, across)
            return
        zero, partial, start = fn.label("zero"), fn.label("partial"), fn.label("start")
        fn.branch_if("%first", zero, partial)
        fn.start(partial)
        self._move(fn, "tileloadd64", first, across)
        fn.branch(start)
        fn.start(zero)
        self._zero(fn, across)
        fn.branch(start)
        fn.start(start)

    def _zero(self, fn: FunctionText, across: int) -> None:
        for r in range(self._down):
            for c in range(across):
                _run(fn, "tilezero", f"i8 {self._acc(r, c)}")

    def _move(self, fn: FunctionText, instruction: str, first: int, across: int) -> None:
        """Load or store the accumulators of some vectors of columns."""
        for r in range(self._down):
            for c in range(across):
                offset = r * self.unit.rows * self.stride + (first + c) * self.vec.lanes
                place = fn.gep(self.vec.elem, "%acc", str(offset))
                _run(fn, instruction, f"i8 {self._acc(r, c)}, ptr {place}, i64 {_WORD * self.stride}")

    def _step(self, fn: FunctionText, lefts: list[str], row: str, word: str, first: int, across: int) -> None:
        """The products of the words from one on."""
        offset = fn.op("mul nsw", I64, word, str(_WORD))
        line = fn.gep(self.vec.elem, "%b", fn.op("mul nsw", I64, word, str(self.stride)))
        if self._down == 1:
            for ahead in range(0, self.unit.steps * across * _ROW, _ROW):
                down, beside = divmod(ahead, across * _ROW)
                fn.prefetch(fn.gep("i8", line, str(_AHEAD + down * _WORD * self.stride + first * _ROW + beside)))

        def load_right(c: int) -> int:
            register = self._right[c % len(self._right)]
            place = fn.gep(self.vec.elem, line, str((first + c) * self.vec.lanes))
            _run(fn, "tileloadd64", f"i8 {register}, ptr {place}, i64 {_WORD * self.stride}")
            return register

        shared = self._down > 1
        rights = [load_right(c) for c in range(across)] if shared else []
        for r, left in enumerate(lefts):
            _run(fn, "tileloadd64", f"i8 {_LEFT + r}, ptr {fn.gep('i8', left, offset)}, i64 {row}")
            for c in range(across):
                right = rights[c] if shared else load_right(c)
                _run(fn, self.unit.name, f"i8 {self._acc(r, c)}, i8 {_LEFT + r}, i8 {right}")


def _run(fn: FunctionText, instruction: str, arguments: str = "") -> None:
    """An instruction without a result."""
    types = ", ".join([argument.split(" ")[0] for argument in arguments.split(", ") if argument])
    fn.declare(f"declare void @{PREFIX}{instruction}({types})")
    fn.emit(f"call void @{PREFIX}{instruction}({arguments})")
