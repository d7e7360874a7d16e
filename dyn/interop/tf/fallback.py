"""Calls that TensorFlow makes in dyn's place, and what is said of them and of operations that it runs.

Nothing falls back in silence: a :class:`FallbackWarning` says what, where and why, and so does ``explain()``.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from dyn.errors import ArgumentError, DynError, ShapeError, problem_of
from dyn.interop.tf.evaluation import Piece
from dyn.source import Loc, user_loc

#: Errors of whoever calls the function. All others, where the function as it is does not raise, are dyn's own.
OF_CALLERS = (ShapeError, ArgumentError, MemoryError)


class FallbackWarning(UserWarning):
    """A function of TensorFlow's, or a part of it, runs in TensorFlow instead of in dyn's code."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A reason why TensorFlow makes calls of a function, and the line."""

    reason: str
    loc: Loc

    @staticmethod
    def of(error: BaseException) -> Failure:
        """The failure that an error tells of."""
        loc = error.loc if isinstance(error, DynError) else None
        notes = "; ".join(error.notes) if isinstance(error, DynError) else ""
        return Failure(problem_of(error) + (f" ({notes})" if notes else ""), user_loc() if loc is None else loc)

    def __str__(self) -> str:
        return f"{self.reason}\n  at {self.loc.describe()}"


def pieces_text(pieces: Sequence[Piece]) -> str:
    """The pieces of a program: operations with reasons and names in the graph, each with how often it is there."""
    found = Counter([(piece.operation, piece.reason) for piece in pieces])
    lines: list[str] = []
    for (operation, reason), count in found.items():
        names = [piece.name for piece in pieces if (piece.operation, piece.reason) == (operation, reason)]
        times = "" if count == 1 else f" ({count} times)"
        lines.append(f"  {operation}{times}: {reason}\n    first as {names[0]}")
    head = f"{len(pieces)} operation{'' if len(pieces) == 1 else 's'} in TensorFlow:"
    return "\n".join([head, *lines])


def warn_of_pieces(name: str, pieces: Sequence[Piece]) -> None:
    """Say that a program has pieces which TensorFlow runs."""
    _warn(f"{name}: {pieces_text(pieces)}")


def warn_of_failure(name: str, failure: Failure) -> None:
    """Say that TensorFlow makes calls of a function."""
    _warn(f"{name} runs in TensorFlow: {failure}")


def _warn(text: str) -> None:
    loc = user_loc()
    remedy = "\n  help: strict=True of jit makes it an error."
    warnings.warn_explicit(text + remedy, FallbackWarning, loc.file or "<unknown>", loc.line)
