"""A traced program on its way to machine code: found whole on disk, or lowered and compiled.

What was compiled before is loaded as it is; what it was lowered to is made again only if somebody asks: ``explain()``,
``as_text``, or a call that fails and has to say why. ``docs/decisions/0009`` says when a program counts as the same.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn.backends.loading import loading
from dyn.backends.programs import Found, Programs, parts_of
from dyn.backends.x86 import X86Backend
from dyn.backends.x86_runtime import Interface, LoadedProgram, load_program
from dyn.errors import IRError
from dyn.forking import lock
from dyn.ir.core import Function, buffers
from dyn.ir.identity import function_identity
from dyn.lower.target import Target
from dyn.ops import OWN_OPS
from dyn.record import Record
from dyn.trace.function import TracedFunction

if TYPE_CHECKING:
    from dyn.backends.base import Source
    from dyn.lower.host import Bind, HostProgram
    from dyn.pipeline import Optimized

Array = np.ndarray[Any, Any]


class Program:
    """A traced program for one target. Everything behind tracing is imported when it is needed, which takes 90 ms.

    Raises what optimising raises. Methods may be called from many threads.
    """

    def __init__(self, traced: TracedFunction, target: Target, record: Record) -> None:
        self.traced, self.record = traced, record
        self._backend = X86Backend(target)
        self._lock = lock()
        self._optimized: Optimized | None = None
        #: The host program that the code in memory was made from, once that is known.
        self._checked: HostProgram | None = None
        with record.timed("find"):
            self._programs = Programs(self._backend)
            self._key = self._programs.key(lambda: _identity(traced))
            #: The large constants of the traced program: those that a program found on disk was compiled with.
            self._constants = {} if self._key is None else buffers(traced.function.ops)
            known = self._programs.find(self._key)
        self._found, self._built = (None, ()) if known is None else known
        if self._found is None:
            self._optimized = self._optimize(record)

    def _optimize(self, record: Record) -> Optimized:
        _import_passes()
        from dyn.pipeline import optimize

        return optimize(self.traced, self._backend.target, record)

    @property
    def optimized(self) -> Optimized:
        """The program after all passes, with its kernels and its host program."""
        with self._lock:
            if self._optimized is None:
                self._optimized = self._optimize(Record())
            return self._optimized

    @property
    def useless(self) -> tuple[int, ...]:
        """The donated parameters, by number, that no result could take the memory of."""
        return self.optimized.useless if self._found is None else self._found.useless

    def binds(self) -> Sequence[Bind]:
        """How each dim gets its value from the arguments' sizes."""
        _import_passes()
        from dyn.lower.host import bind_dims

        return bind_dims(self.traced.function)[0]

    def load(self, captured: Sequence[Array]) -> LoadedProgram:
        """Machine code for this machine, in memory."""
        if self._found is None:
            return self._compile(captured)
        record = self.record
        record.kernels_compiled = self._found.kernels
        record.origins = tuple([one.origin for one in self._built])
        with record.timed("load"):
            constants = tuple([self._constants[name].array for name in self._found.constants])
            interface = Interface(self.traced.function, self._reuses(self._found), False, self._host, constants)
            return load_program(self._backend, self._built, self._found.kernels, interface, captured)

    def _reuses(self, found: Found) -> tuple[Any, ...]:
        if not found.reuses:
            return ()
        with loading():
            from dyn.lower.donate import Reuse

        return tuple(Reuse(output, input) for output, input in found.reuses)

    def _compile(self, captured: Sequence[Array]) -> LoadedProgram:
        from dyn.pipeline import compile_x86

        optimized, record = self.optimized, self.record
        loaded = compile_x86(optimized, captured, self._backend, record)
        # A library call without native code is an op, with attributes that depend on the sizes: it is not written down.
        # Nor is a constant that a pass has made.
        constants = tuple([dense.content.hex() for dense in optimized.host.constants])
        if self._key is not None and not loaded.interface.calls and all(c in self._constants for c in constants):
            _require_same_interface(self.traced.function, optimized.function)
            reuses = tuple((reuse.output, reuse.input) for reuse in optimized.host.reuses)
            parts = parts_of(self._backend, record.sources)
            found = Found(parts, record.kernels_compiled, reuses, optimized.useless, constants)
            self._programs.keep(self._key, found)
        return loaded

    def sources(self) -> tuple[Source, ...]:
        """The texts of the kernels, of the host program and of the guards."""
        if self.record.sources:
            return self.record.sources
        optimized = self.optimized
        from dyn.pipeline import render

        return render(optimized).sources

    def code(self, dialect: str) -> str:
        """The LLVM IR (``"llvm"``) or the assembly of everything that was compiled."""
        return "\n".join([s.text if dialect == "llvm" else self._backend.assembly(s) for s in self.sources()])

    def _host(self) -> HostProgram:
        """The host program that the code was made from: its checks are known by their numbers."""
        if self._checked is not None:
            return self._checked
        if self._found is not None and parts_of(self._backend, self.sources()) != self._found.parts:
            raise IRError(
                f"{self.traced.function.name}: a call failed, and why is not known: the code found in the cache "
                "is that of another program.",
                remedy="this is a bug in dyn; please report it with the program, and clear the cache.",
            )
        self._checked = self.optimized.host
        return self._checked


@functools.lru_cache(maxsize=1)
def _import_passes() -> None:
    with loading():
        from dyn import pipeline

        _ = pipeline


def _identity(traced: TracedFunction) -> str | None:
    """What a traced program is; None where that cannot be said."""
    identity = function_identity(traced.function, OWN_OPS, traced.guards)
    return None if identity is None else f"{identity} {len(traced.guards)} {traced.donated}"


def _require_same_interface(traced: Function, optimized: Function) -> None:
    """Passes keep what a caller sees; whoever finds the program knows the traced function alone."""
    seen, kept = [
        (
            function.name,
            [(value.dtype, len(value.shape)) for value in (*function.params, *function.results)],
            [info.hidden for info in function.infos],
        )
        for function in (traced, optimized)
    ]
    if seen != kept:
        raise IRError(f"{traced.name}: passes have changed what a caller sees, {seen}, to {kept}.")
