"""Contractions on GPUs: a block's tile of results, slices of both operands in shared memory, accumulators in registers.

::

    the digits of rows and columns, where an operand is written in those        # operands.py
    for each slice of the contracted axis, and some times before:
        what is copied by itself: wait for this slice, and ask for the next but one
        what is not: the next slice -> registers
        this slice: multiply and add                                             # Cores
        registers -> the next slice's place in shared memory
    for a part of the rows at a time:
        accumulators -> shared memory -> the epilogue, lanes along the columns

Multiplying is a step of its own, :class:`Cores`, which says where accumulators are: matrix units replace that.
The epilogue is one loop, with one copy of its code however heavy it is, and stores whole lines of memory. It costs an
access of shared memory for each result, where multiplying takes a quarter of one for each product.

A result is the sum of its products in the order of the contracted axis, each added in one rounding; with ``parts`` it
is the sum of as many of these, in their order. Beyond the edges operands are 0, and nothing is stored.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dyn import dtypes
from dyn.dtypes import DType
from dyn.frozen import record
from dyn.lower.gpu.memory import SHARED, aligned
from dyn.lower.gpu.operands import Digested, StagedOperand, sum_type, word_bytes
from dyn.lower.gpu.scalars import c_type
from dyn.lower.gpu.slices import ACCESS, SliceLayout
from dyn.schedule.gpu.contractions import ThreadBlocking, blocking
from dyn.schedule.kernel import Kernel, Loop, Role, TileContract, most_iterations
from dyn.schedule.kernel_walks import walk_stmts

if TYPE_CHECKING:
    from dyn.lower.gpu.emit import Emitter


def blocking_of(kernel: Kernel, warp: int) -> ThreadBlocking | None:
    """The block's tile of a kernel that contracts, on a device with warps of so many lanes; None for others."""
    return next((_blocking(s, warp) for s in walk_stmts(kernel.body) if isinstance(s, TileContract)), None)


def emit_contraction(em: Emitter, tile: TileContract) -> None:
    """Emit a contraction, which all threads of the block come to."""
    with em.braces(""):
        _Contraction(em, tile).emit()


def _blocking(tile: TileContract, warp: int) -> ThreadBlocking:
    """The block's tile, which has room for all results of a GRID iteration."""
    found = blocking(tile.acc.dtype, tile.tile, warp)
    if found is None:
        raise ValueError(f"{tile.acc.dtype} has no blocks of threads with tiles of {tile.tile}")
    for extent, most in ((tile.row_extent, found.rows), (tile.col_extent, found.columns)):
        size = most_iterations(extent)
        if size is None or size > most:
            raise ValueError(f"{extent} results do not fit into a tile of {found.rows}x{found.columns}")
    return found


@record()
class Cores:
    """Multiply-adds on ordinary cores: which results a thread has, and how it adds to them.

    A thread's rows come in groups of ``rows_together``, and its columns in groups of ``columns_together``: as many as
    an access of shared memory has. The groups are as far apart as all threads together are long, so that a warp reads
    whole lines.
    """

    of: ThreadBlocking
    dtype: DType

    @property
    def rows_together(self) -> int:
        return min(ACCESS // word_bytes(self.dtype), self.of.tile.rows)

    @property
    def columns_together(self) -> int:
        return min(ACCESS // word_bytes(self.dtype), self.of.tile.columns)

    @property
    def row_groups(self) -> int:
        return self.of.tile.rows // self.rows_together

    @property
    def rows_at_once(self) -> int:
        """Rows of the block's tile that one group of each thread covers."""
        return self.of.rows // self.row_groups

    @property
    def column_groups(self) -> int:
        return self.of.tile.columns // self.columns_together

    def declare(self, em: Emitter) -> None:
        """A thread's place, and its accumulators, which are 0."""
        across = self.of.columns // self.of.tile.columns
        down, thread, of = self.of.rows // self.of.tile.rows, em.dialect.thread, sum_type(self.dtype)
        em.line(f"const int tx = {thread} % {across}, ty = {thread} / {across} % {down};")
        em.line(f"const int part = {thread} / {across * down};")
        em.line(f"{of} acc[{self.of.tile.rows}][{self.of.tile.columns}] = {{}};")

    def multiply(self, em: Emitter, lhs: StagedOperand, rhs: StagedOperand, slices: tuple[str, str]) -> None:
        """Add the products of a slice of each operand, which begin at these addresses."""
        tile, of = self.of.tile, sum_type(self.dtype)
        x = _OwnElements("x", lhs.layout, slices[0], tile.rows, self.rows_at_once, "ty")
        y = _OwnElements("y", rhs.layout, slices[1], tile.columns, self.of.columns // self.column_groups, "tx")
        steps, together = self.of.depth // self.of.parts, max(x.steps, y.steps)
        assert steps % together == 0, (steps, together)
        em.line(em.dialect.unroll_steps)
        with em.braces(f"for (int q = 0; q < {steps}; q += {together})"):
            em.line(f"const int k = part * {steps} + q;" if self.of.parts > 1 else "const int k = q;")
            for side in (x, y):
                if side.steps == together:
                    side.read(em, of, "k")
            if together == 1:
                self._add_all(em, x, y)
                return
            em.line("#pragma unroll")
            with em.braces(f"for (int s = 0; s < {together}; ++s)"):
                for side in (x, y):
                    if side.steps == 1:
                        side.read(em, of, "k + s")
                self._add_all(em, x, y)

    def _add_all(self, em: Emitter, x: _OwnElements, y: _OwnElements) -> None:
        """Add the products of a step."""
        em.line("#pragma unroll")
        with em.braces(f"for (int i = 0; i < {self.of.tile.rows}; ++i)"):
            em.line("#pragma unroll")
            add = self._add("acc[i][j]", x.value("i"), y.value("j"))
            em.line(f"for (int j = 0; j < {self.of.tile.columns}; ++j) {add};")

    def _add(self, acc: str, x: str, y: str) -> str:
        if self.dtype.is_float:
            return f"{acc} = fma{'' if self.dtype is dtypes.float64 else 'f'}({x}, {y}, {acc})"
        return f"{acc} += {x} * {y}"

    def spill(self, em: Emitter, to: str) -> None:
        """Store the accumulators of the rows of group ``g`` to shared memory, a part's behind another's."""
        together, columns, of = self.columns_together, self.of.columns, sum_type(self.dtype)
        pack = f"dyn_pack<{of}, {together}>"
        em.line("#pragma unroll")
        with em.braces(f"for (int i = 0; i < {self.of.tile.rows}; ++i)"):
            em.line(f"if (i / {self.rows_together} != g) continue;")
            em.line(
                f"const int row = part * {self.rows_at_once} + ty * {self.rows_together} + i % {self.rows_together};"
            )
            em.line("#pragma unroll")
            with em.braces(f"for (int u = 0; u < {self.column_groups}; ++u)"):
                em.line(f"{pack} sums;")
                em.line("#pragma unroll")
                em.line(f"for (int j = 0; j < {together}; ++j) sums.v[j] = acc[i][u * {together} + j];")
                place = f"{to} + row * {columns} + u * {columns // self.column_groups} + tx * {together}"
                em.line(f"*({pack}*)({place}) = sums;")


@record()
class _OwnElements:
    """The elements of an operand that a thread multiplies, in an array of packs with a ``name``: ``count`` of them, in
    groups that are ``apart`` elements from one another. ``thread`` is the thread's number along the operand's axis."""

    name: str
    layout: SliceLayout
    address: str
    count: int
    apart: int
    thread: str

    @property
    def steps(self) -> int:
        """Steps of an element that are read together."""
        return self.layout.access if self.layout.along_steps else 1

    def read(self, em: Emitter, of: str, step: str) -> None:
        """Read those of a step, or of some from it on."""
        side = self.layout.side_by_side
        if self.layout.along_steps:
            pack, packs, thread, which = f"dyn_pack<{of}, {self.steps}>", self.count, f"u / {side}", f"u % {side}"
        else:
            pack, packs, thread, which = f"dyn_pack<{of}, {side}>", self.count // side, "u", "0"
        place = self.layout.own_place(f"{thread} * {self.apart // side} + {self.thread}", which, step)
        em.line(f"{pack} {self.name}[{packs}];")
        em.line("#pragma unroll")
        em.line(f"for (int u = 0; u < {packs}; ++u) {self.name}[u] = *(const {pack}*)({self.address} + {place});")

    def value(self, which: str) -> str:
        """One of them, of step ``s``."""
        if self.layout.along_steps:
            return f"{self.name}[{which}].v[s]"
        side = self.layout.side_by_side
        return f"{self.name}[{which} / {side}].v[{which} % {side}]"


class _Contraction:
    """One contraction in the making."""

    def __init__(self, em: Emitter, tile: TileContract) -> None:
        self.em, self.tile, self.of = em, tile, _blocking(tile, em.warp)
        self.dtype = tile.acc.dtype
        self.cores = Cores(self.of, self.dtype)
        self.word = sum_type(self.dtype)
        self.bytes = word_bytes(self.dtype)
        of, digits = self.of, tile.digits
        self.rows, self.columns, self.steps = (em.fresh("n") for _ in range(3))
        together = self.cores.rows_together, self.cores.columns_together
        lhs, rhs = tile.factors()
        sides = (
            ("a", lhs, tile.row, of.rows, together[0], self.rows),
            ("b", rhs, tile.col, of.columns, together[1], self.columns),
        )
        self.sides = [
            StagedOperand(em, name, expr, outer, tile.red, most, own, of, extent, self.steps, self.dtype, digits)
            for name, expr, outer, most, own, extent in sides
        ]
        #: How many slices there are at a time of what has most.
        self.stages = max(side.stages for side in self.sides)

    def emit(self) -> None:
        em, tile = self.em, self.tile
        for name, extent in (
            (self.rows, tile.row_extent),
            (self.columns, tile.col_extent),
            (self.steps, tile.red_extent),
        ):
            em.line(f"const long long {name} = {em.dim(extent)};")
        self.memory()
        self.cores.declare(em)
        for side in self.sides:
            side.point()
        tables = [table for side in self.sides for table in side.tables]
        for table in tables:
            table.fill("0", "0")
        self.slices([table for table in tables if table.steps])
        self.epilogue()

    def memory(self) -> None:
        """Reserve shared memory: slices, and in their place parts of the results later."""
        em, size = self.em, 0
        for side in self.sides:
            side.place = size
            size += side.bytes
        results = self.of.parts * self.cores.rows_at_once * self.of.columns * self.bytes
        size = max(size, results)
        for table in [table for side in self.sides for table in side.tables]:
            table.place = size
            size += table.bytes()
        base = em.fresh("w")
        em.slots.append(f"unsigned char* const {base} = {SHARED} + {em.slot_bytes};")
        room = aligned(size)
        assert isinstance(room, int)
        em.slot_bytes += room
        for side in self.sides:
            em.line(f"{self.word}* const {side.name} = ({self.word}*)({base} + {side.place});")
            for table in side.tables:
                em.line(f"long long* const {table.name} = (long long*)({base} + {table.place});")
        em.line(f"{self.word}* const z = ({self.word}*){base};")

    def slices(self, tables: list[Digested]) -> None:
        """A loop in whose first rounds there is nothing to multiply yet.

        One barrier a round is enough: behind it every thread sees the slice that is multiplied, and none reads any more
        the slice before, in whose place what this round asks for, or the next one multiplies, is stored.
        """
        em, depth, ahead = self.em, self.of.depth, self.stages - 1
        copied, held = [s for s in self.sides if s.copied], [s for s in self.sides if s.in_registers]
        fetched = [side for side in self.sides if not side.copied]
        # Numbers of the slices that are asked for, that are multiplied, and that are multiplied next of what has two.
        if copied:
            em.line(f"int last = 0, stage = {1 % self.stages};")
        if fetched:
            em.line(f"int next = {self.stages % 2};")
        with em.braces(f"for (long long k0 = -{ahead * depth}; k0 < {self.steps}; k0 += {depth})"):
            if copied:
                em.line(f"dyn_await_copies<{ahead - 1}>();")
            em.line(em.dialect.barrier)
            if copied:
                with em.braces(f"if (k0 + {ahead * depth} < {self.steps})"):
                    for side in copied:
                        side.copy(f"(k0 + {ahead * depth})", "last")
                em.line("dyn_commit_copies();")
            if fetched:
                em.line(f"const long long ahead = k0 + {depth};")
                em.line(f"const bool more = ahead >= 0 && ahead < {self.steps};")
            for side in held:
                side.declare()
            if fetched:
                with em.braces("if (more)"):
                    for side in fetched:
                        side.fetch("ahead", "next")
            with em.braces("if (k0 >= 0)"):
                lhs, rhs = self.sides
                a, b = [side.slice("stage" if side.copied else "1 - next") for side in (lhs, rhs)]
                self.cores.multiply(em, lhs, rhs, (a, b))
            if held or tables:
                with em.braces("if (more)"):
                    for side in held:
                        side.put("next")
                    for table in tables:
                        table.fill(f"ahead + {depth}", "1 - next")
            if copied:
                em.line(f"last = stage, stage = stage == {ahead} ? 0 : stage + 1;")
            if fetched:
                em.line("next = 1 - next;")
        em.line(em.dialect.barrier)  # what comes next is stored in the slices' place

    def epilogue(self) -> None:
        """What is done with each result, some rows at a time."""
        em, tile, of, cores = self.em, self.tile, self.of, self.cores
        height, thread = cores.rows_at_once, em.dialect.thread
        em.line("#pragma unroll 1")
        with em.braces(f"for (int g = 0; g < {cores.row_groups}; ++g)"):
            cores.spill(em, "z")
            em.line(em.dialect.barrier)
            row, column = em.fresh("i"), em.fresh("i")
            results = height * of.columns
            em.line("#pragma unroll 1")
            with em.braces(f"for (int e = {thread}; e < {results}; e += {of.threads})"):
                em.line(f"const long long {row} = g * {height} + e / {of.columns}, {column} = e % {of.columns};")
                em.line(f"if ({row} >= {self.rows} || {column} >= {self.columns}) continue;")
                em.symbols[tile.row], em.symbols[tile.col] = row, column
                total = em.fresh("v")
                em.line(f"{self.word} {total} = z[e];")
                if of.parts > 1:
                    em.line("#pragma unroll")
                    em.line(f"for (int p = 1; p < {of.parts}; ++p) {total} += z[p * {results} + e];")
                acc = em.refs[id(tile.acc)] = em.fresh("r")
                em.line(f"const {c_type(self.dtype)} {acc} = ({c_type(self.dtype)}){total};")
                em.lane_loop = Loop(Role.LANE, tile.col, tile.col_extent)
                em.block_of(tile.epilogue)
                em.lane_loop = None
            em.line(em.dialect.barrier)
