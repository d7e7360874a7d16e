"""dyn's programs as JAX calls them: of flat arrays, traced once for every shape; and what becomes of them.

A :class:`ProgramFamily` is a function of flat arrays, and makes programs of it, one for each choice of dtypes and
ranks, and of Python branches on sizes. JAX knows the sizes whenever it traces, so that a program is found, and what it
demands of sizes is checked, before anything runs. Machine code is made when a program first runs, or is lowered.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyn import config, dtypes
from dyn.backends.reference import bind_symbols
from dyn.dtypes import DType
from dyn.errors import DynError, NotYetError, UnsupportedOpError
from dyn.fork_safety import lock
from dyn.interop.jax.exported import ExportedSignature, exported_program
from dyn.shapes import Dim, Symbol, evaluate, first_broken, format_dim, free_symbols
from dyn.specialize import version as specialized
from dyn.specialize.call_arguments import compiling_with
from dyn.specialize.table import ProgramTable
from dyn.trace.annotations import Axes
from dyn.trace.context import Trace, current_trace
from dyn.trace.function import LeafSpec, TracedFunction, trace_function
from dyn.trace.gradients import linearize
from dyn.trace.lift import is_liftable, lift, settled_dtype
from dyn.trace.split_linearization import Half, declared_axes, split_derivative, write_second_half
from dyn.trace.tracer import Tracer
from dyn.transforms import jvp, vjp, vmap

Array = np.ndarray[Any, Any]
#: What a program is made of: the arrays as tracers, to the results, and what the one who made it wants to know.
Body = Callable[[list[Tracer]], tuple[list[Any], Any]]


@dataclass(frozen=True, slots=True)
class Aval:
    """An array as JAX's traces know it: its sizes are numbers, or JAX's symbols."""

    dtype: DType
    shape: tuple[Any, ...]
    weak: bool = False

    @property
    def symbolic(self) -> bool:
        return not all(isinstance(size, int) for size in self.shape)


class FamilyProgram:
    """One program of a family."""

    def __init__(self, family: ProgramFamily, traced: TracedFunction, told: Any, seconds: float) -> None:
        self.family, self.traced, self.told = family, traced, told
        self._seconds = seconds
        self._lock = lock()
        self._compiled: specialized.Version | None = None
        self._exported: Any = None

    def __repr__(self) -> str:
        return self.family.name

    def sizes(self, avals: Sequence[Any]) -> dict[Symbol, int]:
        """The size of each dim; ShapeError where arguments do not agree with what is declared."""
        return bind_symbols(self.traced.function, [*avals, *self.traced.captured])

    def fits(self, avals: Sequence[Aval]) -> bool:
        """Tell whether Python branches on sizes would go the same way."""
        if not self.traced.guards:
            return True
        if any(aval.symbolic for aval in avals):
            return False
        env = self.sizes(avals)
        return first_broken(self.traced.guards, env) is None

    def results(self, avals: Sequence[Any]) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
        """The shapes and dtypes of the results; ShapeError for sizes that the program does not take."""
        function = self.traced.function
        env = self.sizes(avals)
        for relation in function.facts.relations:
            symbols = relation.symbols()
            if symbols <= env.keys() and not relation.holds(env):
                raise relation.error(
                    relation.failure(env),
                    loc=relation.reason.loc,
                    notes=tuple([f"{s.name} is {s.origin} = {env[s]}" for s in sorted(symbols, key=lambda s: s.uid)]),
                    remedy=relation.remedy,
                )
        made: list[tuple[tuple[int, ...], np.dtype[Any]]] = []
        for value, name in zip(function.results, function.result_names, strict=True):
            made.append((tuple([self._size(d, env, name) for d in value.shape]), value.dtype.np))
        return made

    def _size(self, dim: Dim, env: dict[Symbol, int], name: str) -> int:
        if not free_symbols(dim) <= env.keys():
            raise NotYetError(
                f"{self.traced.function.name}: {name} has the size {format_dim(dim)}, which depends on values, and "
                "under jax.jit and its like sizes are known before values are.",
                remedy="make the call outside of JAX's transformations, or return an array of a size that is known.",
            )
        return evaluate(dim, env)

    @property
    def compiled(self) -> specialized.Version:
        """Its machine code."""
        return self._compiled_for(None)

    def _compiled_for(self, shapes: Sequence[tuple[int, ...]] | None) -> specialized.Version:
        """Its machine code; where it is compiled now, with the variants for arguments of these shapes."""
        if self._compiled is None:
            with self._lock:
                if self._compiled is None:
                    with compiling_with(batch_invariant=self.family.batch_invariant):
                        self._compiled = specialized.build(self.traced, self._seconds, shapes)
        return self._compiled

    @property
    def is_compiled(self) -> bool:
        return self._compiled is not None

    def exported(self) -> Any:
        """The program as StableHLO, for sizes that JAX does not know either."""
        with self._lock:
            if self._exported is None:
                self._exported = exported_program(
                    self.traced, lambda given: self.family.body(given)[0], ExportedSignature(one=False)
                )
        return self._exported

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """The results, in fresh arrays."""
        return self._compiled_for([array.shape for array in arrays]).on_host(arrays)


class ProgramFamily:
    """A function of flat arrays, and its programs.

    ``names`` are what errors call the arguments, and ``axes`` what is declared of the axes of the first of them.
    Results are strong, and of dtypes that JAX has: 64 bits become 32 unless ``jax_enable_x64`` is set. Rows of products
    have the same bits in every batch where it is ``batch_invariant``, and so have they in what it is transformed to.
    """

    def __init__(
        self, body: Body, name: str, names: Sequence[str], axes: Sequence[Axes | None] = (), *,
        batch_invariant: bool = False,
    ) -> None:  # fmt: skip
        self.batch_invariant = batch_invariant
        self.body, self.name, self.names = body, name, tuple(names)
        self.axes = (*axes, *[None] * (len(names) - len(axes)))
        self._lock = lock()
        self._versions: ProgramTable[FamilyProgram] = ProgramTable()
        self._derived: dict[Any, ProgramFamily] = {}

    def __repr__(self) -> str:
        return self.name

    # Programs -------------------------------------------------------------------------------------------------

    def version(self, avals: Sequence[Aval]) -> FamilyProgram:
        """The program for such arrays: found, or traced now."""
        key = (tuple([(a.dtype, len(a.shape), a.weak) for a in avals]), x64(), config.current().key())
        return self._versions.get(key, lambda version: version.fits(avals), lambda: self._trace(avals))[0]

    def _trace(self, avals: Sequence[Aval]) -> FamilyProgram:
        told: list[Any] = []
        wide = x64()

        def call(tracers: list[Tracer]) -> Any:
            results, what = self.body(tracers)
            told.append(what)
            return [settled(r, wide) for r in results]

        specs: list[LeafSpec] = []
        for name, aval, axes in zip(self.names, avals, self.axes, strict=True):
            known = None if aval.symbolic else tuple([int(n) for n in aval.shape])
            declared = (None,) * len(aval.shape) if axes is None else axes
            specs.append(LeafSpec(name, aval.dtype, declared, aval.weak, known))
        start = time.perf_counter()
        traced = trace_function(call, self.name, specs)
        return FamilyProgram(self, traced, told[0], time.perf_counter() - start)

    def programs(self) -> list[FamilyProgram]:
        """Every program that was made of it and of what it was transformed to."""
        found = list(self._versions.in_order)
        families = list(dict(self._derived).values())
        for version in found:
            families += version.told.families() if isinstance(version.told, Derivative) else ()
        return found + [version for family in families for version in family.programs()]

    def derived(self, key: Any, make: Callable[[], ProgramFamily]) -> ProgramFamily:
        """The result of ``make``, made once for each key."""
        with self._lock:
            found = self._derived.get(key)
            if found is None:
                found = self._derived[key] = make()
            return found

    # What becomes of it ---------------------------------------------------------------------------------------

    def batched(self, axes: tuple[int | None, ...]) -> ProgramFamily:
        """The function of many examples, numbered along ``axes``; all results have them along their first axis."""

        def body(tracers: list[Tracer]) -> tuple[list[Any], Any]:
            def of_one(*args: Any) -> list[Any]:
                return self.body(list(args))[0]

            return vmap(of_one, in_axes=axes)(*tracers), None

        return self.derived(("vmap", axes), lambda: self._like(body, self.name, self.names))

    def linearized(self, by: tuple[int, ...]) -> ProgramFamily:
        """The function, and all that its derivative by the arguments ``by`` needs of it.

        Results are those of the function, then residuals. What is told of a program is a :class:`Derivative`.
        """
        return self.derived(("linearize", by), lambda: self._like(self._first_half(by), self.name, self.names))

    def _like(self, body: Body, name: str, names: Sequence[str], axes: Sequence[Axes | None] = ()) -> ProgramFamily:
        """Another function, compiled as this one is."""
        return ProgramFamily(body, name, names, axes, batch_invariant=self.batch_invariant)

    def _first_half(self, by: tuple[int, ...]) -> Body:
        def body(tracers: list[Tracer]) -> tuple[list[Any], Any]:
            trace = current_trace()
            assert trace is not None, "programs are made in traces"
            wide = x64()
            places: list[int] = []

            def of_chosen(*chosen: Tracer) -> tuple[list[Tracer], list[Tracer]]:
                given = list(tracers)
                for number, tracer in zip(by, chosen, strict=True):
                    given[number] = tracer
                results = [settled(r, wide) for r in self.body(given)[0]]
                places[:] = [i for i, r in enumerate(results) if r.element_type.is_inexact]
                return [results[i] for i in places], [r for i, r in enumerate(results) if i not in places]

            chosen = tuple([tracers[i] for i in by])
            roots = tuple([self.names[i] for i in by])
            found = linearize(trace, of_chosen, chosen, roots, self.name, has_aux=True)
            smooth, rest = iter(found.result()), iter(found.aux)
            results = [next(smooth if i in places else rest) for i in range(len(places) + len(found.aux))]
            halves, sources, residuals = _halves(trace, found, tracers)
            if not all(canonical(r.element_type, wide) is r.element_type for r in residuals):
                # What JAX has no dtype for cannot go through its hands: the halves compute it again.
                told = self._again(by, of_chosen, tuple(places))
                return results, told
            told = self._derivative(halves, sources, by, tuple(places))
            return [*results, *residuals], told

        return body

    def _derivative(
        self, halves: Sequence[tuple[Half, tuple[int, ...]] | DynError], sources: Sequence[int], by: tuple[int, ...],
        places: tuple[int, ...],
    ) -> Derivative:  # fmt: skip
        names = [f"what {self.name} kept, number {i}" for i in range(len(sources))]
        families: list[ProgramFamily] = []
        for half, what in zip(halves, ("tangent", "cotangent"), strict=True):
            ends = [self.names[i] for i in by] if what == "tangent" else [f"result {i}" for i in places]
            axes: list[Axes | None] = [None] * len(sources)
            if isinstance(half, DynError):
                body = _refusal(half)
            else:
                body = _second_half(half[0], half[1], len(sources))
                for i, declared in zip(half[1], declared_axes(half[0].residuals), strict=True):
                    axes[i] = declared
            given = [f"the {what} of {e}" for e in ends]
            families.append(self._like(body, f"{what}s_of_{self.name}", [*names, *given], axes))
        return Derivative(tuple(sources), by, places, *families)

    def _again(self, by: tuple[int, ...], of_chosen: Callable[..., Any], places: tuple[int, ...]) -> Derivative:
        """The derivatives from the arguments alone."""
        count = len(self.names)

        def function(tracers: list[Tracer]) -> Callable[..., Any]:
            def of_some(*chosen: Any) -> Any:
                given = list(tracers[:count])
                for number, tracer in zip(by, chosen, strict=True):
                    given[number] = tracer
                wide = x64()
                results = [settled(r, wide) for r in self.body(given)[0]]
                return [results[i] for i in places]

            return of_some

        def push(tracers: list[Tracer]) -> tuple[list[Any], Any]:
            chosen = [tracers[i] for i in by]
            return jvp(function(tracers), chosen, tracers[count:])[1], None

        def pull(tracers: list[Tracer]) -> tuple[list[Any], Any]:
            chosen = [tracers[i] for i in by]
            return list(vjp(function(tracers), *chosen)[1](tracers[count:])), None

        tangents = [f"the tangent of {self.names[i]}" for i in by]
        cotangents = [f"the cotangent of result {i}" for i in places]
        return Derivative(
            tuple([-1 - i for i in range(count)]), by, places,
            self._like(push, f"tangents_of_{self.name}", [*self.names, *tangents]),
            self._like(pull, f"cotangents_of_{self.name}", [*self.names, *cotangents]),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class Derivative:
    """Derivative of a program: two linear functions, each the transpose of the other.

    Both take the residuals first. ``push`` takes tangents of the arguments ``by`` then, and gives those of the results
    ``places``; ``pull`` goes the other way. ``sources`` says where each residual is: a result after those of the
    function, by number, or, as ``-1 - i``, argument ``i``.
    """

    sources: tuple[int, ...]
    by: tuple[int, ...]
    places: tuple[int, ...]
    push: ProgramFamily
    pull: ProgramFamily

    def families(self) -> tuple[ProgramFamily, ProgramFamily]:
        return self.push, self.pull


def _halves(
    trace: Trace, found: Any, tracers: Sequence[Tracer]
) -> tuple[list[tuple[Half, tuple[int, ...]] | DynError], list[int], list[Tracer]]:
    """Both second halves, each with the numbers of its residuals, or why there is none; what they need, and what of it
    are results."""
    arguments = {tracer.value_in(trace): -1 - i for i, tracer in enumerate(tracers)}
    numbers: dict[Any, int] = {}
    sources, residuals = list[int](), list[Tracer]()
    halves: list[tuple[Half, tuple[int, ...]] | DynError] = []
    for forward in (True, False):
        try:
            kept, half = split_derivative(trace, found, forward=forward)
        except (UnsupportedOpError, NotYetError) as error:
            halves.append(error)  # of the other there may be one: a custom_vjp has no derivative forward
            continue
        for tracer in kept:
            value = tracer.value_in(trace)
            if value in numbers:
                continue
            numbers[value] = len(sources)
            sources.append(arguments.get(value, len(residuals)))
            if value not in arguments:
                residuals.append(tracer)
        halves.append((half, tuple([numbers[t.value_in(trace)] for t in kept])))
    return halves, sources, residuals


def _second_half(half: Half, kept: tuple[int, ...], count: int) -> Body:
    def body(tracers: list[Tracer]) -> tuple[list[Any], Any]:
        trace = current_trace()
        assert trace is not None, "programs are made in traces"
        given = tracers[count:]
        tree = tuple(given) if half.what == "tangent" else given
        return list(write_second_half(trace, half, [tracers[i] for i in kept], tree)), None

    return body


def _refusal(error: DynError) -> Body:
    def body(tracers: list[Tracer]) -> tuple[list[Any], Any]:
        raise error

    return body


# --- dtypes -----------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1)
def _jax() -> Any:
    import jax

    return jax


def x64() -> bool:
    """Tell whether JAX has 64-bit numbers here."""
    return bool(_jax().config.jax_enable_x64)


_NARROW = {
    dtypes.int64: dtypes.int32, dtypes.uint64: dtypes.uint32, dtypes.float64: dtypes.float32,
    dtypes.complex128: dtypes.complex64,
}  # fmt: skip


def canonical(dtype: DType, wide: bool) -> DType:
    """The dtype that JAX uses for another."""
    return dtype if wide else _NARROW.get(dtype, dtype)


def settled(result: Any, wide: bool) -> Tracer:
    """A result with a dtype that JAX has, and not weak. What is no array is left to who refuses it."""
    if not is_liftable(result):
        return result
    trace = current_trace()
    assert trace is not None, "programs are made in traces"
    value = lift(trace, result)
    dtype = canonical(settled_dtype(value.dtype) if value.type.weak else value.dtype, wide)
    if value.type.weak or dtype is not value.dtype:
        value = trace.emit("convert", value, dtype=dtype)
    return Tracer(trace, value)
