"""Kernels of whole models at full size, compiled for GPUs: registers, spills, shared memory and compile time.

Compiled by NVRTC and hipcc as programs for a device are, kernels of all variants among them. No GPU is needed, and none
is used.
"""

from __future__ import annotations

import argparse
import functools
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import dyn
from benchmarks.report import Report, Table
from dyn import nn, tree
from dyn.backends.base import KernelReport, LaunchShape, Source
from dyn.backends.families import family_of, parse_target
from dyn.backends.gpu import reports
from dyn.compilation_record import CompilationRecord
from dyn.errors import DynError
from dyn.lower.gpu.emit import GpuKernelText, emit_kernel
from dyn.pipeline import optimize
from dyn.schedule.families import schedules_of
from dyn.schedule.kernel import Kernel, TileContract
from dyn.schedule.kernel_walks import walk_stmts
from dyn.schedule.target import Target
from dyn.shapes import Dim
from examples import bert, gpt, optimizers

TARGETS = ("cuda:sm_80", "cuda:sm_90a", "cuda:sm_120", "rocm:gfx90a", "rocm:gfx1030", "rocm:gfx1100")


@dataclass(frozen=True)
class Model:
    """A function and the shapes of its arguments, traced with symbolic sizes."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def _structs(values: Any) -> Any:
    return tree.map(lambda x: dyn.ShapeDtypeStruct(np.shape(x), np.asarray(x).dtype), values)


def bert_base(layers: int) -> Model:
    """BERT-base's encoder and pooler."""
    config = replace(bert.BERT_BASE, layers=layers)
    params = bert.init_params(config, 0)

    def model(params: Any, ids: Any, mask: Any) -> Any:
        hidden = bert.encode(params, ids, mask, config=config)
        return hidden, bert.pool(params, hidden)

    ids = dyn.ShapeDtypeStruct(("b", "s"), "int64")
    return Model(model, (_structs(params), ids, ids))


def gpt_step(layers: int) -> Model:
    """A GPT's step of training, as examples/train_char_lm.py makes it: loss, gradients and Adam."""
    config, adam = gpt.GptConfig(layers=layers), optimizers.adam(2e-3)

    def step(params: Any, state: Any, ids: Any) -> Any:
        value, gradients = dyn.value_and_grad(functools.partial(gpt.loss, ids=ids, config=config))(params)
        updates, state = adam.update(gradients, state, params)
        return value, optimizers.apply_updates(params, updates), state

    params = gpt.init_params(config)
    return Model(step, (_structs(params), _structs(adam.init(params)), dyn.ShapeDtypeStruct(("b", "s"), "int64")))


def cnn(layers: int) -> Model:
    """An image classifier: a stem with a stride, residual blocks, depthwise convolutions, pools and a head."""

    def conv(x: Any, w: Any, stride: int = 1, groups: int = 1) -> Any:
        return nn.conv(
            x, w, stride, "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups
        )  # fmt: skip

    def model(p: Any, x: Any) -> Any:
        x = nn.relu(conv(x, p["stem"], 2))
        x = nn.max_pool(x, 3, 2, [(1, 1), (1, 1)], dimension_numbers="NHWC")
        for w in p["blocks"]:
            x = nn.relu(nn.batch_norm(conv(x, w), p["scale"], p["scale"], p["scale"], p["scale"], 3) + x)
        x = nn.gelu(conv(conv(x, p["deep"], groups=64), p["wide"]))
        return nn.log_softmax(nn.global_avg_pool(x, dimension_numbers="NHWC") @ p["head"])

    shapes = {
        "stem": (7, 7, 3, 64), "blocks": [(3, 3, 64, 64)] * layers, "scale": (64,), "deep": (3, 3, 1, 64),
        "wide": (1, 1, 64, 256), "head": (256, 1000),
    }  # fmt: skip
    params: Any = {
        name: [dyn.ShapeDtypeStruct(s, "float32") for s in shape]
        if isinstance(shape, list)
        else dyn.ShapeDtypeStruct(shape, "float32")
        for name, shape in shapes.items()
    }
    return Model(model, (params, dyn.ShapeDtypeStruct(("b", "h", "w", 3), "float32")))


@dataclass(frozen=True)
class Kind:
    """How a model is made with a number of layers, and its full number."""

    make: Callable[[int], Model]
    layers: int


MODELS = {"BERT-base": Kind(bert_base, 12), "GPT, training": Kind(gpt_step, 4), "CNN": Kind(cnn, 8)}


@dataclass(frozen=True)
class Compiled:
    """A kernel for a target, and what its compiler says of it."""

    kernel: Kernel
    text: GpuKernelText
    report: KernelReport

    @property
    def contracts(self) -> bool:
        """Whether it is a contraction by tiles, bound by arithmetic; all others are bound by memory."""
        return any(isinstance(stmt, TileContract) for stmt in walk_stmts(self.kernel.body))

    def within(self, target: Target) -> bool:
        """Whether any device of the family can launch it: its threads, registers and, where they are fixed, shared
        bytes. What shared memory depends on sizes the program checks before each launch."""
        limits, shared = schedules_of(target).limits(target), _number(self.text.scratch_bytes)
        most = 512 if target.family == "rocm" else limits.registers  # vector registers and accumulation registers
        fits = limits.scratch_bytes is None or shared is None or shared <= limits.scratch_bytes
        return self.text.threads <= 1024 and self.report.registers <= most and fits


def _number(dim: Dim) -> int | None:
    return dim if isinstance(dim, int) else None


def compile_for(model: Model, target: Target) -> list[Compiled]:
    """The different kernels of a model for a target, all of its variants, compiled as a program's are."""
    traced = dyn.jit(model.function).trace(*model.arguments).traced
    launches = optimize(traced, target, CompilationRecord()).launches
    distinct: dict[str, Kernel] = {}
    for variant in [variant for launch in launches for variant in launch.variants]:
        kernel = replace(variant.kernel, note="")
        distinct.setdefault(emit_kernel(replace(kernel, name="k"), target).text, kernel)
    kernels = [replace(kernel, name=f"k{number}") for number, kernel in enumerate(distinct.values())]
    texts = [emit_kernel(kernel, target) for kernel in kernels]
    sources = [
        Source(text.text, (text.symbol,), launch=LaunchShape(text.threads, len(kernel.buffers), len(kernel.dims)))
        for kernel, text in zip(kernels, texts, strict=True)
    ]
    with dyn.config.override(cache_dir=""):
        built = family_of(target).backend(target, 0).build_all(sources)
    return [
        Compiled(kernel, text, reports(one.binary)[text.symbol])
        for kernel, text, one in zip(kernels, texts, built, strict=True)
    ]


def _cpu_seconds() -> float:
    """Of this process and of the compilers that it has started."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--targets", default=",".join(TARGETS), help="with commas between (default: %(default)s)")
    parser.add_argument("--models", default=";".join(MODELS), help="with ; between (default: %(default)s)")
    parser.add_argument("--layers", type=int, default=0, help="of each model; 0 for its full number (default)")


def run(arguments: argparse.Namespace) -> Report:
    names = arguments.models.split(";")
    if unknown := [name for name in names if name not in MODELS]:
        raise ValueError(f"there is no {unknown[0]!r}; there are {'; '.join(MODELS)}.")
    try:
        targets = [parse_target(text) for text in arguments.targets.split(",")]
    except DynError as error:
        raise ValueError(str(error)) from None
    rows: list[tuple[str, ...]] = []
    for name in names:
        kind = MODELS[name]
        layers = arguments.layers or kind.layers
        model = kind.make(layers)
        for target in targets:
            begun = _cpu_seconds()
            rows.append(_row(f"{name}, {layers} layers", target, compile_for(model, target), begun))
    header = (
        "model", "target", "kernels", "CPU s", "spill, memory-bound", "spill, contractions", "most registers",
        "most shared bytes", "within limits",
    )  # fmt: skip
    notes = (
        "Compiled, not run. All variants of all kernels, equal ones once; CPU seconds with tracing and passes.",
        "spill: how many kernels do, and the bytes of the worst. shared bytes: of those kernels whose number is fixed.",
    )
    data = {"rows": [dict(zip(header, row, strict=True)) for row in rows]}
    return Report("Kernels of whole models, compiled for GPUs", (Table("Kernels", header, tuple(rows)),), notes, data)


def _row(name: str, target: Target, kernels: list[Compiled], begun: float) -> tuple[str, ...]:
    seconds = _cpu_seconds() - begun
    shared = [n for k in kernels if (n := _number(k.text.scratch_bytes)) is not None]
    return (
        name, target.arch, str(len(kernels)), f"{seconds:.1f}",
        _spills([k for k in kernels if not k.contracts]), _spills([k for k in kernels if k.contracts]),
        str(max(k.report.registers for k in kernels)), str(max(shared, default=0)),
        "all" if all(k.within(target) for k in kernels) else f"not {sum(not k.within(target) for k in kernels)}",
    )  # fmt: skip


def _spills(kernels: list[Compiled]) -> str:
    spilled = [k.report.spilled_bytes for k in kernels if k.report.spilled_bytes]
    of = f"{len(spilled)} of {len(kernels)}"
    return f"{of}, {max(spilled)}" if spilled else of
