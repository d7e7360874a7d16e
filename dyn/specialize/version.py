"""Versions: programs of a function, ready to be called, made of traced ones."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn.array import captured_on, is_own
from dyn.errors import BackendUnavailableError, NotYetError
from dyn.ir.core import Dense
from dyn.late_imports import import_whole
from dyn.runtime.device_memory import DeviceArray
from dyn.runtime.driver import context_of
from dyn.runtime.loading import load_modules
from dyn.source import user_loc
from dyn.specialize.kept_panels import PANELS, frozen_of, out_of_panels
from dyn.trace.function import TracedFunction
from dyn.trace.held import Frozen, HeldBuffer
from dyn.trace.pytree import unflatten

if TYPE_CHECKING:
    from dyn.backends.device_programs import DeviceProgram
    from dyn.backends.families import Placement
    from dyn.backends.host_programs import LoadedProgram
    from dyn.compilation_record import CompilationRecord
    from dyn.explain.versions import MadeFor
    from dyn.passes.panel_weights import Panels
    from dyn.pipeline import Optimized
    from dyn.specialize.program import Program

Array = np.ndarray[Any, Any]


#: So many of the latest versions are looked at for one whose code serves.
_MOST_TRIED = 4


class Version:
    """One program of a function: what it was traced for, and shared code with the arrays that it captures."""

    #: What it was compiled for, and why beside the programs that there were; set by the function that keeps it.
    made_for: MadeFor | None = None
    because: str = ""

    def __init__(self, program: Program, loaded: LoadedProgram | DeviceProgram, code_of: Version | None = None) -> None:
        self.program = program
        #: The version whose program this is, for calls that it was not traced for (``dyn.specialize.widening``).
        self.code_of = code_of
        self.traced = program.traced
        self._loaded = loaded
        #: Whether captured arrays have changed since the native entry was last told of the program.
        self.is_renewed = False
        self.record = program.record
        self.guards = self.traced.guards

    @property
    def optimized(self) -> Optimized:
        """The lowered program; made now where the program was found whole."""
        return self.program.optimized

    @property
    def loaded(self) -> LoadedProgram | DeviceProgram:
        """The program with the arrays that it captures, as they are now."""
        if not all(one.is_current() for one in self._loaded.buffers):
            self._loaded, self.is_renewed = _loaded(self.program), True
        return self._loaded

    @property
    def on_host(self) -> LoadedProgram:
        """The program in memory, of a function whose arrays are this machine's processor's."""
        import_whole("dyn.backends.host_programs")
        from dyn.backends.host_programs import LoadedProgram

        loaded = self.loaded
        if not isinstance(loaded, LoadedProgram):
            raise NotYetError(
                f"{self.traced.function.name} was compiled for a device, which takes no arrays of this library yet.",
                remedy="leave device= out.",
            )
        return loaded

    def prepare(self, arrays: Sequence[Array | DeviceArray]) -> None:
        """Make the variants for a call with these arrays."""
        self.program.prepare([array.shape for array in (*arrays, *self.loaded.captured)])

    def call(
        self, arrays: Sequence[Array | DeviceArray], beside: Sequence[Array] | None = (), *, any_order: bool = False,
        givers: Mapping[int, Array] = MappingProxyType({}),
    ) -> Any:  # fmt: skip
        """The results' tree for arrays of the right dtypes and ranks (``LoadedProgram``).

        With ``any_order`` results may lie in the order of axes in which NumPy's arrays lie. ``givers`` are the objects
        that donated arrays of this machine's memory are views of.
        """
        run: Any = self.on_host.call_as_they_lie if any_order else self.loaded
        results = run(arrays, beside, givers) if givers else run(arrays, beside)
        return unflatten(self.traced.out_tree, list(results))


def make_program(
    traced: TracedFunction, trace_seconds: float, placement: Placement | None = None, because: str = ""
) -> Program:  # fmt: skip
    """A traced program for a placement: this machine's processor unless given."""
    load_compiler()
    import_whole("dyn.backends.families", "dyn.specialize.program")
    from dyn.backends.families import placement_of
    from dyn.specialize.program import Program

    where = placement_of(None) if placement is None else placement
    return Program(traced, where, record_of(traced, trace_seconds, because))


def record_of(traced: TracedFunction, trace_seconds: float, because: str = "") -> CompilationRecord:
    """Record of a compilation that begins, which took so long to trace, and why there is one."""
    import_whole("dyn.compilation_record")
    from dyn.compilation_record import CompilationRecord

    record = CompilationRecord(traced.function.name, because)
    record.add("trace", trace_seconds, time.perf_counter())
    return record


def build(
    traced: TracedFunction,
    trace_seconds: float = 0.0,
    shapes: Sequence[tuple[int, ...]] | None = None,
    placement: Placement | None = None,
    because: str = "",
) -> Version:
    """A traced program with its machine code in memory, for a placement (this machine's processor unless given); where
    it is compiled now, with the variants for arguments of these ``shapes``. ``because`` is why, beside others."""
    return load(make_program(traced, trace_seconds, placement, because), shapes=shapes)


def build_beside(
    known: Sequence[Version],
    traced: TracedFunction,
    arrays: Sequence[Any],
    trace_seconds: float = 0.0,
    placement: Placement | None = None,
    because: str = "",
) -> Version:
    """A version for a call with ``arrays``, for which none of the ``known`` ones is: with the code of one that serves,
    or its own."""
    import_whole("dyn.specialize.widening")
    from dyn.specialize.widening import generalized, narrowed, without_small_size_guards

    for version in [one for one in known if one.code_of is None][-_MOST_TRIED:]:
        served = generalized(version.traced, traced)
        if served is None:
            special = narrowed(version.traced, traced)
            if special is not None and special.broken(arrays) is None:
                served = generalized(version.traced, special)
        if served is not None and served.broken(arrays) is None:
            return load(version.program.under(served, record_of(traced, trace_seconds)), version)
    shapes = [np.shape(array) for array in arrays]
    return build(without_small_size_guards(traced), trace_seconds, shapes, placement, because)


def load(program: Program, code_of: Version | None = None, shapes: Sequence[tuple[int, ...]] | None = None) -> Version:
    """A program with its machine code in memory."""
    version = Version(program, _loaded(program, shapes), code_of)
    _warn_of_useless(program)
    return version


def _loaded(program: Program, shapes: Sequence[tuple[int, ...]] | None = None) -> LoadedProgram | DeviceProgram:
    """A program with its machine code and the arrays that it captures; for a device the memory of ``dyn.Array``, which
    does not change, is put there once. ArgumentError for an array on another device."""
    placement = program.placement
    where = None
    if placement.on_device:
        where = context_of(placement.target.family, placement.ordinal)
    held = [HeldBuffer(one) if is_own(one) else one for one in program.traced.captured]

    def captured(number: int) -> Array | DeviceArray:
        return captured_on(where, held[number], program.traced.function.name)

    # Devices have no panels, nor have most programs: who holds an array is then nobody's question.
    in_panels = any(not isinstance(one, int) for one in program.hidden)
    frozen = frozen_of(program.traced, held) if in_panels else {}
    hidden = [
        captured(one) if isinstance(one, int) else _panels(program, one, captured, frozen) for one in program.hidden
    ]
    loaded = program.load(hidden, shapes)
    loaded.buffers = tuple([one for one in held if isinstance(one, HeldBuffer)])
    return loaded


def _panels(
    program: Program, one: Panels, captured: Callable[[int], Array | DeviceArray], frozen: Mapping[int, Frozen]
) -> Array:
    """The panels of a captured array or a constant. A constant that the program reads nowhere else is left to them: its
    elements need not be there twice."""
    source = one.source
    owner = Frozen(source) if isinstance(source, Dense) else frozen[source]
    dense = owner.owner
    if not isinstance(dense, Dense):
        assert not isinstance(source, Dense)
        array = captured(source)
        assert not isinstance(array, DeviceArray)
        return PANELS.get(owner, array, one)
    panels = PANELS.get(owner, dense, one)
    if not program.reads_as_it_lies(source):
        dense.leave_to(partial(out_of_panels, panels, one, dense.shape))
    return panels


def _warn_of_useless(program: Program) -> None:
    """Warn, once a program, of arrays that were donated in vain. A number's memory is not worth a word."""
    function = program.traced.function
    useless = [number for number in program.code.useless if function.params[number].type.rank > 0]
    if useless:
        names = ", ".join(function.infos[number].name for number in useless)
        loc = user_loc()
        warnings.warn_explicit(
            f"{function.name}(): no result can take the memory of the donated {names}: "
            "none is known to have the same dtype and size and to be written after the last use.",
            UserWarning,
            loc.file or "<unknown>",
            loc.line,
        )


def no_more_compiling() -> BackendUnavailableError:
    """The error of a first call at the end of the interpreter."""
    return BackendUnavailableError(
        "nothing more can be compiled: the interpreter is ending, and has given up its modules.",
        remedy="make the first call earlier; functions registered with atexit still can.",
    )


def load_compiler() -> None:
    """Import what every compilation needs; ``Program`` imports the rest where it lowers."""
    if sys.is_finalizing():
        raise no_more_compiling()
    load_modules(
        "dyn.call", "dyn.explain.log", "dyn.explain.versions", "dyn.specialize.program", "dyn.specialize.widening"
    )
