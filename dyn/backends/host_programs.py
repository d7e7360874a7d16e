"""Host programs in memory, and calls into them by Python: of NumPy's arrays, through a runtime table."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn import config
from dyn.backends.axis_order import common_order
from dyn.backends.base import ObjectBackend
from dyn.backends.binaries import Built
from dyn.backends.call_frames import FRAMES, CallFrame, shapes_and_tags
from dyn.backends.deferred import NOTHING_DEFERRED, DeferredKernels, KernelMaker
from dyn.backends.donated_memory import free_memory, is_dense
from dyn.backends.externals import Externals
from dyn.backends.library import take_error
from dyn.backends.loaded_programs import register
from dyn.backends.runtime_tables import ask_python, host_table
from dyn.errors import ArgumentError, IRError, ShapeError
from dyn.frozen import record
from dyn.ir.core import Function
from dyn.ir.elementwise import elementwise_rank
from dyn.ir.external import ExternalTarget
from dyn.late_imports import import_whole
from dyn.lazy_property import lazy_property
from dyn.lower.abi import PROGRAM_NUMBER

if TYPE_CHECKING:
    from dyn.backends.python_runtime import PythonRuntime
    from dyn.lower.host import HostProgram
    from dyn.schedule.donate import Reuse
    from dyn.trace.held import HeldBuffer

Array = np.ndarray[Any, Any]

RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)

#: The site of the first external function; those of the others are below it.
_OUTSIDE = -2


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
    import_whole("dyn.lower.host", "dyn.lower.host_errors")
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

    #: The memory of those of the captured arrays that are dyn's own: another program is for other memory.
    buffers: tuple[HeldBuffer, ...] = ()

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
        self.externals = Externals(callees, ask_python() if callees else 0)
        self.captured = tuple([array.view(np.ndarray) for array in captured])
        function = interface.function
        self._arguments = len(function.params) - len(self.captured)
        check_captured(function, [(array.dtype, array.shape) for array in self.captured])
        self._run = RUN(address)
        host_table()  # made now rather than by the first call
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
        self._typestrs = tuple(v.dtype.np.str for v in function.params)
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

    @lazy_property
    def symmetric_rank(self) -> int:
        """The rank of the arrays that may lie in any one order of axes, and then run as they lie; 0 for none."""
        if self.interface.reuses or not elementwise_rank(self.interface.function):
            return 0
        import_whole("dyn.stitch.axis_symmetry")
        from dyn.stitch.axis_symmetry import symmetric_rank  # a process that finds its programs does without

        return symmetric_rank(self.interface.function)

    def call_as_they_lie(
        self, arguments: Sequence[Array], beside: Sequence[Array] | None = (),
        givers: Mapping[int, Array] = MappingProxyType({}),
    ) -> list[Array]:  # fmt: skip
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
        return self(arguments, beside, givers)

    def _frame(self) -> CallFrame:
        frame = CallFrame(self._ranks, self._typestrs, self._dtypes)
        for number, array in enumerate(self.captured):
            frame.put(self._arguments + number, array)
        return frame

    def runtime(self, limit: int = 0) -> int:
        """The address of the runtime table that a call under the settings in force uses, or one of ``limit`` threads at
        most, where that is fewer."""
        return host_table(limit)

    def _python_runtime(self, frame: CallFrame) -> PythonRuntime:
        """The runtime of a call that is debugged."""
        import_whole("dyn.backends.python_runtime", "dyn.backends.runtime_checks")
        from dyn.backends.python_runtime import PythonRuntime  # other processes do without
        from dyn.backends.runtime_checks import CallSite

        settings, own = config.current(), self.interface
        return PythonRuntime(
            CallSite(
                own.function, own.host, own.constants, frame, settings.num_threads, settings.variants == "background"
            )
        )

    def __call__(
        self, arguments: Sequence[Array], beside: Sequence[Array] | None = (),
        givers: Mapping[int, Array] = MappingProxyType({}),
    ) -> list[Array]:  # fmt: skip
        """The results for NumPy arrays of the right dtypes and ranks: fresh arrays, or donated arguments' memory.

        That is not taken where another argument or an array of ``beside`` shares it, and never with None. A result that
        has the shape of the argument in whose memory it lies is that argument, or who gave it (``givers``).
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
            if not frame.put(number, array):
                raise self._changed(number, array)
        for index in self._copied:
            held.append(_dense_copy(self.captured[index]))
            frame.put(self._arguments + index, held[-1])
        taken: tuple[Reuse, ...] = ()
        reuses = self.interface.reuses
        if reuses and beside is not None:
            same = {id(array) for array in (*arguments, *givers.values())}
            others = (*self.captured, *(array for array in beside if id(array) not in same))
            free = free_memory([*arguments, *others], [reuse.input for reuse in reuses])
            taken = tuple(reuse for reuse in reuses if reuse.input in free)
            for reuse in taken:
                frame.give(reuse.input, 1)
        frame.begin()
        stack = FRAMES.stack
        stack.append(frame)
        try:
            runtime = self._python_runtime(frame) if config.current().python_runtime else None
            table = self.runtime() if runtime is None else runtime.address
            status = self._run(table, self.context, frame.address, frame.out_address)
        finally:
            stack.pop()
        if runtime is not None:
            runtime.finish()
        interrupted = bool(status) and frame.interrupted()
        outputs, error = frame.outputs, frame.error
        frame.outputs, frame.error = [], None
        for reuse in taken:
            frame.give(reuse.input, 0)
            if not status and outputs[reuse.output] is None:
                outputs[reuse.output] = self._taken(arguments, givers, reuse, frame.shape(reuse.output))
        site, values = frame.site, frame.values
        self._idle.append(frame)
        if status:
            if error is not None:
                raise error
            shapes = [a.shape for a in (*arguments, *self.captured)]
            given = [reuse.input for reuse in taken] if self._may_have_written(site) else []
            raise self._told(None if interrupted else self._failure(site, values, shapes), given)
        return outputs

    def _taken(
        self, arguments: Sequence[Array], givers: Mapping[int, Array], reuse: Reuse, shape: tuple[int, ...]
    ) -> Array:
        """The result of a shape that lies in an argument's memory."""
        array = arguments[reuse.input]
        giver = givers.get(reuse.input, array)
        if giver.shape == shape and giver.dtype == array.dtype:
            return giver
        return array if array.shape == shape else array.reshape(shape)

    def _changed(self, number: int, array: Array) -> ArgumentError:
        """The error for an argument whose dtype or rank is no longer what the program was found by."""
        function = self.interface.function
        name, value = function.infos[number].name, function.params[number]
        return ArgumentError(
            f"{function.name}(): {name} was {value.dtype} with {_axes(len(value.shape))} when the call began, and is "
            f"{array.dtype} with {_axes(array.ndim)} now: its dtype or shape was set in place meanwhile.",
            remedy="pass a copy where others change an array that a call reads.",
        )

    def raise_if_written(self, record: int, inputs: int) -> None:
        """Raise the error of a call by the native entry that failed when it may have written to its arguments.

        Nothing is raised where it cannot have. ``record`` is the address of a site, and of how many values there are
        and where, ``inputs`` that of the arguments' tensors, in which memory that was given away is marked.
        """
        site, count, where = (ctypes.c_int64 * 3).from_address(record)
        if not self._may_have_written(site):
            return
        tensors = shapes_and_tags(inputs, len(self.interface.function.params))
        shapes = [shape for shape, _ in tensors]
        given = [number for number, (_, tag) in enumerate(tensors) if tag]
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
        import_whole("dyn.lower.host")
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


def _axes(rank: int) -> str:
    return f"{rank} {'axis' if rank == 1 else 'axes'}"


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
