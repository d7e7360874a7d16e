"""Calls that eager PyTorch makes in dyn's place, and what is said of them and of operations that it runs.

Nothing falls back in silence: a :class:`FallbackWarning` says what, where and why, and so does ``explain()``.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType

import torch

from dyn.errors import ArgumentError, DomainError, DynError, ShapeError, problem_of
from dyn.interop.torch.eager import Piece
from dyn.interop.torch.tensors import dyn_dtype
from dyn.source import UNKNOWN, Loc, is_user_frame, loc_at, user_loc

#: Errors of whoever calls the function. All others, where the function as it is does not raise, are dyn's own.
OF_CALLERS = (ShapeError, DomainError, ArgumentError, MemoryError)


class FallbackWarning(UserWarning):
    """A function of PyTorch, or a part of it, runs in eager PyTorch instead of in dyn's code."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A reason why eager PyTorch makes calls of a function, and the line."""

    reason: str
    loc: Loc

    @staticmethod
    def of(error: BaseException) -> Failure:
        """The failure that an error tells of."""
        loc = error.loc if isinstance(error, DynError) else None
        return Failure(problem_of(error), _raised_at(error.__traceback__) if loc is None else loc)

    def __str__(self) -> str:
        return f"{self.reason}\n  at {self.loc.describe()}"


def _raised_at(traceback: TracebackType | None) -> Loc:
    """The innermost of the user's lines that an error came through."""
    found = UNKNOWN
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if is_user_frame(code.co_filename):
            found = loc_at(code.co_filename, traceback.tb_lineno, code.co_name)
        traceback = traceback.tb_next
    return found


def unsupported(tensor: torch.Tensor) -> str | None:
    """What keeps a tensor from being an argument of a program, in words; None where nothing does."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return f"a tensor of the class {type(tensor).__name__}"
    if tensor.is_nested:
        return "a nested tensor"
    if tensor.layout is not torch.strided:
        return f"a tensor of the layout {tensor.layout}"
    if tensor.device.type != "cpu":
        return f"a tensor on {tensor.device}"
    return f"a tensor of {tensor.dtype}" if dyn_dtype(tensor.dtype) is None else None


def pieces_text(pieces: Sequence[Piece]) -> str:
    """The pieces of a program: operations with their lines and reasons, each with how often it is there."""
    lines: list[str] = []
    for piece, count in Counter(pieces).items():
        times = "" if count == 1 else f" ({count} times)"
        reason = piece.reason.removeprefix(piece.operation).strip()
        lines.append(f"  {piece.operation}{times}: {reason}\n    at {piece.loc.describe()}")
    head = f"{len(pieces)} operation{'' if len(pieces) == 1 else 's'} in eager PyTorch:"
    return "\n".join([head, *lines])


def warn_of_pieces(name: str, pieces: Sequence[Piece]) -> None:
    """Say that a program has pieces which eager PyTorch runs."""
    _warn(f"{name}: {pieces_text(pieces)}")


def warn_of_failure(name: str, failure: Failure) -> None:
    """Say that eager PyTorch makes calls of a function."""
    _warn(f"{name} runs in eager PyTorch: {failure}")


def _warn(text: str) -> None:
    loc = user_loc()
    remedy = '\n  help: strict=True of jit, or options={"strict": True} of torch.compile, makes it an error.'
    warnings.warn_explicit(text + remedy, FallbackWarning, loc.file or "<unknown>", loc.line)
