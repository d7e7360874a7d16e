"""Functions of other libraries: programs that are functions of arrays of dyn's, with a way there from a call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dyn.errors import ArgumentError, NotYetError
from dyn.frontend import compiled_function
from dyn.frontend.compiled_function import CacheInfo, CompiledFunction
from dyn.frontend.fallback import Excuse, FallbackReason, Piece
from dyn.late_imports import import_whole
from dyn.source import UNKNOWN, Loc, user_loc
from dyn.stages import Traced

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
        failure: why the library makes its calls; None as long as dyn makes them all.
    """

    def __init__(self) -> None:
        self.made_for: MadeFor | None = None
        self.because = ""
        self.failure: FallbackReason | None = None

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

    def failure_for(self, call: C) -> FallbackReason | None:
        """Why the library makes a call; None where dyn does."""
        return self.failure

    def note_failure(self, call: C, failure: FallbackReason) -> None:
        """Leave calls like this one to the library from now on."""
        self.failure = failure

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
    """A function of another library's that dyn compiles."""

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

    def _run_program(self, program: P, call: C) -> Any:
        return self._use_program(program, call, lambda one: one(call))

    def _use_program(self, program: P, call: C, use: Callable[[P], T]) -> T:
        """The result of ``use`` for the program of a call; Retrace where another one turns out to be needed."""
        return use(program)

    def _failure_for(self, program: P, call: C) -> FallbackReason | None:
        return program.failure_for(call)

    def _pieces_of(self, program: P) -> Iterable[Sequence[Piece]]:
        return program.pieces

    # Stages

    def _trace_stage(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
        return self._rereading(lambda: self._traced_now(args, kwargs))

    def _traced_now(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Traced:
        found = self._bound(args, kwargs, stands=True)
        if not isinstance(found, Excuse):
            call, program = found
            return self._use_program(program, call, lambda one: one.trace(call))
        if found.reason is None:
            raise ArgumentError(f"{self._name}() is not traced ahead in a trace, or for arguments of one.")
        remedy = f"leave it to {self.fallbacks.library}."
        raise NotYetError(found.reason.reason, loc=found.reason.loc, remedy=remedy)

    def _prepare(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        excuse = self._rereading(lambda: self._prepared(args, kwargs))
        if excuse is not None and excuse.reason is not None:
            self.fallbacks.say(self._name, excuse.reason)

    def _prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Excuse | None:
        """None, once what a call needs is compiled; or why the library will make it."""
        found = self._bound(args, kwargs, stands=True)
        if isinstance(found, Excuse):
            return found
        call, program = found
        return self._attempted(program, call, lambda: self._use_program(program, call, lambda one: one.prepare(call)))

    # What there is

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
        pieces = [self.fallbacks.pieces_text(own) for own in self._pieces_of(program) if own]
        return WayToCall(tuple(reports), tuple(program.notes()) if reports else (), tuple(pieces))
