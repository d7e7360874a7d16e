"""What a GPU does with dyn's kernels, in figures: copies, memory-bound programs, contractions, launches, streams."""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Mapping

import numpy as np

import dyn
from benchmarks.gpu.device import MeasuredDevice
from benchmarks.gpu.families import FAMILIES, Config
from benchmarks.gpu.measured_programs import measure_program, sizes_of
from benchmarks.gpu.streams import measure_stream, peers_of
from benchmarks.gpu_check.checks import Check, Options, there
from benchmarks.suites.gpu_model import PROGRAMS

_COPY_BYTES = 1 << 30


def copy_checks() -> tuple[Check, ...]:
    """The bandwidth that others are held to."""
    return (Check("copy bandwidth", _copy), Check("launches", _launches))


def memory_checks() -> tuple[Check, ...]:
    """Memory-bound programs beside a copy."""
    names = [name for name in PROGRAMS if not _is_contraction(name)]
    return tuple([Check(name, functools.partial(_program, name)) for name in names])


def contraction_checks() -> tuple[Check, ...]:
    """Products of matrices."""
    return tuple([Check(name, functools.partial(_program, name)) for name in PROGRAMS if _is_contraction(name)])


def stream_checks() -> tuple[Check, ...]:
    """Streams of shapes of the six families, beside PyTorch where it was built for the device."""
    return tuple([Check(name, functools.partial(_stream, name)) for name in FAMILIES])


def _is_contraction(name: str) -> bool:
    return "product" in name or name == "one row"


def _arguments(options: Options) -> argparse.Namespace:
    """The options of ``python -m benchmarks gpu``, for a short look."""
    small = options.small
    return argparse.Namespace(
        seed=0, calls=2 if small else 10, repeats=1 if small else 3, shapes=2 if small else 10, layers=1 if small else 4
    )


def _copy(options: Options) -> Mapping[str, object]:
    device = MeasuredDevice(options.device)
    rate = device.copy_bandwidth(1 << 16 if options.small else _COPY_BYTES, 3)
    return {"GB/s": round(rate / 1e9, 1)}


def _launches(options: Options) -> Mapping[str, object]:
    """Microseconds of a call of one kernel of few elements: of the host until it returns, and between events."""
    device = MeasuredDevice(options.device)
    f = dyn.jit(lambda x: x + 1)
    x = there(options.device, np.ones(64, "f4"))
    f(x)
    calls = 20 if options.small else 5000
    device.context.synchronize(0)
    start = time.perf_counter()
    for _ in range(calls):
        f(x)
    host = time.perf_counter() - start
    device.context.synchronize(0)
    seconds = device.seconds(lambda: f(x), 10 if options.small else 1000, 1 if options.small else 5)
    return {"µs, host": round(1e6 * host / calls, 2), "µs, device": round(1e6 * seconds, 2)}


def _program(name: str, options: Options) -> Mapping[str, object]:
    """Times of a program at its sizes, as shares of a copy or of the device's multiply-adds."""
    device, arguments = MeasuredDevice(options.device), _arguments(options)
    elements, squares = ([1000], [32]) if options.small else ([10**6, 10**8], [1024, 4096])
    copy = device.copy_bandwidth(1 << 16 if options.small else _COPY_BYTES, 3)
    found: dict[str, object] = {}
    for sizes in sizes_of(PROGRAMS[name], elements, squares):
        row, numbers = measure_program(device, name, PROGRAMS[name], sizes, copy, arguments)
        where = " × ".join(map(str, sizes.values()))
        found[f"{where}: µs"], found[f"{where}: launches"] = round(1e6 * numbers["seconds"], 1), numbers["launches"]
        if _is_contraction(name):
            found[f"{where}: GFLOP/s"], found[f"{where}: of the peak"] = row[3], row[4]
        else:
            found[f"{where}: GB/s"], found[f"{where}: of a copy"] = row[3], row[4]
        if numbers["difference"] is not None:
            found[f"{where}: difference"] = f"{numbers['difference']:.0e}"
    return found


def _stream(name: str, options: Options) -> Mapping[str, object]:
    device, arguments = MeasuredDevice(options.device), _arguments(options)
    config = Config(1, 16, 2, 8, 2) if options.small else Config(4, 512, 8, 256, 8)
    # One family takes torch.compile some twenty seconds: the first three go with it.
    peers = [p for p in options.peers if p != "torchcompile" or name in list(FAMILIES)[-3:]]
    stream = measure_stream(device, name, config, peers_of(device, peers), arguments)
    found: dict[str, object] = {}
    for who, run in stream.runs.items():
        found[f"{who}: ms, warm"] = round(1e3 * stream.seconds(who), 2)
        found[f"{who}: s, first touch"] = round(run.first, 2)
        found[f"{who}: launches"], found[f"{who}: difference"] = run.launches, f"{run.difference:.0e}"
        if who != "dyn":
            found[f"{who} / dyn"] = round(stream.seconds(who) / stream.seconds("dyn"), 2)
    found["compiles"] = stream.runs["dyn"].compiles
    return found
