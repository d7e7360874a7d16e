"""The native runtime of this process: allocator, thread pool, launches, copies, compiled and set up on first use.

Its text is in ``dyn.runtime``; here it is loaded, told about the machine, and kept in order across forks.
"""

from __future__ import annotations

import ctypes
import os
from functools import lru_cache

from dyn import config
from dyn.backends.base import Effort, Source
from dyn.backends.families import host_backend
from dyn.backends.programs import build_own
from dyn.fork_safety import lock
from dyn.frozen import record
from dyn.runtime.limits import MOST_THREADS
from dyn.runtime.loading import load_modules

_SYMBOLS = (
    "dyn_alloc", "dyn_free", "dyn_launch", "dyn_launch_configure", "dyn_parallel_for",
    "dyn_block_alloc", "dyn_block_free", "dyn_block_trim", "dyn_block_idle", "dyn_block_limit",
    "dyn_pool_configure", "dyn_pool_after_fork", "dyn_pool_workers",
    "dyn_ask_output", "dyn_ask_library", "dyn_ask_python", "dyn_call",
    "dyn_want", "dyn_want_nothing", "dyn_variants_configure", "dyn_variants_end", "dyn_variants_idle",
    "dyn_variants_state", "dyn_slot_publish",
)  # fmt: skip
#: How long an idle worker looks for work before it sleeps.
_SPIN_NS = 50_000
#: Idle memory that is kept: an eighth of the machine's, within these bounds.
_LEAST_IDLE, _MOST_IDLE = 64 << 20, 1 << 30


def runtime_source() -> Source:
    """The runtime's text. What writes it is imported here: a process that finds its object does without."""
    load_modules(
        "dyn.lower.native",
        "dyn.runtime.allocator",
        "dyn.runtime.callbacks",
        "dyn.runtime.deferred_kernels",
        "dyn.runtime.launch",
        "dyn.runtime.pool",
    )
    from dyn.lower.native import Module
    from dyn.runtime.allocator import add_blocks
    from dyn.runtime.callbacks import add_calls
    from dyn.runtime.deferred_kernels import add_variants
    from dyn.runtime.launch import add_arena, add_launch
    from dyn.runtime.pool import add_pool

    module = Module()
    add_blocks(module)
    add_pool(module)
    add_launch(module)
    add_arena(module)
    add_calls(module)
    add_variants(module)
    return Source(module.text(), _SYMBOLS, Effort.PROMOTE)


def _copies_source() -> Source:
    load_modules("dyn.runtime.copies")
    from dyn.runtime.copies import SYMBOLS, copies_text

    return Source(copies_text(), SYMBOLS, Effort.PROMOTE)


@record()
class NativeFunctions:
    """The addresses of native functions, by symbol."""

    addresses: dict[str, int]

    def function(self, symbol: str, result: object, *arguments: object) -> ctypes._CFunctionType:
        """A function for Python to call; like all of ctypes' it runs without the GIL."""
        return ctypes.CFUNCTYPE(result, *arguments)(self.addresses[symbol])  # pyright: ignore[reportArgumentType]  # ctypes' own types


class NativeRuntime(NativeFunctions):
    """The functions of the runtime."""

    def split_from(self, awake: int, asleep: int, piece: int) -> None:
        """Set from what work on launches use several threads, in units of ``dyn.schedule.cost``: see ``dyn_launch``."""
        long = ctypes.c_int64
        self.function("dyn_launch_configure", None, long, long, long)(awake, asleep, max(piece, 1))

    def trim(self) -> None:
        """Return idle memory to the system."""
        self.function("dyn_block_trim", None)()

    def idle_bytes(self) -> int:
        """Bytes of large blocks that are kept for later calls."""
        return self.function("dyn_block_idle", ctypes.c_int64)()

    def workers(self) -> int:
        """Number of threads that the pool has made."""
        return self.function("dyn_pool_workers", ctypes.c_int64)()


def usable_cpus() -> int:
    """The CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_count(asked: int) -> int:
    """The number of threads that the setting ``num_threads`` stands for."""
    return min(asked, MOST_THREADS) if asked > 0 else usable_cpus()


def idle_limit() -> int:
    """Most bytes of large blocks that may be idle."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(max(memory // 8, _LEAST_IDLE), _MOST_IDLE)


def _load() -> NativeRuntime:
    backend = host_backend()
    code = backend.load(build_own(backend, "runtime", runtime_source).binary)
    runtime = NativeRuntime({symbol: code.address(symbol) for symbol in _SYMBOLS})
    long = ctypes.c_int64
    # Without spare CPUs spinning takes the time of those that work; the pool sees to that worker by worker.
    configure = runtime.function("dyn_pool_configure", None, long, long, long)
    configure(thread_count(config.current().num_threads), usable_cpus(), _SPIN_NS)
    runtime.function("dyn_block_limit", None, long)(idle_limit())
    os.register_at_fork(after_in_child=runtime.function("dyn_pool_after_fork", None))
    return runtime


_lock = lock()


@lru_cache(maxsize=1)
def _loaded() -> NativeRuntime:
    return _load()


def native_runtime() -> NativeRuntime:
    """The runtime of this process. Loaded once; its code stays mapped."""
    with _lock:
        return _loaded()


@lru_cache(maxsize=1)
def _copies() -> int:
    backend = host_backend()
    object = build_own(backend, "copies", _copies_source).binary
    return backend.load(object, native_runtime().addresses).address("dyn_copy_dense")


def native_copies() -> int:
    """The address of ``dyn_copy_dense`` (``dyn.runtime.copies``), which is compiled once somebody needs it."""
    with _lock:
        return _copies()
