"""Emitter of kernels as C++ for CUDA and HIP.

A block of ``block`` threads takes the iterations of the GRID loops' linear space in turn, ``blockIdx.x``,
``blockIdx.x + gridDim.x``, …, so that any grid computes the same thing. Its threads share the iterations of each LANE
loop, thread ``k`` taking ``k``, ``k + block``, …; everything else each thread does for itself, except that one thread
makes a uniform Store. A LANE loop's folds are combined in an order that ``block``, the warp and the extent fix: in each
thread, by a butterfly of shuffles in each warp, and then warp by warp, from slots in shared memory, in every thread.

The iterations of a TEAM loop are dealt to teams of ``width`` threads, each a warp or part of one, whose threads share
the LANE loops in it and need no slots. All teams go round as often as any: those that have run out of iterations go
over the last one again, without a LANE loop or a store, so that warps stay together.

Scratch buffers lie behind the slots in the block's shared memory. Their size is an expression over the kernel's dims;
schedules keep it within the family's limits, and compute again what does not fit.
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext

from dyn.errors import NotYetError
from dyn.frozen import record
from dyn.lower.gpu.barriers import BarrierPoint, Barriers
from dyn.lower.gpu.cores import cores_of
from dyn.lower.gpu.dialect import Dialect, dialect_of
from dyn.lower.gpu.folds import combine, folded, join_lanes, lifted, state_of
from dyn.lower.gpu.indices import call_text, calls_to_name, dim_text
from dyn.lower.gpu.memory import SHARED, aligned, iterations_together, unroll_loop, update
from dyn.lower.gpu.prelude import prelude
from dyn.lower.gpu.scalars import apply, c_type, literal, memory_type
from dyn.lower.gpu.staging import staged_loop
from dyn.lower.shared_functions import Routine
from dyn.schedule.gpu.blocked import blocked
from dyn.schedule.gpu.contractions import ThreadBlocking, blocking_of
from dyn.schedule.kernel import (
    Apply,
    Buffer,
    Clear,
    Const,
    Expr,
    Index,
    Kernel,
    Let,
    Load,
    Loop,
    Multiply,
    Pack,
    Ref,
    Role,
    Space,
    Spill,
    Stmt,
    Store,
    Update,
    most_iterations,
)
from dyn.schedule.kernel_walks import children, staged_packs, stmt_exprs, walk_exprs, walk_stmts
from dyn.schedule.statements import condition
from dyn.schedule.target import Target
from dyn.shapes import Dim
from dyn.shapes.expr import Atom

#: Threads of a block, unless its loops are shorter: enough to hide latency, and few enough for any register need.
BLOCK = 256


@record()
class GpuKernelText:
    """A kernel as C++: ``extern "C" void symbol(pointers of the buffers..., long long dims...)``.

    Texts for one target can be put one after the other into one translation unit. A launch has ``threads`` threads in
    a block, any number of blocks, and ``scratch_bytes`` (an expression over ``Kernel.dims``) of dynamic shared memory,
    all that the kernel uses. Global buffers must not overlap.
    """

    text: str
    symbol: str
    scratch_bytes: Dim
    threads: int
    #: Texts share no functions but those that the compiler inlines.
    routines: tuple[Routine, ...] = ()


def emit_kernel(kernel: Kernel, target: Target, *, block: int | None = None) -> GpuKernelText:
    """The C++ text of a kernel in the target's dialect, for blocks of ``block`` threads.

    Unless given, a block has as many as its loops keep busy: a single warp where there is no LANE loop. A contraction's
    block has as many threads as its tiles. Complex numbers are their parts by now: there is no type for them.
    """
    tiles = blocking_of(kernel, target.warp)
    if tiles is not None:  # which are for a number of threads
        block = tiles.threads
    else:
        busy = _busy(kernel, target.warp)
        block = busy if block is None else min(block, busy)
    if block % target.warp or not 0 < block <= 1024:
        raise ValueError(f"a block of {block} threads is not made of warps of {target.warp}, or too large")
    widest = max((loop.width for loop in walk_stmts(kernel.body) if isinstance(loop, Loop)), default=0)
    if widest > target.warp:
        raise ValueError(f"a team of {widest} lanes does not fit into a warp of {target.warp}")
    return Emitter(blocked(kernel, target), dialect_of(target), target.warp, block, tiles).emit()


def _busy(kernel: Kernel, warp: int) -> int:
    """The threads that a block's loops keep busy, in whole warps and as many as a block has at most."""
    loops = [stmt for stmt in walk_stmts(kernel.body) if isinstance(stmt, Loop)]
    if any(loop.role is Role.TEAM for loop in loops):
        return BLOCK
    lanes = [most_iterations(loop.extent) for loop in loops if loop.role is Role.LANE]
    most = max((BLOCK if n is None else n for n in lanes), default=1)
    return min(BLOCK, max(-(-most // warp), 1) * warp)


class Emitter:
    """Writes one kernel. Names go by position, as in ``dyn.schedule.kernel_text``: equal kernels have equal texts."""

    def __init__(
        self, kernel: Kernel, dialect: Dialect, warp: int, block: int, tiles: ThreadBlocking | None = None
    ) -> None:
        self.kernel, self.dialect, self.warp, self.block, self.tiles = kernel, dialect, warp, block, tiles
        #: Accumulators in registers by their buffer; packs that are staged, with the address of what is read of each,
        #: by buffer and place; and the buffers that packs go to, and that accumulators are spilled to.
        self.cores = cores_of(kernel, warp)
        self.staged: dict[tuple[int, Dim], tuple[Pack, str]] = {}
        self.packed = {id(stmt.buffer) for stmt in walk_stmts(kernel.body) if isinstance(stmt, Pack)}
        self.spilled = {id(stmt.buffer) for stmt in walk_stmts(kernel.body) if isinstance(stmt, Spill)}
        self.symbols: dict[Atom, str] = {s: f"d{i}" for i, s in enumerate(kernel.dims)}
        self.buffers = {id(b): f"b{i}" for i, b in enumerate(kernel.own_buffers)}
        self.buffers |= {id(b): f"s{i}" for i, b in enumerate(kernel.scratch)}
        self.scratch = {id(b) for b in kernel.scratch}
        self.overlapping = {id(buffer) for n, buffer in enumerate(kernel.own_buffers) if n in kernel.overlapping}
        self.stored = {id(s.buffer) for s in walk_stmts(kernel.body) if isinstance(s, Store | Update)}
        self.refs: dict[int, str] = {}
        self.barriers = Barriers(kernel, exchanges=block > warp)
        self.slots: list[str] = []
        self.slot_bytes = 0
        self.counts: Counter[str] = Counter()
        self.lines: list[str] = []
        self.depth = 1
        self.lane_loop: Loop | None = None
        #: The TEAM loop that is open; the names of a thread's number in its team, and of whether there is work for it.
        self.team: Loop | None = None
        self.lane = self.active = ""
        #: The neighbours that were read before an UNROLL loop or are written after it, and the name of its variable.
        self.packs: dict[int, str] = {}
        self.pack_index = ""
        #: What has a name already, by scope; and which of it was computed from scratch, so that a store may change it.
        self.values: list[dict[int, str]] = [{}]
        self.volatile: set[int] = set()

    # --- text --------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def braces(self, head: str) -> Iterator[None]:
        """A compound statement; what is named inside is forgotten at its end."""
        self.line(head + " {")
        self.depth += 1
        self.values.append({})
        yield
        self.values.pop()
        self.depth -= 1
        self.line("}")

    def fresh(self, prefix: str) -> str:
        name = f"{prefix}{self.counts[prefix]}"
        self.counts[prefix] += 1
        return name

    def dim(self, dim: Dim) -> str:
        """An expression for a dim; one with many functions in it has names for them."""
        own: dict[Atom, str] = {}
        names = ChainMap(own, self.symbols)
        for atom in calls_to_name(dim, names):
            name = self.fresh("n")
            self.line(f"const long long {name} = {call_text(atom, names)};")
            own[atom] = name
        return dim_text(dim, names)

    def barrier(self, stmt: Stmt, point: BarrierPoint) -> None:
        if (id(stmt), point) in self.barriers.needed:
            self.line(self.dialect.barrier if self.team is None else self.dialect.team_barrier)

    # --- the kernel --------------------------------------------------------------------------------------------

    def emit(self) -> GpuKernelText:
        symbol = re.sub(r"\W", "_", self.kernel.name)
        grid, body = self.kernel.grid()
        self.grid_loops(grid, body)
        inside = self.lines
        self.lines = []
        shared_bytes = self.shared_memory()
        head = self.dialect.kernel.format(bounds=self.bounds(), symbol=symbol)
        parameters = ",\n    ".join(self.parameters())
        text = "\n".join([f"{head}(\n    {parameters}) {{", *self.lines, *inside, "}", ""])
        note = f"// {self.kernel.note}\n" if self.kernel.note else ""
        return GpuKernelText(prelude(self.dialect, text) + note + text, symbol, shared_bytes, self.block)

    def bounds(self) -> str:
        """What launches are bounded by."""
        if self.tiles is None:
            return str(self.block)
        resident = self.tiles.resident
        warps = -(-resident * self.block // (4 * self.warp))
        return self.dialect.resident_bounds.format(block=self.block, resident=resident, warps=warps)

    def parameters(self) -> Iterator[str]:
        for number in range(self.kernel.copies):
            for buffer in self.kernel.own_buffers:
                yield f"{self.pointer_type(buffer)} {self.buffers[id(buffer)]}{self.of_set(number)}"
        for dim in self.kernel.dims:
            yield f"long long {self.symbols[dim]}"

    def pointer_type(self, buffer: Buffer) -> str:
        const = "" if id(buffer) in self.stored else "const "
        # Without the word a compiler may not read an element again that it has read before a store.
        alone = "" if id(buffer) in self.overlapping else " __restrict__"
        return f"{const}{memory_type(buffer.dtype)}*{alone}"

    def of_set(self, number: int) -> str:
        """Suffix of the names of a set's buffers; none where there is one set."""
        return f"_{number}" if self.kernel.copies > 1 else ""

    def shared_memory(self) -> Dim:
        """Declare scratch and slots; how many bytes they take."""
        scratch = [buffer for buffer in self.kernel.scratch if buffer.space is Space.SCRATCH]
        if not self.slot_bytes and not scratch:
            return 0
        self.line(self.dialect.shared.format(name=SHARED))
        for declaration in self.slots:
            self.line(declaration)
        size: Dim = self.slot_bytes
        for buffer in scratch:
            of = memory_type(buffer.dtype)
            offset = f"({SHARED} + {self.dim(size)})" if not isinstance(size, int) or size else SHARED
            self.line(f"{of}* const {self.buffers[id(buffer)]} = ({of}*){offset};")
            size = size + aligned(buffer.size * buffer.dtype.itemsize)
        return size

    def grid_loops(self, grid: tuple[Loop, ...], body: tuple[Stmt, ...]) -> None:
        """The iterations of this block. The first loop is the slowest."""
        for loop in grid:
            self.symbols[loop.var] = self.fresh("g")
        extents = [self.dim(loop.extent) for loop in grid]
        copies = self.kernel.copies
        factors = [*([str(copies)] if copies > 1 else []), *extents]
        total = " * ".join([_operand(e) if len(factors) > 1 else e for e in factors]) or "1"
        step = f"t < {total}; t += {self.dialect.blocks}"
        with self.braces(f"for (long long t = {self.dialect.block}; {step})"):
            rest = "t"
            if copies > 1:  # sets alternate: they may read the same parts of an array at a time
                rest = "w"
                self.line(f"const long long w = t / {copies};")
                self.line(f"const int set = (int)(t % {copies});")
                for buffer in self.kernel.own_buffers:
                    name = self.buffers[id(buffer)]
                    choice = "".join([f"set == {n} ? {name}_{n} : " for n in range(copies - 1)])
                    self.line(f"{self.pointer_type(buffer)} {name} = {choice}{name}_{copies - 1};")
            for loop, extent in zip(reversed(grid[1:]), reversed(extents[1:]), strict=True):
                self.line(f"const long long {self.symbols[loop.var]} = {rest} % {_operand(extent)};")
                rest = f"{rest} / {_operand(extent)}"
            if grid:
                self.line(f"const long long {self.symbols[grid[0].var]} = {rest};")
            for cores in self.cores.values():
                cores.declare(self)
            self.block_of(body)

    # --- statements --------------------------------------------------------------------------------------------

    def block_of(self, body: tuple[Stmt, ...]) -> None:
        stores: list[Store | Update] = []
        for stmt in body:
            if not isinstance(stmt, Store | Update) or (id(stmt), BarrierPoint.BEFORE) in self.barriers.needed:
                self.neighbours(stores)
                stores = []
            if isinstance(stmt, Store | Update):
                stores.append(stmt)
            elif isinstance(stmt, Loop):
                self.loop(stmt)
            elif isinstance(stmt, Let):
                value = self.dim(stmt.value)
                name = self.symbols[stmt.var] = self.fresh("x")
                self.line(f"const long long {name} = {value};")
            else:
                self.leaf(stmt)
        self.neighbours(stores)

    def leaf(self, stmt: Stmt) -> None:
        """Emit a statement on accumulators in registers."""
        if isinstance(stmt, Clear):
            self.cores[id(stmt.acc)].clear(self)
        elif isinstance(stmt, Spill):
            self.barrier(stmt, BarrierPoint.BEFORE)
            self.cores[id(stmt.acc)].spill(self, stmt)
            self.forget_scratch()
        elif isinstance(stmt, Multiply) and id(stmt.acc) in self.cores:
            self.barrier(stmt, BarrierPoint.BEFORE)
            self.cores[id(stmt.acc)].multiply(self, stmt)
        else:
            raise NotYetError(
                f"kernel {self.kernel.name}: a {type(stmt).__name__} outside of a loop that stages what it reads, or "
                "with sums in scratch, is not generated for GPUs yet."
            )

    def neighbours(self, stores: Sequence[Store | Update]) -> None:
        """Stores with nothing between them, which evaluate once what they share."""
        if not stores:
            return
        self.barrier(stores[0], BarrierPoint.BEFORE)
        # Outside of LANE loops one thread is enough, for the values too.
        first = f"{self.dialect.thread} == 0" if self.team is None else f"{self.active} && {self.lane} == 0"
        with nullcontext() if self.lane_loop is not None else self.braces(f"if ({first})"):
            for stmt in stores:
                self.assign(stmt)

    def assign(self, store: Store | Update) -> None:
        if isinstance(store, Update):
            update(self, store)
        elif id(store) in self.packs:
            self.line(f"{self.packs[id(store)]}.v[{self.pack_index}] = {self.eval(store.value)};")
        else:
            value = self.eval(store.value)
            self.line(f"{self.buffers[id(store.buffer)]}[{self.dim(store.index)}] = {value};")
        if id(store.buffer) in self.scratch:
            self.forget_scratch()

    def loop(self, loop: Loop) -> None:
        if loop.start != 0 or loop.count is not None:
            how = "takes several iterations of the grid at once" if loop.start == 0 else f"begins at {loop.start}"
            raise NotYetError(
                f"kernel {self.kernel.name}: loop {loop.var.name}, which {how}, is not generated for GPUs yet."
            )
        if loop.role is Role.TEAM:
            self.team_loop(loop)
        elif loop.role is Role.UNROLL:
            unroll_loop(self, loop)
        elif staged_packs(loop):
            staged_loop(self, loop)
        elif loop.role is Role.SERIAL and (positive := condition(loop)) is not None:
            self.symbols[loop.var] = "0"
            with self.braces(f"if ({self.dim(positive)} > 0)"):
                self.block_of(loop.body)
        else:
            self.serial_loop(loop)

    def team_loop(self, loop: Loop) -> None:
        """The iterations of this thread's team, in as many rounds as any team's."""
        self.forget_scratch()
        self.barrier(loop, BarrierPoint.BEFORE)
        thread, teams = self.dialect.thread, self.block // loop.width
        first, extent, self.lane, self.active = (self.fresh(prefix) for prefix in ("t", "n", "l", "a"))
        var = self.symbols[loop.var] = self.fresh("t")
        self.line(f"const long long {extent} = {self.dim(loop.extent)};")
        self.line(f"const int {self.lane} = {thread} % {loop.width};")
        with self.braces(f"for (long long {first} = 0; {first} < {extent}; {first} += {teams})"):
            self.line(f"const bool {self.active} = {first} + {thread} / {loop.width} < {extent};")
            self.line(f"const long long {var} = {self.active} ? {first} + {thread} / {loop.width} : {extent} - 1;")
            self.team = loop
            self.block_of(loop.body)
            self.team = None
        self.forget_scratch()

    def serial_loop(self, loop: Loop) -> None:
        """A loop in each thread; of a LANE loop, over the iterations that are the thread's."""
        stores = any(isinstance(s, Store) and id(s.buffer) in self.scratch for s in walk_stmts(loop.body))
        if stores:  # what was read before is not what later iterations would read
            self.forget_scratch()
        self.barrier(loop, BarrierPoint.BEFORE)
        self.start_folds(loop)
        self.iterations(loop, together=1 if self.is_long(loop) else iterations_together(loop))
        self.end_folds(loop)
        if loop.role is Role.LANE:
            join_lanes(self, loop)
        if stores:
            self.forget_scratch()

    def is_long(self, loop: Loop) -> bool:
        """Return True if a loop's code should be there once: what is done with accumulators may be much, and waits for
        shared memory."""
        if not self.spilled:
            return False
        if any(isinstance(stmt, Spill) for stmt in loop.body):
            return True
        values = [value for stmt in walk_stmts(loop.body) for value in stmt_exprs(stmt)]
        return any(isinstance(e, Load) and id(e.buffer) in self.spilled for e in walk_exprs(tuple(values)))

    def start_folds(self, loop: Loop) -> None:
        """Variables for the states of a loop's folds, as they are before any iteration."""
        for fold in folded(loop):
            for ref, init in zip(fold.refs, fold.monoid.init, strict=True):
                name = self.refs[id(ref)] = self.fresh("r")
                self.line(f"{c_type(ref.dtype)} {name} = {literal(init)};")

    def fold(self, loop: Loop) -> None:
        """Combine what an iteration folds with the states. All values are known before any state changes."""
        states = [[self.eval(value) for value in fold.values] for fold in loop.folds]
        for fold, state in zip(folded(loop), states, strict=True):
            combine(self, fold, state_of(self, fold), lifted(self, fold, state))

    def end_folds(self, loop: Loop) -> None:
        """Name the states that a loop's folds leave."""
        for fold, own in zip(loop.folds, folded(loop), strict=True):
            if own is not fold:
                self.refs.update(zip(map(id, fold.refs), lifted(self, fold, state_of(self, own)), strict=True))

    def iterations(self, loop: Loop, *, together: int) -> None:
        """The iterations of a loop, or of a LANE loop those that are the thread's, after which its states are known;
        so many ``together`` in the code, or with 0 as the compiler likes."""
        lane = loop.role is Role.LANE
        for carry, init in zip(loop.carries, [self.eval(carry.init) for carry in loop.carries], strict=True):
            name = self.refs[id(carry.state)] = self.refs[id(carry.ref)] = self.fresh("c")
            self.line(f"{c_type(carry.ref.dtype)} {name} = {init};")
        var = self.symbols[loop.var] = self.fresh("i" if lane else "j")
        for symbol, value in [(symbol, self.eval(value)) for symbol, value in loop.bound]:
            self.symbols[symbol] = value
        extent, first, step = self.dim(loop.extent), "0", f"++{var}"
        if lane and self.team is not None:
            first, step = f"{self.active} ? {self.lane} : {extent}", f"{var} += {self.team.width}"
        elif lane:
            first, step = self.dialect.thread, f"{var} += {self.block}"
        if together:
            self.line(f"#pragma unroll {together}")
        with self.braces(f"for (long long {var} = {first}; {var} < {extent}; {step})"):
            if lane:
                self.lane_loop = loop
            self.block_of(loop.body)
            self.barrier(loop, BarrierPoint.FOLDS)
            self.fold(loop)
            self.carry(loop)
        if lane:
            self.lane_loop = None

    def carry(self, loop: Loop) -> None:
        """The states of the next iteration. Each value is taken before any of them changes."""
        following: list[str] = []
        for carry in loop.carries:
            value = self.eval(carry.value)
            following.append(self.fresh("n"))
            self.line(f"const {c_type(carry.ref.dtype)} {following[-1]} = {value};")
        for carry, name in zip(loop.carries, following, strict=True):
            self.line(f"{self.refs[id(carry.state)]} = {name};")

    # --- expressions -------------------------------------------------------------------------------------------

    def eval(self, root: Expr) -> str:
        """A name or a literal for an expression's value. Whatever is computed gets a line, and is computed once."""
        done: dict[int, str] = {}
        for expr in walk_exprs((root,)):
            found = next((scope[id(expr)] for scope in reversed(self.values) if id(expr) in scope), None)
            done[id(expr)] = self.node(expr, done) if found is None else found
        return done[id(root)]

    def node(self, expr: Expr, done: dict[int, str]) -> str:
        if isinstance(expr, Const):
            return literal(expr)
        if isinstance(expr, Ref):
            return self.refs[id(expr)]
        if isinstance(expr, Index):
            return f"({c_type(expr.dtype)}){_operand(self.dim(expr.expr))}"
        if isinstance(expr, Load):
            text = self.load(expr, done)
        else:
            text = self.function(expr, done)
        name = self.values[-1][id(expr)] = self.fresh("v")
        self.line(f"const {c_type(expr.dtype)} {name} = {text};")
        from_scratch = isinstance(expr, Load) and id(expr.buffer) in self.scratch
        if from_scratch or any(id(child) in self.volatile for child in children(expr)):
            self.volatile.add(id(expr))
        return name

    def function(self, expr: Expr, done: dict[int, str]) -> str:
        """A function of what has names."""
        assert isinstance(expr, Apply)
        return apply(expr.fn, expr.args[-1].dtype, expr.dtype, tuple([done[id(arg)] for arg in expr.args]))

    def load(self, load: Load, done: dict[int, str]) -> str:
        if id(load) in self.packs:
            return f"{self.packs[id(load)]}.v[{self.pack_index}]"
        for symbol, value in load.bound:
            self.symbols[symbol] = done[id(value)]
        text = f"{self.buffers[id(load.buffer)]}[{self.dim(load.index)}]"
        if load.mask is None or load.other is None:
            return text
        return f"{done[id(load.mask)]} ? {text} : {done[id(load.other)]}"

    def forget_scratch(self) -> None:
        """Scratch was written to, or will be before this point is reached again."""
        for scope in self.values:
            for key in self.volatile & scope.keys():
                del scope[key]


def _operand(text: str) -> str:
    """A text as an operand of ``*`` and ``%``."""
    return text if re.fullmatch(r"\w+", text) else f"({text})"
