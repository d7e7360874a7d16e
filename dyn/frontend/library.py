"""Functions of other libraries: programs that are functions of arrays of dyn's, with a way there from a call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dyn.errors import ArgumentError, NotYetError, UnsupportedOpError
from dyn.frontend import compiled_function
from dyn.frontend.compiled_function import CacheInfo, CompiledFunction
from dyn.frontend.fallback import OF_CALLERS, Fallback, FallbackReason, Fallbacks, Piece, reason_of
from dyn.frontend.retrace import Retrace
from dyn.late_imports import import_whole
from dyn.source import UNKNOWN, Loc, user_loc
from dyn.specialize.call_arguments import OnNewShape
from dyn.specialize.prepared import arrays_given, shapes_given
from dyn.stages import Traced
from dyn.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from dyn.explain.explanation import WayToCall
    from dyn.explain.versions import MadeFor

T = TypeVar("T")


class CallRecord(compiled_function.Call, Protocol):
    """A call of another library's function, as it was read."""

    def made_for(self) -> MadeFor:
        """Its key in words, without sizes."""
        ...


C = TypeVar("C", bound=CallRecord)


class LibraryProgram(Generic[C]):
    """A program of a function of another library's: its calls become calls of functions that ``dyn.jit`` compiles.

    Attributes:
        made_for: what it was made for, but for sizes, in words.
        because: why it is there beside others.
        fallback_reason: why the library makes its calls; None as long as dyn makes them all.
    """

    def __init__(self) -> None:
        self.made_for: MadeFor | None = None
        self.because = ""
        self.fallback_reason: FallbackReason | None = None

    @property
    def pieces(self) -> Sequence[Sequence[Piece]]:
        """The operations that the library runs in the midst of it, for each way through it."""
        return ()

    @property
    def functions(self) -> Sequence[Any]:
        """The functions that ``dyn.jit`` compiles for it."""
        raise NotImplementedError

    def introduce(self, made_for: MadeFor, because: str) -> None:
        """Tell it what it is for, and why beside others."""
        self.made_for, self.because = made_for, because
        for function in self.functions:
            function.reason = because

    def fits(self, call: C) -> bool:
        """Whether it is for the sizes of a call with its key."""
        return True

    def fallback_reason_for(self, call: C) -> FallbackReason | None:
        """Why the library makes a call; None where dyn does."""
        return self.fallback_reason

    def leave_to_library(self, call: C, reason: FallbackReason) -> None:
        """Leave calls like this one to the library from now on."""
        self.fallback_reason = reason

    def __call__(self, call: C) -> Any:
        """The result of the library's function for a call."""
        raise NotImplementedError

    def trace(self, call: C) -> Traced:
        """The program of arrays that a call runs, traced alone."""
        raise NotImplementedError

    def prepare(self, call: C) -> None:
        """Compile what a call needs, and run nothing."""
        raise NotImplementedError

    def made_by(self) -> tuple[str, Loc]:
        """The condition on sizes that makes further programs necessary, in words, and the user's line."""
        return "", UNKNOWN

    def conditions(self) -> str:
        """Its sizes, for an error that another program would be for others."""
        return self.made_by()[0] or "other sizes"

    def notes(self) -> Sequence[str]:
        """Lines of ``explain`` about it, beside dyn's own reports."""
        return ()


P = TypeVar("P", bound=LibraryProgram[Any])


class LibraryFunction(CompiledFunction[C, P], Generic[C, P]):
    """A function of another library's that dyn compiles.

    A front end derives one class from it. What only a front end knows of its library are four methods, in the order in
    which a call comes through them:

    - ``_bind_call`` reads a call: what is to be known of it to find its program, or that it is none for programs;
    - ``_make_program`` makes a program for a call that none of those there are is for;
    - ``_run_program`` runs a program for a call, and gives the result as the library's values;
    - ``_run_eagerly`` makes the call as the library does, in dyn's place.

    Attributes:
        fallbacks: what the function's own ``library`` does in dyn's place; ``remedy`` is how that is an error instead.
    """

    def __init__(
        self, function: Callable[..., Any], name: str, *, wraps: bool = True, library: str = "", remedy: str = "",
        strict: bool = True, on_new_shape: OnNewShape = "compile",
    ) -> None:  # fmt: skip
        super().__init__(function, name, wraps=wraps, on_new_shape=on_new_shape)
        #: Whether what dyn has no program for is an error, and not the library's.
        self._strict = strict
        self.fallbacks = Fallbacks(library, remedy)

    # What a front end says of its library

    def _bind_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, stands: bool = False) -> C | None:
        """A call, read once; None for one that no program makes, as those in another library's trace.

        With ``stands`` nothing is run, and :class:`ShapeDtypeStruct` may stand for arrays. Raises UnsupportedOpError
        for arguments that programs do not take.
        """
        raise NotImplementedError

    def _make_program(self, call: C) -> P:
        """A program for a call that no other is for. It may be traced and compiled when it is run first."""
        raise NotImplementedError

    def _run_program(self, program: P, call: C) -> Any:
        """The function's result for a call, computed by a program.

        Raises Retrace where the function, or what programs it has, is to be changed first.
        """
        return self._use_program(program, call, lambda one: one(call))

    def _run_eagerly(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call as the library makes it."""
        return self._function(*args, **kwargs)

    # What a front end may say besides

    def _fallback_for(self, program: P, call: C, error: Exception) -> Fallback | None:
        """Why the library makes a call that a program has failed to make; None where the error is the user's own."""
        return None

    def _accept_call(self, args: tuple[Any, ...], kwargs: dict[str, Any], call: C, program: P) -> None:
        """The rest, once a call went well: the native entry is shown it, and donated arrays are used up."""

    # Calling

    def _call_slow(self, /, *args: Any, **kwargs: Any) -> Any:
        try:
            made = self._rereading(lambda: self._try_call(args, kwargs))
            return self._leave_call(made, args, kwargs) if isinstance(made, Fallback) else made
        except Exception as error:
            hide_own_frames(error)
            raise

    def _rereading(self, read: Callable[[], T]) -> T:
        """The result of ``read``, called again after each change of the function that its trace asks for."""
        while True:
            try:
                return read()
            except Retrace as lacking:  # before anything is computed
                if not lacking.rereads:
                    raise
                lacking.change(self)

    def _try_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call by a program; a fallback where the library is to make it.

        The library does so outside of this, for its code may ask another function's trace to be made again.
        """
        found = self._bound(args, kwargs)
        if isinstance(found, Fallback):
            return found
        call, program = found
        result = self._attempted(program, call, lambda: self._run_program(program, call))
        if not isinstance(result, Fallback):
            self._accept_call(args, kwargs, call, program)
        return result

    def _attempted(self, program: P, call: C, act: Callable[[], T]) -> T | Fallback:
        """The result of ``act``, which runs or prepares a program for a call, once what there is to say of it is said;
        a fallback where the library is to make the call."""
        try:
            result = act()
        except OF_CALLERS:
            raise
        except Exception as error:
            fallback = self._fallback_for(program, call, error)
            if fallback is None:
                raise
            return fallback
        self.fallbacks.report(self._name, program.pieces)
        self._note_program()
        return result

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, stands: bool = False) -> tuple[C, P] | Fallback:
        """A call and its program; a fallback where it has none, or the library makes what the program is for."""
        try:
            call = self._bind_call(args, kwargs, stands=stands)
            if call is None:
                return Fallback(None)
            program, _ = self._program_for(call)
        except UnsupportedOpError as error:
            if self._strict:
                raise
            return Fallback(self._reason_of(error))
        reason = program.fallback_reason_for(call)
        return (call, program) if reason is None else Fallback(reason)

    def _leave_call(self, fallback: Fallback, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call that is left to the library. Where that raises, nothing is said, or remembered.

        The fallback is remembered before it is said, for a warning may be an error.
        """
        result = self._run_eagerly(args, kwargs)
        fallback.remember()
        if fallback.reason is not None:
            self.fallbacks.say(self._name, fallback.reason)
        return result

    def _reason_of(self, error: BaseException) -> FallbackReason:
        """The reason that an error tells of."""
        return reason_of(error)

    # Programs

    def _program_fits(self, program: P, call: C) -> bool:
        return program.fits(call)

    def _new_program(self, call: C) -> P:
        if self._on_new_shape == "error" and (known := self._programs_but_for_sizes(call)):
            raise self._second_program(known[-1].conditions(), loc=user_loc())
        made_for = call.made_for()
        because = self._why(made_for)
        program = self._make_program(call)
        program.introduce(made_for, because)
        return program

    def _programs_but_for_sizes(self, call: C) -> Sequence[P]:
        """The programs for calls that differ from one by sizes alone."""
        return self._programs.of(call.key)

    def _use_program(self, program: P, call: C, use: Callable[[P], T]) -> T:
        """The result of ``use`` for the program of a call; Retrace where another one turns out to be needed."""
        return use(program)

    # Stages

    def _trace_stage(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
        return self._rereading(lambda: self._traced_now(args, kwargs))

    def _traced_now(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
        found = self._bound(args, kwargs, stands=True)
        if not isinstance(found, Fallback):
            call, program = found
            return self._use_program(program, call, lambda one: one.trace(call))
        if found.reason is None:
            raise ArgumentError(f"{self._name}() is not traced ahead in a trace, or for arguments of one.")
        remedy = f"leave it to {self.fallbacks.library}."
        raise NotYetError(found.reason.reason, loc=found.reason.loc, remedy=remedy)

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        fallback = self._rereading(lambda: self._prepared(args, kwargs))
        if fallback is None or fallback.reason is None:
            return
        if shapes_given(args, kwargs):  # a call that fails: the caller says what is wrong with it
            raise NotYetError(fallback.reason.reason, loc=fallback.reason.loc)
        self.fallbacks.say(self._name, fallback.reason, given=arrays_given(args, kwargs))

    def _prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Fallback | None:
        """None, once what a call needs is compiled; or why the library will make it."""
        found = self._bound(args, kwargs, stands=True)
        if isinstance(found, Fallback):
            return found
        call, program = found
        return self._attempted(program, call, lambda: self._use_program(program, call, lambda one: one.prepare(call)))

    # What there is

    def _left_texts(self) -> Iterable[str]:
        return self.fallbacks.reason_texts()

    def _info(self, program: P) -> CacheInfo:
        return functools.reduce(CacheInfo.__add__, [one.cache_info() for one in program.functions], CacheInfo())

    def _made_for(self, program: P) -> MadeFor | None:
        return program.made_for if program.functions else None

    def _made_by(self, program: P) -> tuple[str, Loc]:
        return program.made_by()

    def _way(self, program: P) -> WayToCall:
        import_whole("dyn.explain.explanation")
        from dyn.explain.explanation import WayToCall

        reports = [report for one in program.functions for report in one.explain().versions]
        pieces = [self.fallbacks.pieces_text(own) for own in program.pieces if own]
        return WayToCall(tuple(reports), tuple(program.notes()) if reports else (), tuple(pieces))
