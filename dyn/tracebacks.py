"""Tracebacks of errors without dyn's own frames: they end in the user's code."""

from __future__ import annotations

from types import TracebackType

from dyn import config
from dyn.errors import DynError
from dyn.source import is_own_frame


def hide_own_frames(error: BaseException) -> None:
    """Take dyn's frames out of an error's traceback, where the error is the user's: raised by code of theirs, or told
    by dyn in words. Others are faults of dyn's, whose frames are needed."""
    if config.current().full_tracebacks:
        return
    entries: list[TracebackType] = []
    entry = error.__traceback__
    while entry is not None:
        entries.append(entry)
        entry = entry.tb_next
    if not entries or (not isinstance(error, DynError) and _is_own(entries[-1])):
        return
    kept: TracebackType | None = None
    for one in reversed(entries):
        if not _is_own(one):
            kept = TracebackType(kept, one.tb_frame, one.tb_lasti, one.tb_lineno)
    error.__traceback__ = kept
    if isinstance(error, DynError) and isinstance(error.__context__, DynError) and error.__cause__ is None:
        error.__suppress_context__ = True  # the same, as it was told of another call


def _is_own(entry: TracebackType) -> bool:
    return is_own_frame(entry.tb_frame.f_code.co_filename)
