"""The host program as native code.

One function, ``int32 run(const Runtime*, void* ctx, const Tensor* in, Tensor* out)``, without loops over Python objects
and without an interpreter: it reads sizes, checks, computes the arena, and launches. ``ctx`` is a table of addresses:
of kernels, of what library calls need, of large constants, and of the slots of deferred kernels. It returns 0, or 1
after it has called ``fail``; then nothing that the caller can see has been written, but outputs that took an input's
memory, where a library call failed or memory ran out.
Where a launch measures a dim the same is done again for what depends on it: checks, sizes, memory, outputs.

::

    Tensor  = { ptr data, i32 dtype, i32 rank, ptr dims, ptr strides }
    Runtime = { ptr state, the functions and the number of threads of ``dyn.lower.abi.RUNTIME_TABLE`` }

``dtype`` of an input is not 0 where the output that may take its memory (``HostProgram.reuses``) shall take it: then
``alloc_output`` is not called for that output, unless the sizes are such that a region would fail if it ran.

``state`` is whatever who made the table wants it to be; ``threads`` is how many threads a launch may use, 0 as many as
the process has.

``begin`` is null but where calls are recorded for a profile. There it is told where the values of the program's symbols
are going to be, and gives the table that this call uses instead, whose functions record; ``end`` gives that back.
``dispatch`` is the number of a launch or a call in the program (``dyn.schedule.launch.dispatches``).

A deferred kernel stands in ``ctx`` by its slot (``dyn.lower.abi.KernelSlot``), which may be empty. Then ``want`` is
told, which waits for nobody, and the next variant runs that holds.

Where a program's buffers are in a device's memory (``HostProgram.space``), what it reads of them, a measured size, the
condition of a loop or the number of a branch, is ``fetch``ed, which gives 0 or what the device's driver says; a kernel
in ``ctx`` is a record of its own (``dyn.lower.abi.DeviceKernel``), and ``stage`` calls native code with copies of the
tensors in this machine's memory.

A library call is ``library``: ``entry`` is what ``ctx`` has for it, the tensors are the op's operands and then its
results, dense, and the values are those of the program's symbols. One that there is native code for
(``dyn.lower.library_calls``) stands in ``ctx`` itself, and is called as a function outside is, with ``rt`` for its
context.

A function outside of the program is ``int32 f(void* context, const Tensor* in, Tensor* out)``: ``ctx`` has its address
and then its context, and ``call`` calls it. The dtype of its tensors is DLPack's. Where it gives another number than 0
the program fails with the site -2 - e for the external function e, and with that number behind the symbols' values.

Arithmetic on sizes is checked: a product that passes 2^63 is a failure, not a small number. What is wrong in a region
that demands something of the dims is a failure where that region is about to run, and until then no more than a flag.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from dyn.lower.abi import BEGIN, END, FAIL
from dyn.lower.host import Fault, HostProgram
from dyn.lower.host_llvm.checks import Checks
from dyn.lower.host_llvm.launches import Launches
from dyn.lower.host_llvm.memory import Memory
from dyn.lower.host_llvm.red_zones import RedZones
from dyn.lower.host_llvm.region_sizes import Kernels, Regions
from dyn.lower.host_llvm.sizes import SizeEmitter
from dyn.lower.host_llvm.text import BLOCKS, DECLARATIONS, HostText
from dyn.schedule.launch import Launch, walk_launches
from dyn.shapes import Dim, Symbol, free_symbols


class HostEmitter:
    """Writes the LLVM IR of one host program: what is done at its beginning and after each measurement, and its end.

    ``kernels`` gives, for each launch and variant, the kernel's number in ``ctx`` and its scratch bytes as a host dim;
    for a library call the number of its entry, or of its code for those in ``native``, and 0. ``constants`` is the
    number in ``ctx`` of the first constant, ``outside`` has the number of the external function that a launch calls,
    for those that do. Kernels with numbers from ``slots`` on are deferred.
    """

    def __init__(
        self,
        program: HostProgram,
        kernels: Sequence[Kernels],
        native: Collection[Launch],
        constants: int,
        outside: Mapping[Launch, int],
        slots: int | None,
    ) -> None:
        self.program, self.outside = program, outside
        self.text = HostText()
        self.sizes = SizeEmitter(self.text)
        self.checks = Checks(program, self.text, self.sizes)
        # For each launch, those in loops and choices too, its kernels.
        numbered = dict(zip(walk_launches(program.launches), kernels, strict=True))
        self.regions = Regions(program, self.text, self.checks, numbered)
        self.zones = RedZones(program, self.text)
        self.memory = Memory(program, self.text, self.regions, self.zones, constants)
        self.launches = Launches(
            program, self.text, self.checks, self.regions, self.memory, native, outside, slots, self._enter
        )  # fmt: skip

    @property
    def _values(self) -> int:
        """Number of values that a failure reports: those of the symbols, the launch that wrote into a red zone and the
        zone, and the answer of an external function."""
        return len(self.program.symbols) + (2 if self.program.red_zone else 0) + bool(self.outside)

    def module(self, symbol: str) -> str:
        """The module, which defines ``symbol``."""
        self._body()
        launches = [launch for launch in walk_launches(self.program.launches) if not launch.bodies]
        most_dims = max((len(v.dims) for launch in launches for v in launch.variants), default=0)
        most_buffers = max((len(launch.buffers) for launch in launches), default=0)
        segments = self.memory.segments()
        head = [
            *DECLARATIONS,
            *self.zones.functions(),
            f"define i32 @{symbol}(ptr %table, ptr %ctx, ptr %in, ptr %out) {{",
            "entry:",
            f"  %dims = alloca [{max(most_dims, 1)} x i64], align 16",
            f"  %buffers = alloca [{max(most_buffers, 1)} x ptr], align 16",
            f"  %values = alloca [{max(self._values, 1)} x i64], align 16",
            *self.launches.stack(),
            *self.zones.stack(),
            *self.memory.stack(),
            *(f"  %variable{number} = alloca ptr, align 8" for number in range(self.program.variables)),
            *(f"  %steps{number} = alloca i64, align 8" for number in range(len(self.program.loops))),
            "  %site = alloca i32, align 4",
            *(f"  %arena{segment} = alloca ptr, align 8" for segment in segments),
            f"  %begins = getelementptr ptr, ptr %table, i64 {BEGIN}",
            "  %begin = load ptr, ptr %begins, align 8",
            "  %unseen = icmp eq ptr %begin, null",
            "  br i1 %unseen, label %begun, label %seen",
            "seen:",
            f"  %recording = call ptr %begin(ptr %table, ptr %ctx, ptr %values, i64 {self._values})",
            "  br label %begun",
            "begun:",
            "  %rt = phi ptr [ %table, %entry ], [ %recording, %seen ]",
            *(f"  store ptr null, ptr %arena{segment}, align 8" for segment in segments),
        ]
        for slot in sorted(self.text.functions):
            head.append(f"  %at{slot} = getelementptr ptr, ptr %rt, i64 {slot}")
            head.append(f"  %rt{slot} = load ptr, ptr %at{slot}, align 8")
        return "\n".join([*head, *self.text.lines, "}", ""])

    def _body(self) -> None:
        self.checks.bind(keep=True)
        self._enter(None)
        self.launches.run(self.program.launches)
        self.memory.free([0])
        self.launches.free_measured(self.program.launches)
        self._return(0)
        self._failure_blocks()

    def _return(self, status: int) -> None:
        """Return from the program, and from the table that a profile records through."""
        text = self.text
        ends, done = text.fresh("ends"), text.fresh("done")
        text.emit(f"br i1 {text.value('icmp eq ptr %rt, %table')}, label %{done}, label %{ends}")
        text.label(ends)
        end = text.value(f"load ptr, ptr {text.value(f'getelementptr ptr, ptr %rt, i64 {END}')}, align 8")
        text.emit(f"call void {end}(ptr %rt, i32 {status})")
        text.emit(f"br label %{done}")
        text.label(done)
        text.emit(f"ret i32 {status}")

    def _enter(self, launch: Launch | None) -> None:
        """Do what can be done with the dims that are known: at first, and then what depends on the one of a launch."""
        measured = None if launch is None else launch.measures
        scope = self.sizes.scope
        failures = self.checks.due(measured)
        failures += self.checks.demands(self.regions.inside, lambda symbols: scope.is_due(symbols, measured))
        self.sizes.refuse_nonsense(failures)
        self._sizes(measured)
        self.memory.allocate(0 if launch is None else self.launches.measurements[launch])

    def _sizes(self, measured: Symbol | None) -> None:
        """Compute every size that can be, and refuse those that pass 2^63, before anything is allocated for them.

        All of it stands before the launches: what one layer's launch computes, every later layer's finds computed.
        """
        scope = self.sizes.scope
        for dim in self._needed():
            if scope.is_due(free_symbols(dim), measured):
                self.sizes.compute(dim)
        if measured is None:
            self.regions.compute(self.program.launches)
        self.sizes.refuse_nonsense()
        # What one variant alone asks for, where it is chosen, is estimated there.
        variants = [(launch, variant) for launch in self.regions.kernels for variant in launch.variants]
        times = Counter(variant.cost for _, variant in variants)
        costs = [v.cost for la, v in variants if times[v.cost] > 1 or (v.condition is None and la.when is None)]
        self.sizes.estimates([cost for cost in costs if scope.is_due(free_symbols(cost), measured)])

    def _needed(self) -> Iterator[Dim]:
        """Dims that every call computes."""
        yield from self.program.sizes
        scoped = {slot for scope in self.program.scopes.values() for slot in scope.slots}
        yield from (slot for number, slot in enumerate(self.program.slots) if number not in scoped)
        for result in self.program.function.results:
            yield from result.shape
        yield from self.regions.own_dims(self.program.launches)
        for body in self.regions.inside:
            yield from self.regions.dims(body)

    def _failure_blocks(self) -> None:
        """Give back what there is of the arena, and report the site with every symbol's value."""
        text = self.text
        sites = any(not isinstance(site, Fault) for site in self.program.sites)
        if not text.faults and not sites and not self.outside:
            return
        for fault in sorted(text.faults, key=lambda f: f.name):
            text.label(BLOCKS[fault])
            text.emit(f"store i32 {self.program.sites.index(fault)}, ptr %site, align 4")
            text.emit("br label %fail")
        text.label("fail")
        self.memory.free_all()
        site = text.value("load i32, ptr %site, align 4")
        text.emit(f"call void {text.runtime(FAIL)}(ptr %rt, i32 {site}, i32 {self._values}, ptr %values)")
        self._return(1)


def emit_host(
    program: HostProgram,
    kernels: Sequence[Kernels],
    symbol: str,
    native: Collection[Launch] = (),
    constants: int = 0,
    outside: Mapping[Launch, int] | None = None,
    slots: int | None = None,
) -> str:
    """The LLVM IR of a host program: a module with one definition, ``symbol``. ``native`` are its library calls that
    there is code for, ``constants`` is where those of constants begin in the table of addresses, and ``outside`` are
    its calls of external functions, with their numbers. From ``slots`` on there are the slots of deferred kernels."""
    return HostEmitter(program, kernels, native, constants, {} if outside is None else outside, slots).module(symbol)


def emit_guards(program: HostProgram, symbol: str) -> str:
    """The LLVM IR of a program's guards: a module with one definition, ``i32 symbol(const Tensor* in)``.

    It gives 1 where all guards hold, else 0. Where a guard's sizes pass 2^63, or have no value, the answer is 0 too:
    whoever asks knows a slower way, which computes exactly.
    """
    text = HostText()
    sizes = SizeEmitter(text)
    checks = Checks(program, text, sizes)
    checks.bind(keep=False)
    failed = [checks.check(guard) for guard in program.guards]
    bad = "false"
    for flag in (*failed, *sizes.scope.nonsense()):
        bad = text.value(f"or i1 {bad}, {flag}")
    good = text.value(f"xor i1 {bad}, true")
    text.emit(f"ret i32 {text.value(f'zext i1 {good} to i32')}")
    return "\n".join([*DECLARATIONS, f"define i32 @{symbol}(ptr %in) {{", "entry:", *text.lines, "}", ""])
