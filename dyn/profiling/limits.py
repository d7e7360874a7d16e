"""Limits of this machine: bandwidth of copies and reads at each level of memory, and multiply-adds, by native code.

The code is LLVM IR in vectors of 64 bytes, which the compiler cuts to what the processor has. Each thread works on
memory of its own, again and again; the bytes of all threads count, from the first that begins to the last that ends.
Nothing is measured before somebody asks, and each limit once in a process.
"""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np

from dyn import config, dtypes
from dyn.backends.base import Effort, Source
from dyn.backends.families import host_backend
from dyn.backends.runtime import thread_count, usable_cpus
from dyn.lower.native import FunctionBuilder, Module

_VECTOR = "<16 x float>"
#: By element type, the vectors of multiply-adds, and their intrinsic function.
_FMA = {"float32": ("<16 x float>", "llvm.fma.v16f32"), "float64": ("<8 x double>", "llvm.fma.v8f64")}
#: Vectors that one step of a loop moves, or accumulators that one step adds to.
_STEP = 8
_ACCUMULATORS = 16
_SYMBOLS = ("limit_copy", "limit_stream", "limit_read", *[f"limit_fma_{name}" for name in _FMA])
#: How long a measurement lasts.
_SECONDS = 0.01
#: Rounds of what a profile asks for, and the bytes with which it measures the memory, unless caches are larger.
_ROUNDS, _BEYOND = 2, 64 << 20

#: Levels of memory, from the innermost.
LEVELS = ("L1", "L2", "L3", "beyond")
#: Ways to move memory: bytes read and bytes written both count of copies, which may go around caches (stream).
Way = Literal["copy", "stream", "read"]
#: What tells time, in seconds: that which passes, or that of a thread on its CPU.
Clock = Callable[[], float]


@cache
def cache_sizes() -> dict[str, int]:
    """Bytes of the caches of data that a core reaches: ``L1``, ``L2``, ``L3``; typical ones if the system is silent."""
    found = {"L1": 32 << 10, "L2": 1 << 20, "L3": 16 << 20}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            level, kind, size = [(index / name).read_text().strip() for name in ("level", "type", "size")]
        except OSError:
            continue
        match = re.fullmatch(r"(\d+)K", size)
        if kind != "Instruction" and match is not None:
            found[f"L{level}"] = int(match[1]) << 10
    return found


def level_of(nbytes: int, threads: int) -> str:
    """The level in which so many bytes lie, shared evenly by threads where each has a cache of its own."""
    sizes = cache_sizes()
    if nbytes <= sizes["L1"] * threads:
        return "L1"
    if nbytes <= sizes["L2"] * threads:
        return "L2"
    return "L3" if nbytes <= sizes["L3"] else "beyond"


def bytes_to_measure(level: str, threads: int, beyond: int) -> int:
    """The bytes of a thread's own memory with which a level is measured, with ``beyond`` in all for what is no cache.

    Half of each cache: the rest is for what else the machine does. The third is shared.
    """
    sizes = cache_sizes()
    return {
        "L1": sizes["L1"] // 2, "L2": sizes["L2"] // 2, "L3": sizes["L3"] // 2 // threads, "beyond": beyond // threads,
    }[level]  # fmt: skip


# ---- what a profile asks for -----------------------------------------------------------------------------------------


def all_threads() -> int:
    """The number of threads that calls may use."""
    return min(thread_count(config.current().num_threads), usable_cpus())


@cache
def bandwidth_limit(level: str, threads: int) -> float:
    """Bytes a nanosecond, which are GB/s, of reads or of copies, whichever move more."""
    total = bytes_to_measure(level, threads, max(_BEYOND, 2 * cache_sizes()["L3"]))
    ways: tuple[Way, ...] = ("read", "copy", "stream") if level == "beyond" else ("read", "copy")
    return max([bandwidth(way, total, threads, _ROUNDS) for way in ways])


@cache
def flops_limit(element: str, threads: int) -> float:
    """Operations a nanosecond of multiply-adds, in ``"float32"`` or ``"float64"``."""
    return gflops(element, threads, _ROUNDS)


def needed_ns(nbytes: int | None, operations: Mapping[str, int] | None, threads: int) -> float:
    """The least time that this machine takes for some bytes, or for operations by dtype, whichever takes longer."""
    moving = nbytes / bandwidth_limit(level_of(nbytes, threads), threads) if nbytes else 0.0
    return max(moving, computing_ns(operations or {}, lambda element: flops_limit(element, threads)))


def computing_ns(operations: Mapping[str, int], limit: Callable[[str], float]) -> float:
    """The least time for operations by dtype, where ``limit`` says how many a nanosecond multiply-adds make.

    Dtypes of 8 bytes are held against multiply-adds in float64, all others against those in float32.
    """
    return sum([
        count / limit("float64" if dtypes.dtype(name).itemsize == 8 else "float32")
        for name, count in operations.items()
        if count
    ])  # fmt: skip


# ---- measuring -------------------------------------------------------------------------------------------------------


def bandwidth(way: Way, total: int, threads: int, rounds: int, clock: Clock = time.perf_counter) -> float:
    """GB/s of moving memory of ``total`` bytes a thread over and over; the quickest of so many rounds counts."""
    half = total // 2 // (64 * _STEP) * (64 * _STEP)
    function = _code()[f"limit_{way}"]
    memory = [(_aligned(half), _aligned(half)) for _ in range(threads)]

    def work(number: int, repeats: int) -> None:
        to, source = memory[number]
        function(to.ctypes.data, source.ctypes.data, half, repeats)

    return (1 if way == "read" else 2) * half * _rate(work, threads, rounds, clock) / 1e9


def gflops(element: str, threads: int, rounds: int, clock: Clock = time.perf_counter) -> float:
    """GFLOP/s of multiply-adds in registers, of ``"float32"`` or ``"float64"``."""
    function = _code()[f"limit_fma_{element}"]
    sink = [_aligned(64) for _ in range(threads)]
    steps, lanes = 1000, 64 // dtypes.dtype(element).itemsize

    def work(number: int, repeats: int) -> None:
        function(sink[number].ctypes.data, sink[number].ctypes.data, steps, repeats)

    return 2 * lanes * _ACCUMULATORS * steps * _rate(work, threads, rounds, clock) / 1e9


def _rate(work: Callable[[int, int], None], threads: int, rounds: int, clock: Clock) -> float:
    """Repeats a second of all threads together."""
    start = clock()
    work(0, 1)
    once = max(clock() - start, 1e-7)
    repeats = max(1, int(_SECONDS / once))
    return max(_once(work, threads, repeats, clock) for _ in range(rounds))


def _once(work: Callable[[int, int], None], threads: int, repeats: int, clock: Clock) -> float:
    """Repeats a second, measured once."""
    begun, ended = [0.0] * threads, [0.0] * threads
    barrier = threading.Barrier(threads)

    def run(number: int) -> None:
        work(number, 1)
        barrier.wait()
        begun[number] = clock()
        work(number, repeats)
        ended[number] = clock()

    workers = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return threads * repeats / (max(ended) - min(begun))


def _aligned(nbytes: int) -> np.ndarray:
    """Memory that begins at a page, written once."""
    whole = np.ones(nbytes + 4096, np.uint8)
    skipped = -whole.ctypes.data % 4096
    return whole[skipped : skipped + nbytes]


# ---- the code --------------------------------------------------------------------------------------------------------


@cache
def _code() -> dict[str, Callable[..., None]]:
    """Functions ``(to, source, bytes or steps, repeats)``, which run without the GIL."""
    m = Module()
    for vector, intrinsic in _FMA.values():
        m.declare(intrinsic, vector, [vector] * 3)
    _copy(m, "limit_copy", "")
    _copy(m, "limit_stream", ", !nontemporal !0")
    _read(m)
    for name, (vector, intrinsic) in _FMA.items():
        _fma(m, f"limit_fma_{name}", vector, intrinsic)
    backend = host_backend()
    built = backend.build(Source(m.text() + "\n!0 = !{i32 1}\n", _SYMBOLS, Effort.PROMOTE))
    loaded = backend.load_once(built.binary)
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    return {symbol: kind(loaded.address(symbol)) for symbol in _SYMBOLS}


def _function(m: Module, name: str) -> FunctionBuilder:
    return m.function(name, "void", [("ptr", "to"), ("ptr", "source"), ("i64", "size"), ("i64", "repeats")])


def _again(f: FunctionBuilder) -> None:
    """Between repeats the compiler must believe that memory has changed."""
    f.emit('fence syncscope("singlethread") seq_cst')


def _copy(m: Module, name: str, hint: str) -> None:
    f = _function(m, name)
    with f.count("%repeats"):
        at = f.var("i64", "0")
        with f.loop() as loop:
            now = at.get()
            loop.break_unless(f.icmp("slt", now, "%size"))
            source, to = f.at("%source", now), f.at("%to", now)
            vectors = [f.value(f"load {_VECTOR}, ptr {f.at(source, 64 * k)}, align 64") for k in range(_STEP)]
            for k, vector in enumerate(vectors):
                f.emit(f"store {_VECTOR} {vector}, ptr {f.at(to, 64 * k)}, align 64{hint}")
            at.set(f.add(now, str(64 * _STEP)))
        _again(f)
    if hint:
        f.emit("fence seq_cst")
    f.ret()


def _accumulate(
    f: FunctionBuilder, vector: str, count: int, size: str, step: int, add: Callable[[int, str, str], str]
) -> None:
    """A loop that adds to ``count`` vectors, which are stored in the end."""
    sums = [f.var(vector, "zeroinitializer") for _ in range(count)]
    with f.count("%repeats"):
        at = f.var("i64", "0")
        with f.loop() as loop:
            now = at.get()
            loop.break_unless(f.icmp("slt", now, size))
            for k, total in enumerate(sums):
                total.set(add(k, total.get(), now))
            at.set(f.add(now, str(step)))
        _again(f)
    whole = sums[0].get()
    for total in sums[1:]:
        whole = f.value(f"fadd {vector} {whole}, {total.get()}")
    f.emit(f"store {vector} {whole}, ptr %to, align 64")
    f.ret()


def _read(m: Module) -> None:
    f = _function(m, "limit_read")

    def add(k: int, total: str, now: str) -> str:
        loaded = f.value(f"load {_VECTOR}, ptr {f.at(f.at('%source', now), 64 * k)}, align 64")
        return f.value(f"fadd {_VECTOR} {total}, {loaded}")

    _accumulate(f, _VECTOR, _STEP, "%size", 64 * _STEP, add)


def _fma(m: Module, symbol: str, vector: str, intrinsic: str) -> None:
    f = _function(m, symbol)
    factor = f.value(f"load {vector}, ptr %source, align 64")

    def add(k: int, total: str, now: str) -> str:
        return f.value(f"call {vector} @{intrinsic}({vector} {factor}, {vector} {factor}, {vector} {total})")

    _accumulate(f, vector, _ACCUMULATORS, "%size", 1, add)
