"""x86 machine code through llvmlite: the one file that imports it.

Code is generated straight from the text, which is in vectors and SSA form already: LLVM's optimiser found nothing to
add, at four times the cost. Measured on a softmax (320 lines): parsing 0.6 ms, code generation 11 ms at levels 1 to 3
alike, and 2.7 ms at level 0 for code that is two to three times slower.

Objects are loaded by ORC, in a library each, and are never unmapped. llvmlite takes a lock of its own around every call
of LLVM, so that threads may use this freely.
"""

from __future__ import annotations

import importlib.util
import threading
from functools import lru_cache
from typing import Any

from dyn import config, events
from dyn.backends.base import Binary, Effort, Source
from dyn.errors import BackendUnavailableError, CompileError
from dyn.lower.target import Target

#: LLVM's level of code generation; 0 takes a quarter of the time of the others.
_LEVELS = {Effort.QUICK: 0, Effort.KERNEL: 2, Effort.FULL: 2}
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


@lru_cache(maxsize=1)
def _binding() -> Any:
    """llvmlite, with the native target set up. It takes 40 ms to import, so a warm start does without."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


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
def _this_machine() -> Target:
    binding = _binding()
    return target_for(binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten())


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
        self._binaries: dict[str, Binary] = {}

    @property
    def target(self) -> Target:
        return self._target

    def unavailable(self) -> str | None:
        if importlib.util.find_spec("llvmlite") is None:
            return "llvmlite is not installed; pip install llvmlite"
        return None

    def compile(self, source: Source) -> Binary:
        """An ELF object. Equal sources are compiled once."""
        key = source.key(self._target)
        found = self._binaries.get(key)
        names = ", ".join(source.symbols)
        if found is not None:
            events.cache("%s: found in memory", names)
        else:
            events.cache("%s: compiled for %s", names, self._target)
            module, machine = self._module(source)
            found = self._binaries.setdefault(key, Binary(machine.emit_object(module), source.symbols))
        return found

    def assembly(self, source: Source) -> str:
        """The assembly that :meth:`compile` would make an object of."""
        module, machine = self._module(source)
        return machine.emit_assembly(module)

    def _module(self, source: Source) -> tuple[Any, Any]:
        """The parsed module in a context of its own, and a target machine for it."""
        reason = self.unavailable()
        if reason is not None:
            raise BackendUnavailableError(f"the x86 backend cannot be used: {reason}.")
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
        machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
            cpu=self._target.arch,
            features=self._target.features,
            opt=_LEVELS[source.effort],
            reloc="pic",
            codemodel="small",
        )
        if source.effort is Effort.FULL:
            tuning = binding.create_pipeline_tuning_options(speed_level=2)
            passes = binding.create_pass_builder(machine, tuning)
            passes.getModulePassManager().run(module, passes)
        return module, machine

    def load(self, binary: Binary) -> LoadedCode:
        """Map an object. What it calls, such as libm's functions, is looked for in the process."""
        binding = _binding()
        with _loading:
            builder = binding.JITLibraryBuilder().add_object_img(binary.data).add_current_process()
            for symbol in binary.symbols:
                builder.export_symbol(symbol)
            library = builder.link(_jit(), f"dyn.{len(_libraries)}")
            _libraries.append(library)
            return LoadedCode({symbol: library[symbol] for symbol in binary.symbols})


_loading = threading.Lock()
#: What has been loaded. Callers may hold addresses into it, so that nothing ever leaves.
_libraries: list[Any] = []


@lru_cache(maxsize=1)
def _jit() -> Any:
    binding = _binding()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine()
    return binding.create_lljit_compiler(machine)
