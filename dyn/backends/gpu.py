"""GPUs as a backend of programs: kernels are compiled several to a text, kept by themselves, and loaded as records.

It is the same for all vendors: a compiler of kernels (``dyn.backends.base.Compiler``) and a driver
(``dyn.runtime.driver``) are what it is given. Nothing but loading needs a device.
"""

from __future__ import annotations

import ctypes
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from hashlib import sha256

from dyn.backends.archive import pack, unpack
from dyn.backends.base import Binary, Compiler, Executable, KernelReport, LaunchShape, Source
from dyn.backends.binaries import Binaries, Built
from dyn.backends.cache import CacheFolder, current_store
from dyn.backends.once_table import OnceTable
from dyn.backends.workers import run_apart, workers
from dyn.errors import BackendUnavailableError, DeviceError
from dyn.frozen import record
from dyn.lower.abi import DeviceKernel
from dyn.runtime.driver import Context, context_of
from dyn.schedule.target import Target

#: Begins the keys of kernels for GPUs, and what the entry of one says: the key of the module that it is in.
PREFIX, _IN = "gpu_", b"in "
#: So many kernels are compiled as one text at most: what a compiler takes to begin is spread, and all workers work.
_MOST_KERNELS = 32
_IMAGE, _ASSEMBLY, _KERNELS = "image", "assembly", "kernels.json"


@record()
class GpuBinary(Binary):
    """A module with a kernel in it: its image, assembly and what is known of its kernels, in an archive."""


class _Record:
    """The record of a loaded kernel, which stays where it is as long as the process lives."""

    def __init__(self, context: Context, module: int, symbol: str, shape: LaunchShape) -> None:
        function, blocks = context.kernel(module, symbol, shape.threads)
        words = {
            DeviceKernel.FUNCTION: function,
            DeviceKernel.THREADS: shape.threads,
            DeviceKernel.BUFFERS: shape.buffers,
            DeviceKernel.DIMS: shape.dims,
            DeviceKernel.BLOCKS: min(blocks, context.device.most_blocks),
        }
        self._words = (ctypes.c_int64 * DeviceKernel.WORDS)(*[words[8 * n] for n in range(DeviceKernel.WORDS)])
        self.address = ctypes.addressof(self._words)
        _RECORDS.append(self)  # host programs have its address


class _LoadedModule:
    """A module on a device, with the records of its kernels."""

    def __init__(self, context: Context, data: bytes) -> None:
        members = unpack(data)
        kernels = json.loads(members[_KERNELS])
        try:
            module = context.load_module(members[_IMAGE])
        except DeviceError:
            if not members[_ASSEMBLY]:
                raise
            module = context.load_module(members[_ASSEMBLY] + b"\0")  # a newer device: the driver assembles it
        self._records = {
            symbol: _Record(context, module, symbol, LaunchShape(*one["launch"])) for symbol, one in kernels.items()
        }

    def address(self, symbol: str) -> int:
        """The address of a kernel's record."""
        return self._records[symbol].address


class GpuBackend:
    """Compiles kernels for a target and loads them into a device of it, by number."""

    def __init__(self, compiler: Compiler, ordinal: int = 0) -> None:
        self._compiler, self.ordinal = compiler, ordinal

    @property
    def target(self) -> Target:
        return self._compiler.target

    @property
    def toolchain(self) -> str:
        return self._compiler.toolchain

    def unavailable(self) -> str | None:
        """The reason why nothing can be compiled here, or None."""
        return self._compiler.unavailable()

    def key(self, source: Source) -> str:
        """Cache key of a kernel: its text, the target, how it is launched, the compiler and what that is told."""
        return f"{PREFIX}{source.key(self.target, self.toolchain)}"

    def compile(self, source: Source) -> Binary:
        return self.build(source).binary

    def build(self, source: Source) -> Built:
        return self.build_all([source])[0]

    def build_all(self, sources: Sequence[Source]) -> list[Built]:
        """The modules of several kernels, in their order. What must be compiled is compiled in parallel."""
        store = current_store()
        distinct = {self.key(source): source for source in sources}
        found = {key: _find(key, source.symbols, store) for key, source in distinct.items()}
        missing = [key for key, one in found.items() if one is None]
        if missing:
            reason = self.unavailable()
            if reason is not None:
                raise BackendUnavailableError(f"{self.target} cannot be compiled for: {reason}.", remedy="see doctor.")
            parts = _dealt(sorted(missing, key=lambda key: -len(distinct[key].text)))
            works = [partial(self._compile, {key: distinct[key] for key in keys}, store) for keys in parts]
            for made in run_apart(works):
                found.update(made)
        built = [one for source in sources if (one := found[self.key(source)]) is not None]
        for source, one in zip(sources, built, strict=True):
            one.log(source.symbols, self.target)
        return built

    def find_all(self, objects: Sequence[tuple[str, tuple[str, ...]]]) -> list[Built] | None:
        """The modules of these keys' kernels, if none needs to be compiled."""
        store = current_store()
        built = [one for key, symbols in objects if (one := _find(key, symbols, store)) is not None]
        if len(built) < len(objects):
            return None
        for (_, symbols), one in zip(objects, built, strict=True):
            one.log(symbols, self.target)
        return built

    def _compile(self, sources: Mapping[str, Source], store: CacheFolder | None) -> dict[str, Built]:
        """Compile kernels as one text; those that spill once more, together, where the compiler can be told to take
        more registers for them."""
        made = self._compile_module(sources, store)
        again: dict[str, Source] = {}
        for key, source in sources.items():
            report = reports(made[key].binary).get(source.symbols[0])
            told = self._compiler.with_more_registers(source) if report is not None and report.spilled_bytes else None
            if told is not None:
                again[key] = told
        if again:
            made |= self._compile_module(again, store)
        for key in sources:
            _MODULE_OF[key] = module = self._module(again if key in again else sources)
            if store is not None:
                store.write(key, _IN + module.encode())
        return made

    def _module(self, sources: Mapping[str, Source]) -> str:
        """The key of the module that has some kernels, by those of their texts."""
        keys = " ".join([self.key(source) for source in sources.values()])
        return f"{PREFIX}{sha256(keys.encode()).hexdigest()}_module"

    def _compile_module(self, sources: Mapping[str, Source], store: CacheFolder | None) -> dict[str, Built]:
        """The module of some kernels, by their keys."""
        symbols = tuple([source.symbols[0] for source in sources.values()])
        launches = {source.symbols[0]: source.launch for source in sources.values()}

        def compile() -> bytes:
            image = self._compiler.compile_kernels(Source("".join([s.text for s in sources.values()]), symbols))
            kernels = {
                symbol: {
                    "launch": None if shape is None else [shape.threads, shape.buffers, shape.dims],
                    "report": asdict(image.reports[symbol]) if symbol in image.reports else None,
                }
                for symbol, shape in launches.items()
            }
            members = {_IMAGE: image.data, _ASSEMBLY: image.assembly.encode(), _KERNELS: json.dumps(kernels).encode()}
            return pack(members)

        built = _MODULES.get(self._module(sources), symbols, store, compile)
        return {
            key: Built(GpuBinary(built.binary.data, source.symbols), built.origin) for key, source in sources.items()
        }

    def load(self, binary: Binary, imports: Mapping[str, int] | None = None) -> Executable:
        """Load a module into the device. It is never unloaded."""
        return self.load_once(binary)

    def load_once(self, binary: Binary) -> Executable:
        """Load a module into the device; equal ones are loaded once in a process."""
        context = context_of(self.target.family, self.ordinal)
        found = f"{context.name} {sha256(binary.data).hexdigest()}"
        return _LOADED.get(found, lambda: _LoadedModule(context, binary.data))[0]

    def assembly(self, source: Source) -> str:
        """The compiler's text of a kernel's instructions: PTX for NVIDIA's; for AMD's, whose compiler gives none, what
        it was made of."""
        text = unpack(self.build(source).binary.data)[_ASSEMBLY].decode()
        return text or source.text


def blocks_at_once(record: int) -> int:
    """Number of blocks of a loaded kernel, by its record's address, that run at once: a launch has no more."""
    return ctypes.c_int64.from_address(record + DeviceKernel.BLOCKS).value


def reports(binary: Binary) -> dict[str, KernelReport]:
    """Compiler's reports of the kernels of a module, by symbol."""
    kernels = json.loads(unpack(binary.data)[_KERNELS])
    return {symbol: KernelReport(**one["report"]) for symbol, one in kernels.items() if one["report"] is not None}


def _dealt(keys: Sequence[str]) -> list[Sequence[str]]:
    """Keys in so many parts that all workers have one, and none is too large."""
    count = min(len(keys), max(workers(), -(-len(keys) // _MOST_KERNELS)))
    return [keys[number::count] for number in range(count)]


def _find(key: str, symbols: tuple[str, ...], store: CacheFolder | None) -> Built | None:
    """The module that a kernel is in, if it need not be compiled."""
    module = _MODULE_OF.get(key)
    if module is None:
        said = None if store is None else store.read(key)
        if said is None or not said.startswith(_IN):
            return None
        module = said.removeprefix(_IN).decode(errors="replace")
    built = _MODULES.find(module, symbols, store)
    if built is None:
        return None
    _MODULE_OF[key] = module
    return Built(GpuBinary(built.binary.data, symbols), built.origin)


#: The modules of this process by their keys, the keys by those of their kernels, and what was loaded, by its digest.
_MODULES = Binaries()
_MODULE_OF: dict[str, str] = {}
_LOADED: OnceTable[_LoadedModule] = OnceTable()
#: The records of all kernels: a module is never unloaded, and neither are they.
_RECORDS: list[_Record] = []
