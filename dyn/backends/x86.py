"""x86 machine code through llvmlite: the one file that imports it.

Code is generated straight from the text, which is in vectors and SSA form already: LLVM's optimiser found nothing to
add, at four times the cost. Measured on a softmax (320 lines): parsing 0.6 ms, code generation 11 ms at levels 1 to 3
alike, and 2.7 ms at level 0 for code that is two to three times slower.

llvmlite takes a lock of its own around every call of LLVM, so that threads may use this freely. Code generation alone,
which takes nearly all of the time, is called past that lock: each module has a context of its own, and a target
machine while it is compiled, which is all that LLVM asks of programs with threads. LLVM is called by threads of ours
(``dyn.backends.workers``), no fork divides what it does (``dyn.fork_safety.no_fork``), and the memory that it needs is
asked for beforehand.

Objects are loaded by ``dyn.backends.elf``, or by ORC where that refuses, and are never unmapped. A program whose
binaries are all on disk starts without llvmlite.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import sha256
from typing import Any, TypeVar

from dyn import config
from dyn.backends.amx import usable_features
from dyn.backends.archive import is_archive, pack, unpack
from dyn.backends.base import Binary, Effort, Source
from dyn.backends.binaries import Binaries, Built
from dyn.backends.cache import current_store
from dyn.backends.cpu import cpu_fingerprint
from dyn.backends.elf import UnsupportedObject, load_object
from dyn.backends.lapack import lapack_imports
from dyn.backends.once_table import OnceTable
from dyn.backends.workers import run_apart
from dyn.errors import BackendUnavailableError, CompileError
from dyn.fork_safety import lock, no_fork
from dyn.requirements import install_required
from dyn.runtime.address_space import reserve
from dyn.schedule.target import Target
from dyn.shutdown import at_end

T = TypeVar("T")

#: LLVM's level of code generation; 0 takes a quarter of the time of the others.
_LEVELS = {Effort.QUICK: 0, Effort.KERNEL: 2, Effort.PROMOTE: 2}
#: LLVM's passes before code generation. All of its optimiser at level 2 took 30 times as long as these for the runtime
#: and the entry, and their code generation twice as long, for code that was no quicker.
_PASSES = {Effort.PROMOTE: ("always_inliner", "sroa", "instruction_combine", "simplify_cfg")}
#: CPUs by the width of vector that is used on them, for targets that name no features.
_CPUS_512 = frozenset({
    "x86-64-v4", "skylake-avx512", "cascadelake", "cooperlake", "icelake-client", "icelake-server", "tigerlake",
    "rocketlake", "sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids", "znver4",
    "znver5", "znver6",
})  # fmt: skip
_CPUS_256 = frozenset({
    "x86-64-v3", "core-avx2", "haswell", "broadwell", "skylake", "cannonlake", "alderlake", "raptorlake", "meteorlake",
    "arrowlake", "arrowlake-s", "lunarlake", "pantherlake", "gracemont", "sierraforest", "grandridge",
    "clearwaterforest", "znver1", "znver2", "znver3",
})  # fmt: skip
_AVX512 = frozenset({"+avx512f", "+avx512dq", "+avx512bw", "+avx512vl"})
_AVX2 = frozenset({"+avx2", "+fma", "+f16c"})
#: Address space that LLVM's library takes (160 MiB), and that a compilation may take: measured 2 MiB, 6 for 250 KB of
#: text, and what a thread's first allocation reserves.
_LIBRARY_BYTES, _COMPILE_BYTES, _BYTES_A_CHARACTER = 192 << 20, 16 << 20, 100


@lru_cache(maxsize=1)
def _binding() -> Any:
    """llvmlite, with the native target set up. It takes 40 ms to import, so a warm start does without."""
    with reserve(_LIBRARY_BYTES, "load LLVM"):
        from llvmlite import binding
        from llvmlite.binding import common

        # llvmlite's objects that die with the interpreter take its lock, which a daemon thread may have had as it was
        # frozen, unless llvmlite knows of the end: by a handler at exit, which comes too late if that has begun.
        at_end(getattr(common, "_at_shutdown", lambda: None))
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        return binding


def _apart(work: Callable[[], T]) -> T:
    """``work()`` with LLVM, in a thread of its own and whole."""
    return run_apart([lambda: no_fork(work)])[0]


def target_for(cpu: str, features: str = "") -> Target:
    """The target for an LLVM CPU name; the vector width follows from the features, or else from the name.

    An unknown name without features is a CPU with SSE2.
    """
    if features:
        named = frozenset(features.split(","))
        width = 64 if named >= _AVX512 else 32 if named >= _AVX2 else 16
    else:
        width = 64 if cpu in _CPUS_512 else 32 if cpu in _CPUS_256 else 16
    return Target("x86", cpu, features, vector_bytes=width, registers=32 if width == 64 else 16)


@lru_cache(maxsize=1)
def toolchain() -> str:
    """Identity of LLVM, read from llvmlite's version file: importing it, or its metadata, takes 30 ms."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        return "none"
    try:
        with open(os.path.join(os.path.dirname(spec.origin), "_version.py"), "rb") as file:
            return sha256(file.read()).hexdigest()
    except OSError:
        from importlib.metadata import version

        return version("llvmlite")


@lru_cache(maxsize=1)
def _this_machine() -> Target:
    """This machine as LLVM sees it now, or saw it in an earlier process on a processor that answers the same."""
    store, processor = current_store(), cpu_fingerprint()
    key = f"host_{sha256(f'{processor} {toolchain()}'.encode()).hexdigest()}"
    if store is not None and processor is not None:
        cpu, line, features = (store.read(key) or b"").decode(errors="replace").partition("\n")
        if line:
            return target_for(cpu, _usable(cpu, features))

    def ask() -> tuple[str, str]:
        binding = _binding()
        cpu, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
        if store is not None and processor is not None:
            store.write(key, f"{cpu}\n{features}".encode())
        return cpu, features

    cpu, features = _apart(ask)
    return target_for(cpu, _usable(cpu, features))


def _usable(cpu: str, features: str) -> str:
    """The features that this process may use: a processor's tile registers are asked for and tested."""

    def compile(text: str, symbols: tuple[str, ...]) -> Mapping[str, int]:
        backend = X86Backend(target_for(cpu, features))
        code = backend.load_once(backend.build(Source(text, symbols)).binary)
        return {symbol: code.address(symbol) for symbol in symbols}

    return usable_features(features, compile)


def host_target() -> Target:
    """This machine, or the CPU that the setting ``target_cpu`` names."""
    cpu = config.current().target_cpu
    return target_for(cpu) if cpu else _this_machine()


class LoadedCode:
    """Machine code in this process, for as long as it lives."""

    def __init__(self, symbols: dict[str, int]) -> None:
        self._symbols = symbols

    def address(self, symbol: str) -> int:
        return self._symbols[symbol]


class X86Backend:
    """Compiles LLVM IR text for one x86 target, and loads it where it fits this machine."""

    def __init__(self, target: Target | None = None) -> None:
        self._target = host_target() if target is None else target

    @property
    def target(self) -> Target:
        return self._target

    @property
    def toolchain(self) -> str:
        return toolchain()

    def unavailable(self) -> str | None:
        if importlib.util.find_spec("llvmlite") is None:
            return f"llvmlite is not installed; {install_required('llvmlite')}"
        return None

    def key(self, source: Source) -> str:
        """Cache key of the object made of a source: its text, this target, LLVM's version and what it is told.

        That is all that an object depends on. dyn's own version is not part of it, so that what a new version renders
        as before need not be compiled again.
        """
        passes = "".join([f" {name}" for name in _PASSES.get(source.effort, ())])
        form = " archive" if source.routines else ""
        return source.key(self._target, f"O{_LEVELS[source.effort]}{passes} pic small {toolchain()}{form}")

    def compile(self, source: Source) -> Binary:
        """An ELF object. Equal sources are compiled once."""
        return self.build(source).binary

    def build(self, source: Source) -> Built:
        """An ELF object, and whether it was compiled now or found in memory or on disk."""
        return self.build_all([source])[0]

    def build_all(self, sources: Sequence[Source]) -> list[Built]:
        """The objects of several sources, in their order. What must be compiled is compiled in parallel."""
        store = current_store()
        keys = [self.key(source) for source in sources]
        distinct = dict(zip(keys, sources, strict=True))

        def build(key: str) -> Built:
            source = distinct[key]
            return _BINARIES.get(key, source.symbols, store, lambda: self._whole(source, routines))

        found = {key: _BINARIES.find(key, source.symbols, store) for key, source in distinct.items()}
        # The longest first, so that none is still at work when all others are done.
        missing = sorted([k for k in distinct if found[k] is None], key=lambda key: -len(distinct[key].text))
        called = dict.fromkeys(
            [Source(one.text, (one.symbol,), distinct[k].effort) for k in missing for one in distinct[k].routines]
        )
        routines = dict(zip(called, self.build_all(list(called)), strict=True)) if called else {}
        found.update(zip(missing, run_apart([partial(build, key) for key in missing]), strict=True))
        built = [one for key in keys if (one := found[key]) is not None]
        for source, one in zip(sources, built, strict=True):
            one.log(source.symbols, self._target)
        return built

    def find_all(self, objects: Sequence[tuple[str, tuple[str, ...]]]) -> list[Built] | None:
        """The objects of these keys, each with its symbols, if none needs to be compiled."""
        store = current_store()
        found = [_BINARIES.find(key, symbols, store) for key, symbols in objects]
        built = [one for one in found if one is not None]
        if len(built) < len(found):
            return None
        for (_, symbols), one in zip(objects, built, strict=True):
            one.log(symbols, self._target)
        return built

    def assembly(self, source: Source) -> str:
        """The assembly that :meth:`compile` would make an object of."""

        def emit() -> str:
            with self._reserve(source), self._machine(source) as machine:
                return machine.emit_assembly(self._module(source, machine))

        return _apart(emit)

    def _whole(self, source: Source, routines: Mapping[Source, Built]) -> bytes:
        """An object, or an archive of it and of the ``routines`` that it calls."""
        if not source.routines:
            return self._object(source)
        text = source.text
        members: dict[str, bytes] = {}
        for one in source.routines:
            text = text.replace(one.definition, one.declaration)
            members[one.symbol] = routines[Source(one.text, (one.symbol,), source.effort)].binary.data
        return pack({**members, source.symbols[0]: self._object(replace(source, text=text, routines=()))})

    def _object(self, source: Source) -> bytes:
        with self._reserve(source), self._machine(source) as machine:
            return _emit_object(machine, self._module(source, machine))

    def _reserve(self, source: Source) -> AbstractContextManager[None]:
        return reserve(_COMPILE_BYTES + _BYTES_A_CHARACTER * len(source.text), f"compile {', '.join(source.symbols)}")

    def _machine(self, source: Source) -> AbstractContextManager[Any]:
        """A target machine for a source."""
        reason = self.unavailable()
        if reason is not None:
            raise BackendUnavailableError(f"the x86 backend cannot be used: {reason}.")
        return _target_machine(self._target, _LEVELS[source.effort])

    def _module(self, source: Source, machine: Any) -> Any:
        """The parsed module in a context of its own, ready for code generation."""
        binding = _binding()
        try:
            module = binding.parse_assembly(source.text, binding.create_context())
            module.verify()
        except RuntimeError as error:
            raise CompileError(
                f"LLVM refused the text of {', '.join(source.symbols)}.",
                remedy="this is a bug in dyn; please report it with the text.",
                notes=tuple(str(error).rstrip().splitlines()),
            ) from error
        passes = _PASSES.get(source.effort)
        if passes is not None:
            manager = binding.create_new_module_pass_manager()
            for name in passes:
                getattr(manager, f"add_{name}_pass")()
            manager.run(module, binding.create_pass_builder(machine, binding.create_pipeline_tuning_options()))
        return module

    def load(self, binary: Binary, imports: Mapping[str, int] | None = None) -> LoadedCode:
        """Map an object. What it calls is looked for in ``imports`` and in the process, as libm's functions are.

        Of an archive the last object is mapped, and of the others those that are not there yet.
        """
        if is_archive(binary.data):
            *routines, (_, data) = unpack(binary.data).items()
            own = {name: self.load_once(Binary(code, (name,))).address(name) for name, code in routines}
            return self.load(Binary(data, binary.symbols), {**(imports or {}), **own})
        try:
            return LoadedCode(load_object(binary.data, binary.symbols, imports))
        except UnsupportedObject:
            return _load_by_orc(binary, {} if imports is None else imports)

    def load_once(self, binary: Binary) -> LoadedCode:
        """Map an object that has no state of its own: equal ones are mapped once in a process."""
        found = sha256(binary.data).hexdigest()
        return _LOADED.get(found, lambda: self.load(binary, lapack_imports(binary.data)))[0]


#: LLVM's target machines that no thread uses, by what they were made for: the first module that one compiles takes
#: 0.7 ms more, for what it keeps of the processor. None goes, for that takes llvmlite's lock, wherever a fork may come.
_IDLE_MACHINES: dict[tuple[str, str, int], list[Any]] = {}


@contextmanager
def _target_machine(target: Target, level: int) -> Iterator[Any]:
    """A target machine for a level of code generation, for this thread alone. It holds nothing of a module."""
    idle = _IDLE_MACHINES.setdefault((target.arch, target.features, level), [])
    try:
        machine = idle.pop()
    except IndexError:
        binding = _binding()
        machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
            cpu=target.arch, features=target.features, opt=level, reloc="pic", codemodel="small"
        )
    yield machine
    idle.append(machine)


#: All that was compiled in this process, by its key, and all that was loaded, by its digest.
_BINARIES = Binaries()
_LOADED: OnceTable[LoadedCode] = OnceTable()


# ---- code generation -------------------------------------------------------------------------------------------------


def _emit_object(machine: Any, module: Any) -> bytes:
    """``machine.emit_object(module)``, without llvmlite's lock while LLVM generates code."""
    from llvmlite.binding import ffi

    emit = getattr(ffi.lib.LLVMPY_TargetMachineEmitToMemory, "_cfn", None)
    if emit is None:
        return machine.emit_object(module)
    with ffi.OutputString() as problem:
        buffer = emit(machine, module, 1, problem)
        if not buffer:
            raise CompileError(
                "LLVM could not generate code.", remedy="this is a bug in dyn; please report it.", notes=(str(problem),)
            )
    try:
        size = ffi.lib.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), size)
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


# ---- loading ---------------------------------------------------------------------------------------------------------


def _load_by_orc(binary: Binary, imports: Mapping[str, int]) -> LoadedCode:
    """Load by LLVM's own linker: what ``load_object`` refuses."""

    def link() -> LoadedCode:
        binding = _binding()
        with _loading:
            builder = binding.JITLibraryBuilder().add_object_img(binary.data).add_current_process()
            for name, address in imports.items():
                builder.import_symbol(name, address)
            for symbol in binary.symbols:
                builder.export_symbol(symbol)
            library = builder.link(_jit(), f"dyn.{len(_libraries)}")
            _libraries.append(library)
            return LoadedCode({symbol: library[symbol] for symbol in binary.symbols})

    return _apart(link)


_loading = lock()
#: What has been loaded. Callers may hold addresses into it, so that nothing ever leaves.
_libraries: list[Any] = []


@lru_cache(maxsize=1)
def _jit() -> Any:
    binding = _binding()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine()
    return binding.create_lljit_compiler(machine)
