"""From a traced function to code: the passes, in order, on one screen."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dyn import config
from dyn.backends.base import Effort, Source
from dyn.backends.binaries import Origin
from dyn.backends.library import register
from dyn.backends.x86 import X86Backend
from dyn.backends.x86_runtime import LoadedProgram
from dyn.ir.core import Function
from dyn.ir.parts import split_complex
from dyn.ir.passes import eliminate_common_subexpressions, eliminate_dead_code, own_results, refine_shapes, simplify
from dyn.ir.printer import print_function
from dyn.ir.verifier import verify
from dyn.lower.donate import donate
from dyn.lower.host import HostProgram, build_host
from dyn.lower.host_llvm import emit_guards, emit_host
from dyn.lower.kernel_text import kernel_hash, kernel_text
from dyn.lower.launch import Launch
from dyn.lower.plan import lower_plan
from dyn.lower.target import Target
from dyn.lower.x86.emit import KernelText, emit_kernel
from dyn.ops.layout import propagate_transposes
from dyn.shapes import Dim, Symbol, substitute
from dyn.stitch.groups import Plan
from dyn.stitch.plan import stitch
from dyn.trace.function import TracedFunction

#: Function -> Function, each leaving IR that the verifier accepts.
PIPELINE: tuple[Callable[[Function], Function], ...] = (
    refine_shapes,
    simplify,
    eliminate_common_subexpressions,
    propagate_transposes,
    own_results,
    split_complex,
    eliminate_dead_code,
)
# Then: stitch (Function -> Plan), lower (Plan -> launches of kernels), host (launches -> host program), render, compile


@dataclass(eq=False)
class Record:
    """What happened in a compilation: for ``explain()``, ``as_text`` and the dump."""

    #: Text after each stage, in order, where the setting ``dump`` asks for it.
    texts: dict[str, str] = field(default_factory=dict[str, str])
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    #: The number of distinct kernels.
    kernels_compiled: int = 0
    #: The rendered kernels, and then the host program.
    sources: tuple[Source, ...] = ()
    #: Where the binary of each source came from.
    origins: tuple[Origin, ...] = ()

    def kernel_origins(self) -> tuple[Origin, ...]:
        """Where the machine code of each distinct kernel came from."""
        return self.origins[: self.kernels_compiled]

    def timed(self, stage: str) -> _Timer:
        return _Timer(self, stage)

    def code(self, dialect: str, backend: X86Backend) -> str:
        """The LLVM IR or the assembly of everything that was compiled."""
        return "\n".join(s.text if dialect == "llvm" else backend.assembly(s) for s in self.sources)


class _Timer:
    def __init__(self, record: Record, stage: str) -> None:
        self.record, self.stage = record, stage

    def __enter__(self) -> None:
        self.start = time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        spent = time.perf_counter() - self.start
        self.record.seconds[self.stage] = self.record.seconds.get(self.stage, 0.0) + spent


@dataclass(frozen=True, eq=False, slots=True)
class Optimized:
    """A program that is ready to be rendered for a target: no machine has been touched yet."""

    function: Function
    plan: Plan
    launches: tuple[Launch, ...]
    host: HostProgram
    target: Target
    #: The donated parameters, by number, that no result could take the memory of.
    useless: tuple[int, ...] = ()


def optimize(traced: TracedFunction, target: Target, record: Record) -> Optimized:
    """Everything above machine code. Pure."""
    settings = config.current()
    function = _checked(traced.function, "trace", settings.verify_ir)
    if settings.dump:
        record.texts["trace"] = print_function(function)
    for step in PIPELINE:
        with record.timed(step.__name__):
            function = _checked(step(function), step.__name__, settings.verify_ir)
        if settings.dump:
            record.texts[step.__name__] = print_function(function)
    with record.timed("stitch"):
        plan = stitch(function)
    with record.timed("lower"):
        donations = donate(plan, lower_plan(plan, target), traced.donated)
        launches = donations.launches
        host = build_host(plan, launches, traced.guards, donations.reuses)
    if settings.dump:
        record.texts["dhlo"] = print_function(function)
        record.texts["stitch"] = plan.text()
        record.texts["kernels"] = "\n".join(kernel_text(v.kernel) for launch in launches for v in launch.variants)
        record.texts["host"] = host.text()
    return Optimized(function, plan, launches, host, target, donations.useless)


def _checked(function: Function, step: str, verify_ir: bool) -> Function:
    return verify(function, step) if verify_ir else function


def compile_x86(
    optimized: Optimized, captured: Sequence[np.ndarray], backend: X86Backend, record: Record
) -> LoadedProgram:
    """Machine code for this machine, in memory. Equal kernels are rendered and compiled once."""
    numbers: dict[str, int] = {}
    #: The layers of a model share kernel objects: each is hashed once.
    names: dict[int, str] = {}
    sources: list[Source] = []
    rendered: dict[str, tuple[KernelText, tuple[Symbol, ...]]] = {}
    table: list[list[tuple[int, Dim]]] = []
    calls: list[int] = []
    with record.timed("render"):
        for launch in optimized.launches:
            row: list[tuple[int, Dim]] = []
            if launch.call is not None:
                row.append((-1 - len(calls), 0))
                calls.append(register(launch.call, optimized.host.symbols))
            for variant in launch.variants:
                key = names.get(id(variant.kernel))
                if key is None:
                    key = names[id(variant.kernel)] = f"k_{kernel_hash(variant.kernel)}"
                if key not in numbers:
                    numbers[key] = len(numbers)
                    text = emit_kernel(replace(variant.kernel, name=key), optimized.target)
                    rendered[key] = (text, variant.kernel.dims)
                    sources.append(Source(text.text, (key,)))
                text, symbols = rendered[key]
                # The scratch one worker needs, over the host's dims: a rendering may stand for several equal kernels.
                scratch = substitute(text.scratch_bytes, dict(zip(symbols, variant.dims, strict=True)))
                row.append((numbers[key], scratch))
            table.append(row)
    # Library calls come after the kernels, whose number is known now.
    table = [
        [(number if number >= 0 else len(numbers) - 1 - number, scratch) for number, scratch in row] for row in table
    ]
    record.kernels_compiled = len(sources)
    # The name of the definition is the same in every host program: an equal one is then found compiled already.
    with record.timed("render"):
        hosts = [Source(emit_host(optimized.host, table, "dyn_host"), ("dyn_host",), Effort.QUICK)]
        if optimized.host.guards:
            hosts.append(Source(emit_guards(optimized.host, "dyn_guards"), ("dyn_guards",), Effort.QUICK))
    record.sources = (*sources, *hosts)
    if config.current().dump:
        record.texts["llvm"] = record.code("llvm", backend)
    with record.timed("compile"):
        built = backend.build_all(record.sources)
    record.origins = tuple([b.origin for b in built])
    with record.timed("load"):
        loaded = [backend.load_once(b.binary) for b in built]
    kernels = [code.address(key) for key, code in zip(numbers, loaded, strict=False)]
    _dump(optimized.function.name, record)
    host, *guards = loaded[len(sources) :]
    return LoadedProgram(
        optimized.host,
        host.address("dyn_host"),
        [*kernels, *calls],
        tuple(captured),
        guards=guards[0].address("dyn_guards") if guards else None,
    )


def _dump(name: str, record: Record) -> None:
    folder = config.current().dump
    if not folder:
        return
    os.makedirs(folder, exist_ok=True)
    for number, (stage, text) in enumerate(record.texts.items()):
        with open(os.path.join(folder, f"{name}.{number:02d}-{stage}.txt"), "w", encoding="utf-8") as file:
            file.write(text)
