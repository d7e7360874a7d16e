"""The compiler's pipeline from a traced function to code: the passes, in order, on one screen."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dyn import config
from dyn.backends.base import Effort, ObjectBackend, RenderedKernel, Source
from dyn.backends.binaries import Built
from dyn.backends.families import family_of
from dyn.backends.host_programs import Interface, LoadedProgram, load_program
from dyn.backends.lapack import has_lapack
from dyn.backends.library import register
from dyn.ir.calls import inline_calls
from dyn.ir.core import Function
from dyn.ir.external import Callee, callees
from dyn.ir.finite import check_finite
from dyn.ir.nested import in_regions
from dyn.ir.parts import split_complex
from dyn.ir.passes import eliminate_common_subexpressions, eliminate_dead_code, own_results, refine_shapes, simplify
from dyn.ir.printer import print_function
from dyn.ir.verifier import verify
from dyn.lower.host import HostProgram, build_host
from dyn.lower.host_llvm.emit import emit_guards, emit_host
from dyn.lower.library_calls import emit_library_call
from dyn.ops.layout import propagate_transposes
from dyn.record import Record
from dyn.schedule.donate import donate
from dyn.schedule.kernel_text import kernel_hash, kernel_text
from dyn.schedule.launch import Launch, walk_launches
from dyn.schedule.plan import lower_plan
from dyn.schedule.target import Target
from dyn.shapes import Dim, Symbol, substitute
from dyn.stitch.groups import Plan
from dyn.stitch.plan import stitch
from dyn.trace.function import TracedFunction

#: The bytes of a red zone: more than what one vector, or one row of a tile, can miss.
RED_ZONE = 512

#: Function -> Function, each leaving IR that the verifier accepts.
PIPELINE: tuple[Callable[[Function], Function], ...] = (
    inline_calls,
    check_finite,
    refine_shapes,
    in_regions(simplify),
    in_regions(eliminate_common_subexpressions),
    in_regions(propagate_transposes),
    split_complex,
    own_results,
    in_regions(eliminate_dead_code),
)
# Then: stitch (Function -> Plan), lower (Plan -> launches of kernels), host (launches -> host program), render, compile


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
    #: The functions outside of the program, in the order of their numbers: first those of the traced function.
    callees: tuple[Callee, ...] = ()
    #: Whether kernels are compiled to quick code (the setting ``optimize``) rather than quickly.
    quick_code: bool = True


def optimize(traced: TracedFunction, target: Target, record: Record) -> Optimized:
    """Lower a traced function to kernels and a host program: everything above machine code. Pure."""
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
        red_zone = RED_ZONE if settings.red_zones else 0
        host = build_host(plan, launches, traced.guards, donations.reuses, red_zone)
    if settings.dump:
        record.texts["dhlo"] = print_function(function)
        record.texts["stitch"] = plan.text()
        record.texts["kernels"] = "\n".join(
            kernel_text(v.kernel) for launch in walk_launches(launches) for v in launch.variants
        )
        record.texts["host"] = host.text()
    # Checks may raise, and so no memory is taken that is written before them: that is nothing to warn of.
    useless = () if settings.checks_values else donations.useless
    called = tuple(dict.fromkeys((*callees(traced.function.ops), *callees(function.ops))))
    return Optimized(function, plan, launches, host, target, useless, called, settings.optimize)


def _checked(function: Function, step: str, verify_ir: bool) -> Function:
    return verify(function, step) if verify_ir else function


@dataclass(frozen=True, eq=False, slots=True)
class Rendered:
    """The texts of a program: its ``kernels`` distinct kernels, native library calls among them, the host program, and
    its guards if it has any.

    ``calls`` are the entries of its other library calls (``dyn.backends.library``).
    """

    sources: tuple[Source, ...]
    kernels: int
    calls: tuple[int, ...]


def render(optimized: Optimized) -> Rendered:
    """The texts of a program. Equal kernels are rendered once."""
    family = family_of(optimized.target)
    kernel_effort, library_effort = (Effort.KERNEL, Effort.PROMOTE) if optimized.quick_code else (Effort.QUICK,) * 2
    numbers: dict[str, int] = {}
    #: The layers of a model share kernel objects: each is hashed once.
    names: dict[int, str] = {}
    sources: list[Source] = []
    rendered: dict[str, tuple[RenderedKernel, tuple[Symbol, ...]]] = {}
    table: list[list[tuple[int, Dim]]] = []
    calls: list[int] = []
    native: set[Launch] = set()
    outside: dict[Launch, int] = {}
    places = {callee: number for number, callee in enumerate(optimized.callees)}
    for launch in walk_launches(optimized.launches):
        row: list[tuple[int, Dim]] = []
        library = None
        if launch.call is not None:
            library = emit_library_call(launch.call, optimized.target, lapack=has_lapack())
        if launch.callee is not None:
            outside[launch] = places[launch.callee]
            row.append((0, 0))
        elif library is not None:
            native.add(launch)
            if library.symbol not in numbers:
                numbers[library.symbol] = len(numbers)
                sources.append(Source(library.text, (library.symbol,), library_effort))
            row.append((numbers[library.symbol], 0))
        elif launch.call is not None:
            row.append((-1 - len(calls), 0))
            calls.append(register(launch.call, optimized.host.symbols))
        for variant in launch.variants:
            key = names.get(id(variant.kernel))
            if key is None:
                key = names[id(variant.kernel)] = f"k_{kernel_hash(variant.kernel)}"
            if key not in numbers:
                numbers[key] = len(numbers)
                text = family.render(replace(variant.kernel, name=key), optimized.target)
                rendered[key] = (text, variant.kernel.dims)
                sources.append(Source(text.text, (key,), kernel_effort, text.routines))
            text, symbols = rendered[key]
            # The scratch one worker needs, over the host's dims: a rendering may stand for several equal kernels.
            scratch = substitute(text.scratch_bytes, dict(zip(symbols, variant.dims, strict=True)))
            row.append((numbers[key], scratch))
        table.append(row)
    # Library calls come after the kernels, whose number is known now.
    table = [
        [(number if number >= 0 else len(numbers) - 1 - number, scratch) for number, scratch in row] for row in table
    ]
    first = len(numbers) + len(calls) + len(optimized.host.constants)
    for at, launch in enumerate(walk_launches(optimized.launches)):
        if launch in outside:
            table[at] = [(first + 2 * outside[launch], 0)]
    # The name of the definition is the same in every host program: an equal one is then found compiled already.
    host_text = emit_host(optimized.host, table, "dyn_host", native, len(numbers) + len(calls), outside)
    hosts = [Source(host_text, ("dyn_host",), Effort.QUICK)]
    if optimized.host.guards:
        hosts.append(Source(emit_guards(optimized.host, "dyn_guards"), ("dyn_guards",), Effort.QUICK))
    return Rendered((*sources, *hosts), len(sources), tuple(calls))


def compile_program(
    optimized: Optimized, captured: Sequence[np.ndarray], backend: ObjectBackend, record: Record
) -> LoadedProgram:
    """Machine code for this machine, in memory, with the arrays that it captures."""
    rendered, built = compile_parts(optimized, backend, record)
    interface = interface_of(optimized.host, bool(rendered.calls))
    return load_program(
        backend, built, rendered.kernels, interface, captured, rendered.calls, optimized.callees
    )  # fmt: skip


def compile_parts(optimized: Optimized, backend: ObjectBackend, record: Record) -> tuple[Rendered, list[Built]]:
    """The texts of a program and their objects. Equal kernels are rendered and compiled once."""
    with record.timed("render"):
        rendered = render(optimized)
    record.kernels_compiled, record.sources = rendered.kernels, rendered.sources
    if config.current().dump:
        record.texts["llvm"] = "\n".join(source.text for source in rendered.sources)
    with record.timed("compile"):
        built = backend.build_all(record.sources)
    record.origins = tuple([b.origin for b in built])
    _dump(optimized.function.name, record)
    return rendered, built


def interface_of(host: HostProgram, calls: bool) -> Interface:
    """Calling interface of a host program that is at hand; ``calls``: whether Python is asked for library calls."""
    return Interface(host.function, host.reuses, calls, lambda: host, tuple(c.array for c in host.constants))


def _dump(name: str, record: Record) -> None:
    folder = config.current().dump
    if not folder:
        return
    os.makedirs(folder, exist_ok=True)
    for number, (stage, text) in enumerate(record.texts.items()):
        with open(os.path.join(folder, f"{name}.{number:02d}-{stage}.txt"), "w", encoding="utf-8") as file:
            file.write(text)
