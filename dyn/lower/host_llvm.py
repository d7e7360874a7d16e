"""The host program as native code.

One function, ``int32 run(const Runtime*, void* ctx, const Tensor* in, Tensor* out)``, without loops over Python objects
and without an interpreter: it reads sizes, checks, computes the arena, and launches. ``ctx`` is a table of addresses:
of kernels, of what library calls need, and of large constants. It returns 0, or 1 after it has called ``fail``; then
nothing that the caller can see has been written, but outputs that took an input's memory, where a library call failed
or memory ran out.
Where a launch measures a dim the same is done again for what depends on it: checks, sizes, memory, outputs.

::

    Tensor  = { ptr data, i32 dtype, i32 rank, ptr dims, ptr strides }
    Runtime = { ptr state, alloc, free, alloc_output, launch, parallel_for, library, fail, i64 threads }

    alloc(rt, bytes) -> ptr        free(rt, block, bytes)      alloc_output(rt, number, tensor) -> ptr
    launch(rt, kernel, grid, dims, buffers, scratch_bytes, cost) -> 0, or 1 where there is no memory for scratch
    parallel_for(rt, fn, ctx, n, grain) -> 0                   fail(rt, site, count, values)

``dtype`` of an input is not 0 where the output that may take its memory (``HostProgram.reuses``) shall take it: then
``alloc_output`` is not called for that output, unless the sizes are such that a region would fail if it ran.

``state`` is whatever who made the table wants it to be; ``threads`` is how many threads a launch may use, 0 as many as
the process has.

A library call is ``int32 library(rt, entry, Tensor*, const int64* values)``: ``entry`` is what ``ctx`` has for it, the
tensors are the op's operands and then its results, dense, and the values are those of the program's symbols. One that
there is native code for (``dyn.lower.lapack``) is ``int32 call(rt, Tensor*)``, and stands in ``ctx`` itself.

A function outside of the program is ``int32 f(void* context, const Tensor* in, Tensor* out)``: ``ctx`` has its address
and then its context. The dtype of its tensors is DLPack's. Where it gives another number than 0 the program fails with
the site -2 - e for the external function e, and with that number behind the symbols' values.

Arithmetic on sizes is checked: a product that passes 2^63 is a failure, not a small number. What is wrong in a region
that demands something of the dims is a failure where that region is about to run, and until then no more than a flag.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from dyn.ir.binding import AxisCheck
from dyn.ir.core import Op, Value
from dyn.lower.abi import ALLOC, ALLOC_OUTPUT, FAIL, FREE, LAUNCH, LIBRARY
from dyn.lower.host import Fault, HostProgram, InRegion
from dyn.lower.lapack.call import NO_MEMORY, TOO_LONG
from dyn.lower.launch import Body, Condition, Launch, Variant, walk_launches
from dyn.lower.layout import LoopPlaces, Place, Row
from dyn.shapes import (
    Declaration,
    Dim,
    Opaque,
    OpaqueKind,
    Relation,
    RelKind,
    Symbol,
    SymExpr,
    free_symbols,
)
from dyn.shapes.expr import atom_dim

_TENSOR = "{ ptr, i32, i32, ptr, ptr }"
_DECLARATIONS = (
    "declare { i64, i1 } @llvm.smul.with.overflow.i64(i64, i64)",
    "declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)",
    "declare { i64, i1 } @llvm.ssub.with.overflow.i64(i64, i64)",
    "declare i64 @llvm.smin.i64(i64, i64)",
    "declare i64 @llvm.smax.i64(i64, i64)",
)
_BLOCK = {
    Fault.TOO_LARGE: "too_large",
    Fault.NO_VALUE: "no_value",
    Fault.NO_MEMORY: "no_memory",
    Fault.LIBRARY: "library_failed",
    Fault.TOO_LONG: "too_long",
}


@dataclass(frozen=True, slots=True)
class _Failing:
    """What fails where a region runs: for each of its demands the site and an i1, and i1s of divisions and of sizes."""

    demands: list[tuple[int, str]]
    zeros: str | None
    overflow: str | None


def _dims_of(launch: Launch, kernels: Sequence[tuple[int, Dim]]) -> Iterator[Dim]:
    """What a launch is chosen and sized by."""
    if launch.call is not None:
        for value in (*launch.call.operands, *launch.call.results):
            yield from value.shape
        return
    if launch.when is not None:
        yield launch.when.dim
    for variant, (_, scratch) in zip(launch.variants, kernels, strict=True):
        if variant.condition is not None:
            yield variant.condition.dim
        yield from (*variant.dims, variant.grid, scratch)


class HostEmitter:
    """Writes the LLVM IR of one host program.

    ``kernels`` gives, for each launch and variant, the kernel's number in ``ctx`` and its scratch bytes as a host dim;
    for a library call the number of its entry, or of its code for those in ``native``, and 0. ``constants`` is the
    number in ``ctx`` of the first constant, ``outside`` has the number of the external function that a launch calls,
    for those that do.
    """

    def __init__(
        self,
        program: HostProgram,
        kernels: Sequence[Sequence[tuple[int, Dim]]],
        native: Collection[Launch] = (),
        constants: int = 0,
        outside: Mapping[Launch, int] | None = None,
    ) -> None:
        self.program = program
        self.first_constant = constants
        self.native = native
        self.outside = {} if outside is None else outside
        #: For each launch, those in loops and choices too, its kernels.
        self.kernels = dict(zip(walk_launches(program.launches), kernels, strict=False))
        self.lines: list[str] = []
        self.names = count()
        self.known: dict[Dim, str] = {}
        #: The symbols that have their values here, and the segments of the arena that are there.
        self.bound: set[Symbol] = set()
        self.arenas: dict[int, str] = {}
        self.arena_bytes: dict[int, str] = {}
        self.slot_offsets: dict[int, str] = {}
        #: The numbers of the launches that measure, from 1.
        measuring = [launch for launch in walk_launches(program.launches) if launch.measures is not None]
        self.measurements = {launch: number for number, launch in enumerate(measuring, 1)}
        self.pointers: dict[Place, str] = {}
        #: For each output that may lie in an input's memory an i1 that says whether it does.
        self.taken: dict[int, str] = {}
        self.functions: set[int] = set()
        self.faults: set[Fault] = set()
        self.overflow: list[str] = []
        #: Divisors that may be 0 and must not.
        self.zeros: list[str] = []
        #: For each conditional region what fails where it runs, and an i1: whether any does.
        self.scopes: dict[Body, tuple[_Failing, str]] = {}
        #: Of these regions those that are being written, from the outside in.
        self.inside: list[Body] = []

    # Text -------------------------------------------------------------------------------------------------------

    def emit(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def value(self, text: str) -> str:
        name = f"%t{next(self.names)}"
        self.emit(f"{name} = {text}")
        return name

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def fresh(self, name: str) -> str:
        return f"{name}{next(self.names)}"

    def text(self, symbol: str) -> str:
        """The module, which defines ``symbol``."""
        self._body()
        launches = [launch for launch in walk_launches(self.program.launches) if not launch.bodies]
        most_dims = max((len(v.dims) for launch in launches for v in launch.variants), default=0)
        most_buffers = max((len(launch.buffers) for launch in launches), default=0)
        head = [
            *_DECLARATIONS,
            f"define i32 @{symbol}(ptr %rt, ptr %ctx, ptr %in, ptr %out) {{",
            "entry:",
            f"  %dims = alloca [{max(most_dims, 1)} x i64], align 16",
            f"  %buffers = alloca [{max(most_buffers, 1)} x ptr], align 16",
            f"  %values = alloca [{max(len(self.program.symbols) + bool(self.outside), 1)} x i64], align 16",
            *self._room_for_calls(),
            *(f"  %variable{number} = alloca ptr, align 8" for number in range(self.program.variables)),
            *(f"  %steps{number} = alloca i64, align 8" for number in range(len(self.program.loops))),
            "  %site = alloca i32, align 4",
            *(f"  %arena{segment} = alloca ptr, align 8" for segment in self._segments()),
            *(f"  store ptr null, ptr %arena{segment}, align 8" for segment in self._segments()),
        ]
        for slot in sorted(self.functions):
            head.append(f"  %at{slot} = getelementptr ptr, ptr %rt, i64 {slot}")
            head.append(f"  %rt{slot} = load ptr, ptr %at{slot}, align 8")
        return "\n".join([*head, *self.lines, "}", ""])

    def guards_text(self, symbol: str) -> str:
        """A module that defines ``i32 symbol(const Tensor* in)``: 1 where all guards hold, else 0.

        Where a guard's sizes pass 2^63, or divide by zero, the answer is 0 too: whoever asks knows a slower way, which
        computes exactly.
        """
        self._bind(keep=False)
        failed = [self._check(guard) for guard in self.program.guards]
        bad = "false"
        for flag in (*failed, *self.overflow, *self.zeros):
            bad = self.value(f"or i1 {bad}, {flag}")
        good = self.value(f"xor i1 {bad}, true")
        self.emit(f"ret i32 {self.value(f'zext i1 {good} to i32')}")
        return "\n".join([*_DECLARATIONS, f"define i32 @{symbol}(ptr %in) {{", "entry:", *self.lines, "}", ""])

    # The program ------------------------------------------------------------------------------------------------

    def _body(self) -> None:
        self._bind()
        self._enter(None)
        self._launches(self.program.launches)
        self._free_arena(0)
        self._free_measured(self.program.launches)
        self.emit("ret i32 0")
        self._failure_blocks()

    def _enter(self, launch: Launch | None) -> None:
        """Do what can be done with the dims that are known: at first, and then what depends on the one of a launch."""
        measured = None if launch is None else launch.measures
        failures: list[tuple[int, str]] = []
        for number, site in enumerate(self.program.sites):
            if not isinstance(site, Fault | InRegion) and self._is_due(_site_symbols(site), measured):
                failures.append((number, self._check(site)))
        failures += self._demands(self.inside, lambda symbols: self._is_due(symbols, measured))
        self._refuse_nonsense()
        self._branch_on(failures)
        self._sizes(measured)
        self._allocate(0 if launch is None else self.measurements[launch])

    def _demands(self, bodies: Sequence[Body], due: Callable[[Collection[Symbol]], bool]) -> list[tuple[int, str]]:
        """The checks of what regions demand, where it is about dims for which ``due`` holds."""
        return [
            (self.program.sites.index(InRegion(relation)), self._check(relation))
            for body in bodies
            for relation in body.demands
            if due(relation.symbols())
        ]

    def _is_late(self, symbols: Collection[Symbol]) -> bool:
        """Whether what is about these symbols can be computed, and could not before one of them was measured."""
        return self._is_due(symbols, None) and any(s.measured for s in symbols)

    def _is_due(self, symbols: Collection[Symbol], measured: Symbol | None) -> bool:
        """Whether what is about these symbols can be computed, and could not before ``measured`` was known."""
        return self.bound.issuperset(symbols) and (measured is None or measured in symbols)

    def _bind(self, *, keep: bool = True) -> None:
        """Compute every symbol that follows from the arguments, and keep its value for a report."""
        for bind in self.program.binds:
            size = self._size(bind.input, bind.axis)
            if bind.offset != 0:
                size = self._checked("ssub", size, self.dim(bind.offset))
            if bind.factor != 1:  # where it does not divide, the axis is found to have another size
                size = self._floor_quotient(size, self.dim(bind.factor))
            self._know(bind.symbol, size, keep=keep)
        if keep:
            for symbol in self.program.symbols[len(self.program.binds) :]:
                self._keep(symbol, "0")

    def _know(self, symbol: Symbol, value: str, *, keep: bool = True) -> None:
        self.known[atom_dim(symbol)] = value
        self.bound.add(symbol)
        if keep:
            self._keep(symbol, value)

    def _keep(self, symbol: Symbol, value: str) -> None:
        slot = self.value(f"getelementptr i64, ptr %values, i64 {self.program.symbols.index(symbol)}")
        self.emit(f"store i64 {value}, ptr {slot}, align 8")

    def _size(self, input: int, axis: int) -> str:
        field = self.value(f"getelementptr {_TENSOR}, ptr %in, i64 {input}, i32 3")
        dims = self.value(f"load ptr, ptr {field}, align 8")
        at = self.value(f"getelementptr i64, ptr {dims}, i64 {axis}")
        return self.value(f"load i64, ptr {at}, align 8")

    def _check(self, site: AxisCheck | Relation | Declaration) -> str:
        """An i1 that is true when a check fails."""
        if isinstance(site, AxisCheck):
            return self.value(f"icmp ne i64 {self._size(site.input, site.axis)}, {self.dim(site.dim)}")
        if isinstance(site, Declaration):
            size = self.known[atom_dim(site.symbol)]
            bad = self.value(f"icmp slt i64 {size}, {site.min}")
            if site.max is not None:
                bad = self.value(f"or i1 {bad}, {self.value(f'icmp sgt i64 {size}, {min(site.max, 2**63 - 1)}')}")
            rest = self.value(f"srem i64 {size}, {site.multiple_of}")
            return self.value(f"or i1 {bad}, {self.value(f'icmp ne i64 {rest}, 0')}")
        lhs, rhs = self.dim(site.lhs), self.dim(site.rhs)
        if site.kind in (RelKind.EQ, RelKind.SAME_NUMEL):
            return self.value(f"icmp ne i64 {lhs}, {rhs}")
        if site.kind is RelKind.GE:
            return self.value(f"icmp slt i64 {lhs}, {rhs}")
        if site.kind is RelKind.NONZERO:
            return self.value(f"icmp eq i64 {lhs}, 0")
        if site.kind is RelKind.DIVIDES:
            # Of 0 only 0 is a multiple.
            none = self.value(f"icmp eq i64 {lhs}, 0")
            rest = self.value(f"select i1 {none}, i64 {rhs}, i64 {self._floor_rest(rhs, lhs)}")
            return self.value(f"icmp ne i64 {rest}, 0")
        differ = self.value(f"icmp ne i64 {lhs}, {rhs}")
        for side in (lhs, rhs):
            stretched = self.value(f"icmp ne i64 {side}, 1")
            differ = self.value(f"and i1 {differ}, {stretched}")
        return differ

    def _branch_on(self, failures: list[tuple[int, str]]) -> None:
        """One branch for all checks; which one failed is found out on the cold path."""
        if not failures:
            return
        failed = failures[0][1]
        for _, flag in failures[1:]:
            failed = self.value(f"or i1 {failed}, {flag}")
        site = "-1"
        for number, flag in reversed(failures):
            site = self.value(f"select i1 {flag}, i32 {number}, i32 {site}")
        good = self.fresh("checked")
        self.emit(f"store i32 {site}, ptr %site, align 4")
        self.emit(f"br i1 {failed}, label %fail, label %{good}")
        self.label(good)

    def _fault(self, fault: Fault, flag: str) -> None:
        """Fail where ``flag`` is true. The blocks of faults stand at the end."""
        good = self.fresh("good")
        self.faults.add(fault)
        self.emit(f"br i1 {flag}, label %{_BLOCK[fault]}, label %{good}")
        self.label(good)

    def _sizes(self, measured: Symbol | None) -> None:
        """Compute every size that can be, and refuse those that pass 2^63, before anything is allocated for them.

        All of it stands before the launches: what one layer's launch computes, every later layer's finds computed.
        """
        for dim in self._needed():
            if self._is_due(free_symbols(dim), measured):
                self.dim(dim)
        if measured is None:
            self.known.update(self._scopes_in(self.program.launches))
        self._refuse_nonsense()
        # A cost is an estimate: where it is nonsense, for want of bits or of a divisor, the call is good all the same.
        for launch in self.kernels:
            for variant in launch.variants:
                if self._is_due(free_symbols(variant.cost), measured):
                    self.dim(variant.cost)
        self.overflow.clear()
        self.zeros.clear()

    def _needed(self) -> Iterator[Dim]:
        """What the call has to know the value of."""
        yield from self.program.sizes
        scopes = self.program.scopes
        scoped = {slot for scope in scopes.values() for slot in scope.slots}
        yield from (slot for number, slot in enumerate(self.program.slots) if number not in scoped)
        for result in self.program.function.results:
            yield from result.shape
        yield from self._own_dims(self.program.launches)
        for body in self.inside:
            yield from self._scope_dims(body)

    def _scope_dims(self, body: Body) -> Iterator[Dim]:
        """What has to be known where a region runs that demands something of the dims."""
        scope = self.program.scopes[body]
        yield from (*scope.sizes, *(self.program.slots[slot] for slot in scope.slots))
        yield from self._own_dims(body.launches)

    def _scopes_in(self, launches: Sequence[Launch]) -> dict[Dim, str]:
        """Compute the sizes of conditional regions. Gives what was computed for them alone."""
        inside: dict[Dim, str] = {}
        for launch in launches:
            for body in launch.bodies:
                inside |= self._scope_sizes(body) if body.conditional else self._scopes_in(body.launches)
        return inside

    def _scope_sizes(self, body: Body) -> dict[Dim, str]:
        """The same of one region, where nothing that goes wrong is a failure yet.

        What is known by then outside of it is: there it was looked at. What is computed here is known here alone.
        """
        outer = self.known, self.overflow, self.zeros
        self.known, self.overflow, self.zeros = dict(outer[0]), [], []
        failures = self._demands([body], lambda symbols: self._is_due(symbols, None))
        for dim in self._scope_dims(body):
            if self._is_due(free_symbols(dim), None):
                self.dim(dim)
        inside = self._scopes_in(body.launches)
        failing = _Failing(failures, self._any(self.zeros), self._any(self.overflow))
        flags = [flag for _, flag in failures] + [f for f in (failing.zeros, failing.overflow) if f is not None]
        self.scopes[body] = failing, self._any(flags) or "false"
        inside |= {dim: name for dim, name in self.known.items() if dim not in outer[0]}
        self.known, self.overflow, self.zeros = outer
        return inside

    def _own_dims(self, launches: Sequence[Launch]) -> Iterator[Dim]:
        """What launches are chosen and sized by, those in regions that are not conditional too."""
        for launch in launches:
            loop = self.program.loops.get(launch)
            if loop is not None:
                yield from (loop.length, *(row.step for row in loop.rows))
            yield from _dims_of(launch, self.kernels[launch])
            for body in launch.bodies:
                if not body.conditional:
                    yield from self._own_dims(body.launches)

    def _any(self, flags: Sequence[str]) -> str | None:
        """An i1 that is true where one of the flags is; None where there is none."""
        if not flags:
            return None
        flag = flags[0]
        for other in flags[1:]:
            flag = self.value(f"or i1 {flag}, {other}")
        return flag

    def _region(self, body: Body) -> None:
        """Run a region, unless the sizes are not what it demands."""
        if body not in self.scopes:
            self._run_region(body.launches)
            return
        failing, _ = self.scopes[body]
        self._branch_on(failing.demands)
        for fault, flag in ((Fault.NO_VALUE, failing.zeros), (Fault.TOO_LARGE, failing.overflow)):
            if flag is not None:
                self._fault(fault, flag)
        # What is about dims that were measured around it is computed here, and known here alone.
        known = dict(self.known)
        self._branch_on(self._demands([body], self._is_late))
        for dim in self._scope_dims(body):
            if self._is_late(free_symbols(dim)):
                self.dim(dim)
        self._refuse_nonsense()
        self.inside.append(body)
        self._run_region(body.launches)
        self.inside.pop()
        self.known = known

    def _refuse_nonsense(self) -> None:
        """Fail where what was computed so far divided by zero, or passed 2^63."""
        for fault, flags in ((Fault.NO_VALUE, self.zeros), (Fault.TOO_LARGE, self.overflow)):
            flag = self._any(flags)
            if flag is not None:
                flags.clear()
                self._fault(fault, flag)

    def _allocate(self, segment: int) -> None:
        """A segment of the arena, and the outputs whose shapes are known by now."""
        self._allocate_arena(segment)
        inputs = {reuse.output: reuse.input for reuse in self.program.reuses}
        for number, result in enumerate(self.program.function.results):
            place = Place("output", number)
            if place in self.pointers or not all(self.bound.issuperset(free_symbols(d)) for d in result.shape):
                continue
            tensor = self.value(f"getelementptr {_TENSOR}, ptr %out, i64 {number}")
            field = self.value(f"getelementptr {_TENSOR}, ptr {tensor}, i32 0, i32 3")
            dims = self.value(f"load ptr, ptr {field}, align 8") if result.shape else "null"
            for axis, dim in enumerate(result.shape):
                at = self.value(f"getelementptr i64, ptr {dims}, i64 {axis}")
                self.emit(f"store i64 {self.dim(dim)}, ptr {at}, align 8")
            allocate = f"call ptr {self._runtime(ALLOC_OUTPUT)}(ptr %rt, i32 {number}, ptr {tensor})"
            if number in inputs:
                data = self._take(number, inputs[number], allocate)
            else:
                data = self.value(allocate)
                self._fault(Fault.NO_MEMORY, self.value(f"icmp eq ptr {data}, null"))
            self.pointers[place] = data
        if any(launch.bodies for launch in self.program.launches):
            # What one branch finds out another one would not know: here all of it is known to all.
            spare = [c.spare for loop in self.program.loops.values() for c in loop.carried if c.spare is not None]
            for place in dict.fromkeys((*self.program.places.values(), *spare)):
                if place.kind in ("input", "constant") or (place.kind == "arena" and place.number in self.slot_offsets):
                    self._pointer(place)

    def _segments(self) -> list[int]:
        """The segments that have slots."""
        return sorted(set(self.program.segments))

    def _allocate_arena(self, segment: int) -> None:
        offset = "0"
        slots = [n for n, of in enumerate(self.program.segments) if of == segment]
        scoped = {slot: body for body, scope in self.program.scopes.items() for slot in scope.slots}
        for number in slots:
            self.slot_offsets[number] = offset
            if number in scoped:
                size = self._scoped_size(scoped[number], self.program.slots[number])
            else:
                size = self.dim(self.program.slots[number])
            offset = self._checked("sadd", offset, size)
        self._refuse_nonsense()
        self.arena_bytes[segment] = offset
        if slots:
            arena = self.value(f"call ptr {self._runtime(ALLOC)}(ptr %rt, i64 {offset})")
            self._fault(Fault.NO_MEMORY, self.value(f"icmp eq ptr {arena}, null"))
            self.emit(f"store ptr {arena}, ptr %arena{segment}, align 8")
            self.arenas[segment] = arena

    def _scoped_size(self, body: Body, size: Dim) -> str:
        """The bytes of a slot of a region that demands something of the dims: 0 where it may not run."""
        outer = self.known, self.overflow, self.zeros
        self.known, self.overflow, self.zeros = dict(outer[0]), [], []
        value = self.dim(size)
        bad = self._any([self.scopes[body][1], *self.overflow, *self.zeros])
        self.known, self.overflow, self.zeros = outer
        value = self.value(f"select i1 {bad}, i64 0, i64 {value}")
        # What is demanded of dims that are measured is not looked at yet.
        return self.value(f"call i64 @llvm.smax.i64(i64 {value}, i64 0)")

    def _take(self, output: int, input: int, allocate: str) -> str:
        """The memory of an output: the input's where the caller says so, else what ``allocate`` gives."""
        given = self._pointer(Place("input", input))
        field = self.value(f"getelementptr {_TENSOR}, ptr %in, i64 {input}, i32 1")
        flag = self.value(f"load i32, ptr {field}, align 8")
        taken = self.value(f"icmp ne i32 {flag}, 0")
        risky = self._any([bad for _, bad in self.scopes.values()])
        if risky is not None:  # where a region would fail if it ran, nothing of the caller's is written
            taken = self.value(f"select i1 {risky}, i1 false, i1 {taken}")
        self.taken[output] = taken
        before, own, allocated, placed = (self.fresh(name) for name in ("given", "own", "allocated", "placed"))
        self.emit(f"br label %{before}")
        self.label(before)
        self.emit(f"br i1 {taken}, label %{placed}, label %{own}")
        self.label(own)
        data = self.value(allocate)
        self._fault(Fault.NO_MEMORY, self.value(f"icmp eq ptr {data}, null"))
        self.emit(f"br label %{allocated}")
        self.label(allocated)
        self.emit(f"br label %{placed}")
        self.label(placed)
        return self.value(f"phi ptr [ {given}, %{before} ], [ {data}, %{allocated} ]")

    def _pointer(self, place: Place) -> str:
        if place.kind == "variable":
            return self.value(f"load ptr, ptr %variable{place.number}, align 8")
        found = self.pointers.get(place)
        if found is None:
            if place.kind == "input":
                field = self.value(f"getelementptr {_TENSOR}, ptr %in, i64 {place.number}, i32 0")
                found = self.value(f"load ptr, ptr {field}, align 8")
            elif place.kind == "constant":
                at = self.value(f"getelementptr ptr, ptr %ctx, i64 {self.first_constant + place.number}")
                found = self.value(f"load ptr, ptr {at}, align 8")
            else:
                arena = self.arenas[self.program.segments[place.number]]
                found = self.value(f"getelementptr i8, ptr {arena}, i64 {self.slot_offsets[place.number]}")
            self.pointers[place] = found
        return found

    # Library calls ----------------------------------------------------------------------------------------------

    def _room_for_calls(self) -> list[str]:
        """Stack for the tensors of a library call, and for their dims."""
        calls = [call for launch in walk_launches(self.program.launches) if (call := launch.call) is not None]
        if not calls:
            return []
        tensors = max(len(call.operands) + len(call.results) for call in calls)
        dims = max(sum(len(v.shape) for v in (*call.operands, *call.results)) for call in calls)
        return [
            f"  %tensors = alloca [{tensors} x {_TENSOR}], align 16",
            f"  %sizes = alloca [{max(dims, 1)} x i64], align 16",
        ]

    def _describe(self, call: Op, buffers: Sequence[Value]) -> None:
        """Put the op's operands and results into the tensors of a call."""
        position = 0
        for index, (value, buffer) in enumerate(zip((*call.operands, *call.results), buffers, strict=True)):
            tensor = self.value(f"getelementptr {_TENSOR}, ptr %tensors, i64 {index}")
            dims = self.value(f"getelementptr i64, ptr %sizes, i64 {position}")
            fields = (
                "ptr " + self._pointer(self.program.places[buffer]),
                f"i32 {value.dtype.dlpack}",
                f"i32 {len(value.shape)}",
                "ptr " + dims,
            )
            for field, content in enumerate((*fields, "ptr null")):
                at = self.value(f"getelementptr {_TENSOR}, ptr {tensor}, i32 0, i32 {field}")
                self.emit(f"store {content}, ptr {at}, align {4 if content.startswith('i32') else 8}")
            for dim in value.shape:
                at = self.value(f"getelementptr i64, ptr %sizes, i64 {position}")
                self.emit(f"store i64 {self.dim(dim)}, ptr {at}, align 8")
                position += 1

    def _call(self, number: int, *, native: bool) -> None:
        """Have a library compute what the tensors say."""
        at = self.value(f"getelementptr ptr, ptr %ctx, i64 {number}")
        entry = self.value(f"load ptr, ptr {at}, align 8")
        if native:
            status = self.value(f"call i32 {entry}(ptr %rt, ptr %tensors)")
            self._fault(Fault.NO_MEMORY, self.value(f"icmp eq i32 {status}, {NO_MEMORY}"))
            self._fault(Fault.TOO_LONG, self.value(f"icmp eq i32 {status}, {TOO_LONG}"))
            return
        status = self.value(f"call i32 {self._runtime(LIBRARY)}(ptr %rt, ptr {entry}, ptr %tensors, ptr %values)")
        self._fault(Fault.LIBRARY, self.value(f"icmp ne i32 {status}, 0"))

    def _call_outside(self, call: Op, number: int, external: int) -> None:
        """Call an external function; what it answers is reported where it is not 0."""
        function, context = (
            self.value(f"load ptr, ptr {self.value(f'getelementptr ptr, ptr %ctx, i64 {at}')}, align 8")
            for at in (number, number + 1)
        )
        results = self.value(f"getelementptr {_TENSOR}, ptr %tensors, i64 {len(call.operands)}")
        status = self.value(f"call i32 {function}(ptr {context}, ptr %tensors, ptr {results})")
        failed, good = self.fresh("failed"), self.fresh("called")
        self.emit(f"br i1 {self.value(f'icmp ne i32 {status}, 0')}, label %{failed}, label %{good}")
        self.label(failed)
        slot = self.value(f"getelementptr i64, ptr %values, i64 {len(self.program.symbols)}")
        self.emit(f"store i64 {self.value(f'sext i32 {status} to i64')}, ptr {slot}, align 8")
        self.emit(f"store i32 {-2 - external}, ptr %site, align 4")
        self.emit("br label %fail")
        self.label(good)

    # Launches ---------------------------------------------------------------------------------------------------

    def _launches(self, launches: Sequence[Launch]) -> None:
        for launch in launches:
            loop = self.program.loops.get(launch)
            if loop is not None:
                self._loop(launch, loop)
            elif launch.bodies:
                self._choice(launch)
            elif launch.measures is not None:
                self._measure(launch, launch.measures)
            else:
                self._launch(launch, self.kernels[launch])

    def _launch(self, launch: Launch, kernels: Sequence[tuple[int, Dim]]) -> None:
        if launch.call is not None:
            self._describe(launch.call, launch.buffers)
            if launch in self.outside:
                self._call_outside(launch.call, kernels[0][0], self.outside[launch])
                return
            self._call(kernels[0][0], native=launch in self.native)
            return
        for position, value in enumerate(launch.buffers):
            slot = self.value(f"getelementptr ptr, ptr %buffers, i64 {position}")
            self.emit(f"store ptr {self._pointer(self.program.places[value])}, ptr {slot}, align 8")
        done = self.fresh("launched")
        if launch.when is not None:
            wanted = self.fresh("wanted")
            self.emit(f"br i1 {self._holds(launch.when)}, label %{wanted}, label %{done}")
            self.label(wanted)
        for variant, (number, scratch) in zip(launch.variants, kernels, strict=True):
            holds = self._chosen(variant)
            if holds is None:
                self._start(variant, number, scratch)
                self.emit(f"br label %{done}")
                break
            chosen, following = self.fresh("variant"), self.fresh("next")
            self.emit(f"br i1 {holds}, label %{chosen}, label %{following}")
            self.label(chosen)
            self._start(variant, number, scratch)
            self.emit(f"br label %{done}")
            self.label(following)
        else:
            self.emit(f"br label %{done}")
        self.label(done)

    def _chosen(self, variant: Variant) -> str | None:
        """An i1 that says whether a variant is the one; None where nothing is asked."""
        holds = None if variant.condition is None else self._holds(variant.condition)
        if variant.in_place is None:
            return holds
        taken = self.taken[variant.in_place]
        return taken if holds is None else self.value(f"and i1 {taken}, {holds}")

    def _holds(self, condition: Condition) -> str:
        dim = self.dim(condition.dim)
        holds = self.value(f"icmp sge i64 {dim}, {condition.low}")
        if condition.high is not None:
            holds = self.value(f"and i1 {holds}, {self.value(f'icmp sle i64 {dim}, {condition.high}')}")
        return holds

    def _start(self, variant: Variant, number: int, scratch: Dim) -> None:
        for position, dim in enumerate(variant.dims):
            slot = self.value(f"getelementptr i64, ptr %dims, i64 {position}")
            self.emit(f"store i64 {self.dim(dim)}, ptr {slot}, align 8")
        at = self.value(f"getelementptr ptr, ptr %ctx, i64 {number}")
        kernel = self.value(f"load ptr, ptr {at}, align 8")
        arguments = (
            f"ptr %rt, ptr {kernel}, i64 {self.dim(variant.grid)}, ptr %dims, ptr %buffers, i64 {self.dim(scratch)}, "
            f"i64 {self.dim(variant.cost)}"
        )
        status = self.value(f"call i32 {self._runtime(LAUNCH)}({arguments})")
        self._fault(Fault.NO_MEMORY, self.value(f"icmp ne i32 {status}, 0"))

    def _measure(self, launch: Launch, symbol: Symbol) -> None:
        """Read a dim, and go on with what has waited for it."""
        at = self._pointer(self.program.places[launch.buffers[0]])
        self._know(symbol, self.value(f"load i64, ptr {at}, align 8"))
        self._enter(launch)

    def _run_region(self, launches: Sequence[Launch]) -> None:
        """Launches that may not be reached: what they measure is known to nobody else."""
        if not any(launch in self.measurements for launch in walk_launches(launches)):
            self._launches(launches)
            return
        known, pointers, bound = dict(self.known), dict(self.pointers), set(self.bound)
        arenas, offsets = dict(self.arenas), dict(self.slot_offsets)
        self._launches(launches)
        self._free_measured(launches)
        self.known, self.pointers, self.bound = known, pointers, bound
        self.arenas, self.slot_offsets = arenas, offsets

    # Loops and choices ------------------------------------------------------------------------------------------

    def _choice(self, launch: Launch) -> None:
        """Run one of the regions: the first for true, the last for numbers that there are none for."""
        index = launch.buffers[0]
        done, labels = self.fresh("chosen"), [self.fresh("branch") for _ in launch.bodies]
        element = "i8" if index.dtype.itemsize == 1 else "i32"
        at = self._pointer(self.program.places[index])
        number = self.value(f"load {element}, ptr {at}, align {index.dtype.itemsize}")
        if element == "i8":
            true, false = labels
            flag = self.value(f"icmp ne i8 {number}, 0")
            self.emit(f"br i1 {flag}, label %{true}, label %{false}")
        else:
            cases = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels[:-1]))
            self.emit(f"switch i32 {number}, label %{labels[-1]} [ {cases} ]")
        for label, body in zip(labels, launch.bodies, strict=True):
            self.label(label)
            self._region(body)
            self.emit(f"br label %{done}")
        self.label(done)

    def _loop(self, launch: Launch, loop: LoopPlaces) -> None:
        number = list(self.program.loops).index(launch)
        head, step, done = (self.fresh(name) for name in ("again", "step", "finished"))
        for carried in loop.carried:
            self._set(carried.current, self._pointer(carried.home))
            if carried.following is not None and carried.spare is not None:
                self._set(carried.following, self._pointer(carried.spare))
        for row in loop.rows:
            self._set(row.variable, self._first_row(row, loop))
        self.emit(f"store i64 0, ptr %steps{number}, align 8")
        self.emit(f"br label %{head}")
        self.label(head)
        if loop.condition is not None:
            self._region(launch.bodies[0])
            answer = self.value(f"load i8, ptr {self._pointer(loop.condition)}, align 1")
            going = self.value(f"icmp ne i8 {answer}, 0")
        else:
            taken = self.value(f"load i64, ptr %steps{number}, align 8")
            going = self.value(f"icmp slt i64 {taken}, {self.dim(loop.length)}")
        self.emit(f"br i1 {going}, label %{step}, label %{done}")
        self.label(step)
        self._region(launch.bodies[-1])
        self._advance(number, loop)
        self.emit(f"br label %{head}")
        self.label(done)

    def _advance(self, number: int, loop: LoopPlaces) -> None:
        """What was made becomes what is read; rows go on."""
        for carried in loop.carried:
            if carried.following is not None:
                here, there = (
                    self.value(f"load ptr, ptr %variable{v}, align 8") for v in (carried.current, carried.following)
                )
                self._set(carried.current, there)
                self._set(carried.following, here)
        for row in loop.rows:
            here = self.value(f"load ptr, ptr %variable{row.variable}, align 8")
            step = self.dim(row.step)
            by = self.value(f"sub i64 0, {step}") if loop.reverse else step
            self._set(row.variable, self.value(f"getelementptr i8, ptr {here}, i64 {by}"))
        taken = self.value(f"load i64, ptr %steps{number}, align 8")
        self.emit(f"store i64 {self.value(f'add i64 {taken}, 1')}, ptr %steps{number}, align 8")

    def _first_row(self, row: Row, loop: LoopPlaces) -> str:
        start = self._pointer(row.array)
        if not loop.reverse:
            return start
        last = self.value(f"sub i64 {self.dim(loop.length)}, 1")
        offset = self.value(f"mul i64 {last}, {self.dim(row.step)}")
        return self.value(f"getelementptr i8, ptr {start}, i64 {offset}")

    def _set(self, variable: int, pointer: str) -> None:
        self.emit(f"store ptr {pointer}, ptr %variable{variable}, align 8")

    def _free_arena(self, segment: int) -> None:
        if segment in self.arenas:
            arena, size = self.arenas[segment], self.arena_bytes[segment]
            self.emit(f"call void {self._runtime(FREE)}(ptr %rt, ptr {arena}, i64 {size})")
            self.emit(f"store ptr null, ptr %arena{segment}, align 8")

    def _free_measured(self, launches: Sequence[Launch]) -> None:
        """The segments that these launches began themselves."""
        for launch in launches:
            if launch in self.measurements:
                self._free_arena(self.measurements[launch])

    def _failure_blocks(self) -> None:
        """Give back what there is of the arena, and report the site with every symbol's value."""
        sites = any(not isinstance(site, Fault) for site in self.program.sites)
        if not self.faults and not sites and not self.outside:
            return
        for fault in sorted(self.faults, key=lambda f: f.name):
            self.label(_BLOCK[fault])
            self.emit(f"store i32 {self.program.sites.index(fault)}, ptr %site, align 4")
            self.emit("br label %fail")
        self.label("fail")
        for segment in self._segments():
            give, kept = self.fresh("give_back"), self.fresh("kept")
            held = self.value(f"load ptr, ptr %arena{segment}, align 8")
            self.emit(f"br i1 {self.value(f'icmp ne ptr {held}, null')}, label %{give}, label %{kept}")
            self.label(give)
            self.emit(f"call void {self._runtime(FREE)}(ptr %rt, ptr {held}, i64 0)")
            self.emit(f"br label %{kept}")
            self.label(kept)
        site = self.value("load i32, ptr %site, align 4")
        count = len(self.program.symbols) + bool(self.outside)
        self.emit(f"call void {self._runtime(FAIL)}(ptr %rt, i32 {site}, i32 {count}, ptr %values)")
        self.emit("ret i32 1")

    def _runtime(self, slot: int) -> str:
        """A function of the runtime table: each is loaded at the entry."""
        self.functions.add(slot)
        return f"%rt{slot}"

    # Dims -------------------------------------------------------------------------------------------------------

    def dim(self, dim: Dim) -> str:
        """The value of a dim. All are computed before the first launch that can know them, in straight code."""
        if isinstance(dim, int):
            return self._constant(dim)
        found = self.known.get(dim)
        if found is None:
            found = self.known[dim] = self._compute(dim)
        return found

    def _compute(self, dim: SymExpr) -> str:
        total = self._constant(dim.constant)
        for mono, coefficient in dim.terms:
            product = ""
            for atom, power in mono.factors:
                for _ in range(power):
                    value = self._atom(atom)
                    product = value if not product else self._checked("smul", product, value)
            if not -(2**63) <= coefficient < 2**63:
                self.overflow.append(self.value(f"icmp ne i64 {product}, 0"))
                continue
            if coefficient != 1:
                product = self._checked("smul", product, str(coefficient))
            total = product if total == "0" else self._checked("sadd", total, product)
        return total

    def _constant(self, number: int) -> str:
        """A number as an i64. LLVM would take one that does not fit for its low bits, and say nothing."""
        if -(2**63) <= number < 2**63:
            return str(number)
        self.overflow.append("true")
        return "0"

    def _checked(self, op: str, a: str, b: str) -> str:
        """Arithmetic whose overflow is remembered until ``_refuse_nonsense`` asks."""
        pair = self.value(f"call {{ i64, i1 }} @llvm.{op}.with.overflow.i64(i64 {a}, i64 {b})")
        self.overflow.append(self.value(f"extractvalue {{ i64, i1 }} {pair}, 1"))
        return self.value(f"extractvalue {{ i64, i1 }} {pair}, 0")

    def _atom(self, atom: Symbol | Opaque) -> str:
        own = atom_dim(atom)
        found = self.known.get(own)
        if found is not None:
            return found
        if isinstance(atom, Symbol):
            raise AssertionError(f"the symbol {atom.name} has no value")
        args = [self.dim(arg) for arg in atom.args]
        self.known[own] = result = self._opaque(atom.kind, args)
        return result

    def _opaque(self, kind: OpaqueKind, args: list[str]) -> str:
        if kind in (OpaqueKind.FLOORDIV, OpaqueKind.MOD):
            if not _is_number(args[1]):
                self.zeros.append(self.value(f"icmp eq i64 {args[1]}, 0"))
            return (self._floor_quotient if kind is OpaqueKind.FLOORDIV else self._floor_rest)(*args)
        result = args[0]
        for arg in args[1:]:
            if kind is OpaqueKind.BROADCAST:
                one = self.value(f"icmp eq i64 {result}, 1")
                result = self.value(f"select i1 {one}, i64 {arg}, i64 {result}")
            else:
                name = "smin" if kind is OpaqueKind.MIN else "smax"
                result = self.value(f"call i64 @llvm.{name}.i64(i64 {result}, i64 {arg})")
        return result

    def _floor_quotient(self, a: str, b: str) -> str:
        """``a // b``. A divisor of 0 gives nonsense but no trap; who asks looks out for it.

        The least number by -1 is an overflow.
        """
        by = self._safe_divisor(b)
        down = self._rounds_up(self.value(f"srem i64 {a}, {by}"), by)
        quotient = self.value(f"sdiv i64 {a}, {by}")
        quotient = self.value(f"sub i64 {quotient}, {self.value(f'zext i1 {down} to i64')}")
        if by is b:
            return quotient
        least = self.value(f"icmp eq i64 {a}, {-(2**63)}")
        minus = self.value(f"icmp eq i64 {b}, -1")
        self.overflow.append(self.value(f"and i1 {least}, {minus}"))
        return self.value(f"select i1 {minus}, i64 {self.value(f'sub i64 0, {a}')}, i64 {quotient}")

    def _floor_rest(self, a: str, b: str) -> str:
        """``a % b``, with the sign of ``b``. A divisor of 0 gives nonsense but no trap; who asks looks out for it."""
        by = self._safe_divisor(b)
        rest = self.value(f"srem i64 {a}, {by}")
        more = self.value(f"add i64 {rest}, {by}")
        return self.value(f"select i1 {self._rounds_up(rest, by)}, i64 {more}, i64 {rest}")

    def _safe_divisor(self, b: str) -> str:
        """1 in the place of 0 and -1, by which the processor traps: by 0 always, by -1 for the least number."""
        if _is_number(b) and b not in ("0", "-1"):
            return b
        near = self.value(f"icmp ult i64 {self.value(f'add i64 {b}, 1')}, 2")
        return self.value(f"select i1 {near}, i64 1, i64 {b}")

    def _rounds_up(self, rest: str, by: str) -> str:
        """An i1: whether the processor's quotient, which is rounded towards 0, is more than the one rounded down."""
        inexact = self.value(f"icmp ne i64 {rest}, 0")
        opposite = self.value(f"icmp slt i64 {self.value(f'xor i64 {rest}, {by}')}, 0")
        return self.value(f"and i1 {inexact}, {opposite}")


def _is_number(value: str) -> bool:
    return value.removeprefix("-").isdigit()


def _site_symbols(site: AxisCheck | Relation | Declaration) -> frozenset[Symbol]:
    """What a check is about."""
    if isinstance(site, AxisCheck):
        return free_symbols(site.dim)
    return frozenset({site.symbol}) if isinstance(site, Declaration) else site.symbols()


def emit_host(
    program: HostProgram,
    kernels: Sequence[Sequence[tuple[int, Dim]]],
    symbol: str,
    native: Collection[Launch] = (),
    constants: int = 0,
    outside: Mapping[Launch, int] | None = None,
) -> str:
    """The LLVM IR of a host program: a module with one definition, ``symbol``. ``native`` are its library calls that
    there is code for, ``constants`` is where those of constants begin in the table of addresses, and ``outside`` are
    its calls of external functions, with their numbers."""
    return HostEmitter(program, kernels, native, constants, outside).text(symbol)


def emit_guards(program: HostProgram, symbol: str) -> str:
    """The LLVM IR of a program's guards: a module with one definition, ``i32 symbol(const Tensor* in)``."""
    return HostEmitter(program, ()).guards_text(symbol)
