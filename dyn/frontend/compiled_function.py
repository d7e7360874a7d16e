"""Functions that are compiled by key: how calls find their programs, the counts of them, and what is said of them.

:mod:`dyn.frontend.library` has what functions of other libraries have in common.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

from dyn.errors import DynError, ShapeError, problem_of
from dyn.late_imports import import_whole
from dyn.native_callable import NativeCallable
from dyn.source import UNKNOWN, Loc, user_loc
from dyn.specialize.call_arguments import OnNewShape
from dyn.specialize.prepared import no_dtypes, prepared_calls, shapes_given
from dyn.specialize.table import ProgramTable
from dyn.stages import Lowered, Traced
from dyn.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from dyn.diagnosis.replay import Replay
    from dyn.explain.explanation import Explanation, WayToCall
    from dyn.explain.versions import MadeFor

C = TypeVar("C", bound="Call")
P = TypeVar("P")
T = TypeVar("T")


class Call(Protocol):
    """A call as a front end reads it, once: what containers and settings hold may be something else later."""

    @property
    def key(self) -> Hashable:
        """Key of the programs that it can have, which sizes tell apart."""
        ...


class CacheInfo(NamedTuple):
    """Counts of a compiled function.

    Attributes:
        compiles: programs compiled.
        hits: calls that found one.
        guards: guards recorded, which tell programs apart by sizes.
        compile_seconds: seconds of compiling.
        traces: times that the function was traced.
    """

    compiles: int = 0
    hits: int = 0
    guards: int = 0
    compile_seconds: float = 0.0
    traces: int = 0

    def __add__(self, other: object) -> CacheInfo:
        """The counts of two together."""
        if not isinstance(other, CacheInfo):
            return NotImplemented
        seconds = self.compile_seconds + other.compile_seconds
        compiles, hits, guards = self.compiles + other.compiles, self.hits + other.hits, self.guards + other.guards
        return CacheInfo(compiles, hits, guards, seconds, self.traces + other.traces)


#: So many programs of one function are worth a word.
MANY_PROGRAMS = 8


class RecompileWarning(UserWarning):
    """A function has been compiled many times, and why."""


class _SignatureOfFunction:
    """``__signature__`` of a compiled function: that of what it wraps, found when it is asked for.

    Without it ``inspect.getfullargspec``, which Keras asks, would take an object that has ``__get__`` for a builtin.
    """

    def __get__(self, instance: CompiledFunction[Any, Any] | None, owner: type) -> inspect.Signature:
        if instance is None:
            raise AttributeError("__signature__")
        try:
            return inspect.signature(instance._function)
        except (TypeError, ValueError) as error:  # of a builtin
            raise AttributeError("__signature__") from error


class CompiledFunction(NativeCallable, Generic[C, P]):
    """A function with programs for each key of its calls, of which guards on sizes tell whose one is for a call."""

    __signature__ = _SignatureOfFunction()
    #: What programs differ by where nothing that is known of them says it, and what to do about it.
    _unnamed: ClassVar[tuple[str, str]] = ("calls differ by sizes", "compute with the size, or declare it as static.")

    def __init__(
        self, function: Callable[..., Any], name: str, *, wraps: bool = True, on_new_shape: OnNewShape = "compile"
    ) -> None:
        self._function = function
        if wraps:  # first, for the attributes of the function become this one's, but for those that this one needs
            functools.update_wrapper(self, function, updated=())
            if isinstance(function, FunctionType | MethodType):
                vars(self).update({k: v for k, v in vars(function).items() if not hasattr(type(self), k)})
        super().__init__()
        self._function, self._name = function, name
        self._on_new_shape: OnNewShape = on_new_shape
        #: Whether many programs are worth a word, which is said once.
        self.warns_of_many = True
        #: How many programs there were when they were last looked through for that.
        self._looked_at = 0
        #: The programs by key: a tree of arguments, their dtypes and ranks, static values, settings.
        self._programs: ProgramTable[P] = ProgramTable()
        #: How many traces there were that no program counts.
        self._traces = 0
        #: The counts of programs that are forgotten.
        self._forgotten = CacheInfo()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Methods: ``self`` becomes the first argument."""
        return self if instance is None or not self._binds() else MethodType(self, instance)

    def _binds(self) -> bool:
        """Whether it is a method where it is an attribute of a class: models are not, as they are no functions."""
        return True

    def __reduce__(self) -> Any:
        """Pickled by its name in its module, as a function is; without one it cannot be pickled."""
        return getattr(self, "__qualname__", self._name)

    # Programs

    def _program_fits(self, program: P, call: C) -> bool:
        """Whether a program of the call's key is for its sizes, and whatever else it relies on."""
        raise NotImplementedError

    def _find_program(self, call: C) -> P | None:
        """The program for a call, of those that there are."""
        return self._programs.find(call.key, lambda program: self._program_fits(program, call))

    def _while_making(self) -> AbstractContextManager[object]:
        """A lock that is held while a program is made, where threads may not make several at once."""
        return contextlib.nullcontext()

    def _program_for(self, call: C) -> tuple[P, bool]:
        """The program for a call, found or made now; and whether it was made."""
        found = self._find_program(call)
        if found is not None:
            return found, False
        with self._while_making():
            return self._programs.get(
                call.key, lambda program: self._program_fits(program, call), lambda: self._watched_program(call)
            )

    def _watched_program(self, call: C) -> P:
        import_whole("dyn.progress")
        from dyn.progress import WATCH  # with logging, which a program that compiles nothing does without

        with WATCH.compiling(self._name):
            return self._new_program(call)

    def _new_program(self, call: C) -> P:
        """A new program for a call, beside those that there are. It may be compiled when it is run first."""
        raise NotImplementedError

    def _made_for(self, program: P) -> MadeFor | None:
        """The key of a program in words, without sizes; None where it was not compiled."""
        raise NotImplementedError

    def _made_by(self, program: P) -> tuple[str, Loc]:
        """The condition on sizes that made a program necessary, in words, and the user's line; ``""`` without one."""
        return "", UNKNOWN

    def _second_program(self, known: str, *, loc: Loc | None = None, also: str = "") -> ShapeError:
        """The error of ``on_new_shape="error"``, where the program there is, is for what ``known`` says."""
        return ShapeError(
            f"{self._name}() needs a second program for these arguments: it has one for {known}.",
            loc=loc,
            remedy=f"call it with such arguments before on_new_shape='error' is set{also}.",
        )

    def _why(self, made_for: MadeFor) -> str:
        """Why a program that is made for this is there, beside those that there are; ``""`` for the first."""
        import_whole("dyn.explain.versions")
        from dyn.explain.versions import why_new

        known = [(found, one) for one in self._programs.in_order if (found := self._made_for(one)) is not None]
        broken = [self._made_by(one)[0] or "other sizes, or other attributes of what it reads" for _, one in known]
        return why_new(made_for, [found for found, _ in known], broken)

    def _note_program(self) -> None:
        """Say, once, that there are many programs, and what makes them."""
        every = self._programs.in_order
        if len(every) < MANY_PROGRAMS or len(every) == self._looked_at or not self.warns_of_many:
            return
        self._looked_at = len(every)
        programs = [one for one in every if self._info(one).compiles]
        known = [found for one in programs if (found := self._made_for(one)) is not None]
        if len(known) < MANY_PROGRAMS:
            return
        self.warns_of_many = False
        import_whole("dyn.explain.versions")
        from dyn.explain.versions import what_multiplies

        found = what_multiplies(known)
        if found is None:
            counts = Counter([made for one in programs if (made := self._made_by(one))[0]])
            if counts:
                (text, loc), _ = counts.most_common(1)[0]
                where = f" at {loc.describe()}" if loc.line else ""
                found = f"calls differ by {text}{where}", "compute with the size, or declare it as static."
            else:
                found = self._unnamed
        loc = user_loc()
        warnings.warn_explicit(
            f"{self._name}() has been compiled {len(known)} times: {found[0]}.\n  help: {found[1]}",
            RecompileWarning, loc.file or "<unknown>", loc.line,
        )  # fmt: skip

    # Stages

    def _trace_stage(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
        """The trace for a call."""
        raise NotImplementedError

    def _prepare_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Prepare for a call. Where that fails and it has shapes in the place of arrays, the error says so."""
        try:
            self._prepare(args, kwargs)
            return
        except (TypeError, AttributeError, DynError) as error:  # of numbers where arrays are meant
            shapes = shapes_given(args, kwargs)
            if not shapes:
                raise
            reason = problem_of(error)
        raise no_dtypes(self._name, args, kwargs, shapes, reason)

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Compile what a call needs."""
        raise NotImplementedError

    def trace(self, *args: Any, **kwargs: Any) -> Traced:
        """Program for some arguments, not yet optimised: the first of JAX's stages.

        Of a function of another library's it is the program of arrays that such a call runs.

        Args:
            *args: arrays, or :class:`dyn.ShapeDtypeStruct` for arrays that are not there; static arguments as they are.
            **kwargs: arguments by name.

        Returns:
            A :class:`dyn.Traced`.

        Raises:
            TraceError: if the function cannot be traced.
            ArgumentError: if arguments do not fit.
            UnsupportedOpError: for operations that dyn has not.

        Example:
            >>> dyn.jit(lambda x: x + 1).trace(np.zeros(3)).as_text().splitlines()[0]
            'func @lambda(%x: f64[x_0] "x") -> (f64[x_0] "result") {'
        """
        try:
            return self._trace_stage(args, kwargs)
        except Exception as error:
            hide_own_frames(error)
            raise

    def lower(self, *args: Any, **kwargs: Any) -> Lowered:
        """Program for some arguments, optimised: ``trace(...).lower()``, as in JAX.

        Args:
            *args: arrays, or :class:`dyn.ShapeDtypeStruct`; static arguments as they are.
            **kwargs: arguments by name.

        Returns:
            A :class:`dyn.Lowered`.

        Raises:
            TraceError: if the function cannot be traced.
            ArgumentError: if arguments do not fit.
            UnsupportedOpError: for operations that dyn has not.
        """
        try:
            return self.trace(*args, **kwargs).lower()
        except Exception as error:
            hide_own_frames(error)
            raise

    def prepare(self, shapes: Iterable[Any]) -> None:
        """Compile ahead what calls with arguments of some shapes need, so that none of them waits or is slow at first.

        Traces and compiles as a first call would, but runs nothing; and compiles the variants of kernels that are the
        quickest for these sizes, which otherwise happens in the background once a call meets them.

        Args:
            shapes: the calls to prepare for. Each is a tuple of arguments, a dict of arguments by name, or the only
                argument. An array counts by its shape and dtype, and so does a :class:`dyn.ShapeDtypeStruct`, whose
                sizes are numbers here; static arguments and Python numbers are given as they are.

        Raises:
            ArgumentError: if a size is no number.
            TraceError, ShapeError: and what else a call with such arguments would raise before it computes.

        Example:
            >>> f = dyn.jit(lambda x, scale: x * scale)
            >>> f.prepare([(dyn.ShapeDtypeStruct((8, n), "float32"), 0.5) for n in (128, 1024)])
        """
        try:
            for args, kwargs in prepared_calls(shapes):
                self._prepare_call(args, kwargs)
        except Exception as error:
            hide_own_frames(error)
            raise

    # Looking for faults

    def replay(self, *args: Any, **kwargs: Any) -> Replay:
        """Repeat a call op by op, up to the first NaN, infinity or result that differs from NumPy's.

        Each operation of the program, as it was traced, is computed alone, at these sizes, by dyn's own kernels, and
        once more by its NumPy reference from the same operands. Functions outside of the program are called.

        Args:
            *args: the arguments of the call, with arrays of the processor.
            **kwargs: arguments by name.

        Returns:
            A ``Replay``: printed, it says what was found, in which line, at which sizes. Its ``result`` is what the
            function returns, ``code`` the program as Python code; ``again(debugger=True)`` steps through that, and
            ``again(stop_at=…, tolerance=…)`` looks for something else.

        Raises:
            TraceError: if the function cannot be traced.
            ArgumentError: if arguments do not fit, or have no elements.
            NotYetError: for arrays on a GPU, and calls that another library makes in parts.

        Example:
            >>> f = dyn.jit(lambda x: dnp.log(x) * 0)
            >>> f.replay(np.array([1.0, 0.0], "f4")).stop.text
            'made the first infinity: 1 of the 2 elements of its result, float32[2], the first at [1]'
        """
        import_whole("dyn.diagnosis.replay")
        from dyn.diagnosis.replay import replay

        try:
            return replay(self, args, kwargs)
        except Exception as error:
            hide_own_frames(error)
            raise

    # What there is

    @property
    def programs(self) -> tuple[P, ...]:
        """The programs so far, in the order in which they were made, as dyn's own records."""
        return self._programs.in_order

    def _info(self, program: P) -> CacheInfo:
        """The counts of a program."""
        raise NotImplementedError

    def _way(self, program: P) -> WayToCall:
        """The program, explained."""
        raise NotImplementedError

    def _notes(self) -> Iterable[str]:
        """Lines of ``explain`` that are about all programs."""
        return ()

    def _left_texts(self) -> Iterable[str]:
        """Why calls are made in dyn's place, a text for each reason."""
        return ()

    def _forget(self, programs: Iterable[P]) -> None:
        """Keep the counts of programs that are no longer there; guards count where they are checked."""
        gone = functools.reduce(CacheInfo.__add__, map(self._info, programs), CacheInfo())
        self._forgotten += gone._replace(guards=0)

    def _made_of(self) -> Iterable[CompiledFunction[Any, Any]]:
        """The compiled functions that calls are made of, where they are several."""
        return ()

    def cache_info(self) -> CacheInfo:
        """Counts so far.

        Returns:
            A :class:`dyn.CacheInfo`.

        Example:
            >>> f = dyn.jit(lambda x: x + 1)
            >>> f(np.zeros(3)), f(np.zeros(0)), f.cache_info().compiles
            (array([1., 1., 1.]), array([], dtype=float64), 1)
        """
        own = CacheInfo(hits=self._native_hits(), traces=self._traces) + self._forgotten
        infos = [*map(self._info, self._programs.in_order), *[part.cache_info() for part in self._made_of()]]
        return functools.reduce(CacheInfo.__add__, infos, own)

    def explain(self, sizes: Mapping[str, int] | None = None) -> Explanation:
        """Report on what was traced, assumed, proved, stitched and generated, and why.

        With sizes it has figures too: of each kernel the bytes and operations of ``cost_analysis()``, about how long
        it takes, which limit binds (the memory, arithmetic, the launch) and its share of the program; and of each
        boundary what one kernel in place of two would save. Times are estimates, of one core of the machine that the
        prices of fusion were measured on, and not of this one; programs for a GPU have none.

        Args:
            sizes: the size of each dim by name, as in ``{"b": 8, "s": 128}``; None for no figures.

        Returns:
            A report: text when printed, HTML in Jupyter, and JSON by ``to_json()``. Of several programs those have
            figures that hold for the sizes.

        Raises:
            ArgumentError: for a name that no program has a size of, for what is no size, where a size is missing, and
                for sizes that no program holds for.

        Example:
            >>> f = dyn.jit(lambda x: x + 1, shapes="n")
            >>> _ = f(np.ones(3, "f4"))
            >>> print(f.explain({"n": 1000}))
            <lambda>: ...
              at n=1000: 8 kB, 1 kFLOP; about 111 ns, bound by launch overhead, 100 % of the program
            ...
        """
        import_whole("dyn.explain.explanation")
        from dyn.explain.explanation import Explanation

        ways = tuple([self._way(program) for program in self._programs.in_order])
        parts = tuple([part.explain() for part in self._made_of()])
        counts = self._counted(self.cache_info())
        whole = Explanation(self._name, ways, counts, tuple(self._notes()), tuple(self._left_texts()), parts)
        return whole if sizes is None else whole.at(sizes)

    def _counted(self, info: CacheInfo) -> Mapping[str, int]:
        """The counts that an explanation begins with."""
        return {"compile": info.compiles, "hit": info.hits, "guard": info.guards}
