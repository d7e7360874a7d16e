"""Launches of kernels and library calls, measurements, loops and choices of a host program."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from dyn.ir.core import Op, Value
from dyn.lower.abi import CALL, FETCH, LAUNCH, LIBRARY, STAGE, WANT, KernelSlot
from dyn.lower.host import Fault, HostProgram, MemorySpace
from dyn.lower.host_llvm.checks import Checks
from dyn.lower.host_llvm.memory import Memory
from dyn.lower.host_llvm.region_sizes import Kernels, Regions
from dyn.lower.host_llvm.text import TENSOR, HostText
from dyn.lower.layout import LoopPlaces, RowPointer
from dyn.lower.native_call import NO_MEMORY, TOO_LONG
from dyn.schedule.launch import Body, Condition, Launch, Variant, dispatches, scaled, walk_launches
from dyn.shapes import Dim
from dyn.stitch.groups import Group

#: Pieces of a thread, of launches whose neighbouring iterations are one.
PIECES_OF_LONG_RUNS = 1


class Launches:
    """Writes launches in their order.

    ``enter`` goes on with what has waited for what a launch measured. ``native`` are the library calls that there is
    code for; ``outside`` has the number of the external function that a launch calls, for those that do. Kernels with
    numbers from ``slots`` on are deferred.
    """

    def __init__(
        self,
        program: HostProgram,
        text: HostText,
        checks: Checks,
        regions: Regions,
        memory: Memory,
        native: Collection[Launch],
        outside: Mapping[Launch, int],
        slots: int | None,
        enter: Callable[[Launch], None],
    ) -> None:
        self.program, self.text, self.checks = program, text, checks
        self.regions, self.memory, self.sizes = regions, memory, checks.sizes
        self.native, self.outside, self.enter = native, outside, enter
        self.slots = slots
        #: The last of the values that a failure reports.
        self._answer = len(program.symbols) + (2 if program.red_zone else 0)
        #: The numbers of the launches that measure, from 1: those of the segments that begin with them.
        measuring = [launch for launch in walk_launches(program.launches) if launch.measures is not None]
        self.measurements = {launch: number for number, launch in enumerate(measuring, 1)}
        #: The number of a launch's first dispatch: its variants' follow one another.
        self.dispatch: dict[Launch, int] = {}
        for number, one in enumerate(dispatches(program.launches)):
            self.dispatch.setdefault(one.launch, number)
        #: The launches of each condition, and once it is known whether they run.
        self._with: dict[tuple[Group, Condition], list[Launch]] = {}
        self._runs: dict[tuple[Group, Condition], str] = {}
        for launch in walk_launches(program.launches):
            if launch.when is not None:
                self._with.setdefault((launch.group, launch.when), []).append(launch)

    def run(self, launches: Sequence[Launch]) -> None:
        """Launches one after the other."""
        for launch in launches:
            loop = self.program.loops.get(launch)
            if loop is not None:
                self._loop(launch, loop)
            elif launch.is_choice:
                self._alternatives(launch)
            elif launch.bodies:
                self._choice(launch)
            elif launch.measures is not None:
                self._measure(launch)
            else:
                self._write(launch)

    def _write(self, launch: Launch) -> None:
        """A kernel or a call, between its red zones."""
        ends = {number: self._end(value) for number, value in enumerate(self.program.written(launch))}
        self.memory.zones.before(ends)
        if launch.call is None:
            self._launch(launch, self.regions.kernels[launch])
        else:
            self._describe(launch.call, launch.buffers)
            number = self.regions.kernels[launch][0][0]
            if launch in self.outside:
                self._call_outside(launch, launch.call, number, self.outside[launch])
            elif launch in self.native:
                self._call_native(launch, launch.call, number)
            else:
                self._call_library(launch, number)
        self.memory.zones.after(launch, ends)

    def _end(self, value: Value) -> str:
        """The address behind a value."""
        at = self.memory.pointer(self.program.places[value])
        return self.text.value(f"getelementptr i8, ptr {at}, i64 {self.sizes.dim(value.type.nbytes)}")

    def free_measured(self, launches: Sequence[Launch]) -> None:
        """Give back the segments that these launches began themselves."""
        self.memory.free([self.measurements[launch] for launch in launches if launch in self.measurements])

    # Kernels ----------------------------------------------------------------------------------------------------

    def _launch(self, launch: Launch, kernels: Kernels) -> None:
        """The variant of a kernel whose condition holds, unless there is nothing that it writes.

        Its grid may be of any size then: rows are counted, and what is not a row of anything has up to 2^63 - 1.
        """
        text = self.text
        for position, value in enumerate(launch.buffers):
            slot = text.value(f"getelementptr ptr, ptr %buffers, i64 {position}")
            text.emit(f"store ptr {self.memory.pointer(self.program.places[value])}, ptr {slot}, align 8")
        skipped = self._skipped(launch)
        done = text.fresh("launched")
        nothing = self._all_empty(launch.written())
        if nothing is not None:
            some = text.fresh("some")
            text.emit(f"br i1 {nothing}, label %{done}, label %{some}")
            text.label(some)
        if skipped is not None:
            runs = text.fresh("runs")
            text.emit(f"br i1 {skipped}, label %{done}, label %{runs}")
            text.label(runs)
        for at, (variant, (number, scratch)) in enumerate(zip(launch.variants, kernels, strict=True)):
            holds, dispatch = self._chosen(variant), self.dispatch[launch] + at
            deferred = self.slots is not None and number >= self.slots
            following = text.fresh("next")
            if holds is not None:
                chosen = text.fresh("variant")
                text.emit(f"br i1 {holds}, label %{chosen}, label %{following}")
                text.label(chosen)
            kernel = self._made(number, following) if deferred else self._code(number)
            self._start(variant, kernel, scratch, dispatch)
            text.emit(f"br label %{done}")
            if holds is None and not deferred:
                break
            text.label(following)
        else:
            text.emit(f"br label %{done}")
        text.label(done)

    def _skipped(self, launch: Launch) -> str | None:
        """An i1 that says whether a launch does not run; None where it always does."""
        if launch.unless:
            return self.text.any([self._instead(launch.group, condition) for condition in launch.unless])
        if launch.when is None:
            return None
        runs = self._runs.get((launch.group, launch.when))
        return self.text.value(f"xor i1 {self.checks.holds(launch.when) if runs is None else runs}, true")

    def _instead(self, group: Group, when: Condition) -> str:
        """An i1 that says whether the launches of a condition run in place of another one: where it holds and each has
        a kernel. Those that are not made are wanted then."""
        text, holds = self.text, self.checks.holds(when)
        runs = holds
        numbers = [self.regions.kernels[launch][-1][0] for launch in self._with[group, when]]
        for number in dict.fromkeys(numbers):
            if self.slots is None or number < self.slots:
                continue
            slot = self._code(number)
            there = text.value(f"icmp ne ptr {self._address(slot)}, null")
            missing = text.value(f"and i1 {holds}, {text.value(f'xor i1 {there}, true')}")
            wanted, known = text.fresh("wanted"), text.fresh("known")
            text.emit(f"br i1 {missing}, label %{wanted}, label %{known}")
            text.label(wanted)
            text.emit(f"call void {text.runtime(WANT)}(ptr %rt, ptr {slot})")
            text.emit(f"br label %{known}")
            text.label(known)
            runs = text.value(f"and i1 {runs}, {there}")
        self._runs[group, when] = runs
        return runs

    def _address(self, slot: str) -> str:
        """The address of a deferred kernel, null where it is not made."""
        at = self.text.value(f"getelementptr i8, ptr {slot}, i64 {KernelSlot.KERNEL}")
        # Acquire: with the address comes what it points to, the code that another thread has loaded.
        return self.text.value(f"load atomic ptr, ptr {at} acquire, align 8")

    def _made(self, number: int, following: str) -> str:
        """A deferred kernel; where it is not made yet, say that it is wanted and go on to ``following``."""
        text = self.text
        slot = self._code(number)
        wanted, made = text.fresh("wanted"), text.fresh("made")
        kernel = self._address(slot)
        text.emit(f"br i1 {text.value(f'icmp eq ptr {kernel}, null')}, label %{wanted}, label %{made}")
        text.label(wanted)
        text.emit(f"call void {text.runtime(WANT)}(ptr %rt, ptr {slot})")
        text.emit(f"br label %{following}")
        text.label(made)
        return kernel

    def _all_empty(self, values: Sequence[Value]) -> str | None:
        """An i1 that says whether no value has an element; None where one always has some, or there is no value.

        A size that nothing computed before the launch says nothing.
        """
        known = self.sizes.scope.known.dims
        sizes = [[d for d in dict.fromkeys(v.shape) if d in known or d == 0] for v in values]
        if not all(sizes):
            return None
        zero = {d: self.text.value(f"icmp eq i64 {self.sizes.dim(d)}, 0") for dims in sizes for d in dims}
        nothing: str | None = None
        for flags in dict.fromkeys([tuple([zero[d] for d in dims]) for dims in sizes]):
            flag = self.text.any(flags)
            nothing = flag if nothing is None else self.text.value(f"and i1 {nothing}, {flag}")
        return nothing

    def _chosen(self, variant: Variant) -> str | None:
        """An i1 that says whether a variant is the one; None where nothing is asked."""
        holds = None if variant.condition is None else self.checks.holds(variant.condition)
        if variant.in_place is None:
            return holds
        taken = self.memory.taken[variant.in_place]
        return taken if holds is None else self.text.value(f"and i1 {taken}, {holds}")

    def _start(self, variant: Variant, kernel: str, scratch: Dim, dispatch: int) -> None:
        text, dim = self.text, self.sizes.dim
        for position, size in enumerate(variant.dims):
            slot = text.value(f"getelementptr i64, ptr %dims, i64 {position}")
            times, rest = scaled(size) if position in variant.strides else (1, size)
            value = dim(rest) if times == 1 else text.value(f"mul i64 {dim(rest)}, {times}")
            text.emit(f"store i64 {value}, ptr {slot}, align 8")
        arguments = (
            f"ptr %rt, ptr {kernel}, i64 {dim(variant.grid)}, ptr %dims, ptr %buffers, i64 {dim(scratch)}, "
            f"i64 {self.sizes.estimate(variant.cost)}, i64 {_pieces(variant)}, i64 {dispatch}"
        )
        status = text.value(f"call i32 {text.runtime(LAUNCH)}({arguments})")
        text.fault(self.memory.failed, text.value(f"icmp ne i32 {status}, 0"))

    def _code(self, number: int) -> str:
        """Pointer in ``ctx`` of a kernel, a library call or an external function."""
        at = self.text.value(f"getelementptr ptr, ptr %ctx, i64 {number}")
        return self.text.value(f"load ptr, ptr {at}, align 8")

    # Library calls ----------------------------------------------------------------------------------------------

    def stack(self) -> list[str]:
        """Stack for the tensors of a library call, and for their dims; and for what is fetched from a device."""
        calls = [call for launch in walk_launches(self.program.launches) if (call := launch.call) is not None]
        fetched = ["  %fetched = alloca i64, align 8"] if FETCH in self.text.functions else []
        if not calls:
            return fetched
        tensors = max(len(call.operands) + len(call.results) for call in calls)
        dims = max(sum(len(v.shape) for v in (*call.operands, *call.results)) for call in calls)
        return [
            f"  %tensors = alloca [{tensors} x {TENSOR}], align 16",
            f"  %sizes = alloca [{max(dims, 1)} x i64], align 16",
            *fetched,
        ]

    def _describe(self, call: Op, buffers: Sequence[Value]) -> None:
        """Put the op's operands and results into the tensors of a call."""
        text, position = self.text, 0
        for index, (value, buffer) in enumerate(zip((*call.operands, *call.results), buffers, strict=True)):
            tensor = text.value(f"getelementptr {TENSOR}, ptr %tensors, i64 {index}")
            dims = text.value(f"getelementptr i64, ptr %sizes, i64 {position}")
            pointer = self.memory.pointer(self.program.places[buffer])
            dtype, rank = f"i32 {value.dtype.dlpack}", f"i32 {len(value.shape)}"
            fields = ("ptr " + pointer, dtype, rank, "ptr " + dims, "ptr null")
            for field, content in enumerate(fields):
                at = text.value(f"getelementptr {TENSOR}, ptr {tensor}, i32 0, i32 {field}")
                text.emit(f"store {content}, ptr {at}, align {4 if content.startswith('i32') else 8}")
            for dim in value.shape:
                at = text.value(f"getelementptr i64, ptr %sizes, i64 {position}")
                text.emit(f"store i64 {self.sizes.dim(dim)}, ptr {at}, align 8")
                position += 1

    def _call_library(self, launch: Launch, number: int) -> None:
        """Have Python compute what the tensors say."""
        text = self.text
        arguments = f"ptr %rt, ptr {self._code(number)}, ptr %tensors, ptr %values, i64 {self.dispatch[launch]}"
        status = text.value(f"call i32 {text.runtime(LIBRARY)}({arguments})")
        text.fault(Fault.LIBRARY, text.value(f"icmp ne i32 {status}, 0"))

    def _call_native(self, launch: Launch, call: Op, number: int) -> None:
        """Have a library's native code compute what the tensors say."""
        text = self.text
        status = self._call(launch, call, self._code(number), "%rt")
        text.fault(Fault.NO_MEMORY, text.value(f"icmp eq i32 {status}, {NO_MEMORY}"))
        text.fault(Fault.TOO_LONG, text.value(f"icmp eq i32 {status}, {TOO_LONG}"))

    def _call(self, launch: Launch, call: Op, function: str, context: str) -> str:
        """Call native code with the tensors of an op; gives its answer."""
        text = self.text
        if self.program.space is MemorySpace.DEVICE:
            counts = f"i64 {len(call.operands)}, i64 {len(call.results)}"
            staged = f"ptr %rt, ptr {function}, ptr {context}, ptr %tensors, {counts}"
            return text.value(f"call i32 {text.runtime(STAGE)}({staged})")
        results = text.value(f"getelementptr {TENSOR}, ptr %tensors, i64 {len(call.operands)}")
        arguments = f"ptr {function}, ptr {context}, ptr %tensors, ptr {results}, i64 {self.dispatch[launch]}"
        return text.value(f"call i32 {text.runtime(CALL)}(ptr %rt, {arguments})")

    def _call_outside(self, launch: Launch, call: Op, number: int, external: int) -> None:
        """Call an external function; what it answers is reported where it is not 0."""
        text = self.text
        status = self._call(launch, call, self._code(number), self._code(number + 1))
        failed, good = text.fresh("failed"), text.fresh("called")
        text.emit(f"br i1 {text.value(f'icmp ne i32 {status}, 0')}, label %{failed}, label %{good}")
        text.label(failed)
        slot = text.value(f"getelementptr i64, ptr %values, i64 {self._answer}")
        text.emit(f"store i64 {text.value(f'sext i32 {status} to i64')}, ptr {slot}, align 8")
        text.emit(f"store i32 {-2 - external}, ptr %site, align 4")
        text.emit("br label %fail")
        text.label(good)

    def _measure(self, launch: Launch) -> None:
        """Read a dim, and go on with what has waited for it."""
        symbol = launch.measures
        assert symbol is not None
        at = self.memory.pointer(self.program.places[launch.buffers[0]])
        value = self._read("i64", at, 8)
        self.sizes.know(symbol, value)
        self.checks.keep(symbol, value)
        self.enter(launch)

    def _read(self, type: str, at: str, bytes: int) -> str:
        """A number in a buffer: fetched, once what computes it is done, where that is in a device's memory."""
        if self.program.space is MemorySpace.HOST:
            return self.text.value(f"load {type}, ptr {at}, align {bytes}")
        text = self.text
        status = text.value(f"call i32 {text.runtime(FETCH)}(ptr %rt, ptr %fetched, ptr {at}, i64 {bytes})")
        text.fault(Fault.DEVICE, text.value(f"icmp ne i32 {status}, 0"))
        return text.value(f"load {type}, ptr %fetched, align {bytes}")

    # Loops and choices ------------------------------------------------------------------------------------------

    def _region(self, body: Body) -> None:
        """Run a region, unless the sizes are not what it needs."""
        if body not in self.regions.failing:
            self._reached(body.launches)
            return
        # What is about dims that were measured around it is computed here, and known here alone.
        with self.sizes.within(self.sizes.scope.inner()):
            self.regions.fail(body)
            self.regions.inside.append(body)
            self._reached(body.launches)
            self.regions.inside.pop()

    def _reached(self, launches: Sequence[Launch]) -> None:
        """Launches that may not be reached: what they measure is known to nobody else."""
        if not any(launch in self.measurements for launch in walk_launches(launches)):
            self.run(launches)
            return
        with self.sizes.within(self.sizes.scope.inner()):
            self.run(launches)
            self.free_measured(launches)

    def _alternatives(self, launch: Launch) -> None:
        """Run the first body whose condition holds and whose kernels are there: the last one is always right."""
        text, done = self.text, self.text.fresh("ran")
        for body in launch.bodies:
            following = text.fresh("other")
            if body.when is not None:
                chosen = text.fresh("agree")
                text.emit(f"br i1 {self.checks.holds(body.when)}, label %{chosen}, label %{following}")
                text.label(chosen)
                if body.deferred:
                    self._all_made(body, following)
            self._region(body)
            text.emit(f"br label %{done}")
            text.label(following)
        text.emit(f"br label %{done}")
        text.label(done)

    def _all_made(self, body: Body, following: str) -> None:
        """Go on to ``following`` where a deferred kernel that a body would launch is not made, and say that those are
        wanted."""
        text = self.text
        slots: list[tuple[str, str]] = []
        for launch in body.launches:
            # Launches under a condition of their own say themselves what they want, and may not be made.
            for number, _ in self.regions.kernels[launch] if launch.when is None else ():
                if self.slots is not None and number >= self.slots:
                    slot = self._code(number)
                    slots.append((slot, text.value(f"icmp eq ptr {self._address(slot)}, null")))
        if not slots:
            return
        lacking, made = text.fresh("lacking"), text.fresh("made")
        text.emit(f"br i1 {text.any([missing for _, missing in slots])}, label %{lacking}, label %{made}")
        text.label(lacking)
        for slot, missing in slots:
            wanted, after = text.fresh("wanted"), text.fresh("after")
            text.emit(f"br i1 {missing}, label %{wanted}, label %{after}")
            text.label(wanted)
            text.emit(f"call void {text.runtime(WANT)}(ptr %rt, ptr {slot})")
            text.emit(f"br label %{after}")
            text.label(after)
        text.emit(f"br label %{following}")
        text.label(made)

    def _choice(self, launch: Launch) -> None:
        """Run one of the regions: the first for true, the last for numbers that there are none for."""
        text, index = self.text, launch.buffers[0]
        done, labels = text.fresh("chosen"), [text.fresh("branch") for _ in launch.bodies]
        element = "i8" if index.dtype.itemsize == 1 else "i32"
        at = self.memory.pointer(self.program.places[index])
        number = self._read(element, at, index.dtype.itemsize)
        if element == "i8":
            true, false = labels
            flag = text.value(f"icmp ne i8 {number}, 0")
            text.emit(f"br i1 {flag}, label %{true}, label %{false}")
        else:
            cases = " ".join(f"i32 {i}, label %{label}" for i, label in enumerate(labels[:-1]))
            text.emit(f"switch i32 {number}, label %{labels[-1]} [ {cases} ]")
        for label, body in zip(labels, launch.bodies, strict=True):
            text.label(label)
            self._region(body)
            text.emit(f"br label %{done}")
        text.label(done)

    def _loop(self, launch: Launch, loop: LoopPlaces) -> None:
        text = self.text
        number = list(self.program.loops).index(launch)
        head, step, done = (text.fresh(name) for name in ("again", "step", "finished"))
        for carried in loop.carried:
            self._set(carried.current, self.memory.pointer(carried.home))
            if carried.following is not None and carried.spare is not None:
                self._set(carried.following, self.memory.pointer(carried.spare))
        for row in loop.rows:
            self._set(row.variable, self._first_row(row, loop))
        text.emit(f"store i64 0, ptr %steps{number}, align 8")
        text.emit(f"br label %{head}")
        text.label(head)
        if loop.condition is not None:
            self._region(launch.bodies[0])
            answer = self._read("i8", self.memory.pointer(loop.condition), 1)
            going = text.value(f"icmp ne i8 {answer}, 0")
        else:
            taken = text.value(f"load i64, ptr %steps{number}, align 8")
            going = text.value(f"icmp slt i64 {taken}, {self.sizes.dim(loop.length)}")
        text.emit(f"br i1 {going}, label %{step}, label %{done}")
        text.label(step)
        self._region(launch.bodies[-1])
        self._advance(number, loop)
        text.emit(f"br label %{head}")
        text.label(done)

    def _advance(self, number: int, loop: LoopPlaces) -> None:
        """Swap the slots of carried values that take turns, and go on to the next rows of scanned arrays."""
        text = self.text
        for carried in loop.carried:
            if carried.following is not None:
                here, there = (
                    text.value(f"load ptr, ptr %variable{v}, align 8") for v in (carried.current, carried.following)
                )
                self._set(carried.current, there)
                self._set(carried.following, here)
        for row in loop.rows:
            here = text.value(f"load ptr, ptr %variable{row.variable}, align 8")
            step = self.sizes.dim(row.step)
            by = text.value(f"sub i64 0, {step}") if loop.reverse else step
            self._set(row.variable, text.value(f"getelementptr i8, ptr {here}, i64 {by}"))
        taken = text.value(f"load i64, ptr %steps{number}, align 8")
        text.emit(f"store i64 {text.value(f'add i64 {taken}, 1')}, ptr %steps{number}, align 8")

    def _first_row(self, row: RowPointer, loop: LoopPlaces) -> str:
        start = self.memory.pointer(row.array)
        if not loop.reverse:
            return start
        last = self.text.value(f"sub i64 {self.sizes.dim(loop.length)}, 1")
        offset = self.text.value(f"mul i64 {last}, {self.sizes.dim(row.step)}")
        return self.text.value(f"getelementptr i8, ptr {start}, i64 {offset}")

    def _set(self, variable: int, pointer: str) -> None:
        self.text.emit(f"store ptr {pointer}, ptr %variable{variable}, align 8")


def _pieces(variant: Variant) -> int:
    """The most pieces of a launch that a thread has; 0 for as many as balance the work.

    Where neighbouring iterations are one, long pieces are quick ones.
    """
    grid, _ = variant.kernel.grid()
    return PIECES_OF_LONG_RUNS if grid and grid[-1].count is not None else 0
