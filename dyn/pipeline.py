"""The compiler's pipeline from a traced function to code: the passes, in order, on one screen."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dyn import config
from dyn.backends.base import Effort, LaunchShape, ObjectBackend, Source
from dyn.backends.binaries import Built
from dyn.backends.deferred import DeferredKernels
from dyn.backends.families import family_of, host_target
from dyn.backends.host_programs import Interface, LoadedProgram, addresses_of, load_program
from dyn.backends.lapack import has_lapack
from dyn.backends.library import register
from dyn.backends.programs import Deferred
from dyn.backends.rendering import Rendering, Scratch, rendering, scratch
from dyn.compilation_record import CompilationRecord
from dyn.ir.core import Function
from dyn.ir.external import ExternalTarget, callees
from dyn.ir.printer import print_function
from dyn.ir.region_passes import in_regions
from dyn.ir.verifier import Verifier
from dyn.lower.chosen_variants import chosen_variants, likely_variants
from dyn.lower.host import HostProgram, MemorySpace, build_host
from dyn.lower.host_llvm.emit import emit_guards, emit_host
from dyn.lower.library_calls import emit_library_call
from dyn.passes.flatten_concatenations import flatten_concatenations
from dyn.passes.inline_calls import inline_calls
from dyn.passes.nan_checks import check_finite
from dyn.passes.normal_form import NORMAL_FORM
from dyn.passes.own_results import own_results
from dyn.passes.redundancy import eliminate_dead_code
from dyn.passes.sink_reshapes import sink_reshapes
from dyn.passes.split_complex import split_complex
from dyn.passes.split_contracted import split_contracted_axes
from dyn.schedule.bundles import bundled
from dyn.schedule.donate import donate, stored_results
from dyn.schedule.families import schedules_of
from dyn.schedule.kernel import Kernel
from dyn.schedule.kernel_text import kernel_name, kernel_text
from dyn.schedule.launch import Launch, walk_launches
from dyn.schedule.plan import lower_plan
from dyn.schedule.target import Target
from dyn.shapes import Dim, substitute
from dyn.stitch.conversions import convert_where_used
from dyn.stitch.groups import Plan
from dyn.stitch.plan import stitch
from dyn.trace.function import TracedFunction

#: The bytes of a red zone: more than what one vector, or one row of a tile, can miss.
RED_ZONE = 512

#: Function -> Function, each leaving IR that the verifier accepts.
PIPELINE: tuple[Callable[[Function], Function], ...] = (
    inline_calls,
    check_finite,
    *NORMAL_FORM,  # refine_shapes, simplify, eliminate_common_subexpressions, propagate_transposes
    in_regions(sink_reshapes),
    in_regions(flatten_concatenations),
    in_regions(split_contracted_axes),
    split_complex,
    own_results,
    in_regions(eliminate_dead_code),
)
# Then: stitch (Function -> Plan), lower (Plan -> launches of kernels), host (launches -> host program), render, compile


@dataclass(frozen=True, eq=False, slots=True)
class Stitched:
    """A program after all passes, cut into groups: no target has a part in it yet."""

    function: Function
    plan: Plan


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
    callees: tuple[ExternalTarget, ...] = ()
    #: Whether kernels are compiled to quick code (the setting ``optimize``) rather than quickly.
    quick_code: bool = True
    #: The names of its kernels, once somebody has asked.
    names: dict[Kernel, str] = field(default_factory=dict["Kernel", str])


def run_passes(traced: TracedFunction, record: CompilationRecord) -> Stitched:
    """Run the passes over a traced function, and cut it into groups. Pure."""
    settings = config.current()
    verified = Verifier().verify if settings.verify_ir else _unverified
    function = verified(traced.function, "trace")
    if settings.dump:
        record.texts["trace"] = print_function(function)
    for step in PIPELINE:
        with record.timed(step.__name__):
            function = verified(step(function), step.__name__)
        if settings.dump:
            record.texts[step.__name__] = print_function(function)
    with record.timed("stitch"):
        return Stitched(function, stitch(function))


def optimize(
    traced: TracedFunction,
    target: Target,
    record: CompilationRecord,
    stitched: Stitched | None = None,
    choose: Callable[[tuple[Launch, ...]], tuple[Launch, ...]] | None = None,
) -> Optimized:
    """Lower a traced function to kernels and a host program: everything above machine code. Pure.

    ``stitched`` is what the passes make of it, under the same settings, where that is known. ``choose`` may leave
    launches, or variants of them, out.
    """
    settings = config.current()
    made = run_passes(traced, record) if stitched is None else stitched
    function, plan = made.function, made.plan
    target = replace(target, batch_invariant=settings.batch_invariant)
    with record.timed("lower"):
        if schedules_of(target).converts_where_used:
            plan = convert_where_used(plan)
        donations = donate(plan, lower_plan(plan, target, traced.ones), traced.donated)
        results = stored_results(plan)
        taken = {results[reuse.output]: function.params[reuse.input] for reuse in donations.reuses}
        launches = bundled(donations.launches, schedules_of(target).together, taken)
        if choose is not None:
            launches = choose(launches)
        on_device = family_of(target).on_device
        # Red zones are written and looked at by this machine's processor.
        red_zone = RED_ZONE if settings.red_zones and not on_device else 0
        space = MemorySpace.DEVICE if on_device else MemorySpace.HOST
        host = build_host(plan, launches, traced.guards, donations.reuses, red_zone, space)
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


def _unverified(function: Function, after: str) -> Function:
    return function


@dataclass(frozen=True, eq=False, slots=True)
class Rendered:
    """The texts of a program: its ``kernels`` distinct kernels, native library calls among them, the host program, and
    its guards if it has any.

    ``calls`` are the entries of its other library calls (``dyn.backends.library``), ``deferred`` the kernels that it
    can do without, which are not rendered.
    """

    sources: tuple[Source, ...]
    kernels: int
    calls: tuple[int, ...]
    deferred: tuple[Deferred, ...]


def render(optimized: Optimized) -> Rendered:
    """The texts of a program. Equal kernels are rendered once."""
    kernel_effort, library_effort = _efforts(optimized)
    names = _names(optimized)
    at_once = _kept_at_hand(optimized, names)
    sources: dict[str, Source] = {}
    rendered: dict[str, Scratch] = {}
    table: list[list[tuple[str, Dim]]] = []
    calls: list[int] = []
    native: set[Launch] = set()
    outside: dict[Launch, int] = {}
    #: For each deferred kernel, the launches that it is a variant of: those of the same kernels are one.
    deferred: dict[str, dict[int, None]] = {}
    launches: dict[tuple[str, ...], int] = {}
    places = {callee: number for number, callee in enumerate(optimized.callees)}
    for launch in walk_launches(optimized.launches):
        row: list[tuple[str, Dim]] = []
        library = None
        if launch.call is not None:
            library = emit_library_call(launch.call, host_target_of(optimized.target), lapack=has_lapack())
        if launch.callee is not None:
            outside[launch] = places[launch.callee]
            row.append((f"outside {places[launch.callee]}", 0))
        elif library is not None:
            native.add(launch)
            sources.setdefault(library.symbol, Source(library.text, (library.symbol,), library_effort))
            row.append((library.symbol, 0))
        elif launch.call is not None:
            row.append((f"call {len(calls)}", 0))
            calls.append(register(launch.call, optimized.host.symbols))
        keys = tuple([names[variant.kernel] for variant in launch.variants])
        number = launches.setdefault(keys, len(launches))
        for key, variant in zip(keys, launch.variants, strict=True):
            if key not in at_once:
                deferred.setdefault(key, {})[number] = None
            if key not in rendered:
                if key in at_once:
                    text = rendering(variant.kernel, key, optimized.target)
                    sources[key] = _kernel_source(optimized.target, key, text, variant.kernel, kernel_effort)
                    rendered[key] = text.scratch
                else:
                    rendered[key] = scratch(variant.kernel, key, optimized.target)
            # The scratch one worker needs, over the host's dims: a rendering may stand for several equal kernels.
            one = rendered[key]
            row.append((key, substitute(one.bytes, dict(zip(one.dims, variant.dims, strict=True)))))
        table.append(row)
    # The table of addresses: kernels, library calls, constants, two words a function outside, slots.
    constants = len(sources) + len(calls)
    first = constants + len(optimized.host.constants)
    slots = first + 2 * len(optimized.callees)
    numbers = {key: number for number, key in enumerate([*sources, *[f"call {n}" for n in range(len(calls))]])}
    numbers |= {f"outside {number}": first + 2 * number for number in places.values()}
    numbers |= {key: slots + number for number, key in enumerate(deferred)}
    kernels = [[(numbers[key], bytes) for key, bytes in row] for row in table]
    # The name of the definition is the same in every host program: an equal one is then found compiled already.
    host_text = emit_host(optimized.host, kernels, "dyn_host", native, constants, outside, slots if deferred else None)
    hosts = [Source(host_text, ("dyn_host",), Effort.QUICK)]
    if optimized.host.guards:
        hosts.append(Source(emit_guards(optimized.host, "dyn_guards"), ("dyn_guards",), Effort.QUICK))
    left = tuple([Deferred(key, tuple(variant_of)) for key, variant_of in deferred.items()])
    return Rendered((*sources.values(), *hosts), len(sources), tuple(calls), left)


def host_target_of(target: Target) -> Target:
    """The target of code around kernels for a target: itself, or for a GPU this machine's processor."""
    return host_target() if family_of(target).on_device else target


def _kernel_source(target: Target, name: str, text: Rendering, kernel: Kernel, effort: Effort) -> Source:
    shape = LaunchShape(text.threads, len(kernel.buffers), len(kernel.dims)) if family_of(target).on_device else None
    return Source(text.text, (name,), effort, text.routines, shape)


def _efforts(optimized: Optimized) -> tuple[Effort, Effort]:
    """The effort for kernels, and for native library calls."""
    return (Effort.KERNEL, Effort.PROMOTE) if optimized.quick_code else (Effort.QUICK, Effort.QUICK)


def _names(optimized: Optimized) -> dict[Kernel, str]:
    """The name of each kernel: equal ones have the same. The layers of a model share kernels: each is hashed once."""
    for launch in walk_launches(optimized.launches):
        for variant in launch.variants:
            if variant.kernel not in optimized.names:
                optimized.names[variant.kernel] = kernel_name(variant.kernel)
    return optimized.names


def _kept_at_hand(optimized: Optimized, names: Mapping[Kernel, str]) -> frozenset[str]:
    """The kernels that some launch cannot do without."""
    variants = [variant for launch in walk_launches(optimized.launches) for variant in launch.variants]
    return frozenset([names[variant.kernel] for variant in variants if not variant.deferred])


def names_for(optimized: Optimized, shapes: Sequence[Sequence[int]]) -> frozenset[str]:
    """The names of the kernels that a call with parameters of these shapes could use best."""
    names = _names(optimized)
    return frozenset([names[variant.kernel] for variant in chosen_variants(optimized.host, shapes)])


def names_at_first(optimized: Optimized, shapes: Sequence[Sequence[int]] | None) -> frozenset[str]:
    """The names of the kernels that are compiled at once: those for a first call with parameters of these shapes, where
    there is one, and those for sizes that are declared as likely."""
    names = _names(optimized)
    likely = frozenset([names[variant.kernel] for variant in likely_variants(optimized.host, shapes)])
    return likely if shapes is None else likely | names_for(optimized, shapes)


def deferred_sources(optimized: Optimized, names: Sequence[str]) -> list[Source]:
    """The texts of deferred kernels."""
    effort, _ = _efforts(optimized)
    kernels = {name: kernel for kernel, name in _names(optimized).items()}
    sources: list[Source] = []
    for name in names:
        text = rendering(kernels[name], name, optimized.target)
        sources.append(_kernel_source(optimized.target, name, text, kernels[name], effort))
    return sources


def compile_program(
    optimized: Optimized, captured: Sequence[np.ndarray], backend: ObjectBackend, record: CompilationRecord
) -> LoadedProgram:
    """Machine code for this machine, in memory, with the arrays that it captures."""
    rendered, built, _ = compile_parts(optimized, backend, record)
    interface = interface_of(optimized.host, bool(rendered.calls))
    deferred = DeferredKernels(rendered.deferred)
    loaded = load_program(
        backend, built, rendered.kernels, interface, captured, rendered.calls, optimized.callees, deferred,
        _DeferredKernelMaker(optimized, backend),
    )  # fmt: skip
    if config.current().variants == "all":
        deferred.make()
    return loaded


@dataclass(frozen=True, eq=False)
class _DeferredKernelMaker:
    """Maker of the deferred kernels of a program that is kept nowhere else."""

    optimized: Optimized
    backend: ObjectBackend

    def make_deferred(self, names: Sequence[str]) -> list[int]:
        return addresses_of(self.backend, self.backend.build_all(deferred_sources(self.optimized, names)))


def compile_parts(
    optimized: Optimized, backend: ObjectBackend, record: CompilationRecord, deferred: Collection[str] = ()
) -> tuple[Rendered, list[Built], list[tuple[Source, Built]]]:
    """The texts of a program and their objects, and those of some of its ``deferred`` kernels. Equal kernels are
    rendered and compiled once."""
    with record.timed("render"):
        rendered = render(optimized)
        early = deferred_sources(optimized, [one.name for one in rendered.deferred if one.name in deferred])
    record.kernels_compiled, record.sources = rendered.kernels, rendered.sources
    if config.current().dump:
        record.texts["llvm"] = "\n".join(source.text for source in rendered.sources)
    with record.timed("compile"):
        built = backend.build_all([*record.sources, *early])
    own, others = built[: len(record.sources)], built[len(record.sources) :]
    record.origins = tuple([b.origin for b in own])
    return rendered, own, list(zip(early, others, strict=True))


def interface_of(host: HostProgram, calls: bool) -> Interface:
    """Calling interface of a host program that is at hand; ``calls``: whether Python is asked for library calls."""
    return Interface(host.function, host.reuses, calls, lambda: host, tuple(c.array for c in host.constants))
