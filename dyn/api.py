"""``dyn.jit``: functions that are traced and compiled when they are called.

Everything behind tracing is imported by the functions that need it: a quarter of what ``import dyn`` would take.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dyn import config, dtypes
from dyn.array import adapter_of, from_numpy, result_host
from dyn.errors import ArgumentError
from dyn.frontend.compiled_function import CacheInfo, CompiledFunction
from dyn.frontend.history import note_compiled
from dyn.late_imports import import_whole
from dyn.runtime.address_space import fits
from dyn.runtime.device_memory import parse_device
from dyn.runtime.loading import load_modules
from dyn.shapes import NamedDim, keeping_recent
from dyn.shutdown import enter_call, leave_call
from dyn.source import UNKNOWN, Loc, user_loc
from dyn.specialize.arguments import ArgumentLeaf, ShapeDtypeStruct
from dyn.specialize.call_arguments import (
    BoundCall,
    CallArguments,
    JitOptions,
    OnNewShape,
    broken_guard_text,
    check_bools,
    check_on_new_shape,
)
from dyn.specialize.inline import call_in_trace
from dyn.specialize.table import ProgramTable
from dyn.specialize.version import Version, build_beside, load_compiler, no_more_compiling
from dyn.stages import Traced
from dyn.trace import random_draws
from dyn.trace.attributes import AttributeReads, objects_read
from dyn.trace.closed_numbers import closed_floats
from dyn.trace.context import current_trace
from dyn.trace.function import Declarations, LeafSpec, TracedFunction, trace_function
from dyn.trace.lift import as_numpy
from dyn.trace.pytree import tree_text, unflatten, unflatten_sorted
from dyn.trace.signature import BoundArguments, Shapes, Signature, check_compilable
from dyn.trace.tracer import Tracer, active_trace
from dyn.tracebacks import hide_own_frames, without_own_frames

if TYPE_CHECKING:
    from dyn.explain.explanation import WayToCall
    from dyn.explain.versions import MadeFor

Array = np.ndarray[Any, Any]


#: Address space for Python's own calls while it traces and lowers, which come in each other: CPython 3.11 goes astray
#: where there is none for a frame.
_TRACE_BYTES = 4 << 20
#: So many of the latest programs of a function's relatives are looked at for one whose code serves.
_MOST_RELATED = 2


def _is_readable(bound: BoundArguments) -> bool:
    """Whether the native entry reads a call's arrays itself, rather than what they were viewed as."""
    import_whole("dyn.call")
    from dyn.call import is_readable

    return all(map(is_readable, bound.leaves))


def _counts(version: Version) -> CacheInfo:
    """Counts of a version: whether it was compiled, its guards, and the seconds that it took."""
    seconds = sum(version.record.seconds.values())
    return CacheInfo(compiles=version.code_of is None, guards=len(version.guards), compile_seconds=seconds)


def _stand_in(leaf: Any) -> Any:
    """An array of the shape and dtype that a ShapeDtypeStruct says, which takes no memory; itself for anything else."""
    if not isinstance(leaf, ShapeDtypeStruct):
        return leaf
    return np.broadcast_to(np.zeros((), dtypes.dtype(leaf.dtype).np), leaf.sizes())


class Jitted(CompiledFunction[BoundCall, Version]):
    """Function that is compiled once for every shape. Made by :func:`jit`.

    Attributes:
        function: the function that is compiled.
        parameter_names: arguments that may be passed by position.
        static_names: arguments that are static.
    """

    def __init__(self, function: Callable[..., Any], signature: Signature, options: JitOptions) -> None:
        super().__init__(function, signature.name, on_new_shape=options.on_new_shape)
        self._arguments = CallArguments(signature, options)
        self._signature = signature
        self._options = options
        #: What was traced, for calls from outside and in other traces.
        self._traced: ProgramTable[TracedFunction] = ProgramTable()
        # Functions of the same arguments, whose programs make calls of this one where they compute the same.
        self.relatives: Callable[[], Iterable[Jitted]] = tuple
        # Why there is this function, where a front end has one for each way to call another.
        self.reason = ""
        #: How many calls in Python found their program.
        self._hits = 0

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The arguments that may be passed by position."""
        return tuple(self._signature.names)

    @property
    def function(self) -> Callable[..., Any]:
        """The function that is compiled."""
        return self._signature.function

    @property
    def declares(self) -> bool:
        """True where anything is declared of its arguments' dims and dtypes."""
        signature, declared = self._signature, self._options.declarations
        return bool(signature.shapes or signature.annotations or declared.dims or declared.constraints)

    @property
    def batch_invariant(self) -> bool:
        """True where rows of its products have the same bits in every batch by an option of its own."""
        return self._options.batch_invariant

    @property
    def static_names(self) -> frozenset[str]:
        """The arguments that are static."""
        return self._signature.static_names

    def __repr__(self) -> str:
        return f"dyn.jit({self._signature.name})"

    # Calling --------------------------------------------------------------------------------------------------

    def _call_slow(self, /, *args: Any, **kwargs: Any) -> Any:
        enter_call()
        try:
            return self._try_call(args, kwargs)  # a trace that asks to be made again is another function's
        except ImportError:
            if sys.is_finalizing():
                raise no_more_compiling() from None
            raise
        except Exception as error:
            hide_own_frames(error)
            raise
        finally:
            leave_call()

    def _try_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        bound = self._signature.bind(args, kwargs)
        if current_trace() is not None or any(isinstance(leaf, Tracer) for leaf in bound.leaves):
            trace = active_trace(*bound.leaves)
            assert trace is not None, "a tracer has a trace"
            return call_in_trace(trace, self._traced, self._signature, self._options.declarations, bound)
        viewed, host = self._arguments.viewed(bound)
        placement = self._arguments.placement(viewed)
        if placement is None and viewed is not bound and not self._signature.donated_names and not _is_readable(bound):
            # What the native entry cannot read it can once it is NumPy's.
            positional, named = self._signature.arguments(viewed, viewed.leaves, unflatten)
            return from_numpy(host, self(*positional, **named))
        call = self._arguments.read(bound, viewed, host, placement)
        program, made = self._program_for(call)
        self._hits += not made
        result = self._arguments.run(program, call)
        self._accept_call(args, kwargs, call, program)
        return result

    def _bind_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, stands: bool = False) -> BoundCall:
        bound = self._signature.bind(args, kwargs)
        bound = replace(bound, leaves=[_stand_in(leaf) for leaf in bound.leaves]) if stands else bound
        viewed, host = self._arguments.viewed(bound)
        return self._arguments.read(bound, viewed, host, self._arguments.placement(viewed))

    def _accept_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], call: BoundCall, program: Version) -> None:
        """Leave calls like this one, under its settings, to the native entry, if it can make them."""
        bound, version = call.bound, program
        if version.is_renewed:  # what the entry knows is for other memory
            version.is_renewed = False
            self._forget_calls()
        table = self._call_table() if version.loaded.native else None
        if table is not None:
            import_whole("dyn.call")
            from dyn.call import CallForm, HeldBuffer, HeldDict, HeldList, Results, Surroundings

            hosts = [host for host in map(adapter_of, bound.leaves) if host is not None]
            results = Results.of(version.traced.out_tree, result_host(hosts))
            held = version.traced.held
            around = Surroundings(
                [one for one in held if isinstance(one, HeldDict)],
                lists=[one for one in held if isinstance(one, HeldList)],
                buffers=[one for one in held if isinstance(one, HeldBuffer)],
            )
            table.add(
                lambda: CallForm.of(self._signature, bound, args, kwargs, call.settings), version.loaded, results,
                donated=lambda form: self._arguments.donated_arrays(bound, version), around=around,
                copies=self._options.device is not None,
            )  # fmt: skip
        self._arguments.use_up(bound, version)

    def version_of(self, *args: Any) -> Version:
        """Program for NumPy arrays, made where there is none yet.

        Args:
            *args: arrays.

        Returns:
            The program with its code: a record of dyn's own.

        Raises:
            TraceError: if the function cannot be traced.
        """
        return self._program_for(self._bind_call(args, {}))[0]

    def is_compiled_for(self, *args: Any, **kwargs: Any) -> bool:
        """Tell whether a call with these arrays would find its program, and trace nothing.

        Args:
            *args: arguments of the call, by position.
            **kwargs: arguments by name.

        Returns:
            A Python bool.

        Example:
            >>> f = dyn.jit(lambda x: x + 1)
            >>> _ = f(np.zeros(3))
            >>> f.is_compiled_for(np.zeros(5))
            True
        """
        return self._find_program(self._bind_call(args, kwargs)) is not None

    # Programs -------------------------------------------------------------------------------------------------

    def _program_fits(self, program: Version, call: BoundCall) -> bool:
        return program.traced.matches(call.arrays)

    def _while_making(self) -> AbstractContextManager[object]:
        return keeping_recent()

    def _program_for(self, call: BoundCall) -> tuple[Version, bool]:
        version, made = super()._program_for(call)
        if made:
            import_whole("dyn.explain.log")
            from dyn.explain.log import log_compiled

            log_compiled(self._name, version.record, version.guards)
            if version.code_of is None:
                stages = tuple(version.record.seconds.items())
                note_compiled(self._name, version.because, stages, version.record.kernels_compiled, user_loc())
                self._note_program()
        return version, made

    def _new_program(self, call: BoundCall) -> Version:
        load_compiler()
        if not fits(_TRACE_BYTES):
            raise MemoryError("no memory to compile")
        if lost := self._programs.forget(call.key, lambda version: version.traced.is_gone()):
            self._forget(lost)
            anywhere = self._arguments.key(call.viewed, call.leaves)
            self._traced.forget(anywhere, lambda traced: traced.is_gone())
            self._forget_calls()
        changed = [version for version in self._programs.of(call.key) if not version.traced.is_current()]
        known = [version for version in self._programs.of(call.key) if version not in changed]
        if known and self._on_new_shape == "error":
            raise self._second_program(broken_guard_text(known[-1], call.arrays), also=", or remove the branch")
        import_whole("dyn.explain.log")
        from dyn.explain.log import log_miss

        if call.placement is None:
            import_whole("dyn.call")
            from dyn.call import begin_loading

            begin_loading()
        made_for = self._described(call.viewed, call.leaves)
        because = self._because(made_for, known, changed, call.arrays) or self.reason
        log_miss(self._signature.name, because)
        start = time.perf_counter()
        traced, is_new = self._traced.get(
            self._arguments.key(call.viewed, call.leaves), lambda traced: traced.matches(call.arrays),
            lambda: self._traced_with(call.viewed, call.leaves),
        )  # fmt: skip
        self._traces += is_new
        related = [v for one in self.relatives() for v in one._programs.of(call.key) if v.code_of is None]
        with self._options.compiling():
            version = build_beside(
                [*related[-_MOST_RELATED:], *known], traced.ended().with_hidden_numbers(), call.arrays,
                time.perf_counter() - start, call.placement, because,
            )  # fmt: skip
        if version.code_of is not None:
            because += "; but " if because else "another trace; but "
            because += "an earlier program computes the same there, and its code runs"
        version.made_for, version.because = made_for, because
        return version

    def _described(self, bound: BoundArguments, leaves: list[ArgumentLeaf]) -> MadeFor:
        """A call's arguments, static values and settings, which decide on its program, as ``explain`` shows them."""
        import_whole("dyn.explain.versions")
        from dyn.explain.versions import ArgumentKey, MadeFor, shown

        names = self._signature.leaf_names(bound)
        settings = config.current()
        return MadeFor(
            tuple(ArgumentKey(n, leaf.dtype.name, leaf.rank, leaf.weak) for n, leaf in zip(names, leaves, strict=True)),
            tuple((n, tree_text(tree)) for n, tree in zip(bound.names, bound.tree.children(), strict=True)),
            tuple((s.name, shown(s.value)) for s in bound.static),
            tuple((f"the setting {name}", getattr(settings, name)) for name in config.CODE_SETTINGS),
        )

    def _because(
        self, made_for: MadeFor, same_key: Sequence[Version], changed: Sequence[Version], arrays: Sequence[Array]
    ) -> str:
        """Reasons for another program: the differences of a call from the nearest of the programs that there are, among
        them those of the same key, and those that have read attributes which have ``changed``."""
        import_whole("dyn.explain.versions")
        from dyn.explain.versions import broken_guard, why_new

        if changed and not same_key:
            return f"{changed[-1].traced.changed()} has changed"
        versions = self._programs.in_order
        known = [version.made_for for version in versions if version.made_for is not None]
        broken = [broken_guard(v.guards, v.traced.sizes_of(arrays)) if v in same_key else "" for v in versions]
        return why_new(made_for, known, broken)

    # Stages ---------------------------------------------------------------------------------------------------

    def _traced_with(self, bound: BoundArguments, leaves: list[ArgumentLeaf]) -> TracedFunction:
        names = self._signature.leaf_names(bound)
        axes, wanted = self._signature.declared(bound, [leaf.rank for leaf in leaves])
        donated = self._signature.donated(bound)
        specs: list[LeafSpec] = []
        for leaf, name, declared, dtype, given in zip(leaves, names, axes, wanted, donated, strict=True):
            self._signature.check_dtype(name, leaf.dtype, dtype)
            if leaf.array is None:
                declared = tuple(d if own is None else own for own, d in zip(leaf.shape, declared, strict=True))
            sizes = None if leaf.array is None else leaf.array.shape
            specs.append(LeafSpec(name, leaf.dtype, declared, leaf.weak, sizes, given))

        def call(tracers: list[Tracer]) -> Any:
            return self._signature.call(bound, tracers, unflatten_sorted)

        function, name = self._signature.function, self._signature.name
        with random_draws.warned_of(function, name):
            return trace_function(
                call, name, specs, self._options.declarations, closed_floats=closed_floats(function), ends=False,
                reads=AttributeReads(objects_read(function, bound.static)), function=function,
            )  # fmt: skip

    def _trace_stage(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
        bound = self._signature.bind(args, kwargs)
        leaves = self._arguments.leaves(bound)
        start = time.perf_counter()
        traced = self._traced_with(bound, leaves).ended()
        return Traced(self._arguments, bound, leaves, traced, time.perf_counter() - start)

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        call = self._bind_call(args, kwargs, stands=True)
        self._program_for(call)[0].prepare(call.arrays)

    @without_own_frames
    def reference(self, *args: Any, **kwargs: Any) -> Any:
        """Call of the function on the NumPy oracle, op by op: slow, and independent of code generation.

        Args:
            *args: arguments of the call, by position.
            **kwargs: arguments by name.

        Returns:
            What the function gives.

        Example:
            >>> dyn.jit(lambda x: x + 1).reference(np.array([1, 2]))
            array([2, 3])
        """
        import_whole("dyn.backends.reference")
        from dyn.backends.reference import run_reference

        bound = self._signature.bind(args, kwargs)
        leaves = self._arguments.leaves(bound)
        arrays = self._arguments.arrays(leaves)
        traced = self._traced_with(bound, leaves).ended()
        captured = [as_numpy(a) for a in traced.captured]
        return unflatten(traced.out_tree, list(run_reference(traced.function, [*arrays, *captured])))

    # What there is --------------------------------------------------------------------------------------------

    def _info(self, program: Version) -> CacheInfo:
        return _counts(program)

    def _made_for(self, program: Version) -> MadeFor | None:
        return None if program.code_of is not None else program.made_for

    def _made_by(self, program: Version) -> tuple[str, Loc]:
        reason = program.guards[-1].reason if program.guards else None
        return ("", UNKNOWN) if reason is None else (reason.text, reason.loc or UNKNOWN)

    def _way(self, program: Version) -> WayToCall:
        load_modules("dyn.explain.explanation", "dyn.explain.report")
        from dyn.explain.explanation import WayToCall
        from dyn.explain.report import make_report

        code = program.program
        states, resources = code.deferred_states(), code.kernel_resources()
        report = make_report(
            program.optimized, program.traced, program.record, program.because, states, resources,
            program.program.bytes_in_panels,
        )  # fmt: skip
        return WayToCall((report,))

    def cache_info(self) -> CacheInfo:
        return super().cache_info() + CacheInfo(hits=self._hits)


def jit(
    function: Callable[..., Any] | None = None,
    /,
    *,
    shapes: Shapes = None,
    constraints: str | Iterable[str] = (),
    dims: Iterable[NamedDim] = (),
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
    donate_argnums: int | Sequence[int] = (),
    donate_argnames: str | Sequence[str] = (),
    device: str | None = None,
    on_new_shape: OnNewShape = "compile",
    batch_invariant: bool = False,
) -> Any:
    """Compile a function once for every shape.

    Works bare (``@dyn.jit``) or with options. Every axis of every array argument is symbolic unless ``shapes`` or an
    annotation (``x: dyn.f32["b", "s", 768]``) makes it static; sizes 0 and 1 are sizes like others. A Python branch on
    a dim is proved, or a guard: a call whose sizes go another way is traced again.

    Results are of the kind that the arrays among the arguments are, NumPy's, PyTorch's or JAX's; they are
    :class:`dyn.Array` where those are of several kinds or of another, and NumPy's where there are none. Arrays that the
    function closes over, and Python numbers, have no say. No argument's elements are copied unless it lies oddly
    (strided, misaligned, in another byte order).

    Donated arguments are given away: neither they nor views of them may be used after the call, and what they hold is
    undefined even where the call runs out of memory.

    - A result takes an argument's memory if it has the same dtype and size, and is written when nothing reads the
      argument any more: after its last use, element by element with it (``w - 0.1 * g``), or as the argument with some
      places updated, which then costs what is updated and not what there is. It is the argument itself if it has its
      shape.
    - As without donation, results are fresh where the argument is no writable, row-major NumPy array in memory of
      NumPy's own or of another call's result, or shares memory with another array of the call, and in calls with arrays
      of other libraries.
    - A donated :class:`dyn.Array` that a result could take is used up, whether that takes its memory or, as views of it
      are left, does not: it raises DonatedError after the call.
    - A UserWarning at compile time names arguments that no result could take. In another function's trace donation has
      no effect.

    Args:
        function: function of trees of arrays and static arguments; None: a decorator is made.
        shapes: dims of the arguments: a string with a group for each (``"b s 768, 768 n"``), or such strings in a list
            by position, a dict by name, or trees like the arguments. An integer makes an axis static; a name that is
            used twice is an equality, checked at each call.
        constraints: relations of dims that are checked at each call: ``"s <= 512, n == 2*s"``.
        dims: ranges of names: ``dyn.Dim("s", max=512)``.
        static_argnums: positions of arguments that are compared by ``==`` and hashed; each value has a program of its
            own.
        static_argnames: the same by names.
        donate_argnums: positions of arguments that are given away, all arrays of their trees.
        donate_argnames: the same by names.
        device: ``"cuda"``, ``"cuda:1"``, ``"rocm"``, …: the function runs there: NumPy's arrays are copied there at
            each call, and results are :class:`dyn.Array` there. None: it runs where its arguments are.
        on_new_shape: ``"compile"``, or ``"error"``: raise instead of compiling a second program when a Python branch on
            a dim goes another way.
        batch_invariant: have each row of a product of matrices have the same bits however many rows there are, at some
            cost, as the setting of this name does for all functions. Traced into another one, that one's option counts.

    Returns:
        A :class:`Jitted`, called as the function is.

    Raises:
        ArgumentError: if a declaration is none, or arguments of a call do not fit it.
        TraceError: when called, if the function cannot be traced.
        ShapeError: when called, if sizes do not fit, before anything is computed.
        BackendUnavailableError: when called, if there is no such device.

    Example:
        >>> softmax = dyn.jit(lambda x: dnp.exp(x) / dnp.exp(x).sum(-1, keepdims=True))
        >>> softmax(np.zeros((1, 2))), softmax(np.zeros((0, 5))).shape, softmax.cache_info().compiles
        (array([[0.5, 0.5]]), (0, 5), 1)
    """
    if function is None:
        return functools.partial(
            jit, shapes=shapes, constraints=constraints, dims=dims, static_argnums=static_argnums,
            static_argnames=static_argnames, donate_argnums=donate_argnums, donate_argnames=donate_argnames,
            device=device, on_new_shape=on_new_shape, batch_invariant=batch_invariant,
        )  # fmt: skip
    if not callable(function):
        raise ArgumentError(
            f"jit takes a function, not a {type(function).__name__}.", remedy="write @dyn.jit above a def."
        )
    check_compilable(function)
    if device is not None:
        parse_device(device)
    check_on_new_shape(on_new_shape)
    check_bools("dyn.jit", batch_invariant=batch_invariant)
    texts = (constraints,) if isinstance(constraints, str) else tuple(constraints)
    options = JitOptions(Declarations(tuple(dims), texts), on_new_shape, device, batch_invariant)
    signature = Signature(function, shapes, static_argnums, static_argnames, donate_argnums, donate_argnames)
    return Jitted.single()(function, signature, options)


def jit_of_arrays(
    function: Callable[..., Any], called: Sequence[str], *, shapes: Shapes = None, dims: Iterable[NamedDim] = (),
    device: str | None = None, on_new_shape: OnNewShape = "compile", batch_invariant: bool = False,
) -> Jitted:  # fmt: skip
    """A front end's function of trees of arrays, whose first leaves are ``called`` as its users call them."""
    signature = Signature(function, shapes, (), (), called=called)
    options = JitOptions(Declarations(tuple(dims), ()), on_new_shape, device, batch_invariant)
    return Jitted.single()(function, signature, options)
