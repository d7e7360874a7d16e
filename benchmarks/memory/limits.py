"""The machine's limits: bandwidth of copies and reads at each level of memory, and multiply-adds, by native code.

The code is LLVM IR in vectors of 64 bytes, which the compiler cuts to what the processor has. Each thread works on
memory of its own, again and again; the bytes of all threads count, from the first that begins to the last that ends.
"""

from __future__ import annotations

import ctypes
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from dyn.backends.base import Effort, Source
from dyn.backends.families import host_backend
from dyn.lower.native import FunctionBuilder, Module

_VECTOR = "<16 x float>"
#: Vectors that one step of a loop moves, or accumulators that one step adds to.
_STEP = 8
_ACCUMULATORS = 16
_SYMBOLS = ("bench_copy", "bench_stream", "bench_read", "bench_fma")
Clock = Callable[[], float]
#: How long a measurement lasts.
_SECONDS = 0.01


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


@dataclass(frozen=True)
class Limits:
    """GB/s by level (``"L1"`` … ``"beyond"``) and threads, of copies, the bytes read and those written together, and of
    reads; GFLOP/s of float32 multiply-adds by threads."""

    copy: dict[tuple[str, int], float]
    read: dict[tuple[str, int], float]
    gflops: dict[int, float]

    @staticmethod
    def level(nbytes: int, threads: int) -> str:
        """The level in which so many bytes lie, shared evenly by threads where each has a cache of its own."""
        sizes = cache_sizes()
        if nbytes <= sizes["L1"] * threads:
            return "L1"
        if nbytes <= sizes["L2"] * threads:
            return "L2"
        return "L3" if nbytes <= sizes["L3"] else "beyond"


def measure_limits(threads: list[int], rounds: int, *, cpu_time: bool = False) -> Limits:
    """Measure this machine; the quickest of so many rounds counts. ``cpu_time`` measures one thread by its time on the
    CPU: where others compute too, few rounds have the CPU for as long as it takes to read all of the memory once."""
    sizes = cache_sizes()
    copy: dict[tuple[str, int], float] = {}
    read: dict[tuple[str, int], float] = {}
    gflops: dict[int, float] = {}
    for count in threads:
        clock = time.thread_time if cpu_time and count == 1 else time.perf_counter
        # Half of each cache: the rest is for what else the machine does. The third is shared.
        bytes_of = {
            "L1": sizes["L1"] // 2, "L2": sizes["L2"] // 2, "L3": sizes["L3"] // 2 // count,
            "beyond": 8 * sizes["L3"] // count,
        }  # fmt: skip
        for level, total in bytes_of.items():
            half = total // 2 // (64 * _STEP) * (64 * _STEP)
            ways = ["bench_copy", "bench_stream"] if level == "beyond" else ["bench_copy"]
            copy[level, count] = max(_bandwidth(way, half, 2 * half, count, rounds, clock) for way in ways)
            read[level, count] = _bandwidth("bench_read", half, half, count, rounds, clock)
        gflops[count] = _gflops(count, rounds, clock)
    return Limits(copy, read, gflops)


def _bandwidth(symbol: str, held: int, moved: int, threads: int, rounds: int, clock: Clock) -> float:
    """GB/s of moving ``moved`` bytes over and over, between two pieces of memory of ``held`` bytes for each thread."""
    function = _code()[symbol]
    memory = [(_aligned(held), _aligned(held)) for _ in range(threads)]

    def work(number: int, repeats: int) -> None:
        to, source = memory[number]
        function(to.ctypes.data, source.ctypes.data, held, repeats)

    return moved * _rate(work, threads, rounds, clock) / 1e9


def _gflops(threads: int, rounds: int, clock: Clock) -> float:
    function = _code()["bench_fma"]
    sink = [_aligned(64) for _ in range(threads)]
    steps = 1000

    def work(number: int, repeats: int) -> None:
        function(sink[number].ctypes.data, sink[number].ctypes.data, steps, repeats)

    return 2 * 16 * _ACCUMULATORS * steps * _rate(work, threads, rounds, clock) / 1e9


def _rate(work: Callable[[int, int], None], threads: int, rounds: int, clock: Clock) -> float:
    """Repeats a second of all threads together, by a clock."""
    start = time.perf_counter()
    work(0, 1)
    once = max(time.perf_counter() - start, 1e-7)
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
    m.declare("llvm.fma.v16f32", _VECTOR, [_VECTOR] * 3)
    _copy(m, "bench_copy", "")
    _copy(m, "bench_stream", ", !nontemporal !0")
    _read(m)
    _fma(m)
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


def _accumulate(f: FunctionBuilder, count: int, size: str, step: int, add: Callable[[int, str, str], str]) -> None:
    """A loop that adds to ``count`` vectors, which are stored in the end."""
    sums = [f.var(_VECTOR, "zeroinitializer") for _ in range(count)]
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
        whole = f.value(f"fadd {_VECTOR} {whole}, {total.get()}")
    f.emit(f"store {_VECTOR} {whole}, ptr %to, align 64")
    f.ret()


def _read(m: Module) -> None:
    f = _function(m, "bench_read")

    def add(k: int, total: str, now: str) -> str:
        loaded = f.value(f"load {_VECTOR}, ptr {f.at(f.at('%source', now), 64 * k)}, align 64")
        return f.value(f"fadd {_VECTOR} {total}, {loaded}")

    _accumulate(f, _STEP, "%size", 64 * _STEP, add)


def _fma(m: Module) -> None:
    f = _function(m, "bench_fma")
    factor = f.value(f"load {_VECTOR}, ptr %source, align 64")

    def add(k: int, total: str, now: str) -> str:
        arguments = f"{_VECTOR} {factor}, {_VECTOR} {factor}, {_VECTOR} {total}"
        return f.value(f"call {_VECTOR} @llvm.fma.v16f32({arguments})")

    _accumulate(f, _ACCUMULATORS, "%size", 1, add)
