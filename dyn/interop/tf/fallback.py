"""Calls that TensorFlow makes in dyn's place, and what is said of them and of operations that it runs.

Nothing falls back in silence: a :class:`FallbackWarning` says what, where and why, and so does ``explain()``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from dyn.errors import ArgumentError, DynError, ShapeError, problem_of
from dyn.interop.fallback import FallbackReason, listed_pieces, warn
from dyn.interop.fallback import FallbackWarning as FallbackWarning  # noqa: PLC0414  # warning filters name it so
from dyn.interop.tf.evaluation import TfPiece
from dyn.source import user_loc

#: Errors of whoever calls the function. All others, where the function as it is does not raise, are dyn's own.
OF_CALLERS = (ShapeError, ArgumentError, MemoryError)


def failure_of(error: BaseException) -> FallbackReason:
    """The failure that an error tells of."""
    loc = error.loc if isinstance(error, DynError) else None
    notes = "; ".join(error.notes) if isinstance(error, DynError) else ""
    return FallbackReason(problem_of(error) + (f" ({notes})" if notes else ""), user_loc() if loc is None else loc)


def last_line(error: BaseException) -> str:
    """The last line of an error's text, which of those of TensorFlow's is what went wrong."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()


def pieces_text(pieces: Sequence[TfPiece]) -> str:
    """The pieces of a program: operations with reasons and names in the graph, each with how often it is there."""
    first: dict[tuple[str, str], str] = {}
    for piece in pieces:
        first.setdefault((piece.operation, piece.reason), f"first as {piece.name}")
    found = Counter([(piece.operation, piece.reason) for piece in pieces])
    rows = [(operation, count, reason, first[operation, reason]) for (operation, reason), count in found.items()]
    return listed_pieces(len(pieces), "TensorFlow", rows)


def warn_of_pieces(name: str, pieces: Sequence[TfPiece]) -> None:
    """Say that a program has pieces which TensorFlow runs."""
    _warn(f"{name}: {pieces_text(pieces)}")


def warn_of_failure(name: str, failure: FallbackReason) -> None:
    """Say that TensorFlow makes calls of a function."""
    _warn(f"{name} runs in TensorFlow: {failure}")


def _warn(text: str) -> None:
    warn(text, "strict=True of jit makes it an error.")
