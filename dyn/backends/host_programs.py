"""The native runtime of one process, and calls into host programs through it.

The runtime table (``dyn.lower.host_llvm.emit``) is all that compiled code sees of the world. Memory and launches are
native code; outputs are allocated by the caller of the moment, which here is NumPy.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn import config
from dyn.backends.axis_order import common_order
from dyn.backends.base import ObjectBackend
from dyn.backends.binaries import Built
from dyn.backends.deferred import NOTHING_DEFERRED, DeferredKernels, KernelMaker
from dyn.backends.donated_memory import free_memory, is_dense
from dyn.backends.externals import PYTHON, Externals, call_of
from dyn.backends.library import LIBRARY, call_library, take_error
from dyn.backends.loaded_programs import register
from dyn.backends.runtime import native_copies, native_runtime, thread_count
from dyn.errors import IRError, ShapeError
from dyn.fork_safety import lock
from dyn.frozen import record
from dyn.ir.core import Function
from dyn.ir.elementwise import elementwise_rank
from dyn.ir.external import ExternalTarget
from dyn.lower.abi import PROGRAM_NUMBER
from dyn.runtime.limits import UNANSWERED

if TYPE_CHECKING:
    from dyn.lower.host import HostProgram
    from dyn.schedule.donate import Reuse

Array = np.ndarray[Any, Any]

_ENTRY = ("dyn_block_alloc", "dyn_block_free")


class RuntimeTable(ctypes.Structure):
    """A runtime table (``dyn.lower.host_llvm.emit``)."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in ("state", "alloc", "free", "alloc_output", "launch", "parallel_for", "library", "fail")
        ),
        ("threads", ctypes.c_int64),
        *((name, ctypes.c_void_p) for name in ("call", "begin", "end", "want", "fetch", "stage")),
    )


#: ``(rt, index, tensor, answer)``: see ``dyn.runtime.callbacks``.
_ALLOC_OUTPUT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64))
_FAIL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_int64))
RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)

# A tensor is four words of eight bytes: data, dtype and rank, dims, strides. The dtype of an input says whether its
# memory is to be taken.
_WORDS, _DATA, _RANK, _DIMS = 4, 0, 1, 2
_NO_SITE = -1
#: The site of the first external function; those of the others are below it.
_OUTSIDE = -2


class CallFrame:
    """The tensors of one call, laid out once and used by one call at a time; and what the call has been told so far.

    Words: a tensor an input, a tensor an output, then the dims of each in turn.
    """

    def __init__(self, ranks: Sequence[int], inputs: int, dtypes: Sequence[np.dtype[Any]]) -> None:
        self.words = (ctypes.c_int64 * (_WORDS * len(ranks) + sum(ranks) + 1))()
        self.address = ctypes.addressof(self.words)
        #: For each tensor the number of its first word, and where its dims begin and end.
        self.places: list[tuple[int, int, int]] = []
        at = _WORDS * len(ranks)
        for number, rank in enumerate(ranks):
            first = _WORDS * number
            self.words[first + _RANK] = rank << 32
            self.words[first + _DIMS] = self.address + 8 * at
            self.places.append((first, at, at + rank))
            at += rank
        self.inputs = inputs
        self.out_address = self.address + 8 * _WORDS * inputs
        self.dtypes = dtypes
        self.outputs: list[Any] = []
        self.site = _NO_SITE
        self.values: tuple[int, ...] = ()
        self.error: BaseException | None = None
        #: Of a call on a device, the address of its runtime table.
        self.beside: int | None = None

    def put(self, number: int, array: Array) -> None:
        """Describe an array that compiled code can read; the caller keeps it alive."""
        self.describe(number, array.__array_interface__["data"][0], array.shape)

    def describe(self, number: int, address: int, shape: tuple[int, ...]) -> None:
        """Describe a dense array by its address and shape."""
        first, start, end = self.places[number]
        self.words[first] = address
        if start < end:
            self.words[start:end] = shape

    def label(self, tags: Sequence[int]) -> None:
        """Note a word of 32 bits with each output, for who is asked for its memory."""
        for number, tag in enumerate(tags, self.inputs):
            first, start, end = self.places[number]
            self.words[first + _RANK] = (end - start) << 32 | tag

    def data(self, index: int) -> int:
        """The address of an output's memory, as far as native code has noted it; 0 where it has not."""
        return self.words[self.places[self.inputs + index][0]]

    def give(self, number: int, given: int) -> None:
        """Whether the output that may take an input's memory has to take it."""
        first, start, end = self.places[number]
        self.words[first + _RANK] = (end - start) << 32 | given

    def shape(self, index: int) -> tuple[int, ...]:
        """The shape of an output, once the call has computed it."""
        _, start, end = self.places[self.inputs + index]
        return tuple(self.words[start:end])

    def begin(self) -> None:
        self.outputs = [None] * len(self.dtypes)
        for index in range(len(self.dtypes)):
            self.words[self.places[self.inputs + index][0]] = 0
        self.error = None
        self.site, self.values = _NO_SITE, ()

    def interrupted(self) -> bool:
        """Whether Python was asked for memory, or told of a failure, and an exception came before it could answer."""
        asked = [self.words[self.places[self.inputs + index][0]] for index in range(len(self.outputs))]
        return self.site == _NO_SITE or any(
            data == UNANSWERED and array is None for data, array in zip(asked, self.outputs, strict=True)
        )

    def allocate(self, index: int) -> int:
        """The memory of a new output, whose dims have been written."""
        array = self.outputs[index] = np.empty(self.shape(index), self.dtypes[index])
        return array.__array_interface__["data"][0]


class _Frames(threading.local):
    """The frames of the calls in progress on this thread, innermost last."""

    def __init__(self) -> None:
        self.stack: list[CallFrame] = []


FRAMES = _Frames()


def _alloc_output(table: int, index: int, tensor: int, answer: Any) -> None:
    frame = FRAMES.stack[-1]
    try:
        answer[0] = frame.allocate(index)
    except BaseException as error:  # whatever it is, it must not pass through native frames
        frame.error = error


def _call_python(context: int, inputs: int, outputs: int, answer: Any) -> None:
    """Call a Python function outside of a program, and answer 0 if it went well."""
    try:
        call_of(context)(inputs, outputs)
        answer[0] = 0
    except BaseException as error:  # whatever it is, it must not pass through native frames
        FRAMES.stack[-1].error = error


def _fail(table: int, site: int, count: int, values: Any) -> None:
    frame = FRAMES.stack[-1]
    frame.site, frame.values = site, tuple(values[:count])


class _Runtime:
    """The runtime tables of this process: one for each number of threads that calls are allowed, and whether they have
    deferred kernels made. Callbacks, tables and code live as long as the process."""

    def __init__(self) -> None:
        self.lock = lock()
        self.tables: dict[tuple[int, bool], RuntimeTable] = {}
        self.callbacks = (_ALLOC_OUTPUT(_alloc_output), LIBRARY(call_library), _FAIL(_fail), PYTHON(_call_python))
        asked = [ctypes.cast(c, ctypes.c_void_p).value for c in self.callbacks[:2]]
        #: The state of every table: whom the native runtime asks.
        self.asked = (ctypes.c_void_p * 2)(*asked)
        #: The recorder's ``begin`` while calls are recorded.
        self.begin: int | None = None
        #: The table that calls on devices by the native entry have copies of.
        self.device: RuntimeTable | None = None

    def address(self, threads: int = 0, wants: bool = True) -> int:
        """The table for calls that may use ``threads`` threads; 0 for as many as the process has."""
        table = self.tables.get((threads, wants))
        if table is None:
            with self.lock:
                table = self.tables.setdefault((threads, wants), self._make(threads, wants))
        return ctypes.addressof(table)

    def record(self, begin: int | None) -> None:
        """Have the calls that begin from now on recorded by ``begin``, or no longer."""
        with self.lock:
            self.begin = begin
            for table in (*self.tables.values(), *([] if self.device is None else [self.device])):
                table.begin = begin  # one word: a call sees it or does not

    def _make(self, threads: int, wants: bool) -> RuntimeTable:
        symbols = native_runtime().addresses
        return RuntimeTable(
            state=ctypes.addressof(self.asked),
            threads=thread_count(threads) if threads else 0,
            alloc=symbols["dyn_alloc"],
            free=symbols["dyn_free"],
            launch=symbols["dyn_launch"],
            parallel_for=symbols["dyn_parallel_for"],
            alloc_output=symbols["dyn_ask_output"],
            library=symbols["dyn_ask_library"],
            call=symbols["dyn_call"],
            begin=self.begin,
            want=symbols["dyn_want" if wants else "dyn_want_nothing"],
            fail=ctypes.cast(self.callbacks[2], ctypes.c_void_p).value,
        )

    def make_device_table(self, device: Mapping[str, int], state: int) -> RuntimeTable:
        """A table of the functions of a device (``dyn.runtime.device``), with a state of its own."""
        wants = native_runtime().addresses["dyn_want"]
        fail = ctypes.cast(self.callbacks[2], ctypes.c_void_p).value
        return RuntimeTable(
            state=state, alloc=device["dyn_device_alloc"], free=device["dyn_device_free"],
            alloc_output=device["dyn_device_output"], launch=device["dyn_device_launch"],
            library=native_runtime().addresses["dyn_ask_library"], fail=fail, want=wants,
            fetch=device["dyn_device_fetch"], stage=device["dyn_device_stage"],
        )  # fmt: skip

    def shared_device_table(self, device: Mapping[str, int]) -> int:
        """The address of a table of the functions of devices, whose state calls put in its place."""
        with self.lock:
            if self.device is None:
                self.device = self.make_device_table(device, 0)
                self.device.begin = self.begin
            return ctypes.addressof(self.device)

    def ask_python(self) -> int:
        """The address of what calls Python functions outside of programs."""
        return ctypes.cast(self.callbacks[3], ctypes.c_void_p).value or 0


_RUNTIME = _Runtime()


def device_table(device: Mapping[str, int], state: int) -> RuntimeTable:
    """A runtime table of a device's functions, which the caller keeps alive."""
    return _RUNTIME.make_device_table(device, state)


def shared_device_table(device: Mapping[str, int]) -> int:
    """The address of a runtime table of a device's functions, as calls by the native entry have copies of it."""
    return _RUNTIME.shared_device_table(device)


def host_table() -> int:
    """The address of this machine's own runtime table, under the settings in force."""
    settings = config.current()
    return _RUNTIME.address(settings.num_threads, settings.variants == "background")


def recorder_begin() -> int | None:
    """The address of the recorder's ``begin`` while calls are recorded."""
    return _RUNTIME.begin


def ask_python() -> int:
    """The address of what calls Python functions outside of programs."""
    return _RUNTIME.ask_python()


def record_calls(begin: int | None) -> None:
    """Have the calls of all programs that begin from now on recorded by the native function ``begin``, or no longer."""
    _RUNTIME.record(begin)


def entry_functions(*, copies: bool = True) -> dict[str, int]:
    """The addresses of the runtime's functions that the native entry calls, by symbol: of memory for results, in blocks
    aligned to 64 bytes, and, or 0, of ``copies`` of arrays (``dyn.runtime.copies``)."""
    symbols = native_runtime().addresses
    return {**{name: symbols[name] for name in _ENTRY}, "dyn_copy_dense": native_copies() if copies else 0}


@record(eq=False)
class Interface:
    """Calling interface of a host program: all that calls need beside its code.

    ``function`` has its parameters and results: their dtypes, their ranks and the sizes that are fixed. It is the
    traced function or what the passes made of it, which have the same. ``calls`` says whether a library is called;
    ``host()`` is the host program itself, which is needed where a call fails, to say why. ``constants`` are the arrays
    of its large constants, which never change.
    """

    function: Function
    reuses: tuple[Reuse, ...]
    calls: bool
    host: Callable[[], HostProgram]
    constants: tuple[Array, ...] = ()


def check_captured(function: Function, captured: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]) -> None:
    """Check that captured arrays are what was traced: the host program does not look at their sizes again."""
    hidden = sum(info.hidden for info in function.infos)
    if hidden != len(captured):
        raise IRError(f"{function.name} has {hidden} captured arrays, not {len(captured)}")
    arguments = len(function.params) - hidden
    for value, (dtype, shape) in zip(function.params[arguments:], captured, strict=True):
        static = all(not isinstance(d, int) or d == n for d, n in zip(value.shape, shape, strict=True))
        if not static or value.dtype.np != dtype.newbyteorder("="):
            raise IRError(f"{value!r} was captured, and is {dtype}{shape}")


def failure_of(
    interface: Interface, externals: Externals, site: int, values: tuple[int, ...], sizes: Sequence[tuple[int, ...]]
) -> BaseException | None:
    """The error of a failed call; None where a signal's handler raised one, which is lost."""
    host = interface.host()
    from dyn.lower.host import Fault
    from dyn.lower.host_errors import render_failure

    if site <= _OUTSIDE:
        number = _OUTSIDE - site
        return None if externals.callees[number].runs_python else externals.failure(number, values[-1])
    if host.sites[site] is Fault.LIBRARY:
        return take_error()
    known = len(host.symbols)
    return render_failure(host, site, values[:known], sizes, values[known:])


class LoadedProgram:
    """A host program in memory, ready to be called from many threads at once.

    ``kernels`` are the addresses that the program's launches refer to by number, ``captured`` the arrays of its hidden
    parameters, which come after the arguments. Their elements are read anew at each call; their memory stays where it
    is as long as they are held here, so that a call need not ask for it again. ``guards`` is the address of a function
    that tells whether the program is for an argument's shapes (``emit_guards``), where there is one. ``callees`` are
    the functions outside that it calls. ``idle`` are frames that programs of the same code share where they capture
    nothing. ``deferred`` are kernels that the program may do without, and ``maker`` is who makes them.
    """

    def __init__(
        self,
        interface: Interface,
        address: int,
        kernels: Sequence[int],
        captured: Sequence[Array],
        guards: int | None = None,
        callees: Sequence[ExternalTarget] = (),
        idle: list[CallFrame] | None = None,
        deferred: DeferredKernels = NOTHING_DEFERRED,
        maker: KernelMaker | None = None,
    ) -> None:
        self.interface = interface
        self.address, self.guards, self.kernels = address, guards, tuple(kernels)
        self.externals = Externals(callees, _RUNTIME.ask_python() if callees else 0)
        self.captured = tuple(captured)
        function = interface.function
        self._arguments = len(function.params) - len(self.captured)
        check_captured(function, [(array.dtype, array.shape) for array in self.captured])
        self._run = RUN(address)
        _RUNTIME.address()  # made now rather than by the first call
        table = [*kernels, *(array.__array_interface__["data"][0] for array in interface.constants)]
        table += [*self.externals.words, *deferred.addresses]
        self.deferred, self._maker = deferred, maker
        if maker is not None:
            deferred.add_maker(maker)
        #: What a profile knows it by: no two programs of a process have the same.
        self.number = register(self)
        self._table = (ctypes.c_void_p * (1 + len(table)))(self.number, *table)
        self.context = ctypes.addressof(self._table) - PROGRAM_NUMBER
        self._ranks = tuple(len(v.shape) for v in (*function.params, *function.results))
        self._dtypes = tuple(v.dtype.np for v in function.results)
        #: Captured arrays that have to be copied for compiled code, each time.
        self._copied = [i for i, a in enumerate(self.captured) if not is_dense(a)]
        #: Frames that no call is using. Lists are popped and appended to without a lock of our own.
        self._idle = idle if idle is not None and not self.captured else list[CallFrame]()

    @property
    def native(self) -> bool:
        """Whether a call runs no Python code, and may be made again where it fails and no argument was written to: no
        library is called, nor a Python function, nor one with effects, and captured arrays are read where they lie."""
        outside = self.externals.run_python or self.externals.have_effects
        return not (self._copied or self.interface.calls or outside)

    @cached_property
    def symmetric_rank(self) -> int:
        """The rank of the arrays that may lie in any one order of axes, and then run as they lie; 0 for none."""
        if self.interface.reuses or not elementwise_rank(self.interface.function):
            return 0
        from dyn.stitch.axis_symmetry import symmetric_rank  # a process that finds its programs does without

        return symmetric_rank(self.interface.function)

    def call_as_they_lie(self, arguments: Sequence[Array], beside: Sequence[Array] | None = ()) -> list[Array]:
        """The results of a call: where it can, of arguments as they lie, and in the order in which they lie."""
        dense = all(map(is_dense, arguments))
        order = None if dense or not self.symmetric_rank else common_order(arguments, self.symmetric_rank)
        if order is not None:
            try:
                results = self([a.transpose(order) if a.ndim else a for a in arguments], beside)
            except ShapeError:
                pass  # what there is to say is said of the sizes as they were given
            else:
                back = tuple(np.argsort(order))
                return [result.transpose(back) if result.ndim else result for result in results]
        return self(arguments, beside)

    def _frame(self) -> CallFrame:
        frame = CallFrame(self._ranks, len(self.interface.function.params), self._dtypes)
        for number, array in enumerate(self.captured):
            frame.put(self._arguments + number, array)
        return frame

    def runtime(self, limit: int = 0) -> int:
        """The address of the runtime table that a call under the settings in force uses, or one of ``limit`` threads at
        most, where that is fewer."""
        settings = config.current()
        own = settings.num_threads
        wants = settings.variants == "background"
        return _RUNTIME.address(min(own, limit) if own and limit else own or limit, wants)

    def __call__(self, arguments: Sequence[Array], beside: Sequence[Array] | None = ()) -> list[Array]:
        """The results for NumPy arrays of the right dtypes and ranks: fresh arrays, or donated arguments' memory.

        That is not taken where another argument or an array of ``beside`` shares it, and never with None.
        ShapeError where a check fails, MemoryError where there is no memory; then nothing has been written that the
        caller can see, but for donated arguments where the memory gave out in the middle.
        """
        try:
            frame = self._idle.pop()
        except IndexError:
            frame = self._frame()
        held: list[Array] = []
        for number, array in enumerate(arguments):
            if not is_dense(array):
                array = _dense_copy(array)
                held.append(array)
            frame.put(number, array)
        for index in self._copied:
            held.append(_dense_copy(self.captured[index]))
            frame.put(self._arguments + index, held[-1])
        taken: tuple[Reuse, ...] = ()
        reuses = self.interface.reuses
        if reuses and beside is not None:
            same = {id(array) for array in arguments}
            others = (*self.captured, *(array for array in beside if id(array) not in same))
            free = free_memory([*arguments, *others], [reuse.input for reuse in reuses])
            taken = tuple(reuse for reuse in reuses if reuse.input in free)
            for reuse in taken:
                frame.give(reuse.input, 1)
        frame.begin()
        stack = FRAMES.stack
        stack.append(frame)
        try:
            status = self._run(self.runtime(), self.context, frame.address, frame.out_address)
        finally:
            stack.pop()
        interrupted = bool(status) and frame.interrupted()
        outputs, error = frame.outputs, frame.error
        frame.outputs, frame.error = [], None
        for reuse in taken:
            frame.give(reuse.input, 0)
            if not status and outputs[reuse.output] is None:
                array = arguments[reuse.input]
                shape = frame.shape(reuse.output)
                outputs[reuse.output] = array if array.shape == shape else array.reshape(shape)
        site, values = frame.site, frame.values
        self._idle.append(frame)
        if status:
            if error is not None:
                raise error
            shapes = [a.shape for a in (*arguments, *self.captured)]
            given = [reuse.input for reuse in taken] if self._may_have_written(site) else []
            raise self._told(None if interrupted else self._failure(site, values, shapes), given)
        return outputs

    def raise_if_written(self, record: int, inputs: int) -> None:
        """Raise the error of a call by the native entry that failed when it may have written to its arguments.

        Nothing is raised where it cannot have. ``record`` is the address of a site, and of how many values there are
        and where, ``inputs`` that of the arguments' tensors, in which memory that was given away is marked.
        """
        site, count, where = (ctypes.c_int64 * 3).from_address(record)
        if not self._may_have_written(site):
            return
        tensors = (ctypes.c_int64 * (_WORDS * len(self.interface.function.params))).from_address(inputs)
        shapes: list[tuple[int, ...]] = []
        given: list[int] = []
        for number in range(len(self.interface.function.params)):
            first = _WORDS * number
            rank, tag = tensors[first + _RANK] >> 32, tensors[first + _RANK] & 0xFFFFFFFF
            shapes.append(tuple((ctypes.c_int64 * rank).from_address(tensors[first + _DIMS])) if rank else ())
            if tag:
                given.append(number)
        values = tuple((ctypes.c_int64 * count).from_address(where)) if where else None
        if values is None:
            raise self._told(MemoryError(f"{self.interface.function.name}: no memory"), given)
        raise self._told(self._failure(site, values, shapes), given)

    def _failure(self, site: int, values: tuple[int, ...], sizes: Sequence[tuple[int, ...]]) -> BaseException | None:
        """The error of a failed call; None where a signal's handler raised one, which is lost."""
        return failure_of(self.interface, self.externals, site, values, sizes)

    def _may_have_written(self, site: int) -> bool:
        """Whether a call that failed there may have written results into arguments: no check comes after that."""
        if site < 0:  # functions outside are called before anything is written
            return False
        from dyn.lower.host import Fault

        return self.interface.host().sites[site] in (Fault.NO_MEMORY, Fault.TOO_LONG, Fault.LIBRARY, Fault.OVERRUN)

    def _told(self, error: BaseException | None, taken: Sequence[int]) -> BaseException:
        """An error with the arguments that may hold parts of results."""
        if error is None:  # it came from a signal's handler; ctypes has reported it, and dropped it
            error = KeyboardInterrupt()
        if taken:
            names = ", ".join(self.interface.function.infos[number].name for number in taken)
            error.add_note(f"what the donated {names} held may be lost: results were being written there.")
        return error


def _dense_copy(array: Array) -> Array:
    return np.array(array, array.dtype.newbyteorder("="), order="C", subok=False)


def load_program(
    backend: ObjectBackend,
    built: Sequence[Built],
    kernels: int,
    interface: Interface,
    captured: Sequence[Array],
    calls: Sequence[int] = (),
    callees: Sequence[ExternalTarget] = (),
    deferred: DeferredKernels = NOTHING_DEFERRED,
    maker: KernelMaker | None = None,
) -> LoadedProgram:
    """A program from its objects: ``kernels`` kernels, the host program, and its guards if it has any.

    ``calls`` are the entries of library calls, which are numbered after the kernels, ``callees`` the functions outside,
    and ``deferred`` the kernels that ``maker`` makes later, which come last.
    """
    addresses = addresses_of(backend, built)
    host, *guards = addresses[kernels:]
    context = [*addresses[:kernels], *calls]
    test = guards[0] if guards else None
    return LoadedProgram(interface, host, context, captured, test, callees, deferred=deferred, maker=maker)


def addresses_of(backend: ObjectBackend, built: Sequence[Built]) -> list[int]:
    """Addresses of objects in memory, each loaded once. Each defines one symbol."""
    return [backend.load_once(one.binary).address(one.binary.symbols[0]) for one in built]
