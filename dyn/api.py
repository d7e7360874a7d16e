"""``dyn.jit``: functions that are traced and compiled when they are called.

Everything behind tracing is imported by the functions that need it: a quarter of what ``import dyn`` would take.

This file is longer than most: half of it says what each function takes and gives.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import MethodType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dyn import config, dtypes
from dyn.array import adapter_of, from_device, from_numpy, result_host
from dyn.config import Config
from dyn.errors import (
    ArgumentError,
    ShapeError,
)
from dyn.hosts import keeps_order
from dyn.late_imports import import_whole
from dyn.native_callable import NativeCallable
from dyn.runtime.address_space import fits
from dyn.runtime.device_memory import parse_device
from dyn.runtime.loading import load_modules
from dyn.shapes import NamedDim, keeping_recent
from dyn.shutdown import enter_call, leave_call
from dyn.specialize.arguments import ArgumentLeaf, ShapeDtypeStruct, prepared_calls
from dyn.specialize.call_arguments import CallArguments, JitOptions, broken_guard_text
from dyn.specialize.inline import call_in_trace
from dyn.specialize.table import ProgramTable
from dyn.specialize.version import (
    Version,
    build_beside,
    load_compiler,
    no_more_compiling,
)
from dyn.stages import Lowered, Traced
from dyn.trace.attributes import AttributeReads, objects_read
from dyn.trace.closed_numbers import closed_floats
from dyn.trace.context import current_trace
from dyn.trace.function import Declarations, LeafSpec, TracedFunction, trace_function
from dyn.trace.lift import as_numpy
from dyn.trace.pytree import tree_text, unflatten, unflatten_sorted
from dyn.trace.signature import BoundArguments, Shapes, Signature
from dyn.trace.tracer import Tracer, active_trace

if TYPE_CHECKING:
    from dyn.backends.families import Placement
    from dyn.explain.explanation import Explanation
    from dyn.explain.versions import MadeFor

Array = np.ndarray[Any, Any]


#: Address space for Python's own calls while it traces and lowers, which come in each other: CPython 3.11 goes astray
#: where there is none for a frame.
_TRACE_BYTES = 4 << 20
#: So many of the latest programs of a function's relatives are looked at for one whose code serves.
_MOST_RELATED = 2


class CacheInfo(NamedTuple):
    """Counts of a jitted function.

    Attributes:
        compiles: programs compiled.
        hits: calls that found one.
        guards: guards recorded.
        compile_seconds: seconds of compiling.
    """

    compiles: int
    hits: int
    guards: int
    compile_seconds: float


def _is_readable(bound: BoundArguments) -> bool:
    """Whether the native entry reads a call's arrays itself, rather than what they were viewed as."""
    import_whole("dyn.call")
    from dyn.call import is_readable

    return all(map(is_readable, bound.leaves))


def _counts(versions: Iterable[Version]) -> tuple[int, int, float]:
    """Counts of versions: compiled ones, their guards, and the seconds that they took."""
    known = list(versions)
    seconds = sum(sum(v.record.seconds.values()) for v in known)
    return sum(v.code_of is None for v in known), sum(len(v.guards) for v in known), seconds


def _stand_in(leaf: Any) -> Any:
    """An array of the shape and dtype that a ShapeDtypeStruct says, which takes no memory; itself for anything else."""
    if not isinstance(leaf, ShapeDtypeStruct):
        return leaf
    sizes = [size for size in leaf.shape if isinstance(size, int)]
    if len(sizes) != len(leaf.shape):
        raise ArgumentError(
            f"a call cannot be prepared for the shape {leaf.shape}.", remedy="give a number for each size."
        )
    return np.broadcast_to(np.zeros((), dtypes.dtype(leaf.dtype).np), sizes)


class Jitted(NativeCallable):
    """Function that is compiled once for every shape. Made by :func:`jit`.

    Attributes:
        function: the function that is compiled.
        parameter_names: arguments that may be passed by position.
        static_names: arguments that are static.
    """

    def __init__(self, function: Callable[..., Any], signature: Signature, options: JitOptions) -> None:
        super().__init__()
        functools.update_wrapper(self, function)
        self._arguments = CallArguments(signature, options)
        self._signature = signature
        self._options = options
        #: What was traced, for calls from outside and in other traces, and what of that was compiled.
        self._traces: ProgramTable[TracedFunction] = ProgramTable()
        self._versions: ProgramTable[Version] = ProgramTable()
        #: Functions of the same arguments, whose programs make calls of this one where they compute the same.
        self.relatives: Callable[[], Iterable[Jitted]] = tuple
        self._hits = 0
        #: How many programs were compiled, in how many seconds, that are forgotten, for attributes that they read.
        self._forgotten = (0, 0.0)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Methods: ``self`` becomes the first argument."""
        return self if instance is None else MethodType(self, instance)

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
    def static_names(self) -> frozenset[str]:
        """The arguments that are static."""
        return self._signature.static_names

    def __repr__(self) -> str:
        return f"dyn.jit({self._signature.name})"

    def __reduce__(self) -> str:
        """Pickled by its name in its module, as a function is; without one it cannot be pickled."""
        return getattr(self, "__qualname__", self._signature.name)

    # Calling --------------------------------------------------------------------------------------------------

    def _call_slow(self, /, *args: Any, **kwargs: Any) -> Any:
        enter_call()
        try:
            return self._call(args, kwargs)
        except ImportError:
            if sys.is_finalizing():
                raise no_more_compiling() from None
            raise
        finally:
            leave_call()

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        signature, settings = self._signature, config.current()
        bound = signature.bind(args, kwargs)
        if current_trace() is not None or any(isinstance(leaf, Tracer) for leaf in bound.leaves):
            trace = active_trace(*bound.leaves)
            assert trace is not None, "a tracer has a trace"
            return call_in_trace(trace, self._traces, self._signature, self._options.declarations, bound)
        viewed, host = self._arguments.viewed(bound)
        placement = self._arguments.placement(viewed)
        if placement is not None:
            leaves = self._arguments.leaves(viewed)
            arrays = self._arguments.arrays(leaves)
            version, made = self._version(viewed, leaves, arrays, placement)
            self._hits += not made
            result = version.call(arrays)
            self._accept(args, kwargs, bound, version, settings)
            self._arguments.use_up(bound, version)
            return from_device(host, result)
        if viewed is not bound and not signature.donated_names and not _is_readable(bound):
            # What the native entry cannot read it can once it is NumPy's.
            positional, named = signature.arguments(viewed, viewed.leaves, unflatten)
            return from_numpy(host, self(*positional, **named))
        leaves = self._arguments.leaves(viewed)
        arrays = self._arguments.arrays(leaves)
        version, made = self._version(viewed, leaves, arrays)
        self._hits += not made
        originals = () if viewed is bound else self._arguments.originals(bound)
        givers = self._arguments.givers(viewed)
        result = version.call(arrays, originals, any_order=keeps_order(host), givers=givers)
        self._accept(args, kwargs, bound, version, settings)
        self._arguments.use_up(bound, version)
        return from_numpy(host, result)

    def _accept(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], bound: BoundArguments, version: Version, settings: Config
    ) -> None:
        """Leave calls like this one, which was made under these settings, to the native entry, if it can make them."""
        table = self._call_table() if version.loaded.native else None
        if table is not None:
            import_whole("dyn.call")
            from dyn.call import CallForm, HeldDict, HeldList, Results, Surroundings

            hosts = [host for host in map(adapter_of, bound.leaves) if host is not None]
            results = Results.of(version.traced.out_tree, result_host(hosts))
            held = version.traced.held
            around = Surroundings(
                [one for one in held if isinstance(one, HeldDict)],
                lists=[one for one in held if isinstance(one, HeldList)],
            )
            table.add(
                lambda: CallForm.of(self._signature, bound, args, kwargs, settings), version.loaded, results,
                donated=lambda form: self._arguments.donated_arrays(bound, version), around=around,
                copies=self._options.device is not None,
            )  # fmt: skip

    def version_of(self, *args: Any) -> Version:
        """Program for NumPy arrays, made where there is none yet.

        Args:
            *args: arrays.

        Returns:
            The program with its code: a record of dyn's own.

        Raises:
            TraceError: if the function cannot be traced.
        """
        bound = self._signature.bind(args, {})
        leaves = self._arguments.leaves(bound)
        return self._version(bound, leaves, self._arguments.arrays(leaves), self._arguments.placement(bound))[0]

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
        reader = self._arguments
        viewed, _ = reader.viewed(reader.bind(args, kwargs))
        leaves = reader.leaves(viewed)
        arrays, key = reader.arrays(leaves), reader.key(viewed, leaves, reader.placement(viewed))
        return self._versions.find(key, lambda version: version.traced.matches(arrays)) is not None

    def _version(
        self, bound: BoundArguments, leaves: list[ArgumentLeaf], arrays: list[Any], placement: Placement | None = None
    ) -> tuple[Version, bool]:
        """The program for a call: found, or traced and compiled now; and whether it was made."""
        key = self._arguments.key(bound, leaves, placement)

        def make() -> Version:
            load_compiler()
            if not fits(_TRACE_BYTES):
                raise MemoryError("no memory to compile")
            if lost := self._versions.forget(key, lambda version: version.traced.is_gone()):
                compiles, _, seconds = _counts(lost)
                self._forgotten = (self._forgotten[0] + compiles, self._forgotten[1] + seconds)
                self._traces.forget(self._arguments.key(bound, leaves), lambda traced: traced.is_gone())
                self._forget_calls()
            changed = [version for version in self._versions.of(key) if not version.traced.is_current()]
            known = tuple([version for version in self._versions.of(key) if version not in changed])
            if known and self._options.on_new_shape == "error":
                broken = broken_guard_text(known[-1], arrays)
                raise ShapeError(
                    f"{self._signature.name}() needs a second program for these arguments: it has one for {broken}.",
                    remedy="call it with such arguments before on_new_shape='error' is set, or remove the branch.",
                )
            import_whole("dyn.explain.log")
            from dyn.explain.log import log_miss

            if placement is None:
                import_whole("dyn.call")
                from dyn.call import begin_loading

                begin_loading()
            made_for = self._made_for(bound, leaves)
            because = self._because(made_for, known, changed, arrays)
            log_miss(self._signature.name, because)
            start = time.perf_counter()
            anywhere = self._arguments.key(bound, leaves)
            traced, _ = self._traces.get(
                anywhere, lambda traced: traced.matches(arrays), lambda: self._trace(bound, leaves)
            )
            related = [v for one in self.relatives() for v in one._versions.of(key) if v.code_of is None]
            version = build_beside(
                [*related[-_MOST_RELATED:], *known], traced.ended().with_hidden_numbers(), arrays,
                time.perf_counter() - start, placement,
            )  # fmt: skip
            if version.code_of is not None:
                because += "; but " if because else "another trace; but "
                because += "an earlier program computes the same there, and its code runs"
            version.made_for, version.because = made_for, because
            return version

        with keeping_recent():
            version, made = self._versions.get(key, lambda version: version.traced.matches(arrays), make)
        if made:
            import_whole("dyn.explain.log")
            from dyn.explain.log import log_compiled

            log_compiled(self._signature.name, version.record, version.guards)
        return version, made

    def _made_for(self, bound: BoundArguments, leaves: list[ArgumentLeaf]) -> MadeFor:
        """A call's arguments, static values and settings, which decide on its program, as ``explain`` shows them."""
        import_whole("dyn.explain.versions")
        from dyn.explain.versions import ArgumentKey, MadeFor

        names = self._signature.leaf_names(bound)
        settings = config.current()
        return MadeFor(
            tuple(ArgumentKey(n, leaf.dtype.name, leaf.rank, leaf.weak) for n, leaf in zip(names, leaves, strict=True)),
            tuple((n, tree_text(tree)) for n, tree in zip(bound.names, bound.tree.children(), strict=True)),
            tuple((s.name, repr(s.value)) for s in bound.static),
            tuple((name, getattr(settings, name)) for name in config.CODE_SETTINGS),
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
        versions = self._versions.in_order
        known = [version.made_for for version in versions if version.made_for is not None]
        broken = [broken_guard(v.guards, v.traced.sizes_of(arrays)) if v in same_key else "" for v in versions]
        return why_new(made_for, known, broken)

    # Stages ---------------------------------------------------------------------------------------------------

    def _trace(self, bound: BoundArguments, leaves: list[ArgumentLeaf]) -> TracedFunction:
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

        floats = closed_floats(self._signature.function)
        return trace_function(
            call, self._signature.name, specs, self._options.declarations, closed_floats=floats, ends=False,
            reads=AttributeReads(objects_read(self._signature.function, bound.static)),
        )  # fmt: skip

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Program for some arguments, not yet optimised: the first of JAX's stages.

        Args:
            *args: arrays, or :class:`ShapeDtypeStruct` for arrays that are not there; static arguments as they are.
            **kwargs: arguments by name.

        Returns:
            A :class:`Traced`.

        Raises:
            TraceError: if the function cannot be traced.
            ArgumentError: if arguments do not fit.

        Example:
            >>> dyn.jit(lambda x: x + 1).trace(np.zeros(3)).as_text().splitlines()[0]
            'func @lambda(%x: f64[x_0] "x") -> (f64[x_0] "result") {'
        """
        bound = self._signature.bind(args, kwargs)
        leaves = self._arguments.leaves(bound)
        start = time.perf_counter()
        traced = self._trace(bound, leaves).ended()
        return Traced(self._arguments, bound, leaves, traced, time.perf_counter() - start)

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Program for some arguments, optimised: ``trace(...).lower()``, as in JAX.

        Args:
            *args: arrays, or :class:`ShapeDtypeStruct`; static arguments as they are.
            **kwargs: arguments by name.

        Returns:
            A :class:`Lowered`.

        Raises:
            TraceError: if the function cannot be traced.
            ArgumentError: if arguments do not fit.
        """
        return self.trace(*args, **kwargs).lower()

    def prepare(self, shapes: Iterable[Any]) -> None:
        """Compile ahead what calls with arguments of some shapes need, so that none of them waits or is slow at first.

        Traces and compiles as a first call would, but runs nothing; and compiles the variants of kernels that are the
        quickest for these sizes, which otherwise happens in the background once a call meets them.

        Args:
            shapes: the calls to prepare for. Each is a tuple of arguments, a dict of arguments by name, or the only
                argument. An array counts by its shape and dtype, and so does a :class:`ShapeDtypeStruct`, whose sizes
                are numbers here; static arguments and Python numbers are given as they are.

        Raises:
            ArgumentError: if a size is no number.
            TraceError, ShapeError: and what else a call with such arguments would raise before it computes.

        Example:
            >>> f = dyn.jit(lambda x, scale: x * scale)
            >>> f.prepare([(dyn.ShapeDtypeStruct((8, n), "float32"), 0.5) for n in (128, 1024)])
        """
        for args, kwargs in prepared_calls(shapes):
            bound = self._signature.bind(args, kwargs)
            stood_for = [_stand_in(leaf) for leaf in bound.leaves]
            viewed, _ = self._arguments.viewed(replace(bound, leaves=stood_for))
            leaves = self._arguments.leaves(viewed)
            arrays = self._arguments.arrays(leaves)
            self._version(viewed, leaves, arrays, self._arguments.placement(viewed))[0].prepare(arrays)

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
        traced = self._trace(bound, leaves).ended()
        captured = [as_numpy(a) for a in traced.captured]
        return unflatten(traced.out_tree, list(run_reference(traced.function, [*arrays, *captured])))

    # What there is --------------------------------------------------------------------------------------------

    def cache_info(self) -> CacheInfo:
        """Counts so far.

        Returns:
            A :class:`CacheInfo`.

        Example:
            >>> f = dyn.jit(lambda x: x + 1)
            >>> f(np.zeros(3)), f(np.zeros(0)), f.cache_info().compiles
            (array([1., 1., 1.]), array([], dtype=float64), 1)
        """
        compiles, guards, seconds = _counts(self._versions.in_order)
        hits = self._hits + self._native_hits()
        return CacheInfo(compiles + self._forgotten[0], hits, guards, seconds + self._forgotten[1])

    def explain(self) -> Explanation:
        """Report on what was traced, assumed, proved, stitched and generated, and why.

        Returns:
            A report: text when printed, and HTML in Jupyter.
        """
        load_modules("dyn.explain.explanation", "dyn.explain.report")
        from dyn.explain.explanation import Explanation
        from dyn.explain.report import make_report

        versions = self._versions.in_order
        parts = [
            make_report(
                v.optimized, v.traced, v.record, v.because, v.program.deferred_states(), v.program.kernel_resources()
            )
            for v in versions
        ]
        info = self.cache_info()
        counts = {"compile": info.compiles, "hit": info.hits, "guard": info.guards}
        return Explanation(self._signature.name, tuple(parts), counts)


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
    on_new_shape: Literal["compile", "error"] = "compile",
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
            device=device, on_new_shape=on_new_shape,
        )  # fmt: skip
    if not callable(function):
        raise ArgumentError(
            f"jit takes a function, not a {type(function).__name__}.", remedy="write @dyn.jit above a def."
        )
    if device is not None:
        parse_device(device)
    if on_new_shape not in ("compile", "error"):
        raise ArgumentError(f"on_new_shape={on_new_shape!r} is neither 'compile' nor 'error'.")
    texts = (constraints,) if isinstance(constraints, str) else tuple(constraints)
    options = JitOptions(Declarations(tuple(dims), texts), on_new_shape, device)
    signature = Signature(function, shapes, static_argnums, static_argnames, donate_argnums, donate_argnames)
    return Jitted.single()(function, signature, options)
