"""Shares of a GPU's limits that kernels should reach: computed by a cost model from the kernels, not measured.

Kernels are compiled (NVRTC, hipcc) for the registers that they take. No GPU is needed, and none is used.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dyn
import dyn.numpy as dnp
from benchmarks.gpu.launches import launched
from benchmarks.gpu.model import DEVICES, LaunchEstimate, estimate
from benchmarks.report import Report, Table
from dyn import dtypes, nn
from dyn.backends.base import Source
from dyn.backends.cuda import CudaBackend
from dyn.backends.reference import bind_symbols
from dyn.backends.rocm import RocmBackend
from dyn.compilation_record import CompilationRecord
from dyn.lower.gpu.dialect import gpu_target
from dyn.lower.gpu.emit import emit_kernel
from dyn.pipeline import optimize
from dyn.schedule.target import Target
from dyn.shapes import evaluate


@dataclass(frozen=True)
class Program:
    """A function of arrays, their dtypes and named dims, and the sizes that it is looked at."""

    function: Callable[..., Any]
    arguments: str
    sizes: tuple[dict[str, int], ...]


def _square(*numbers: int) -> tuple[dict[str, int], ...]:
    return tuple({"m": n, "k": n, "n": n} for n in numbers)


ROWS = ({"n": 1024, "m": 1024}, {"n": 8192, "m": 4096})
PROGRAMS = {
    "add": Program(lambda x, y: x + y, "float32 n, float32 n", ({"n": 10**6}, {"n": 10**7}, {"n": 10**8})),
    "bias and gelu": Program(lambda x, b: nn.gelu(x + b, approximate=False), "float32 n m, float32 m", ROWS),
    "softmax": Program(lambda x: nn.softmax(x, axis=-1), "float32 n m", ROWS),
    "layer norm": Program(
        lambda x, s, b: nn.layer_norm(x, weight=s, bias=b), "float32 n m, float32 m, float32 m", ROWS
    ),
    "bias and gelu, bfloat16": Program(
        lambda x, b: nn.gelu(x + b, approximate=False), "bfloat16 n m, bfloat16 m", ROWS
    ),
    "softmax, bfloat16": Program(lambda x: nn.softmax(x, axis=-1), "bfloat16 n m", ROWS),
    "layer norm, bfloat16": Program(
        lambda x, s, b: nn.layer_norm(x, weight=s, bias=b), "bfloat16 n m, bfloat16 m, bfloat16 m", ROWS
    ),
    "column sum": Program(lambda x: dnp.sum(x, axis=0), "float32 n m", ROWS),
    "batch norm, training": Program(
        lambda x, s, b: (x - dnp.mean(x, axis=0)) / dnp.sqrt(dnp.var(x, axis=0) + 1e-5) * s + b,
        "float32 n m, float32 m, float32 m", ({"n": 16384, "m": 64}, {"n": 8192, "m": 4096}),
    ),
    "softmax of few rows": Program(lambda x: nn.softmax(x, axis=-1), "float32 n m", ({"n": 4, "m": 262144},)),
    "transpose": Program(lambda x: x.T * 2, "float32 n m", ROWS),
    "running sum": Program(lambda x: dnp.cumulative_sum(x, axis=1), "float32 n m", ROWS),
    "histogram": Program(lambda x, i: x.at[i].add(1), "int32 v, int32 n", ({"v": 10**4, "n": 10**6},)),
    "embedding gradient": Program(
        lambda x, i, u: x.at[i].add(u), "float32 v m, int32 n, float32 n m", ({"v": 30000, "m": 64, "n": 10**5},)
    ),
    "product, float32": Program(lambda a, b: a @ b, "float32 m k, float32 k n", _square(1024, 4096)),
    "product, float64": Program(lambda a, b: a @ b, "float64 m k, float64 k n", _square(1024, 4096)),
    "product, bfloat16": Program(lambda a, b: a @ b, "bfloat16 m k, bfloat16 k n", _square(1024, 4096)),
    "one row": Program(
        lambda a, b: a @ b, "float32 m k, float32 k n", ({"m": 1, "k": 768, "n": 3072}, {"m": 1, "k": 4096, "n": 4096})
    ),
}  # fmt: skip
#: What each device's kernels are compiled for: the newest that the compiler at hand has.
TARGETS = {
    "H100": gpu_target("cuda", "sm_90a"),
    "MI300X": gpu_target("rocm", "gfx90a"),
    "RTX 5090": gpu_target("cuda", "sm_120"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--devices", default=",".join(TARGETS), help="with commas between (default: %(default)s)")
    parser.add_argument("--programs", default=";".join(PROGRAMS), help="with ; between (default: %(default)s)")


def run(arguments: argparse.Namespace) -> Report:
    devices, programs = arguments.devices.split(","), arguments.programs.split(";")
    for name, known in ((devices, TARGETS), (programs, PROGRAMS)):
        if unknown := [n for n in name if n not in known]:
            raise ValueError(f"there is no {unknown[0]!r}; there are {'; '.join(known)}.")
    tables: list[Table] = []
    data: dict[str, Any] = {}
    for device in devices:
        found = {name: estimates(PROGRAMS[name], device) for name in programs}
        rows = tuple(_row(name, sizes, launches) for name, each in found.items() for sizes, launches in each)
        header = ("program", "launches", "µs", "MB", "limit", "share", "blocks each", "threads", "waves")
        tables.append(Table(f"{DEVICES[device].name}: computed, not measured", header, rows))
        data[device] = {row[0]: dict(zip(header[1:], row[1:], strict=True)) for row in rows}
    notes = (
        "Computed from the kernels by benchmarks/gpu/model.py and the vendors' figures. Nothing here was measured.",
        "share: of the time that the bytes or the multiply-adds alone take at best, a first answer included; of "
        "several launches that of their sum. blocks each: on a multiprocessor at once; threads: its share of those.",
        "Times are without the start of a kernel. Kernels for the MI300X are compiled for gfx90a.",
    )
    return Report("Kernels on GPUs, by a model", tuple(tables), notes, data)


def estimates(program: Program, device: str) -> list[tuple[dict[str, int], list[LaunchEstimate]]]:
    """For each choice of sizes the estimates of the launches that a call makes."""
    target, shapes = TARGETS[device], [argument.split() for argument in program.arguments.split(", ")]
    structs = [dyn.ShapeDtypeStruct(tuple(dims), dtype) for dtype, *dims in shapes]
    optimized = optimize(dyn.jit(program.function).trace(*structs).traced, target, CompilationRecord())
    variants = [variant for launch in optimized.launches for variant in launch.variants]
    names = {variant: f"k{number}" for number, variant in enumerate(variants)}
    texts = {v: emit_kernel(replace(v.kernel, name=name), target) for v, name in names.items()}
    registers = _registers(Source("\n".join(t.text for t in texts.values()), tuple(names.values())), target)
    found: list[tuple[dict[str, int], list[LaunchEstimate]]] = []
    for sizes in program.sizes:
        arrays = [np.broadcast_to(np.zeros((), dtypes.dtype(d).np), [sizes[n] for n in dims]) for d, *dims in shapes]
        env, own = bind_symbols(optimized.function, arrays), list[LaunchEstimate]()
        for launch, variant in launched(optimized.launches, env):
            dims = {s: evaluate(d, env) for s, d in zip(variant.kernel.dims, variant.dims, strict=True)}
            held, used = sum(evaluate(v.type.nbytes, env) for v in launch.buffers), registers[names[variant]]
            own.append(estimate(variant.kernel, texts[variant], dims, held, used, DEVICES[device]))
        found.append((sizes, own))
    return found


def _registers(source: Source, target: Target) -> dict[str, int]:
    """Registers of each kernel's threads."""
    if target.family == "cuda":
        return {name: used.registers for name, used in CudaBackend(target).compile(source).resources}
    return {kernel.name: kernel.vgprs for kernel in RocmBackend(target).compile(source).kernels}


def _row(name: str, sizes: Mapping[str, int], launches: list[LaunchEstimate]) -> tuple[str, ...]:
    """A line of a table. Of several launches the shares are weighed by their times."""
    seconds = sum(e.seconds for e in launches)
    share = sum(e.share * e.seconds for e in launches) / seconds
    longest = max(launches, key=lambda e: e.seconds)
    return (
        f"{name}, {' × '.join(map(str, sizes.values()))}", str(len(launches)), f"{seconds * 1e6:.1f}",
        f"{sum(e.bytes for e in launches) / 1e6:.1f}", longest.limit, f"{share:.2f}", str(longest.resident),
        f"{longest.occupancy:.2f}", f"{longest.waves:.2f}",
    )  # fmt: skip
