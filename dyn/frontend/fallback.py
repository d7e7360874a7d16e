"""Calls and operations that a front end's own library makes in dyn's place.

Nothing falls back in silence: a :class:`FallbackWarning` says what, where and why, once, and so does ``explain()``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType

from dyn.errors import ArgumentError, DomainError, DynError, ShapeError, problem_of
from dyn.frontend.history import note_fallback
from dyn.frozen import record
from dyn.source import UNKNOWN, Loc, is_user_frame, loc_at, user_loc

#: Errors of whoever calls a function. All others, where the function as it is does not raise, are dyn's own.
OF_CALLERS = (ShapeError, DomainError, ArgumentError, MemoryError)


class FallbackWarning(UserWarning):
    """A function of another library, or a part of it, runs in that library instead of in dyn's code."""


@record()
class FallbackReason:
    """A reason why another library makes calls of a function, and the line."""

    reason: str
    loc: Loc

    def __str__(self) -> str:
        return f"{self.reason}\n  at {self.loc.describe()}"


@record()
class Piece:
    """An operation in the midst of a program that another library runs, and the reason.

    It is known by the user's line, or by its ``name`` in a graph, whose nodes have no lines.
    """

    operation: str
    reason: str
    loc: Loc | None = None
    name: str = ""


@record(eq=False)
class Fallback:
    """Why the library makes a call that dyn was to make, and what is remembered of that once it is made.

    Without a ``reason`` nothing is said: the call is none for programs, or does what later ones rely on.
    """

    reason: FallbackReason | None
    remember: Callable[[], object] = lambda: None


def reason_of(error: BaseException, *, notes: bool = False) -> FallbackReason:
    """The reason that an error tells of, with the error's ``notes`` or without."""
    known = isinstance(error, DynError)
    loc = error.loc if known else None
    if loc is None:
        loc = _raised_at(error.__traceback__)
    told = "; ".join(error.notes) if known and notes else ""
    return FallbackReason(problem_of(error) + (f" ({told})" if told else ""), user_loc() if loc is UNKNOWN else loc)


def _raised_at(traceback: TracebackType | None) -> Loc:
    """The innermost of the user's lines that an error came through."""
    found = UNKNOWN
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_user_frame(code.co_filename):
            found = loc_at(code.co_filename, traceback.tb_lineno, code.co_name)
        traceback = traceback.tb_next
    return found


class Fallbacks:
    """The calls and operations of a function that its own library makes in dyn's place. Each is said once.

    ``remedy`` is how a user has errors instead.
    """

    def __init__(self, library: str, remedy: str) -> None:
        self.library, self._remedy = library, remedy
        #: In the order in which they were said.
        self._said: dict[FallbackReason | Piece, None] = {}

    @property
    def said(self) -> frozenset[FallbackReason | Piece]:
        """All that was said."""
        return frozenset(self._said)

    def say(self, name: str, reason: FallbackReason, *, warns: bool = True, given: str = "") -> None:
        """Say why the library makes calls of the function of that name; ``given`` is what one is prepared for."""
        if reason not in self._said:
            note_fallback(name, self.library, str(reason), reason.loc)
            if warns:
                prepared = f"\n  it is prepared for {given}" if given else ""
                self._warn(f"{name} runs in {self.library}: {reason}{prepared}")
            self._said[reason] = None  # now, for warnings may be errors, which each call raises

    def report(self, name: str, programs: Iterable[Sequence[Piece]]) -> None:
        """Say which operations of the function's programs the library runs."""
        for pieces in programs:
            if not self._said.keys() >= set(pieces):
                text = self.pieces_text(pieces)
                note_fallback(name, self.library, text, pieces[0].loc or UNKNOWN)
                self._warn(f"{name}: {text}")
                self._said.update(dict.fromkeys(pieces))

    def _warn(self, text: str) -> None:
        loc = user_loc()
        message = f"{text}\n  help: {self._remedy}"
        warnings.warn_explicit(message, FallbackWarning, loc.file or "<unknown>", loc.line)

    def reason_texts(self) -> list[str]:
        """Why the library makes calls, a text for each reason."""
        reasons = [one for one in list(self._said) if isinstance(one, FallbackReason)]
        return [f"calls in {self.library}: {reason}" for reason in reasons]

    def pieces_text(self, pieces: Sequence[Piece]) -> str:
        """The pieces of a program: operations with reasons and places, each with how often it is there."""
        alike: dict[tuple[str, str, Loc | None], list[Piece]] = {}
        for piece in pieces:
            alike.setdefault((piece.operation, piece.reason, piece.loc), []).append(piece)
        lines = [f"{len(pieces)} operation{'' if len(pieces) == 1 else 's'} in {self.library}:"]
        for (operation, reason, loc), found in alike.items():
            times = "" if len(found) == 1 else f" ({len(found)} times)"
            lines.append(f"  {operation}{times}: {reason.removeprefix(operation).strip()}")
            lines.append(f"    {f'first as {found[0].name}' if loc is None else f'at {loc.describe()}'}")
        return "\n".join(lines)
