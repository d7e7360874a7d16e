"""The runtime table in plain Python, for debugging: a breakpoint in any function stops a program where it asks.

With the setting ``python_runtime`` calls leave the native entry, allocator and thread pool alone. Each call gets a
table of its own whose functions are the methods of a :class:`PythonRuntime`, by the names that
``dyn.lower.abi.RUNTIME_TABLE`` gives them. Results are the same to the last bit. What compiled code asks is checked,
and so is what kernels wrote.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Any
from weakref import WeakValueDictionary

from dyn.backends.base import Effort, Source
from dyn.backends.call_frames import FRAMES
from dyn.backends.families import host_backend
from dyn.backends.library import call_library
from dyn.backends.programs import build_own
from dyn.backends.runtime import native_runtime, thread_count
from dyn.backends.runtime_checks import CallChecks, CallSite
from dyn.backends.runtime_tables import CTYPES, RuntimeTable, recorder_begin
from dyn.fork_safety import lock
from dyn.frozen import record
from dyn.runtime.loading import load_modules
from dyn.runtime.stand_ins import CALLS, STAND_INS, STATE_WORDS, SYMBOLS

_POINTER, _INT = ctypes.c_void_p, ctypes.c_int64
_KERNEL = ctypes.CFUNCTYPE(None, _POINTER, _POINTER, _POINTER, _INT, _INT)
_PIECE = ctypes.CFUNCTYPE(None, _POINTER, _INT, _INT, _INT)
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, _POINTER, _POINTER, _POINTER)
_BEGIN = ctypes.CFUNCTYPE(_POINTER, _POINTER, _POINTER, _POINTER, _INT)
_WANT = ctypes.CFUNCTYPE(None, _POINTER, _POINTER)

#: Pieces of a launch for each thread, as the pool has them.
_PIECES_PER_THREAD = 4


class PythonRuntime:
    """The runtime of one call. Its methods are what the table's functions of the same names do.

    Replace a method, or derive from it, to see or change what programs ask of the runtime.
    """

    def __init__(self, site: CallSite) -> None:
        self.site, self.frame = site, site.frame
        self.checks = CallChecks(site)
        #: How many calls of the table's functions Python has begun.
        self.begun = 0
        self.counting = lock()
        self._state = (ctypes.c_void_p * STATE_WORDS)()
        for place, address in _callbacks().addresses.items():
            self._state[place] = address
        functions = {f.name: native for f, native in zip(STAND_INS.values(), _stand_ins(), strict=True)}
        threads = thread_count(site.threads) if site.threads else 0
        state = ctypes.addressof(self._state)
        # A program keeps small segments of its arena on the stack unless ``begin`` gives it another table.
        self._seen = RuntimeTable(state=state, threads=threads, **{**functions, "begin": None})
        self._table = RuntimeTable(state=state, threads=threads, **functions)
        _RUNTIMES[state] = self

    @property
    def address(self) -> int:
        """The address of the call's runtime table."""
        return ctypes.addressof(self._table)

    def finish(self) -> None:
        """End the call. Raises what was found wrong, and RuntimeTableError for blocks that were not given back."""
        _RUNTIMES.pop(ctypes.addressof(self._state), None)
        self.checks.finish(interrupted=(self._state[CALLS] or 0) != self.begun)

    # The functions of the table ---------------------------------------------------------------------------------------

    def alloc(self, bytes: int) -> int:
        """A block of the arena, or of a routine."""
        return self.checks.take(bytes, "an arena")

    def free(self, block: int | None, bytes: int) -> None:
        """Give a block back."""
        self.checks.give_back(block or 0, bytes)

    def alloc_output(self, number: int, tensor: int) -> int:
        """The memory of a new result, whose dims the program has written."""
        return self.checks.result(number)

    def launch(
        self, kernel: int | None, grid: int, dims: int | None, buffers: int | None, scratch_bytes: int, cost: int,
        pieces: int, dispatch: int,
    ) -> int:  # fmt: skip
        """Run a kernel over [0, grid) in pieces, by as many threads as the call may use."""
        what = self.checks.describe(dispatch)
        if not kernel or grid < 0 or scratch_bytes < 0:
            raise self.checks.broken(f"{what}: kernel {kernel}, grid {grid}, {scratch_bytes} bytes of scratch")
        launched = self.checks.launch_of(dispatch).launch
        addresses = (ctypes.c_int64 * len(launched.buffers)).from_address(buffers or 0)
        self.checks.check_buffers(what, launched.buffers, list(addresses))
        run = _KERNEL(kernel)

        def piece(begin: int, end: int, worker: int) -> None:
            run(dims, buffers, scratch[worker], begin, end)

        threads, taken = self._pieces(grid, grid, pieces if pieces > 0 else _PIECES_PER_THREAD)
        scratch = [0] * threads
        try:
            if scratch_bytes:
                for worker in range(threads):
                    scratch[worker] = self.checks.take(scratch_bytes, "scratch")
            self._in_threads(piece, taken, threads)
            self.checks.check_zones(f"by {what}")
        except MemoryError:
            return 1
        finally:
            for block in filter(None, scratch):
                self.free(block, scratch_bytes)
        return 0

    def parallel_for(self, fn: int | None, ctx: int | None, n: int, grain: int) -> int:
        """Run a function of a native routine over [0, n) in pieces."""
        if not fn:
            raise self.checks.broken("a job without a function")
        run = _PIECE(fn)
        threads, pieces = self._pieces(n, -(-n // max(grain, 1)))
        self._in_threads(lambda begin, end, worker: run(ctx, begin, end, worker), pieces, threads)
        return 0

    def library(self, number: int | None, tensors: int, values: int, dispatch: int) -> int:
        """Have NumPy or SciPy compute an op."""
        self.checks.check_tensors(dispatch, tensors)
        answer = ctypes.c_int64(1)
        call_library(0, number, tensors, values, ctypes.pointer(answer))
        self.checks.check_zones(f"by {self.checks.describe(dispatch)}")
        return answer.value

    def call(self, function: int | None, context: int | None, inputs: int, outputs: int, dispatch: int) -> int:
        """Call a native or Python function outside of the program, or a native routine."""
        if not function:
            raise self.checks.broken(f"{self.checks.describe(dispatch)}: no function")
        self.checks.check_tensors(dispatch, inputs)
        status = _FUNCTION(function)(context, inputs, outputs)
        self.checks.check_zones(f"by {self.checks.describe(dispatch)}")
        return status

    def fail(self, site: int, count: int, values: int | None) -> None:
        """Be told which check of the program failed."""
        self.frame.site = site
        self.frame.values = tuple((ctypes.c_int64 * count).from_address(values or 0)) if count else ()

    def begin(self, ctx: int, values: int, count: int) -> int:
        """Be told where the values of the program's symbols will be; gives the table that the call uses."""
        self.checks.values = values, count
        seen, recorder = ctypes.addressof(self._seen), recorder_begin()
        return seen if recorder is None else _BEGIN(recorder)(seen, ctx, values, count) or seen

    def end(self, status: int) -> None:
        """Be told that the program returns."""

    def want(self, slot: int) -> None:
        """Have a deferred kernel made, where the settings want any. A thread does, which this does not wait for."""
        if self.site.wants:
            _WANT(native_runtime().addresses["dyn_want"])(ctypes.addressof(self._table), slot)

    # Threads ----------------------------------------------------------------------------------------------------------

    def _pieces(self, n: int, most: int, own: int = _PIECES_PER_THREAD) -> tuple[int, Iterator[tuple[int, int]]]:
        """The number of threads that share a range, and one iterator of its pieces, at most ``own`` for each thread."""
        threads = thread_count(self.site.threads)
        count = max(min(threads * own, most), 1) if threads > 1 else 1
        cuts = [n * k // count for k in range(count + 1)]
        return min(threads, count), iter([pair for pair in pairwise(cuts) if pair[0] < pair[1]])

    def _in_threads(
        self, run: Callable[[int, int, int], None], pieces: Iterator[tuple[int, int]], threads: int
    ) -> None:
        """Run the pieces, the calling thread as worker 0 beside threads that end with the job."""

        def work(worker: int) -> None:
            for begin, end in pieces:
                run(begin, end, worker)

        def help(worker: int) -> None:
            FRAMES.stack.append(self.frame)
            try:
                work(worker)
            except BaseException as error:  # it is the call's, not the thread's
                self.checks.failed(error)
            finally:
                FRAMES.stack.pop()

        helpers = [threading.Thread(target=help, args=(worker,), name="dyn worker") for worker in range(1, threads)]
        for helper in helpers:
            helper.start()
        try:
            work(0)
        finally:
            for helper in helpers:
                helper.join()


#: The runtimes of the calls in progress, by the addresses of their states.
_RUNTIMES: WeakValueDictionary[int, PythonRuntime] = WeakValueDictionary()


def _answer(name: str, returns: bool) -> Callable[..., None]:
    """A function for native code to call, which has the method of that name answer."""

    def ask(table: int, *arguments: Any) -> None:
        runtime = _RUNTIMES[ctypes.c_int64.from_address(table).value]
        try:
            with runtime.counting:
                runtime.begun += 1
            answer = getattr(runtime, name)(*(arguments[:-1] if returns else arguments))
            if returns:
                arguments[-1][0] = answer
        except MemoryError:  # as the native runtime has it: the program says what there was no memory for
            pass
        except BaseException as error:  # whatever it is, it must not pass through native frames
            runtime.checks.failed(error)

    return ask


@record(eq=False)
class _StandInFunctions:
    """The addresses of the functions that stand-ins call, by their places, and what keeps them."""

    addresses: Mapping[int, int]
    kept: tuple[object, ...]


@lru_cache(maxsize=1)
def _callbacks() -> _StandInFunctions:
    made: dict[int, Any] = {}
    for place, function in STAND_INS.items():
        returns = function.result != "void"
        answer = [ctypes.POINTER(CTYPES[function.result] if function.result == "i32" else _INT)] if returns else []
        kind = ctypes.CFUNCTYPE(None, *[CTYPES[type] for type, _ in function.params], *answer)
        made[place] = kind(_answer(function.name, returns))
    addresses = {place: ctypes.cast(callback, _POINTER).value or 0 for place, callback in made.items()}
    return _StandInFunctions(addresses, tuple(made.values()))


def _source() -> Source:
    load_modules("dyn.runtime.stand_ins")  # a process that finds the object does without
    from dyn.runtime.stand_ins import stand_ins_text

    return Source(stand_ins_text(), SYMBOLS, Effort.PROMOTE)


@lru_cache(maxsize=1)
def _stand_ins() -> tuple[int, ...]:
    """The addresses of the native stand-ins, in their order. Their code stays mapped."""
    backend = host_backend()
    code = backend.load(build_own(backend, "stand-ins", _source).binary)
    return tuple([code.address(symbol) for symbol in SYMBOLS])
