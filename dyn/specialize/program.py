"""A traced program on its way to machine code: found whole in memory or on disk, or lowered and compiled.

What was compiled before is loaded as it is; what it was lowered to is made again only if somebody asks: ``explain()``,
``as_text``, or a call that fails and has to say why. ``docs/decisions/0009`` says when a program counts as the same.

This file is longer than most: it is one class, whose stages share the record of a compilation.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn import config, events
from dyn.backends.binaries import Built, Origin
from dyn.backends.deferred import NOTHING_DEFERRED, DeferredKernels, DeferredState
from dyn.backends.families import Placement, family_of
from dyn.backends.host_programs import Interface, LoadedProgram, addresses_of
from dyn.backends.programs import Deferred, Found, Programs, parts_of
from dyn.compilation_record import CompilationRecord
from dyn.errors import ArgumentError, IRError
from dyn.fork_safety import lock
from dyn.ir.builder import buffer_of
from dyn.ir.core import Dense, Function, Op, buffers
from dyn.ir.external import ExternalTarget, callees
from dyn.ir.identity import Identity, function_identity
from dyn.late_imports import import_whole
from dyn.lazy_property import lazy_property
from dyn.ops import OWN_OPS
from dyn.runtime.device_memory import DeviceArray
from dyn.runtime.driver import context_of
from dyn.runtime.loading import load_modules
from dyn.schedule.target import Target
from dyn.shapes import keeping_recent
from dyn.specialize.kept_panels import frozen_of
from dyn.specialize.shared_code import CODES, Code
from dyn.trace.function import TracedFunction

if TYPE_CHECKING:
    from dyn.backends.base import KernelReport, Source
    from dyn.backends.device_programs import DeviceProgram
    from dyn.lower.host import HostProgram
    from dyn.passes.panel_weights import Panels
    from dyn.pipeline import Optimized, Rendered, Stitched
    from dyn.schedule.donate import Reuse

Array = np.ndarray[Any, Any]


class Program:
    """A traced program for one target. Everything behind tracing is imported when it is needed, which takes 90 ms.

    Raises what optimising raises. Methods may be called from many threads.
    """

    def __init__(self, traced: TracedFunction, placement: Placement, record: CompilationRecord) -> None:
        self.traced, self.record, self.placement = traced, record, placement
        target = placement.target
        #: The settings in force: what is lowered again later is lowered as it was.
        self._settings = config.current()
        #: What is compiled: the program that reads matrices which never change in panels; and what its hidden
        #: parameters are, by numbers of captured arrays.
        self._own, self.hidden = self._with_panels()
        self._backend = family_of(target).backend(target, placement.ordinal)
        self._lock = lock()
        self._optimized: Optimized | None = None
        #: What the passes made of it, whatever the target.
        self._stitched: Stitched | None = None
        #: The host program that the code in memory was made from, once that is known.
        self._checked: HostProgram | None = None
        self._programs = Programs(self._backend)
        with record.timed("find"):
            self._identity = function_identity(self._own.function, OWN_OPS, traced.guards)
        # Whoever wants to see the passes at work wants them to run.
        # What checks call depends on the ops that they check.
        self._checks, code = self._settings.checks_values, self._settings.key()
        apart = self._settings.dump or self._checks
        where = f"{_text_of(target)} {placement.ordinal or ''}"
        self._shared = None if apart else f"{self._identity.structure} {_beside(traced)} {where} {code}"
        self._code: Code | None = None
        #: The sizes that code is made for beside others: of the call for which it was made, if that was another one.
        self._ones = traced.ones
        #: What was found on disk.
        self._found: Found | None = None

    @lazy_property
    def _key(self) -> str | None:
        """The name of its entry on disk. Code that is in memory is found without."""
        return self._programs.key(lambda: _named(self._own, self._identity))

    @property
    def optimized(self) -> Optimized:
        """The program after all passes, with its kernels and its host program."""
        with self._lock:
            if self._optimized is None:
                self._optimized = self._optimize(self._own_record())
            return self._optimized

    def _with_panels(self) -> tuple[TracedFunction, tuple[int | Panels, ...]]:
        """The program over panels, for targets that read matrices so."""
        traced, target = self.traced, self.placement.target
        if not self._settings.pack_weights or self.placement.on_device:
            return traced, tuple(range(len(traced.captured)))
        frozen = frozen_of(traced, traced.captured)
        if not frozen and all(buffer_of(op) is None for op in traced.function.ops):
            return traced, tuple(range(len(traced.captured)))
        import_whole("dyn.passes.panel_weights")
        from dyn.passes.panel_weights import panel_weights

        layout, start = family_of(target).panel_layout, time.perf_counter()
        found = panel_weights(traced.function, frozen, lambda *operands: layout(target, *operands))
        if found.function is traced.function:
            return traced, found.hidden
        end = time.perf_counter()
        self.record.add("panels", end - start, end)
        return replace(traced, function=found.function), found.hidden

    def reads_as_it_lies(self, source: int | Dense) -> bool:
        """Return True if a captured array, by its number, or a constant is read otherwise than in panels."""
        return source in self.hidden if isinstance(source, int) else id(source) in self._read_constants

    @lazy_property
    def _read_constants(self) -> frozenset[int]:
        """The identities of the constants in buffers that the program reads."""
        return frozenset(_constants(self._own.function.ops))

    @property
    def bytes_in_panels(self) -> tuple[int, ...]:
        """The bytes of each array that is kept in panels."""
        function = self._own.function
        params = function.params[len(function.params) - len(self.hidden) :]
        return tuple([
            math.prod([int(size) for size in param.shape]) * param.dtype.itemsize
            for param, one in zip(params, self.hidden, strict=True)
            if not isinstance(one, int)
        ])  # fmt: skip

    def _own_record(self) -> CompilationRecord:
        """The record of what is made now: what is made only to be looked at took no part in the compilation."""
        return self.record if self._code is None and self._found is None else CompilationRecord()

    def _optimize(self, record: CompilationRecord) -> Optimized:
        stitched = self._run_passes(record)
        import_whole("dyn.pipeline")
        from dyn.pipeline import optimize

        with self._as_set(), keeping_recent():
            return optimize(replace(self._own, ones=self._ones), self._backend.target, record, stitched)

    def _run_passes(self, record: CompilationRecord) -> Stitched:
        if self._stitched is None:
            _import_passes()
            import_whole("dyn.pipeline")
            from dyn.pipeline import run_passes

            with self._as_set(), keeping_recent():
                self._stitched = run_passes(self._own, record)
        return self._stitched

    def _as_set(self) -> AbstractContextManager[object]:
        """The settings in force that had a part in it, as they were."""
        own = self._settings
        return config.override(
            optimize=own.optimize, red_zones=own.red_zones, batch_invariant=own.batch_invariant
        )  # fmt: skip

    def on(self, placement: Placement, record: CompilationRecord) -> Program:
        """The program for another placement. No pass runs again for it, unless other settings are in force by now, or
        its weights lie in other panels."""
        with config.override(batch_invariant=self._settings.batch_invariant):
            made = Program(self.traced, placement, record)
        # A dump shows the passes of each program; and panels are another target's.
        if made._settings == self._settings and made.hidden == self.hidden and not self._settings.dump:
            made._stitched = self._stitched
        return made

    def under(self, traced: TracedFunction, record: CompilationRecord) -> Program:
        """The program under the guards of ``traced``, whose function it has: no pass runs again for them."""
        made = Program(traced, self.placement, record)
        known = self._optimized
        if known is not None:
            made._ones = self._ones
            made._optimized = replace(known, host=replace(known.host, guards=traced.guards))
        return made

    def lower(self) -> None:
        """Run the passes, unless the code of an equal program is there. Kernels are made for the target once they are
        needed: perhaps those for another one are."""
        if self._code is None:
            found = CODES.find(self._shared)
            if found is not None:
                self._share(found)
            self._take(found or self._load())
        if self._code is None:
            with self._lock:
                self._run_passes(self.record)

    def _take(self, code: Code | None) -> None:
        """Have some code. What is lowered again for it is lowered as it was, for the sizes of the same first call."""
        self._code = code
        if code is not None:
            self._lower_for(code.ones)

    def _lower_for(self, numbers: Sequence[int]) -> None:
        """Lower it, if again, for a first call in which the dims of these numbers were 1."""
        symbols = self._own.function.symbols()
        ones = frozenset([symbols[number] for number in numbers])
        if ones != self._ones:
            with self._lock:
                self._ones, self._optimized = ones, None

    def _one_numbers(self) -> tuple[int, ...]:
        """The dims that were 1 in the first call, by number."""
        return tuple([n for n, symbol in enumerate(self._own.function.symbols()) if symbol in self._ones])

    @property
    def code(self) -> Code:
        """The machine code, apart from captured arrays: that of an equal program in memory or on disk, or a new one."""
        return self._code_for(None)

    def _code_for(self, shapes: Sequence[Sequence[int]] | None) -> Code:
        """The machine code; what is compiled now has the variants for a call with parameters of these shapes."""
        if self._code is None:
            made: list[Code] = []

            def make() -> Code:
                made.append(self._load() or self._compile(shapes))
                return made[0]

            code = CODES.get(self._shared, make)
            self._take(code)
            if not made:
                self._share(code)
            return code
        return self._code

    def _share(self, code: Code) -> None:
        """Note that the code is that of an equal program in memory."""
        events.cache("%s: the code of an equal program found in memory", self._own.function.name)
        self.record.kernels_compiled = code.count
        self.record.origins = (Origin.MEMORY,) * (code.count + 1 + (code.guards is not None))

    def load(
        self, captured: Sequence[Array | DeviceArray], shapes: Sequence[tuple[int, ...]] | None = None
    ) -> LoadedProgram | DeviceProgram:
        """The program with the arrays that it captures, ready to be called.

        Where it is compiled now, the variants for arguments of these ``shapes`` are.
        """
        code = self._code_for(None if shapes is None else [*shapes, *[array.shape for array in captured]])
        code.deferred.add_maker(self)
        if self._settings.variants == "all":
            code.deferred.make()
        with self.record.timed("load"):
            interface = Interface(self._own.function, _reuses(code), code.calls, self._host, code.constants)
            callees = self._callees()
            if self.placement.on_device:
                import_whole("dyn.backends.device_programs")
                from dyn.backends.device_programs import DeviceProgram

                context = context_of(self.placement.target.family, self.placement.ordinal)
                return DeviceProgram(
                    interface, code.host, code.kernels, captured, context, code.guards, callees, code.deferred, self
                )  # fmt: skip
            arrays = [array for array in captured if not isinstance(array, DeviceArray)]
            return LoadedProgram(
                interface, code.host, code.kernels, arrays, code.guards, callees, code.idle, code.deferred, self
            )  # fmt: skip

    def _callees(self) -> tuple[ExternalTarget, ...]:
        """The functions outside that the code calls by number."""
        traced = callees(self._own.function.ops)
        if self._checks:
            return self.optimized.callees
        if self._optimized is not None and self._optimized.callees != traced:
            raise IRError(f"{self._own.function.name}: passes have added calls of functions outside.")
        return traced

    def _load(self) -> Code | None:
        """The code that is on disk."""
        known = self._find()
        if known is None:
            return None
        found, built = known
        own = buffers(self._own.function.ops)
        constants = tuple([own[name].array for name in found.constants])
        deferred = self._deferred([one for one, _ in found.deferred], self._programs.find_deferred(found))
        return self._code_of(built, found.kernels, (), found.reuses, found.useless, constants, deferred, found.ones)

    def _find(self) -> tuple[Found, list[Built]] | None:
        """The objects that are on disk, where all are."""
        with self.record.timed("find"):
            known = self._programs.find(self._key)
        if known is not None:
            self._found, built = known
            self.record.kernels_compiled = self._found.kernels
            self.record.origins = tuple([one.origin for one in built])
        return known

    def _deferred(self, deferred: Sequence[Deferred], made: Mapping[str, Built]) -> DeferredKernels:
        """The kernels that the code can do without, with those that are made."""
        if not deferred:
            return NOTHING_DEFERRED
        addresses = addresses_of(self._backend, list(made.values()))
        return DeferredKernels(deferred, dict(zip(made, addresses, strict=True)))

    def make_deferred(self, names: Sequence[str]) -> list[int]:
        """The addresses of kernels that the code could do without: compiled now, and kept with it."""
        with config.using(self._settings):
            optimized = self.optimized
            import_whole("dyn.pipeline")
            from dyn.pipeline import deferred_sources

            with self.record.timed("variants"):
                sources = deferred_sources(optimized, names)
                built = self._backend.build_all(sources)
                made = {name: self._backend.key(source) for name, source in zip(names, sources, strict=True)}
                self._programs.add_deferred(self._key, made)
                return addresses_of(self._backend, built)

    def prepare(self, shapes: Sequence[tuple[int, ...]]) -> None:
        """Make the variants for a call with parameters of these shapes, captured arrays' among them."""
        deferred = self.code.deferred
        missing = [name for name, state in deferred.states().items() if state is DeferredState.NOT_YET]
        if missing:
            optimized = self.optimized
            import_whole("dyn.pipeline")
            from dyn.pipeline import names_for

            names = names_for(optimized, shapes)
            deferred.make([name for name in missing if name in names])

    def _compile(self, shapes: Sequence[Sequence[int]] | None) -> Code:
        rendered, built, early = self._compile_parts(shapes)
        optimized = self.optimized
        arrays = tuple([dense.array for dense in optimized.host.constants])
        made = self._deferred(rendered.deferred, {source.symbols[0]: one for source, one in early})
        reuses, ones = _reuse_numbers(optimized), self._one_numbers()
        return self._code_of(built, rendered.kernels, rendered.calls, reuses, optimized.useless, arrays, made, ones)

    def _compile_parts(
        self, shapes: Sequence[Sequence[int]] | None
    ) -> tuple[Rendered, list[Built], list[tuple[Source, Built]]]:
        import_whole("dyn.pipeline")
        from dyn.pipeline import compile_parts, names_at_first

        wanted = names_at_first(self.optimized, shapes) if self._settings.variants != "none" else ()
        try:
            rendered, built, early = compile_parts(self.optimized, self._backend, self.record, wanted)
        except Exception as error:
            self._dump(error)
            raise
        self._dump()
        self._keep(rendered, [source for source, _ in early])
        return rendered, built, early

    def _dump(self, error: Exception | None = None) -> None:
        """Write it into the folder that the setting ``dump`` names, if it names one."""
        if self._settings.dump:
            import_whole("dyn.explain.dump")
            from dyn.explain.dump import dump_program

            dump_program(self._settings.dump, self.optimized, self.record, self._backend.assembly, error)

    def _keep(self, rendered: Rendered, early: Sequence[Source]) -> None:
        """Note on disk what it was compiled to.

        A library call without native code is an op, with attributes that depend on the sizes: it is not written down.
        Nor is a constant that a pass has made.
        """
        optimized = self.optimized
        own = buffers(self._own.function.ops)
        names = tuple([dense.content.hex() for dense in optimized.host.constants])
        if self._key is None or rendered.calls or not all(name in own for name in names):
            return
        _require_same_interface(self._own.function, optimized.function)
        parts = parts_of(self._backend, self.record.sources)
        keys = {source.symbols[0]: self._backend.key(source) for source in early}
        deferred = tuple([(one, keys.get(one.name)) for one in rendered.deferred])
        kernels, reuses = self.record.kernels_compiled, _reuse_numbers(optimized)
        found = Found(parts, kernels, reuses, optimized.useless, names, deferred, self._one_numbers())
        self._programs.keep(self._key, found)

    def build(self) -> None:
        """Compile the program, unless its objects are there, without loading it: its machine need not be this one."""
        if self._code is not None:
            return
        known = self._find()
        if known is None:
            self._compile_parts(None)
        else:
            self._lower_for(known[0].ones)

    def kernel_reports(self) -> dict[str, KernelReport]:
        """What the compiler of a GPU's kernels has said of each; none for this machine's processor."""
        if not self.placement.on_device:
            return {}
        import_whole("dyn.backends.gpu")
        from dyn.backends.gpu import reports

        sources = [source for source in self.sources() if source.launch is not None]
        found: dict[str, KernelReport] = {}
        for source, built in zip(sources, self._backend.build_all(sources), strict=True):
            # A module has other kernels too, and those that spilled there are in another one.
            own = reports(built.binary)
            found |= {symbol: own[symbol] for symbol in source.symbols if symbol in own}
        return found

    def kernel_resources(self) -> dict[str, str]:
        """The same as text for people, by the kernel's name, with how many blocks run at once on the device."""
        if not self.placement.on_device:
            return {}
        import_whole("dyn.backends.gpu")
        from dyn.backends.gpu import blocks_at_once

        reports, told = self.kernel_reports(), dict[str, str]()
        for number, source in enumerate(self.sources()):
            if source.launch is None:
                continue
            name = source.symbols[0]
            parts = [reports[name].describe()] if name in reports else []
            if self._code is not None:
                parts.append(f"{blocks_at_once(self._code.kernels[number])} blocks of {source.launch.threads} at once")
            told[name] = ", ".join(parts)
        return told

    def _code_of(
        self, built: Sequence[Built], kernels: int, calls: Sequence[int], reuses: tuple[tuple[int, int], ...],
        useless: tuple[int, ...], constants: tuple[Array, ...], deferred: DeferredKernels, ones: tuple[int, ...],
    ) -> Code:  # fmt: skip
        with self.record.timed("load"):
            addresses = addresses_of(self._backend, built)
        host, *guards = addresses[kernels:]
        nbytes = sum(len(one.binary.data) for one in built) + sum(array.nbytes for array in constants)
        return Code(
            host, (*addresses[:kernels], *calls), guards[0] if guards else None, kernels, bool(calls), reuses, useless,
            nbytes, constants, self._identity.kept, deferred, ones,
        )  # fmt: skip

    def sources(self) -> tuple[Source, ...]:
        """The texts of the kernels, of the host program and of the guards."""
        if self.record.sources:
            return self.record.sources
        optimized = self.optimized
        import_whole("dyn.pipeline")
        from dyn.pipeline import render

        return render(optimized).sources

    def as_text(self, dialect: str) -> str:
        """The LLVM IR (``"llvm"``) or the assembly (``"asm"``) of everything that was compiled, or of a program for a
        GPU of the code around its kernels; and of its kernels the C++ (``"cuda"``, ``"hip"``), or ``"ptx"``."""
        sources, made = self.sources(), () if self._code is None else self._code.deferred.made
        if made:
            optimized = self.optimized
            import_whole("dyn.pipeline")
            from dyn.pipeline import deferred_sources

            sources = (*sources, *deferred_sources(optimized, made))
        if self.placement.on_device:
            family = self.placement.target.family
            of_kernels = {"cuda": ("cuda", "ptx"), "rocm": ("hip",)}[family]
            if dialect not in ("llvm", "asm", *of_kernels):
                raise ArgumentError(
                    f"a program for {self.placement.target} has no text {dialect!r}.",
                    remedy=f"use one of llvm, asm, {', '.join(of_kernels)}.",
                )
            sources = tuple([s for s in sources if (s.launch is not None) is (dialect in of_kernels)])
        elif dialect not in ("llvm", "asm"):
            raise ArgumentError(
                f"a program for {self.placement.target} has no text {dialect!r}.",
                remedy='compile(target="cuda:sm_90a") has, and so has a function of jit(device=…).',
            )
        texts = [self._backend.assembly(s) if dialect in ("asm", "ptx") else s.text for s in sources]
        return "\n".join(dict.fromkeys(texts))  # the assembly of a GPU's kernels is that of their module

    def deferred_states(self) -> dict[str, DeferredState]:
        """The state of each kernel that the code can do without, by name; none before there is code."""
        return {} if self._code is None else self._code.deferred.states()

    def _host(self) -> HostProgram:
        """The host program that the code was made from: its checks are known by their numbers."""
        if self._checked is not None:
            return self._checked
        if self._found is not None and parts_of(self._backend, self.sources()) != self._found.parts:
            raise IRError(
                f"{self._own.function.name}: a call failed, and why is not known: the code found in the cache "
                "is that of another program.",
                remedy="this is a bug in dyn; please report it with the program, and clear the cache.",
            )
        self._checked = self.optimized.host
        return self._checked


def _reuses(code: Code) -> tuple[Reuse, ...]:
    if not code.reuses:
        return ()
    load_modules("dyn.schedule.donate")
    from dyn.schedule.donate import Reuse

    return tuple(Reuse(output, input) for output, input in code.reuses)


def _reuse_numbers(optimized: Optimized) -> tuple[tuple[int, int], ...]:
    return tuple([(reuse.output, reuse.input) for reuse in optimized.host.reuses])


@functools.lru_cache(maxsize=16)
def _text_of(target: Target) -> str:
    return repr(target)


def _beside(traced: TracedFunction) -> str:
    """Text of how many guards a program has, and of its donations: they decide about its code beside its function."""
    return f"{len(traced.guards)} {traced.donated}"


def _named(traced: TracedFunction, identity: Identity) -> str | None:
    """Identity of a traced program that is the same in every process; None where there is none."""
    return None if identity.named is None else f"{identity.named} {_beside(traced)}"


@functools.lru_cache(maxsize=1)
def _import_passes() -> None:
    load_modules("dyn.pipeline")


def _require_same_interface(traced: Function, optimized: Function) -> None:
    """Passes keep what a caller sees; whoever finds the program knows the traced function alone.

    A parameter's own dims may be replaced by ones that are proved equal: calls and captured arrays are checked against
    those from before.
    """
    seen, kept = [
        (
            function.name,
            [(param.dtype, shape) for param, shape in zip(function.params, function.checked_shapes(), strict=True)],
            [(value.dtype, len(value.shape)) for value in function.results],
            [info.hidden for info in function.infos],
        )
        for function in (traced, optimized)
    ]
    if seen != kept:
        raise IRError(f"{traced.name}: passes have changed what a caller sees, {seen}, to {kept}.")


def _constants(ops: Sequence[Op]) -> Iterator[int]:
    """The identities of constants in buffers, those of regions too: their contents would have to be digested."""
    for op in ops:
        if (dense := buffer_of(op)) is not None:
            yield id(dense)
        for region in op.regions:
            yield from _constants(region.ops)
