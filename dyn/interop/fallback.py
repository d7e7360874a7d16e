"""Reports of calls and operations that another library makes in dyn's place: what front ends have in common."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

from dyn.source import Loc, user_loc


class FallbackWarning(UserWarning):
    """A function of another library, or a part of it, runs in that library instead of in dyn's code."""


@dataclass(frozen=True, slots=True)
class FallbackReason:
    """A reason why another library makes calls of a function, and the line."""

    reason: str
    loc: Loc

    def __str__(self) -> str:
        return f"{self.reason}\n  at {self.loc.describe()}"


def listed_pieces(count: int, library: str, pieces: Iterable[tuple[str, int, str, str]]) -> str:
    """Text of ``count`` operations that a library runs: of each kind its name, number, reason and place."""
    lines = [f"{count} operation{'' if count == 1 else 's'} in {library}:"]
    for operation, number, reason, where in pieces:
        times = "" if number == 1 else f" ({number} times)"
        lines.append(f"  {operation}{times}: {reason}\n    {where}")
    return "\n".join(lines)


def warn(text: str, remedy: str) -> None:
    """Issue a :class:`FallbackWarning` at the user's line."""
    loc = user_loc()
    warnings.warn_explicit(f"{text}\n  help: {remedy}", FallbackWarning, loc.file or "<unknown>", loc.line)
