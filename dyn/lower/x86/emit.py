"""Emitter of kernels as LLVM IR text: values.

:class:`KernelEmitter` is the interface of this folder: it evaluates expressions and emits statements in the scope that
is open. Loops are in ``loops.py``, folds in ``folds.py``, contractions in ``tile.py``; they open scopes and call back.

ISPC's model: inside a LANE loop (or a tile's epilogue) a value that depends on the lane is ``Lanes.unroll`` vectors;
every other value is one scalar, computed in the outermost scope where its operands are known. No LLVM pass runs over
the text, so what is written here is what is executed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from dyn import dtypes
from dyn.dtypes import DType
from dyn.errors import NotYetError
from dyn.frozen import record
from dyn.lower.shared_functions import Routine
from dyn.lower.x86 import loops, memory
from dyn.lower.x86.ahead import first_sweeps
from dyn.lower.x86.casts import cast
from dyn.lower.x86.indices import I64, Indices
from dyn.lower.x86.llvm_text import Chunk, FunctionText, VType, constant, iota, render, vtype
from dyn.lower.x86.machine import Machine
from dyn.lower.x86.registers import REGISTERS
from dyn.lower.x86.scalars import apply
from dyn.lower.x86.scopes import Lanes, LaneValue, Scopes
from dyn.lower.x86.squares import Squares
from dyn.lower.x86.streaming import Streaming
from dyn.lower.x86.tile import emit_multiply, emit_pack
from dyn.lower.x86.varying import Varying
from dyn.ops.scalar import Scalar
from dyn.schedule.kernel import (
    Apply,
    Buffer,
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
    Stmt,
    Store,
    TileContract,
    Update,
)
from dyn.schedule.kernel_walks import children, walk_stmts
from dyn.schedule.target import Target
from dyn.schedule.x86.blocked import blocked
from dyn.shapes import Dim, Symbol, dim_sum, floordiv, linear_in


@record()
class X86KernelText:
    """A kernel as LLVM IR: ``void symbol(ptr dims, ptr buffers, ptr scratch, i64 begin, i64 end)``.

    ``dims`` are the kernel's dims as i64, ``buffers`` the addresses of its global buffers, ``scratch`` is 64-byte
    aligned and has room for ``scratch_bytes`` (an expression over ``Kernel.dims``), one for each concurrent caller.
    ``[begin, end)`` is a range of the GRID loops' linear space, the first loop slowest; without GRID loops the space is
    [0, 1).
    """

    symbol: str
    scratch_bytes: Dim
    #: What the definition refers to: declarations, and definitions of internal functions.
    externals: tuple[str, ...]
    definition: str
    #: Those definitions that other kernels have as well.
    routines: tuple[Routine, ...] = ()
    #: Threads of a GRID iteration: its lanes are vectors of one.
    threads: int = 1

    @property
    def text(self) -> str:
        """A module of its own."""
        return link([self])


def link(kernels: Sequence[X86KernelText]) -> str:
    """Put several kernels into one module; what they refer to in common stands in it once."""
    externals = dict.fromkeys([external for kernel in kernels for external in kernel.externals])
    return "\n".join([*externals, *[kernel.definition for kernel in kernels], ""])


class KernelEmitter:
    """Emits one kernel. ``fn`` is the function under construction, ``scopes`` the open scopes."""

    def __init__(self, kernel: Kernel, target: Target) -> None:
        self.kernel = kernel
        self.target = target
        self.fn = FunctionText()
        self.scopes = Scopes(self.fn)
        self.indices = Indices(self.fn, self.scopes)
        self.machine = Machine(target, self.fn)
        self.varying = Varying(kernel)
        #: What first sweeps through rows read.
        self.sweeps = first_sweeps(kernel)
        self.streaming = Streaming(self)
        #: Scratch that holds sums of products, by its id.
        self.accumulators = {id(stmt.acc) for stmt in walk_stmts(kernel.body) if isinstance(stmt, Multiply)}
        self.scratch_bytes: Dim = 0
        #: Bytes of stack that are taken: callers' threads may have little.
        self.stack_bytes = 0
        self._scratch = {id(buffer) for buffer in kernel.scratch}
        self._pointers: dict[int, str] = {}
        #: What the UNROLL loop that is open loads and stores by squares.
        self.squares: Squares | None = None

    # --- scopes and bindings -----------------------------------------------------------------------------------

    @contextmanager
    def scope(self, *, guarded: bool = False) -> Iterator[None]:
        """A stretch of code that what is bound and computed inside does not outlive, such as a loop's body.

        Values that do not depend on what is bound inside are computed in front of it. Say ``guarded`` when control
        may pass the scope by: then loads stay inside.
        """
        self.scopes.push(guarded=guarded)
        yield
        self.scopes.pop()

    def bind(self, symbol: Symbol, value: str) -> None:
        """Make a symbol uniform: ``value`` names an i64, or is a literal."""
        self.scopes.bind(symbol, value)

    def bind_lanes(self, lanes: Lanes) -> None:
        """Make ``lanes.symbol`` varying. Vectors evaluated in this scope have ``lanes.unroll`` parts."""
        self.scopes.bind_lanes(lanes)

    def bind_ref(self, ref: Ref, parts: tuple[str, ...], *, varying: bool = True) -> None:
        """Give a reference its value in this scope: ``unroll`` vectors when varying, else one scalar."""
        lanes = self.scopes.top.lanes
        width = lanes.width if varying and lanes is not None else 1
        self.scopes.keep(id(ref), LaneValue(self.register(ref.dtype, width), parts, self.scopes.top.depth, varying))

    @property
    def lanes(self) -> Lanes:
        """The super-vector in force."""
        lanes = self.scopes.top.lanes
        assert lanes is not None, "no lane symbol is bound"
        return lanes

    # --- types and indices -------------------------------------------------------------------------------------

    def register(self, dtype: DType, width: int = 1) -> VType:
        """The type of ``width`` elements in registers. Booleans are i1, narrow floats their bits."""
        return vtype(self._element(dtype), width)

    def memory(self, dtype: DType, width: int = 1) -> VType:
        """The type of ``width`` elements in memory: as in registers, but for booleans, which are i8."""
        return vtype("i8" if dtype is dtypes.bool_ else self._element(dtype), width)

    def _element(self, dtype: DType) -> str:
        elem = REGISTERS.get(dtype)
        if elem is None:
            raise NotYetError(
                f"kernel {self.kernel.name}: {dtype.name} is not generated for x86 yet.",
                remedy="compute with the real and imaginary parts.",
            )
        return elem

    def dim(self, dim: Dim) -> str:
        """A uniform index expression as an i64 name or literal, hoisted. A lane symbol counts as its first lane."""
        return self.indices.uniform(dim).parts[0]

    def address(self, buffer: Buffer, index: Dim) -> str:
        """The address of a buffer's element, hoisted. A lane symbol counts as its value in the first lane."""
        return self.indices.address(self.pointer(buffer), self.memory(buffer.dtype).elem, index).parts[0]

    def pointer(self, buffer: Buffer) -> str:
        """Pointer to a buffer's first element."""
        return self._pointers[id(buffer)]

    def alloc_scratch(self, size: Dim) -> str:
        """The address of ``size`` more bytes of scratch (an expression over the kernel's dims), 64-byte aligned.

        They belong to one call of the kernel and are not cleared.
        """
        pointer = self.indices.address("%scratch", "i8", self.scratch_bytes).parts[0]
        self.scratch_bytes = self.scratch_bytes + _whole_lines(size)
        return pointer

    def take_stack(self, size: int) -> bool:
        """Whether so many more bytes of stack may be taken; then they are."""
        if self.stack_bytes + size > memory.MOST_STACK:
            return False
        self.stack_bytes += size
        return True

    def is_scratch(self, buffer: Buffer) -> bool:
        return id(buffer) in self._scratch

    # --- expressions -------------------------------------------------------------------------------------------

    def eval(self, expr: Expr) -> LaneValue:
        """The value of an expression in the open scope: what was computed before is reused."""
        found = self.scopes.find(id(expr))
        if found is not None:
            return found
        stack = [expr]
        while stack:
            node = stack[-1]
            if self.scopes.find(id(node)) is not None:
                stack.pop()
                continue
            missing = [child for child in children(node) if self.scopes.find(id(child)) is None]
            if missing:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            self.scopes.keep(id(node), self._node(node))
        found = self.scopes.find(id(expr))
        assert found is not None
        return found

    def vectors(self, expr: Expr) -> tuple[str, ...]:
        """The value as ``lanes.unroll`` vectors, also when it is uniform."""
        return self.spread(self.eval(expr)).parts

    def scalar(self, expr: Expr) -> str:
        """The value of a uniform expression."""
        value = self.eval(expr)
        assert not value.varying, "a uniform value is needed"
        return value.parts[0]

    def spread(self, value: LaneValue) -> LaneValue:
        """A value as varying."""
        return value if value.varying else self.indices.splat(value, self.lanes)

    def _node(self, expr: Expr) -> LaneValue:
        if isinstance(expr, Const):
            ty = self.register(expr.dtype)
            return LaneValue(ty, (self.literal(expr),), 0)
        if isinstance(expr, Apply):
            return self._apply(expr)
        if isinstance(expr, Load):
            return memory.load(self, expr)
        if isinstance(expr, Index):
            return self._index(expr)
        raise AssertionError(f"{expr.name} has no value here")

    def literal(self, const: Const) -> str:
        """A constant as a scalar literal."""
        if const.dtype.is_narrow:
            return str(int(np.asarray(const.value).astype(const.dtype.np).view(f"i{const.dtype.itemsize}")))
        return constant(const.value, self.register(const.dtype))

    def _apply(self, expr: Apply) -> LaneValue:
        args = [self.eval(arg) for arg in expr.args]
        varying = any(arg.varying for arg in args)
        volatile = any(arg.volatile for arg in args)
        if varying:
            args = [self.spread(arg) for arg in args]
        depth = max([arg.depth for arg in args])
        fn = self.fn
        saved, fn.here = fn.here, self.scopes.chunk(depth)
        width = args[0].ty.lanes
        parts: list[str] = []
        lines: list[Chunk] = []
        for operands in zip(*[arg.parts for arg in args], strict=True):
            fn.here = []
            parts.append(self.function(expr, width, operands))
            lines.append(fn.here)
        # Vectors take turns, instruction by instruction: a processor's scheduler is smaller than a long chain.
        place = self.scopes.chunk(depth)
        for turn in zip(*lines, strict=True):
            place.extend(turn)
        fn.here = saved
        return LaneValue(self.register(expr.dtype, width), tuple(parts), depth, varying, volatile)

    def function(self, expr: Apply, width: int, operands: Sequence[str]) -> str:
        """A function of vectors of ``width`` lanes that have its arguments' dtypes, written where ``fn`` is."""
        of = expr.args[-1].dtype
        ty, result = self.register(of, width), self.register(expr.dtype, width)
        if expr.fn is Scalar.CAST:
            return cast(self.machine, of, expr.dtype, ty, result, operands[0])
        if expr.fn is Scalar.BITCAST:
            return self.fn.cast("bitcast", ty, operands[0], result)
        return apply(self.machine, expr.fn, of, ty, tuple(operands))

    def _index(self, expr: Index) -> LaneValue:
        """An index as a number. Linear ones are computed in the result's own width, which wraps as the cast would."""
        indices, fn = self.indices, self.fn
        ty = self.register(expr.dtype)
        if not indices.varies(expr.expr):
            value = indices.uniform(expr.expr)
            if ty is I64:
                return value
            saved, fn.here = fn.here, self.scopes.chunk(value.depth)
            name = fn.cast("trunc", I64, value.parts[0], ty)
            fn.here = saved
            return LaneValue(ty, (name,), value.depth)
        lanes = self.lanes
        wide = vtype(ty.elem, lanes.width)
        linear = linear_in(expr.expr, lanes.symbol)
        if linear is not None and isinstance(linear[0], int):
            step = linear[0]
            first = indices.uniform(expr.expr)
            depth = max(first.depth, self.scopes.top.lanes_depth)
            saved, fn.here = fn.here, self.scopes.chunk(depth)
            start = fn.splat(wide, fn.cast("trunc", I64, first.parts[0], ty))
            parts = [
                fn.op("add", wide, start, iota(ty.elem, lanes.width, u * lanes.width * step, step))
                for u in range(lanes.unroll)
            ]
            fn.here = saved
            return LaneValue(wide, tuple(parts), depth, True)
        value = indices.vector(expr.expr)
        saved, fn.here = fn.here, self.scopes.chunk(value.depth)
        parts = [fn.cast("trunc", value.ty, part, wide) for part in value.parts]
        fn.here = saved
        return LaneValue(wide, tuple(parts), value.depth, True, value.volatile)

    # --- statements --------------------------------------------------------------------------------------------

    def statements(self, body: tuple[Stmt, ...]) -> None:
        """Emit statements in the open scope, in order."""
        for stmt in body:
            if isinstance(stmt, Store):
                memory.store(self, stmt)
            elif isinstance(stmt, Update):
                memory.update(self, stmt)
            elif isinstance(stmt, Loop):
                if stmt.role is Role.LANE:
                    loops.lane_loop(self, stmt)
                elif stmt.role in (Role.SERIAL, Role.TEAM):
                    loops.serial_loop(self, stmt)
                elif stmt.role is Role.UNROLL:
                    loops.unroll_loop(self, stmt)
                else:
                    raise AssertionError("a GRID loop inside another statement")
            elif isinstance(stmt, Let):
                self.bind(stmt.var, self.dim(stmt.value))
            elif isinstance(stmt, Pack):
                emit_pack(self, stmt)
            else:
                assert isinstance(stmt, Multiply), "contractions are loops by now"
                emit_multiply(self, stmt)

    # --- the function ------------------------------------------------------------------------------------------

    def emit(self, symbol: str) -> X86KernelText:
        """The kernel's text, with this name."""
        fn, kernel = self.fn, self.kernel
        for i, dim in enumerate(kernel.dims):
            p = fn.gep("i64", "%dims", str(i))
            self.bind(dim, fn.load(I64, p, 8))
        assert kernel.copies == 1, "several sets of buffers are for devices"
        for i, buffer in enumerate(kernel.buffers):
            p = fn.gep("ptr", "%buffers", str(i))
            self._pointers[id(buffer)] = fn.value(f"load ptr, ptr {p}, align 8", "b")
        for buffer in kernel.scratch:
            self._pointers[id(buffer)] = self.alloc_scratch(buffer.size * buffer.dtype.itemsize)
        self.streaming.start()
        loops.grid_loops(self)
        self.streaming.end()
        fn.emit("ret void")
        parameters = "ptr %dims, ptr %buffers, ptr %scratch, i64 %begin, i64 %end"
        header = f"define void @{symbol}({parameters}) {self.machine.attributes()} {{"
        definition = "\n".join([header, "entry:", render(fn.body), "}"])
        externals = (*fn.declarations, *self.machine.helpers.values())
        return X86KernelText(symbol, self.scratch_bytes, externals, definition, tuple(self.machine.routines))


def emit_kernel(kernel: Kernel, target: Target) -> X86KernelText:
    """The LLVM IR of a kernel, with one exported function that has the kernel's name."""
    return KernelEmitter(blocked(kernel, target), target).emit(kernel.name)


def scratch_bytes(kernel: Kernel, target: Target) -> Dim:
    """The ``scratch_bytes`` of a kernel's text; written for it only where the kernel has tiles, which take some too."""
    if any(isinstance(stmt, TileContract) for stmt in walk_stmts(kernel.body)):
        return emit_kernel(kernel, target).scratch_bytes
    return dim_sum([_whole_lines(buffer.size * buffer.dtype.itemsize) for buffer in kernel.scratch])


def _whole_lines(size: Dim) -> Dim:
    return floordiv(size + 63, 64) * 64
