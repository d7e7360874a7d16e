"""Programs whose buffers are in a GPU's memory: calls of their host programs, through a runtime table of the device.

A call has a table of its own, with its stream and what the driver has answered (``dyn.runtime.device``). It returns
once everything is launched: results are there when the stream is. Functions that only this machine's processor has,
those of libraries and those outside of programs, are called with copies of their operands.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn.backends.call_frames import FRAMES, CallFrame, shapes_and_tags
from dyn.backends.deferred import NOTHING_DEFERRED, DeferredKernels, KernelMaker
from dyn.backends.device_functions import device_functions
from dyn.backends.device_staging import state_words
from dyn.backends.externals import Externals
from dyn.backends.host_programs import RUN, Interface, check_captured, failure_of
from dyn.backends.library import take_error
from dyn.backends.loaded_programs import register
from dyn.backends.runtime_tables import ask_python, device_table, recorder_begin, shared_device_table
from dyn.errors import DeviceError
from dyn.ir.external import ExternalTarget
from dyn.late_imports import import_whole
from dyn.lower.abi import PROGRAM_NUMBER, DeviceState, TensorOffsets
from dyn.runtime.device_memory import DEFAULT_STREAM, DeviceArray, DeviceBlock, put
from dyn.runtime.driver import OUT_OF_MEMORY, Context
from dyn.runtime.entry.layout import EntryFrame
from dyn.runtime.staging import staging_failure

if TYPE_CHECKING:
    from dyn.schedule.donate import Reuse
    from dyn.trace.held import HeldBuffer

Array = np.ndarray[Any, Any]

_WORDS = TensorOffsets.BYTES // 8


class _DeviceFrame:
    """The tensors of one call, the state of its table, and the table."""

    def __init__(self, context: Context, ranks: Sequence[int], interface: Interface) -> None:
        params, results = interface.function.params, interface.function.results
        self.frame = CallFrame(ranks, tuple(v.dtype.np.str for v in params), tuple(v.dtype.np for v in results))
        self.frame.label([value.dtype.dlpack for value in results])
        self.state = state_words(context)
        self.table = device_table(device_functions(), ctypes.addressof(self.state))

    def begin(self, stream: int) -> None:
        self.frame.begin()
        self.frame.beside = ctypes.addressof(self.table)
        self.state[DeviceState.STREAM // 8] = stream
        self.state[DeviceState.ERROR // 8] = 0
        self.state[DeviceState.DISPATCH // 8] = -1
        self.table.begin = recorder_begin()


class DeviceProgram:
    """A host program in memory whose buffers are on a device, ready to be called from many threads at once.

    It is what :class:`dyn.backends.host_programs.LoadedProgram` is for this machine's processor. ``kernels`` are the
    addresses of kernels' records. Captured arrays on the device are read where they lie; those in this machine's memory
    are copied at each call, for they may have changed.
    """

    #: The memory of those of the captured arrays that are dyn's own: another program is for other memory.
    buffers: tuple[HeldBuffer, ...] = ()

    def __init__(
        self,
        interface: Interface,
        address: int,
        kernels: Sequence[int],
        captured: Sequence[Array | DeviceArray],
        context: Context,
        guards: int | None = None,
        callees: Sequence[ExternalTarget] = (),
        deferred: DeferredKernels = NOTHING_DEFERRED,
        maker: KernelMaker | None = None,
    ) -> None:
        self.interface, self.device = interface, context
        self.address, self.guards, self.kernels = address, guards, tuple(kernels)
        self.externals = Externals(callees, ask_python() if callees else 0)
        self.captured = tuple([a if isinstance(a, DeviceArray) else a.view(np.ndarray) for a in captured])
        #: Captured arrays that are copied at each call, by number; the streams of the others that have one of their
        #: own; and one that belongs to whichever is current.
        self._copied = [(n, array) for n, array in enumerate(self.captured) if not isinstance(array, DeviceArray)]
        held = [array for array in self.captured if isinstance(array, DeviceArray)]
        self._streams = frozenset([array.stream for array in held if not array.is_on_current])
        self._following = next((array for array in held if array.is_on_current), None)
        function = interface.function
        check_captured(function, [(array.dtype, array.shape) for array in self.captured])
        self._arguments = len(function.params) - len(self.captured)
        self._constants = [put(context, array) for array in interface.constants]
        if self._constants:  # they are read on any stream
            context.synchronize(DEFAULT_STREAM)
        table = [*kernels, *[one.address for one in self._constants], *self.externals.words, *deferred.addresses]
        self.deferred = deferred
        if maker is not None:
            deferred.add_maker(maker)
        self.number = register(self)
        self._table = (ctypes.c_void_p * (1 + len(table)))(self.number, *table)
        self.context = ctypes.addressof(self._table) - PROGRAM_NUMBER
        self._run = RUN(address)
        self._ranks = tuple(len(v.shape) for v in (*function.params, *function.results))
        #: Frames that no call is using. Lists are popped and appended to without a lock of our own.
        self._idle: list[_DeviceFrame] = []

    @property
    def native(self) -> bool:
        """Whether the native entry can make calls, and make them again where they fail: no library is called, nor a
        Python function, nor one with effects, and captured arrays are read where they lie, on one stream."""
        outside = self.externals.run_python or self.externals.have_effects
        return not (self._copied or self.interface.calls or outside or len(self._streams) > 1)

    @property
    def follows_current(self) -> bool:
        """Whether captured arrays belong to whichever stream is their library's current one."""
        return self._following is not None

    @property
    def captured_stream(self) -> int | None:
        """The stream of captured arrays that have one of their own."""
        return next(iter(self._streams), None)

    def raise_if_written(self, record: int, inputs: int) -> None:
        """Raise the error of a call by the native entry that failed by the driver, or in a function of this machine's
        processor; nothing where it failed by a check, which Python finds again. ``record`` and ``inputs`` are
        addresses, as in ``LoadedProgram``."""
        error = take_error()
        if error is not None:
            raise error
        site, count, where = (ctypes.c_int64 * 3).from_address(record)
        answered = self._answered(ctypes.c_int64.from_address(record + EntryFrame.STATE - EntryFrame.SITE).value)
        if not answered[0]:
            return
        if answered[1] == DeviceState.STAGING:
            raise staging_failure(self.device, answered[0])
        values = tuple((ctypes.c_int64 * count).from_address(where)) if where else ()
        params = self.interface.function.params
        tensors = shapes_and_tags(inputs, len(params))
        given = [number for number, (_, tag) in enumerate(tensors) if tag]
        raise self._told(self._failure(site, values, [shape for shape, _ in tensors], answered), given)

    def _told(self, failure: BaseException, taken: Sequence[int]) -> BaseException:
        """An error with the arguments that may hold parts of results."""
        if taken:
            names = ", ".join([self.interface.function.infos[number].name for number in taken])
            failure.add_note(f"what the donated {names} held may be lost: results were written there.")
        return failure

    @staticmethod
    def _answered(state: int) -> tuple[int, int]:
        """The driver's first error number in a call, or 0, and the number of the dispatch that met it, or -1.

        ``state`` is the address of the call's state.
        """
        words = (ctypes.c_int64 * DeviceState.WORDS).from_address(state)
        return words[DeviceState.ERROR // 8], words[DeviceState.DISPATCH // 8]

    @staticmethod
    def runtime(limit: int = 0) -> int:
        """The address of the runtime table that calls have copies of, with a state of their own."""
        return shared_device_table(device_functions())

    def __call__(
        self, arguments: Sequence[Array | DeviceArray], beside: Sequence[Array] | None = ()
    ) -> list[DeviceArray]:
        """The results, on the device: fresh memory on the stream of the first argument that is there, or else on that
        of a captured array; or the memory of donated arguments, where that is nobody else's and belongs to that
        stream, and never with None for ``beside``.

        Arrays in this machine's memory are copied to the device. ShapeError where a check fails, MemoryError where
        there is no memory, DeviceError where the driver says that something failed.
        """
        stream, context = self._stream(arguments), self.device
        try:
            made = self._idle.pop()
        except IndexError:
            made = self._frame()
        frame, others, kept = made.frame, set(self._streams), list[DeviceArray]()
        with context.current():
            given: dict[int, DeviceArray] = {}
            for number, array in enumerate(arguments):
                if isinstance(array, DeviceArray):
                    others.add(array.stream)
                else:
                    array = put(context, array, stream)
                    kept.append(array)
                frame.describe(number, array.address, array.shape)
                given[number] = array
            taken = [] if beside is None else self._taken(given, stream)
            for reuse in taken:
                frame.give(reuse.input, 1)
            for index, array in self._copied:
                kept.append(put(context, array, stream))
                frame.describe(self._arguments + index, kept[-1].address, kept[-1].shape)
            others.discard(stream)
            for other in others:  # what computes the arrays comes before the call
                context.order(other, stream)
            made.begin(stream)
            FRAMES.stack.append(frame)
            try:
                table = ctypes.addressof(made.table)
                status = self._run(table, self.context, frame.address, frame.out_address)
            finally:
                FRAMES.stack.pop()
            outputs = self._outputs(frame, stream, {} if status else {one.output: given[one.input] for one in taken})
            for reuse in taken:
                frame.give(reuse.input, 0)
            for other in others:  # and the call before the end of their memory
                context.order(stream, other)
        error, site, values, answered = (
            frame.error,
            frame.site,
            frame.values,
            self._answered(ctypes.addressof(made.state)),
        )
        frame.outputs, frame.error, frame.beside = [], None, None
        self._idle.append(made)
        if status:
            shapes = [array.shape for array in (*arguments, *self.captured)]
            given.clear()
            kept.clear()  # an error holds this frame: memory is to go back now
            outputs.clear()
            if error is not None:
                raise error
            raise self._told(self._failure(site, values, shapes, answered), [one.input for one in taken])
        return outputs

    def _taken(self, given: Mapping[int, DeviceArray], stream: int) -> list[Reuse]:
        """The donations of a call whose memory is nobody else's, nor another argument's."""
        found: list[Reuse] = []
        uses = Counter(map(id, given.values()))
        for reuse in self.interface.reuses:
            array = given[reuse.input]
            if array.stream == stream and uses[id(array)] == 1 and array.is_sole():
                found.append(reuse)
        return found

    def _stream(self, arguments: Sequence[Array | DeviceArray]) -> int:
        for array in arguments:
            if isinstance(array, DeviceArray):
                return array.stream
        if self._following is not None:
            return self._following.stream
        return next(iter(self._streams), DEFAULT_STREAM)

    def _frame(self) -> _DeviceFrame:
        made = _DeviceFrame(self.device, self._ranks, self.interface)
        for number, array in enumerate(self.captured, self._arguments):
            if isinstance(array, DeviceArray):
                made.frame.describe(number, array.address, array.shape)
        return made

    def _outputs(self, frame: CallFrame, stream: int, taken: Mapping[int, DeviceArray]) -> list[DeviceArray]:
        """The outputs that there are: of a call that failed they are given back at once. Those that the host program
        has not allocated lie in the memory of arguments."""
        made: list[DeviceArray] = []
        context = self.device
        for index, value in enumerate(self.interface.function.results):
            data = frame.data(index)
            given = None if data else taken.get(index)
            if given is not None:
                shape = frame.shape(index)
                made.append(DeviceArray(context, given.address, shape, given.dtype, given.owner, stream))
            elif data:
                block = DeviceBlock(context, data, stream)
                made.append(DeviceArray(context, data, frame.shape(index), value.dtype.np, block, stream))
        return made

    def _failure(
        self, site: int, values: tuple[int, ...], sizes: Sequence[tuple[int, ...]], answered: tuple[int, int]
    ) -> BaseException:
        """The error of a failed call."""
        host = self.interface.host()
        import_whole("dyn.lower.host", "dyn.lower.host_errors")
        from dyn.lower.host import Fault
        from dyn.lower.host_errors import device_failure, render_failure

        what = host.sites[site] if site >= 0 else None
        status, dispatch = answered
        if what in (Fault.DEVICE, Fault.NO_MEMORY) and status:
            name = f"{self.device.driver.error_name(status)} ({status})"
            if status != OUT_OF_MEMORY:
                return device_failure(host, self.device.name, name, dispatch)
            known = len(host.symbols)
            error = render_failure(host, host.sites.index(Fault.NO_MEMORY), values[:known], sizes)
            error.add_note(f"{self.device.name}: {name}")
            return error
        found = failure_of(self.interface, self.externals, site, values, sizes)
        return DeviceError(f"{self.interface.function.name}: a call was interrupted.") if found is None else found
