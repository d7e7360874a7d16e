"""Interface of a backend: text to binary to something that runs.

A backend is one file. It is impure: it may look at the machine, run compilers and map memory; everything above it
works on text and plain data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from dyn.frozen import record
from dyn.schedule.target import Target
from dyn.shapes import Dim

if TYPE_CHECKING:
    from dyn.backends.binaries import Built
    from dyn.lower.shared_functions import Routine


class Effort(Enum):
    """Effort of compiling a text."""

    #: A quick compilation rather than quick code: for straight code that runs once a call.
    QUICK = "quick"
    #: Good machine code for a text that is in vectors and SSA form already.
    KERNEL = "kernel"
    #: The same for text that was written with variables and branches: variables become registers first, functions are
    #: inlined that ask for it, and blocks are joined.
    PROMOTE = "promote"


@record()
class LaunchShape:
    """Shape of a GPU kernel's launches: the threads of a block, and how many buffers and then dims it takes."""

    threads: int
    buffers: int
    dims: int


@record()
class Source:
    """A translation unit: its text and the symbols that it defines for others."""

    text: str
    symbols: tuple[str, ...]
    effort: Effort = Effort.KERNEL
    #: Functions in the text that other sources have as well: they may be compiled apart.
    routines: tuple[Routine, ...] = ()
    #: How a kernel of a GPU is launched; None of what runs on this machine's processor.
    launch: LaunchShape | None = None

    def key(self, target: Target, options: str = "") -> str:
        """Cache key of the binary made of it."""
        parts = (self.text, ",".join(self.symbols), repr(target), options, self.effort.value)
        parts += () if self.launch is None else (repr(self.launch),)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@record()
class Binary:
    """Machine code in its container: an ELF object or an archive of them, a cubin, PTX text or an HSACO file."""

    data: bytes
    symbols: tuple[str, ...]


class Executable(Protocol):
    """Loaded code. It is never unmapped: a caller may hold an address for as long as the process lives."""

    def address(self, symbol: str) -> int:
        """The address of a symbol: of code, or of the record of a GPU's kernel (``dyn.lower.abi.DeviceKernel``)."""
        ...


class RenderedKernel(Protocol):
    """A kernel as text for a target, and what a launch of it takes."""

    @property
    def text(self) -> str: ...

    @property
    def routines(self) -> tuple[Routine, ...]:
        """The functions in it that other kernels have as well."""
        ...

    @property
    def scratch_bytes(self) -> Dim:
        """The scratch that one worker, or one block, needs, over the kernel's dims."""
        ...

    @property
    def threads(self) -> int:
        """The threads that work on one GRID iteration."""
        ...


class Backend(Protocol):
    """Compiles sources for one target, and loads them."""

    @property
    def target(self) -> Target: ...

    def unavailable(self) -> str | None:
        """The reason why the backend cannot be used on this machine, or None."""
        ...

    def compile(self, source: Source) -> Binary: ...

    def load(self, binary: Binary) -> Executable: ...


class ObjectBackend(Backend, Protocol):
    """A backend whose binaries are kept by keys, in memory and on disk, and each loaded once into this process."""

    @property
    def toolchain(self) -> str:
        """The identity of the compiler."""
        ...

    def key(self, source: Source) -> str:
        """The identity of a source's binary."""
        ...

    def build(self, source: Source) -> Built:
        """The binary of a source, and whether it was compiled now or found."""
        ...

    def build_all(self, sources: Sequence[Source]) -> list[Built]:
        """The binaries of several sources, in their order."""
        ...

    def find_all(self, objects: Sequence[tuple[str, tuple[str, ...]]]) -> list[Built] | None:
        """The binaries of these keys, each with its symbols, if none needs to be compiled."""
        ...

    def load(self, binary: Binary, imports: Mapping[str, int] | None = None) -> Executable:
        """Load a binary, whose calls lead to the addresses of ``imports`` or to functions of the process."""
        ...

    def load_once(self, binary: Binary) -> Executable:
        """Load a binary that has no state of its own; equal ones are loaded once in a process."""
        ...

    def assembly(self, source: Source) -> str:
        """The assembly of a source."""
        ...


class Compiler(Backend, Protocol):
    """A compiler of GPU kernels: of a text with several of them at once, too."""

    @property
    def toolchain(self) -> str:
        """The identity of the compiler and of what it is told."""
        ...

    def compile_kernels(self, source: Source) -> GpuImage:
        """A module of the kernels in a text, with what the compiler says of each."""
        ...

    def with_more_registers(self, source: Source) -> Source | None:
        """A kernel that spilled, told so that the compiler takes more registers in place of that; None where there is
        no other way to tell it."""
        ...


@record()
class KernelReport:
    """Resources of a GPU kernel, as its compiler tells them: registers a thread, bytes that were spilled from them,
    bytes of a thread's stack, and bytes of a block's static shared memory."""

    registers: int
    spilled_bytes: int
    stack_bytes: int
    shared_bytes: int

    def describe(self) -> str:
        """``32 registers, none spilled``"""
        spilled = f"{self.spilled_bytes} bytes spilled" if self.spilled_bytes else "none spilled"
        stack = f", {self.stack_bytes} bytes of stack" if self.stack_bytes else ""
        shared = f", {self.shared_bytes} bytes of static shared memory" if self.shared_bytes else ""
        return f"{self.registers} registers, {spilled}{stack}{shared}"


@record()
class GpuImage:
    """A module for a GPU: its binary, the text of its assembly where the compiler gives it, and its kernels'
    resources."""

    data: bytes
    assembly: str
    reports: Mapping[str, KernelReport]
