"""Cost model of kernels on GPUs: the time that a launch should take on a device, and the share of its limits.

All of it is computed from the kernel, its sizes and what vendors say of their devices; nothing is measured, and nothing
of it decides anything. It is for choosing sizes and for finding what is far from a limit where there is no device.

A launch takes as long as what it has most of, and the time until its first answer comes from memory:

* bytes, each once, at the memory's pace; or slower, where too few of them are on their way at a time (Little's law);
* instructions, a warp's at a time: of the expressions, of addresses and of loops;
* multiply-adds of contractions, by the arithmetic units that there are;

and the multiprocessor that has most blocks decides. Registers, shared memory and threads say how many of them it has at
once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from dyn import dtypes
from dyn.dtypes import DType
from dyn.frozen import record
from dyn.lower.gpu.emit import GpuKernelText
from dyn.lower.gpu.memory import iterations_together
from dyn.lower.gpu.scalars import TABLE
from dyn.ops.scalar import Scalar
from dyn.schedule.cost import expected_extent, traffic
from dyn.schedule.gpu.contractions import ThreadBlocking, blocking_of
from dyn.schedule.gpu.operands import can_be_copied, sum_dtype
from dyn.schedule.kernel import (
    Apply,
    Expr,
    Index,
    Kernel,
    Load,
    Loop,
    Role,
    Space,
    Stmt,
    Store,
    TileContract,
    Update,
    most_iterations,
)
from dyn.schedule.kernel_walks import children, stmt_exprs, walk_exprs, walk_stmts
from dyn.shapes import Dim, Symbol, evaluate, free_symbols, substitute


@record()
class GpuModel:
    """A GPU by its vendor's figures: per multiprocessor, unless it says otherwise.

    ``clock`` is in Hz, ``memory`` in bytes a second, ``latency`` in seconds from a load to its value. ``lanes`` are
    multiply-adds a cycle in float32 and in float64; ``warps`` of instructions are issued a cycle, if there are four:
    each is of one of four schedulers. ``copies`` tells whether it copies to shared memory by itself. ``extreme`` and
    ``rounding`` are instructions: of the greater of two floats, and of a float32 that is rounded to bfloat16.
    """

    name: str
    multiprocessors: int
    clock: float
    memory: float
    latency: float
    warp: int
    lanes: tuple[float, float]
    warps: float
    registers: int
    shared_bytes: int
    threads: int
    blocks: int
    copies: bool
    extreme: int = 1
    rounding: int = 1

    def multiply_adds(self, dtype: DType) -> float:
        """Multiply-adds a second, on all multiprocessors."""
        return self.multiprocessors * self.lanes[dtype.itemsize == 8] * self.clock


#: Vendors' figures; latencies are those of published microbenchmarks. An MI300X has 163 TFLOP/s in float32 where two
#: multiply-adds are one instruction; counted here is one. Its last two figures were counted in code for gfx90a.
DEVICES = {
    "H100": GpuModel("H100 SXM", 132, 1.98e9, 3.35e12, 600e-9, 32, (128, 64), 4, 65536, 227 << 10, 2048, 32, True),
    "MI300X": GpuModel("MI300X", 304, 2.1e9, 5.3e12, 800e-9, 64, (64, 64), 1, 131072, 64 << 10, 2048, 32, False, 7, 6),
    "RTX 5090": GpuModel("RTX 5090", 170, 2.41e9, 1.79e12, 550e-9, 32, (128, 2), 4, 65536, 100 << 10, 1536, 24, True),
}

#: Instructions of an access beside itself, for its address; and of an iteration, for its loop.
_ADDRESS, _ITERATION = 3, 4
#: Of a slice of a contraction: those that move some elements through registers, that have 16 bytes copied, and all
#: others; counted in PTX.
_MOVE, _COPY, _SLICE = 16, 4, 60
#: Schedulers of a multiprocessor: a warp belongs to one.
_SCHEDULERS = 4
#: Iterations of a loop that compilers unroll.
_UNROLLED = 4
#: Cycles in which a lone block waits at the end of a slice.
_WAIT = 80


@record()
class LaunchEstimate:
    """What a launch should take on a device.

    ``bytes`` are those that have to pass through memory, ``resident`` the blocks on a multiprocessor, ``occupancy`` the
    share of its threads that they are, ``waves`` the blocks by all that there is room for. ``seconds`` are without what
    it takes to start a kernel. ``share`` is that of the ``limit``: the time that bytes alone, or multiply-adds alone,
    would take at the device's best, and a first answer of the memory.
    """

    bytes: int
    multiply_adds: int
    resident: int
    occupancy: float
    waves: float
    seconds: float
    limit: str
    share: float


def estimate(
    kernel: Kernel, text: GpuKernelText, sizes: Mapping[Symbol, int], held: int, registers: int, device: GpuModel
) -> LaunchEstimate:
    """The estimate of a launch at sizes of ``kernel.dims``; its buffers have ``held`` bytes, a thread ``registers``."""
    work = _Work(sizes, text.threads, device)
    tile = next((s for s in walk_stmts(kernel.body) if isinstance(s, TileContract)), None)
    counts = traffic(kernel, [sizes[symbol] for symbol in kernel.dims])
    accessed = sum(
        work.value(count) * buffer.dtype.itemsize for buffer, count in zip(kernel.buffers, counts, strict=True)
    )
    bytes_, resident = min(accessed, held), _resident(device, text.threads, registers, work.value(text.scratch_bytes))
    grid, body = kernel.grid()
    blocks = max(math.prod([work.value(loop.extent) for loop in grid]), 1) * kernel.copies
    most = math.ceil(blocks / device.multiprocessors)  # the blocks of the multiprocessor that has most
    if tile is None:
        asked, products, rate = _asked(kernel), 0, 1.0
        cycles = work.instructions(body) * text.threads / device.warp / device.warps
    else:
        of = _blocking(kernel, device.warp)
        asked = (of.rows + of.columns) * of.depth * _narrowest(tile) / of.threads * (_stages(of, tile, device) - 1)
        extents = (tile.row_extent, tile.col_extent, tile.red_extent)
        products, rate = blocks * math.prod([work.value(d) for d in extents]), device.multiply_adds(tile.acc.dtype)
        cycles = _tile_cycles(of, tile, work, device, alone=min(most, resident) == 1)
    on_their_way = min(blocks, device.multiprocessors * resident) * text.threads * asked
    pace = min(device.memory, on_their_way / device.latency)
    busy = min(min(most, resident) * -(-text.threads // device.warp) / _SCHEDULERS, 1)
    seconds = device.latency + max(bytes_ / pace, most * cycles / busy / device.clock)
    least = {"memory": bytes_ / device.memory, "arithmetic": products / rate}
    limit = max(least, key=lambda name: least[name])
    return LaunchEstimate(
        bytes_, products, resident, resident * text.threads / device.threads,
        blocks / (device.multiprocessors * resident), seconds, limit, (device.latency + least[limit]) / seconds,
    )  # fmt: skip


def _resident(device: GpuModel, threads: int, registers: int, shared: int) -> int:
    """Blocks on a multiprocessor at once. Registers are given out by 8 a thread."""
    by_registers = device.registers // (max(-(-registers // 8) * 8, 16) * threads)
    by_shared = device.shared_bytes // (shared + 1024)
    return max(min(by_registers, by_shared, device.threads // threads, device.blocks), 1)


def _blocking(kernel: Kernel, warp: int) -> ThreadBlocking:
    found = blocking_of(kernel, warp)
    assert found is not None
    return found


def _copied(tile: TileContract, device: GpuModel) -> tuple[bool, bool]:
    """Whether the device copies each operand to shared memory by itself."""
    sides = zip(tile.factors(), (tile.row, tile.col), strict=True)
    lhs, rhs = [device.copies and can_be_copied(expr, own, tile.red, tile.digits) for expr, own in sides]
    return lhs, rhs


def _stages(of: ThreadBlocking, tile: TileContract, device: GpuModel) -> int:
    """Slices that are in shared memory at a time, of both operands."""
    return of.stages if all(_copied(tile, device)) else 2


def _narrowest(tile: TileContract) -> int:
    """Bytes of an operand's element in memory."""
    return min((e.dtype.itemsize for e in walk_exprs((tile.lhs, tile.rhs)) if isinstance(e, Load)), default=0)


def _tile_cycles(of: ThreadBlocking, tile: TileContract, work: _Work, device: GpuModel, *, alone: bool) -> float:
    """Cycles of a block: what its warps issue, what arithmetic units and shared memory take, whichever is most."""
    dtype = tile.acc.dtype
    word, steps, warps = sum_dtype(dtype).itemsize, of.depth // of.parts, of.threads / device.warp
    products = of.tile.rows * of.tile.columns * steps
    loads = (of.row_groups(word) + of.column_groups(word)) * steps
    together = 16 // word
    moved = sum(
        size * of.depth / of.threads * (_COPY / together if copied else 1 + _MOVE / together)
        for size, copied in zip((of.rows, of.columns), _copied(tile, device), strict=True)
    )
    issued = products + loads + moved + _SLICE
    arithmetic = products * device.warp / device.lanes[dtype.itemsize == 8]
    shared = 2 * loads * device.warp / 32  # 16 bytes a lane, many of them the same: two cycles for 32 lanes
    slices = -(-work.value(tile.red_extent) // of.depth)
    a_slice = warps * max(issued / device.warps, arithmetic, shared) + (_WAIT if alone else 0)
    epilogue = of.rows * of.columns / device.warp * work.instructions(tile.epilogue) / device.warps
    return slices * a_slice + epilogue


def _asked(kernel: Kernel) -> float:
    """Bytes that a thread has asked for at a time: by all accesses of an iteration, which do not wait for one another,
    of neighbours that go together, or of a few iterations that the compiler unrolls."""
    stmts = list(walk_stmts(kernel.body))
    together = [most_iterations(s.extent) or 1 for s in stmts if isinstance(s, Loop) and s.role is Role.UNROLL]
    most = 0
    for stmt in stmts:
        buffers = [e.buffer for e in walk_exprs(stmt_exprs(stmt)) if isinstance(e, Load)]
        buffers += [stmt.buffer] if isinstance(stmt, Store | Update) else []
        accesses = [buffer.dtype.itemsize for buffer in buffers if buffer.space is Space.GLOBAL]
        folded = iterations_together(stmt) if isinstance(stmt, Loop) else 0
        most = max(most, sum(accesses) * max(max(together, default=_UNROLLED), folded))
    return most


@record()
class _Work:
    """What a thread of a block executes at given sizes: the first iteration of each loop stands for all, and what is
    outside of lanes each thread computes. What is the same for all lanes compilers move out of their loops."""

    sizes: Mapping[Symbol, int]
    threads: int
    device: GpuModel

    def value(self, dim: Dim) -> int:
        """A dim's value in the first iteration of all loops."""
        return evaluate(substitute(dim, dict.fromkeys(free_symbols(dim) - self.sizes.keys(), 0)), self.sizes)

    def instructions(self, body: tuple[Stmt, ...]) -> float:
        """The instructions of a thread that runs a body once."""
        return self._block(body, self.threads, 1, None, set())

    def _block(
        self, body: tuple[Stmt, ...], lanes: int, together: int, inside: frozenset[int] | None, known: set[int]
    ) -> float:
        """Instructions of a body whose LANE loops are shared by so many lanes, for one of elements that go together;
        ``inside`` of a LANE loop those of what varies in it, and of none of the expressions that are ``known``."""
        return sum([self._stmt(stmt, lanes, together, inside, known) for stmt in body])

    def _stmt(self, stmt: Stmt, lanes: int, together: int, inside: frozenset[int] | None, known: set[int]) -> float:
        if not isinstance(stmt, Loop):
            return self._exprs(stmt, together, inside, known) + (1 + _ADDRESS) / together
        rounds = self.value(expected_extent(stmt))
        if stmt.role is Role.TEAM:
            rounds, lanes = -(-rounds // (self.threads // stmt.width)), stmt.width
        elif stmt.role is Role.LANE:
            rounds, inside = -(-rounds // lanes), _varying(stmt)
        elif stmt.role is Role.UNROLL:
            together = most_iterations(stmt.extent) or 1
        known = set(known)
        body = self._block(stmt.body, lanes, together, inside, known)
        return rounds * (body + self._exprs(stmt, together, inside, known) + _ITERATION / together)

    def _exprs(self, stmt: Stmt, together: int, inside: frozenset[int] | None, known: set[int]) -> float:
        """Instructions of what a statement computes itself; it is known from then on."""
        new = [e for e in walk_exprs(stmt_exprs(stmt)) if id(e) not in known and (inside is None or id(e) in inside)]
        known.update(map(id, new))
        return sum([_expr(e, together, self.device) for e in new])


def _varying(lane: Loop) -> frozenset[int]:
    """The expressions of a LANE loop that depend on its variable, on loops inside of it, or on their states."""
    inner = [stmt for stmt in walk_stmts((lane,)) if isinstance(stmt, Loop)]
    symbols = {loop.var for loop in inner}
    found = {id(ref) for loop in inner for fold in loop.folds for ref in fold.refs}
    found |= {id(ref) for loop in inner for carry in loop.carries for ref in (carry.ref, carry.state)}
    for expr in walk_exprs(tuple(e for stmt in walk_stmts((lane,)) for e in stmt_exprs(stmt))):
        own = expr.index if isinstance(expr, Load) else expr.expr if isinstance(expr, Index) else 0
        if not symbols.isdisjoint(free_symbols(own)) or any(id(child) in found for child in children(expr)):
            found.add(id(expr))
    return frozenset(found)


def _expr(expr: Expr, together: int, device: GpuModel) -> float:
    if isinstance(expr, Load):
        return (1 + _ADDRESS) / together
    if isinstance(expr, Apply):
        if expr.fn in (Scalar.MAX, Scalar.MIN) and expr.dtype.is_float:
            return device.extreme
        if expr.fn is Scalar.CAST and expr.dtype is dtypes.bfloat16:
            return device.rounding
        weight = TABLE[expr.fn].instructions
        return weight * (4 if expr.dtype is dtypes.float64 and weight > 1 else 1)
    return float(isinstance(expr, Index))
