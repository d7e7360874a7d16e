"""x86 machine code through llvmlite: the one file that imports it.

Code is generated straight from the text: it is in vectors and SSA form already, and LLVM's optimiser found nothing to
add at four times the cost. Objects are loaded by ORC and are never unmapped.
"""

from __future__ import annotations

import threading
from functools import lru_cache
from typing import Any

from dyn import config
from dyn.backends.base import Binary, Source
from dyn.errors import BackendUnavailableError, CompileError
from dyn.lower.target import Target

_lock = threading.Lock()
_alive: list[Any] = []


@lru_cache(maxsize=1)
def _binding() -> Any:
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


@lru_cache(maxsize=16)
def _describe(cpu: str) -> Target:
    binding = _binding()
    host = cpu == ""
    name = binding.get_host_cpu_name() if host else cpu
    features = binding.get_host_cpu_features().flatten() if host else ""
    return target_for(name, features)


def target_for(cpu: str, features: str = "") -> Target:
    """The target for an LLVM CPU name; the vector width follows from the features, or from the name alone."""
    named = set(features.split(","))
    if features:
        wide = {"+avx512f", "+avx512dq", "+avx512bw", "+avx512vl"} <= named
        width = 64 if wide else 32 if {"+avx2", "+fma"} <= named else 16
    else:
        width = 64 if cpu in _WIDE else 32 if cpu in _MIDDLE else 16
    return Target("x86", cpu, features, vector_bytes=width, registers=32 if width == 64 else 16)


_WIDE = {
    "x86-64-v4", "skylake-avx512", "cascadelake", "cooperlake", "icelake-client", "icelake-server", "tigerlake",
    "rocketlake", "sapphirerapids", "emeraldrapids", "graniterapids", "graniterapids-d", "diamondrapids", "znver4",
    "znver5", "znver6",
}  # fmt: skip
_MIDDLE = {
    "x86-64-v3", "haswell", "broadwell", "skylake", "alderlake", "raptorlake", "meteorlake", "arrowlake", "lunarlake",
    "gracemont", "sierraforest", "znver1", "znver2", "znver3",
}  # fmt: skip


def host_target() -> Target:
    """This machine, or the CPU that the setting ``target_cpu`` names."""
    return _describe(config.current().target_cpu)


class LoadedCode:
    """Machine code in this process."""

    def __init__(self, symbols: dict[str, int]) -> None:
        self._symbols = symbols

    def address(self, symbol: str) -> int:
        return self._symbols[symbol]


class X86Backend:
    """Compiles LLVM IR text for one x86 target."""

    def __init__(self, target: Target | None = None, *, opt: int = 2) -> None:
        self._target = host_target() if target is None else target
        self._opt = opt
        self._cache: dict[str, Binary] = {}

    @property
    def target(self) -> Target:
        return self._target

    def unavailable(self) -> str | None:
        return None

    def _machine(self) -> Any:
        binding = _binding()
        target = binding.Target.from_triple(binding.get_process_triple())
        return target.create_target_machine(
            cpu=self._target.arch, features=self._target.features, opt=self._opt, reloc="pic", codemodel="small"
        )

    def _parse(self, source: Source) -> Any:
        binding = _binding()
        try:
            module = binding.parse_assembly(source.text, binding.create_context())
            module.verify()
        except RuntimeError as error:
            raise CompileError(f"LLVM refused the text of {', '.join(source.symbols)}: {error}") from error
        return module

    def compile(self, source: Source) -> Binary:
        key = source.key(self._target)
        found = self._cache.get(key)
        if found is None:
            with _lock:
                data = self._machine().emit_object(self._parse(source))
            found = self._cache[key] = Binary(data, source.symbols)
        return found

    def assembly(self, source: Source) -> str:
        with _lock:
            return self._machine().emit_assembly(self._parse(source))

    def load(self, binary: Binary) -> LoadedCode:
        binding = _binding()
        with _lock:
            jit = _jit()
            builder = binding.JITLibraryBuilder().add_object_img(binary.data).add_current_process()
            for symbol in binary.symbols:
                builder.export_symbol(symbol)
            tracker = builder.link(jit, f"dyn{len(_alive)}")
            _alive.append(tracker)
            return LoadedCode({symbol: tracker[symbol] for symbol in binary.symbols})


@lru_cache(maxsize=1)
def _jit() -> Any:
    binding = _binding()
    return binding.create_lljit_compiler(
        binding.Target.from_triple(binding.get_process_triple()).create_target_machine()
    )


_ = BackendUnavailableError
