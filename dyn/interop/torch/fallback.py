"""Calls that eager PyTorch makes in dyn's place, and what is said of them and of operations that it runs.

Nothing falls back in silence: a :class:`FallbackWarning` says what, where and why, and so does ``explain()``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from types import TracebackType

import torch

from dyn.errors import ArgumentError, DomainError, DynError, ShapeError, problem_of
from dyn.interop.fallback import FallbackReason, listed_pieces, warn
from dyn.interop.fallback import FallbackWarning as FallbackWarning  # noqa: PLC0414  # warning filters name it so
from dyn.interop.torch.devices import KINDS
from dyn.interop.torch.eager_pieces import EagerPiece
from dyn.interop.torch.tensors import dyn_dtype
from dyn.source import UNKNOWN, Loc, is_user_frame, loc_at

#: Errors of whoever calls the function. All others, where the function as it is does not raise, are dyn's own.
OF_CALLERS = (ShapeError, DomainError, ArgumentError, MemoryError)


def failure_of(error: BaseException) -> FallbackReason:
    """The failure that an error tells of."""
    loc = error.loc if isinstance(error, DynError) else None
    return FallbackReason(problem_of(error), _raised_at(error.__traceback__) if loc is None else loc)


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
    if tensor.device.type not in KINDS:
        return f"a tensor on {tensor.device}"
    return f"a tensor of {tensor.dtype}" if dyn_dtype(tensor.dtype) is None else None


def pieces_text(pieces: Sequence[EagerPiece]) -> str:
    """The pieces of a program: operations with their lines and reasons, each with how often it is there."""
    rows = [
        (one.operation, count, one.reason.removeprefix(one.operation).strip(), f"at {one.loc.describe()}")
        for one, count in Counter(pieces).items()
    ]
    return listed_pieces(len(pieces), "eager PyTorch", rows)


def warn_of_pieces(name: str, pieces: Sequence[EagerPiece]) -> None:
    """Say that a program has pieces which eager PyTorch runs."""
    _warn(f"{name}: {pieces_text(pieces)}")


def warn_of_failure(name: str, failure: FallbackReason) -> None:
    """Say that eager PyTorch makes calls of a function."""
    _warn(f"{name} runs in eager PyTorch: {failure}")


def _warn(text: str) -> None:
    remedy = 'strict=True of jit, or options={"strict": True} of torch.compile, makes it an error.'
    warn(text, remedy)
